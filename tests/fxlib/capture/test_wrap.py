"""Leaf functions in all their forms, registered with either library, and what a trace leaves behind."""

import builtins
import functools
import math
import sys
import threading
import types

import pytest
import torch
import torch.fx
import torch.nn as nn

import fxlib
from fxlib._symbolic_trace import is_fx_symbolic_tracing, is_fx_tracing
from fxlib.capture import wrapping


@pytest.fixture
def module():
    """A fresh user module: `module(text)` executes the text in it; its registrations are forgotten afterwards."""
    made = []
    before = dict(wrapping._wrapped_fns_to_patch)
    foreign = dict(torch.fx._symbolic_trace._wrapped_fns_to_patch)

    def execute(text, name=None):
        mod = types.ModuleType(name or f"user_module_{len(made)}")
        sys.modules[mod.__name__] = mod
        made.append(mod.__name__)
        exec(compile(text, f"{mod.__name__}.py", "exec"), mod.__dict__)
        return mod

    yield execute
    for name in made:
        del sys.modules[name]
    for registry, kept in (
        (wrapping._wrapped_fns_to_patch, before),
        (torch.fx._symbolic_trace._wrapped_fns_to_patch, foreign),
    ):
        registry.clear()
        registry.update(kept)


def targets(graph):
    return [getattr(n.target, "__name__", n.target) for n in graph.nodes if n.op.startswith("call")]


def test_decorator(module):
    user = module("import fxlib\n@fxlib.wrap\ndef leaf(x): return [v for v in x]\ndef f(x): return leaf(x) + leaf(3)\n")
    with pytest.raises(TypeError):
        fxlib.symbolic_trace(user.f)
    user.g = lambda x: user.leaf(x)
    graph = fxlib.Tracer().trace(user.g)
    assert targets(graph) == ["leaf"]
    node = graph.find_nodes(op="call_function", target=user.leaf)[0]
    assert node.meta["is_wrapped"] is True


@pytest.mark.parametrize("name", ["len", "int", "float", "round", "range", "sum", "max", "isinstance"])
def test_builtin(module, name):
    arguments = "x, x" if name == "isinstance" else "x"
    user = module(f"import fxlib\nfxlib.wrap({name!r})\ndef f(x): return {name}({arguments})")
    graph = fxlib.Tracer().trace(user.f)
    assert targets(graph) == [name]
    assert graph.find_nodes(op="call_function", target=getattr(builtins, name))
    assert name not in vars(user)


def test_name_that_is_defined_later(module):
    user = module("import fxlib\nfxlib.wrap('later')\ndef f(x): return later(x)\ndef later(x): return bool(x)\n")
    assert targets(fxlib.Tracer().trace(user.f)) == ["later"]
    assert user.later(3) is True


def test_imported_name(module):
    user = module("import fxlib\nfrom math import hypot\nfxlib.wrap('hypot')\ndef f(x): return hypot(x, 2)")
    assert targets(fxlib.Tracer(autowrap_modules=()).trace(user.f)) == ["hypot"]


def test_only_where_it_is_registered(module):
    module("import fxlib\n@fxlib.wrap\ndef leaf(x): return bool(x)", "library_module")
    user = module(
        "import library_module\n"
        "from library_module import leaf\n"
        "def f(x): return leaf(x)\n"
        "def g(x): return library_module.leaf(x)\n"
    )
    with pytest.raises(fxlib.proxy.TraceError):
        fxlib.Tracer().trace(user.f)
    assert targets(fxlib.Tracer().trace(user.g)) == ["leaf"]


def test_torch_registrations_count(module):
    user = module(
        "import torch.fx\n"
        "@torch.fx.wrap\n"
        "def leaf(x): return bool(x)\n"
        "torch.fx.wrap('len')\n"
        "def f(x): return leaf(x) + len(x)\n"
    )
    assert targets(fxlib.Tracer().trace(user.f)) == ["leaf", "len", "add"]
    assert targets(torch.fx.Tracer().trace(user.f)) == ["leaf", "len", "add"]


def test_keyword_and_nested_arguments(module):
    user = module(
        "import fxlib\n"
        "@fxlib.wrap\n"
        "def leaf(*a, **k): return 1\n"
        "def f(x): return leaf(a=[{'b': (x,)}]), leaf(slice(x, None)), leaf(1)\n"
    )
    graph = fxlib.Tracer().trace(user.f)
    assert targets(graph) == ["leaf", "leaf"]
    assert graph.output_node().args[0][2] == 1


def test_generated_code_wraps_again(module):
    user = module(
        "import fxlib\n@fxlib.wrap\ndef leaf(x): return x * 2 if x.sum() > 0 else x\ndef f(x): return leaf(x) + 1\n"
    )
    gm = fxlib.symbolic_trace(user.f)
    again = fxlib.symbolic_trace(gm)
    assert targets(again.graph) == targets(gm.graph) == ["leaf", "add"]
    assert torch.equal(again(torch.ones(2)), torch.full((2,), 3.0))


def test_errors():
    message = "Unsupported type for global function! Must be either a callable or string name"
    with pytest.raises(RuntimeError, match=message):
        fxlib.wrap(3)
    with pytest.raises(NotImplementedError, match="wrap must be called at the top level of a module"):
        fxlib.wrap("len")
    with pytest.raises(NotImplementedError, match="wrap must be called at the top level of a module"):
        fxlib.wrap(test_errors)
    with pytest.raises(AttributeError):
        fxlib.wrap(functools.partial(len))


def test_name_that_does_not_exist(module):
    module("import fxlib\nfxlib.wrap('no_such_name')")
    with pytest.raises(KeyError, match="no_such_name"):
        fxlib.Tracer().trace(lambda x: x)
    assert fxlib.Tracer.__call__ is not None


def snapshot():
    return {
        "call": nn.Module.__call__, "getattr": nn.Module.__getattr__, "call code": nn.Module.__call__.__code__,
        "getattr code": nn.Module.__getattr__.__code__, "sqrt": math.sqrt, "math": dict(vars(math)),
        "tracing": (is_fx_tracing(), torch.fx._symbolic_trace.is_fx_tracing()),
        "torch": (torch.fx._symbolic_trace._orig_module_call, torch.fx._symbolic_trace._orig_module_getattr),
    }  # fmt: skip


@pytest.mark.parametrize("end", ["returns", "raises", "traces inside", "torch traces inside", "interrupted"])
def test_everything_is_put_back(module, end):
    user = module("import fxlib\n@fxlib.wrap\ndef leaf(x): return x")
    leaf, before = user.leaf, snapshot()

    def root(x):
        assert math.sqrt is not before["sqrt"]
        assert is_fx_tracing() and is_fx_symbolic_tracing() and torch.fx._symbolic_trace.is_fx_tracing()
        assert user.leaf is not leaf
        inner = nn.Sequential(nn.Linear(2, 2))
        if end == "raises":
            raise LookupError
        if end == "interrupted":
            raise KeyboardInterrupt
        if end == "traces inside":
            assert len(fxlib.Tracer().trace(inner).nodes) == 3
            assert math.sqrt is not before["sqrt"]
        if end == "torch traces inside":
            assert len(torch.fx.Tracer().trace(inner).nodes) == 3
        return user.leaf(x) + 1

    if end in ("raises", "interrupted"):
        with pytest.raises((LookupError, KeyboardInterrupt)):
            fxlib.Tracer().trace(root)
    else:
        assert targets(fxlib.Tracer().trace(root)) == ["leaf", "add"]
    assert snapshot() == before
    assert user.leaf is leaf
    assert nn.Linear(2, 2)(torch.ones(1, 2)).shape == (1, 2)


def test_inside_a_trace_by_torch():
    def root(x):
        inner = fxlib.Tracer().trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
        assert [n.op for n in inner.nodes] == ["placeholder", "call_module", "call_module", "output"]
        return x + 1

    before = snapshot()
    assert len(torch.fx.Tracer().trace(root).nodes) == 3
    assert snapshot() == before


def test_real_modules_run_inside_a_trace():
    net = nn.Linear(2, 2)

    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = net

        def forward(self, x):
            assert not isinstance(self.inner.weight, torch.Tensor)
            assert isinstance(net.bias, fxlib.Proxy)
            return x * self.inner.in_features

    assert targets(fxlib.Tracer().trace(Root())) == ["mul"]


def test_the_garbage_collector_is_as_it_was():
    import gc

    seen = []
    fxlib.Tracer().trace(lambda x: seen.append(gc.isenabled()) or x)
    assert seen == [False] and gc.isenabled()
    gc.disable()
    try:
        fxlib.Tracer().trace(lambda x: x)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_not_tracing_in_other_code():
    assert not is_fx_tracing() and not is_fx_symbolic_tracing()
    seen = []
    torch.fx.symbolic_trace(lambda x: seen.append(is_fx_tracing()) or x)
    assert seen == [True]


def test_traces_one_after_another_in_threads():
    graphs = []

    def work():
        graphs.append(fxlib.Tracer().trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU())))

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [len(graph.nodes) for graph in graphs] == [4, 4, 4]


def test_patcher():
    namespace = {"f": len, "g": 1}
    with wrapping.Patcher() as patcher:
        patcher.patch(namespace, "f", int)
        patcher.patch(namespace, "max", min)
        with pytest.raises(KeyError):
            patcher.patch(namespace, "nothing", int)
        assert namespace == {"f": int, "g": 1, "max": min}
        patcher.revert_all_patches()
        assert namespace == {"f": len, "g": 1}
        patcher.reapply_all_patches()
        assert namespace["f"] is int
        assert patcher.visit_once(namespace) and not patcher.visit_once(namespace)
    assert namespace == {"f": len, "g": 1}
