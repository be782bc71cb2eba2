"""Hand-made proxies, and proxies in unusual places: both libraries behave the same."""

import collections
import copy
import inspect
import pickle
import warnings
from importlib import import_module

import pytest
import torch
import torch.fx
import torch.nn as nn
from programs import LIBRARIES, plain

import fxlib


class Pair(collections.namedtuple("Pair", "a b")):
    pass


class CreatesNode:
    def __fx_create_arg__(self, tracer):
        return tracer.create_node("call_function", dict, (), {}, name="made")


class Compiled(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.compile(nn.Linear(2, 2))
        self.b = nn.Linear(2, 2)
        self.b.compile()

    def forward(self, x):
        return self.b(self.a(x))


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
        self.b = nn.utils.spectral_norm(nn.Linear(2, 2))

    def forward(self, x):
        return self.b(self.a(x)) + self.a.weight


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.LazyLinear(2)
        self.p = nn.UninitializedParameter()

    def forward(self, x):
        return self.a(x) + self.p


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.sub = torch.jit.script(nn.Linear(2, 2))

    def forward(self, x):
        return self.sub(x)


def proxy(fx):
    return fx.Proxy(fx.Graph().placeholder("x"))


def deepcopied(fx):
    class Own(fx.Tracer):
        def __init__(self):
            super().__init__()
            self.mine = [1]

    tracer = Own()
    tracer.graph = fx.Graph(tracer_cls=Own)
    tracer.root = None
    p = fx.Proxy(tracer.graph.placeholder("x"), tracer)
    c = copy.deepcopy(p)
    return type(c).__name__, c.tracer is tracer, type(c.tracer).__name__, c.node is p.node, c.tracer.mine


def deepcopied_by_hand(fx):
    p = proxy(fx)
    c = copy.deepcopy(p)
    return type(c).__name__, c.tracer is p.tracer, type(c.tracer).__name__, c.node is p.node, c.node.name


def meta_proxy(fx):
    from torch._subclasses import FakeTensorMode

    mode = FakeTensorMode()
    with mode:
        value = torch.empty(2, 3)
    node = fx.Graph().placeholder("x")
    node.meta["val"] = value
    p = fx.proxy.MetaProxy(node, fake_mode=mode)
    q = torch.sum(torch.relu(p), 1)
    return repr(p), repr(q), q.node.meta["val"].shape, type(q).__name__


def parameter_proxy(fx):
    graph = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(graph)
    p = fx.proxy.ParameterProxy(tracer, graph.placeholder("x"), "w", nn.Parameter(torch.ones(2, 3)))
    return repr(p), p.shape, p.size(), p.dim(), p.ndim, p.numel(), p.nelement(), str((p + 1).node.args), p.foo.attr


def appended(fx):
    p = proxy(fx)
    result = p.foo(Pair(p, 1), torch.ones(1).shape, range(2), {"a": p, (1,): [p]}, k=slice(p))
    result = torch.add(result, CreatesNode()) + p.shape[0]
    p.node.graph.output(result.node)
    return str(p.node.graph), type(p.tracer).__name__, p.tracer.node_name_to_scope


def two_tracers(fx):
    return torch.add(proxy(fx), proxy(fx))


def placeholder_meta(fx):
    holder = import_module(f"{fx.__name__}._symbolic_trace").PHWithMeta
    gm = fx.symbolic_trace(lambda a, b: a["x"] + b, {"a": {"x": holder("k")}, "b": holder("z")})
    return [getattr(n, "ph_key", None) for n in gm.graph.nodes]


def runs_concrete(fx):
    gm = fx.symbolic_trace(lambda x: x["a"] + x["b"][1], {"x": {"a": fx.PH, "b": [fx.PH, fx.PH]}})
    return gm({"a": 1, "b": [2, 3]}), gm.code


def refuses_other_values(fx):
    gm = fx.symbolic_trace(lambda x, y: x if y is None else x + y, {"y": None})
    return gm(1, None), gm(1, 3)


PROBES = {
    "deepcopied": deepcopied,
    "deepcopied by hand": deepcopied_by_hand,
    "copied": lambda fx: type(copy.copy(proxy(fx))).__name__,
    "pickled": lambda fx: repr(pickle.loads(pickle.dumps(proxy(fx)))),
    "meta proxy": meta_proxy,
    "meta proxy alone": lambda fx: torch.relu(fx.proxy.MetaProxy(fx.Graph().placeholder("x"))),
    "parameter proxy": parameter_proxy,
    "appended": appended,
    "two tracers": two_tracers,
    "placeholder meta": placeholder_meta,
    "runs concrete": runs_concrete,
    "refuses other values": refuses_other_values,
    "bool": lambda fx: bool(proxy(fx)),
    "len": lambda fx: len(proxy(fx)),
    "iteration": lambda fx: list(proxy(fx)),
    "module as argument": lambda fx: proxy(fx).foo(nn.Linear(1, 1)),
    "absent operator": lambda fx: proxy(fx).__div__(1),
    "absent reflected operator": lambda fx: proxy(fx).__rdiv__(1),
    "is no tensor": lambda fx: isinstance(proxy(fx), torch.Tensor),
    "attributes": lambda fx: (sorted(vars(proxy(fx))), sorted(vars(proxy(fx).foo)), proxy(fx).foo.attr),
    "representation": lambda fx: (repr(proxy(fx)), str(proxy(fx).foo.bar), f"{proxy(fx) + 1}"),
    "hash": lambda fx: len({proxy(fx), proxy(fx)}),
    "names": lambda fx: (type(fx.symbolic_trace(lambda x: x)).__name__, type(fx.symbolic_trace(nn.ReLU())).__name__),
    "higher order": lambda fx: str(
        fx.Tracer().trace(lambda x: torch.ops.higher_order.cond(x, nn.ReLU(), nn.ReLU(), (x,)))
    ),
    "script function": lambda fx: str(fx.Tracer().trace(lambda x: torch.jit.script(nn.Linear(2, 2)).forward(x))),
    "script submodule": lambda fx: str(fx.Tracer().trace(Scripted())),
    "compiled submodule": lambda fx: str(fx.Tracer().trace(Compiled())),
    "compiled root": lambda fx: str(fx.Tracer().trace(torch.compile(nn.Linear(2, 2)))),
    "parametrized": lambda fx: str(fx.Tracer().trace(Normed())),
    "lazy": lambda fx: str(fx.Tracer().trace(Lazy())),
    "data parallel": lambda fx: str(fx.Tracer().trace(nn.DataParallel(nn.Linear(2, 2)))),
    "tracer copied": lambda fx: type(copy.deepcopy(fx.Tracer(autowrap_functions=(len,)))).__name__,
    **{
        f"parameters of {name}": lambda fx, name=name: [
            (p.name, p.kind, p.default) for p in inspect.signature(getattr(fx.Tracer, name)).parameters.values()
        ]
        for name in (
            *("__init__", "trace", "call_module", "create_arg", "is_leaf_module", "path_of_module", "getattr", "iter"),
            *("get_fresh_qualname", "create_args_for_root", "create_node", "create_proxy", "proxy", "to_bool", "keys"),
        )
    },
}


def answer(probe, fx):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(str(probe(fx)))
        except Exception as error:
            return type(error).__name__, plain(str(error)).splitlines()[0]


@pytest.mark.parametrize("name", PROBES)
def test_same_answer(name):
    theirs, ours = (answer(PROBES[name], fx) for fx in LIBRARIES.values())
    assert ours == theirs


def note_of_failure(fx):
    """A RuntimeError that speaks of data-dependent values carries what was traced so far."""

    def forward(x):
        y = x + 1
        raise RuntimeError("data-dependent size", y)

    try:
        fx.Tracer().trace(forward)
    except RuntimeError as error:
        return plain(error.partial_fx_graph)


def test_partial_graph_of_data_dependent_errors():
    theirs, ours = note_of_failure(torch.fx), note_of_failure(fxlib)
    assert "add" in theirs
    assert ours.split("#")[0] == theirs.split("#")[0]


@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.parametrize("preserving", [False, True])
@pytest.mark.parametrize("in_backward", [False, True])
def test_metadata_that_nodes_inherit(replayed, preserving, in_backward):
    import contextlib

    from torch.fx import traceback as state

    def metadata(fx):
        source = fx.Graph().placeholder("source")
        source.meta.update(seq_nr=77, custom={"a": 1}, quantization_tag="q", stack_trace="here", irrelevant=3)
        with contextlib.ExitStack() as stack:
            stack.enter_context(state.preserve_node_meta())
            stack.enter_context(state.annotate({"stage": 2}))
            stack.enter_context(state.set_current_meta(source))
            if replayed:
                stack.enter_context(state.set_current_replay_node(source))
            if preserving:
                stack.enter_context(state._preserve_node_seq_nr())
            if in_backward:
                state.set_grad_fn_seq_nr(55)
            try:
                found = [dict(n.meta) for n in fx.Tracer().trace(lambda x: torch.relu(x)).nodes]
                found.append(dict((proxy(fx) + 1).node.meta))
            finally:
                if in_backward:
                    state.reset_grad_fn_seq_nr()
        for meta in found:
            meta["from_node"] = [(n.name, n.pass_name) for n in meta["from_node"]]
        return found

    assert metadata(fxlib) == metadata(torch.fx)
