"""Modules that say whether they have been compiled."""

import pickle

import torch

from .both import assert_same


def double(x):
    return x.sin() * 2


def test_states():
    def scenario(side):
        lazy = side("_lazy_graph_module")
        plain = side().symbolic_trace(double)
        side.report(isinstance(plain, lazy._LazyGraphModule))
        with lazy._use_lazy_graph_module(True):
            gm = side().symbolic_trace(double)
            side.report(type(gm).__name__, isinstance(gm, lazy._LazyGraphModule), gm._needs_recompile())
            gm(torch.ones(2))
            side.report(gm._needs_recompile())
            gm.recompile()
            side.report(gm._needs_recompile())
            side.report(gm.code, gm._needs_recompile())
            gm.recompile()
            again = side().symbolic_trace(gm)
            side.report(gm._needs_recompile(), again._needs_recompile())
            lazy._LazyGraphModule.force_recompile(again)
            lazy._LazyGraphModule.force_recompile(plain)
            side.report(again._needs_recompile())
            made = lazy._make_graph_module(gm, gm.graph, class_name="Named")
            plainly = lazy._make_graph_module(gm, gm.graph, graph_module_cls=side().GraphModule)
            side.report(type(made).__name__, isinstance(made, lazy._LazyGraphModule))
            side.report(type(plainly).__name__, isinstance(plainly, lazy._LazyGraphModule))
            side.report(isinstance(pickle.loads(pickle.dumps(gm)), lazy._LazyGraphModule))
            with lazy._force_skip_lazy_graph_module():
                side.report(isinstance(side().symbolic_trace(double), lazy._LazyGraphModule))
            side.report(isinstance(side().symbolic_trace(double), lazy._LazyGraphModule))
        with lazy._force_skip_lazy_graph_module(), lazy._use_lazy_graph_module(True):
            side.report(isinstance(side().symbolic_trace(double), lazy._LazyGraphModule))
        side.report(isinstance(side().symbolic_trace(double), lazy._LazyGraphModule))

    assert_same(scenario, at_least=14)


def test_made_from_another():
    def scenario(side):
        lazy = side("_lazy_graph_module")._LazyGraphModule
        gm = side().symbolic_trace(double)
        made = lazy.from_graphmodule(gm)
        side.report(type(made).__name__, made._needs_recompile(), lazy.from_graphmodule(made) is made)
        side.report(made(torch.ones(2)), made._needs_recompile())

    assert_same(scenario, at_least=2)
