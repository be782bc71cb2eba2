"""Pass managers run, order and repeat passes as those of torch.fx do; modules give their attributes to nodes."""

import re

import pytest
import torch
from torch import nn

from .both import assert_same


def test_pass_manager_of_pass_results():
    def scenario(side):
        infra = side("passes.infra.pass_manager")
        Result = side("passes.infra.pass_base").PassResult

        def swap(old, new):
            def run(gm):
                found = [node for node in gm.graph.nodes if node.target is old]
                for node in found:
                    node.target = new
                gm.recompile()
                return Result(gm, bool(found))

            run.__name__ = f"to_{new.__name__}"
            return run

        first, second = swap(torch.add, torch.mul), swap(torch.mul, torch.sub)
        for steps in (1, 3):
            manager = infra.PassManager(passes=[second, first], steps=steps)
            result = manager(side().symbolic_trace(lambda x, y: torch.add(x, y)))
            side.report(result.modified, result.graph_module.code)
        before = infra.this_before_that_pass_constraint(first, second)
        manager = infra.PassManager(passes=[second, first], constraints=[before])
        manager.solve_constraints()
        side.report([run.__name__ for run in manager.passes])
        side.attempt(
            lambda: infra.PassManager(
                passes=[first, second], constraints=[before, infra.this_before_that_pass_constraint(second, first)]
            ).solve_constraints()
        )

        def broken(gm):
            raise ValueError("no")

        side.attempt(lambda: infra.PassManager(passes=[broken])(side().symbolic_trace(lambda x: torch.relu(x))))
        traced = side().symbolic_trace(lambda x: torch.relu(x))
        side.attempt(lambda: infra.PassManager(passes=[lambda gm: None])(traced))

        def check(gm):
            raise RuntimeError("unsound")

        manager = infra.PassManager(passes=[first], run_checks_after_each_pass=True)
        manager.add_checks(check)
        side.attempt(lambda: manager(side().symbolic_trace(lambda x, y: torch.add(x, y))))
        side.attempt(lambda: manager.add_checks(lambda: None))

    assert_same(scenario, at_least=7)


def test_plain_pass_manager():
    def scenario(side):
        plain = side("passes.pass_manager")

        def double(x):
            return x * 2

        def increase(x):
            return x + 1

        manager = plain.PassManager(passes=[increase, double])
        side.report(manager(3))
        manager.add_constraint(plain.this_before_that_pass_constraint(double, increase))
        with pytest.raises(RuntimeError, match=r"^pass schedule constraint violated. Expected ") as refused:
            manager.validate()
        if side.package == "fxlib":  # torch.fx has the two the other way round, and another index
            before, after = re.escape(repr(double)), re.escape(repr(increase))
            assert re.search(f"Expected {before} before {after} .*{before} at index 1 in", str(refused.value))
        side.report(plain.PassManager(passes=[plain.loop_pass(double, n_iter=3)])(1))
        manager = plain.PassManager.build_from_passlist([increase, double])
        manager.remove_pass(["double"])
        side.report(manager(3), [run.__name__ for run in manager.passes])

    assert_same(scenario, at_least=3)


def test_attributes_for_lowering():
    def scenario(side):
        fetch = side("passes.param_fetch")
        gm = side().symbolic_trace(nn.Sequential(nn.Conv2d(1, 2, 3, stride=2), nn.BatchNorm2d(2), nn.ReLU()))
        side.attempt(lambda: fetch.lift_lowering_attrs_to_nodes(gm))
        for node in gm.graph.nodes:
            held = getattr(node, "attrs_for_lowering", None)
            side.report(
                node.name,
                sorted((k, str(v)) for k, v in held.items() if "weight" not in k and "bias" not in k) if held else held,
            )

    torch.manual_seed(0)
    assert_same(scenario, at_least=4)
