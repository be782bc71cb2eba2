"""GraphModule in the hands of Python and of torch: source, tracebacks, copies, folders, scripting, compiling."""

import copy
import importlib
import inspect
import io
import linecache
import operator
import pickle
import sys
import traceback

import numpy as np
import pytest
import torch
from torch import nn

import fxlib

from .programs import Block


@pytest.fixture
def module():
    torch.manual_seed(0)
    return fxlib.symbolic_trace(Block())


X = torch.ones(3, 2)


def test_compiling_waits_for_the_first_use(module):
    from fxlib.codegen.compile import _DeferredForward

    assert isinstance(vars(type(module))["forward"], _DeferredForward)
    module(X)
    assert inspect.isfunction(vars(type(module))["forward"])
    module.recompile()
    assert isinstance(vars(type(module))["forward"], _DeferredForward)


def test_source_and_signature_are_those_of_the_code(module):
    assert inspect.getsource(module.forward).strip() == module.code.strip()
    assert str(inspect.signature(module.forward)) == "(x, y=3, z=None)"
    assert inspect.getsource(type(module).forward).strip() == module.code.strip()
    file = module.forward.__code__.co_filename
    assert linecache.getlines(file)[module._prologue_start - 1].startswith("def forward")


@pytest.mark.parametrize("base", [-2, -0.5, -2j, -float("inf")])
def test_a_negative_number_is_raised_as_a_whole(base):
    powers = torch.tensor([1.0, 2.0, 3.0])
    module = fxlib.symbolic_trace(lambda x: operator.pow(base, x))
    assert torch.equal(module(powers), base**powers)


def test_line_map_leads_from_lines_to_nodes(module):
    nodes = list(module.graph.nodes)
    lines = module.code.split("\n")
    for key, index in module._lineno_map.items():
        line = lines[module._prologue_start + key - 1].strip()
        node = nodes[index]
        if line and node.op != "output":
            assert line.startswith(node.name)


def broken():
    graph = fxlib.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.add, (graph.call_function(torch.relu, (x,)),)))
    return fxlib.GraphModule({}, graph)


def test_an_error_in_generated_code_is_shown_there(capsys):
    with pytest.raises(TypeError, match="add"):
        broken()(X)
    shown = capsys.readouterr().err
    assert "Call using an FX-traced Module, line 6 of the traced Module's generated forward function:" in shown
    assert "add = torch.add(relu);  relu = None\n\n~~~" in shown and "<--- HERE" in shown


def test_an_error_in_the_users_code_is_left_alone(capsys):
    def fails(x):
        raise ValueError("mine")

    graph = fxlib.Graph()
    graph.output(graph.call_function(fails, (graph.placeholder("x"),)))
    with pytest.raises(ValueError, match="mine") as info:
        fxlib.GraphModule({}, graph)(X)
    assert capsys.readouterr().err == ""
    text = "".join(traceback.format_exception(info.value))
    assert "fails(x);  x = None\n" in text


def test_each_instance_has_its_own_class(module):
    other = fxlib.symbolic_trace(Block())
    assert type(module) is not type(other) and isinstance(module, fxlib.GraphModule)
    assert type(module).__name__ == "Block"


def test_copies_are_independent(module):
    copied = copy.deepcopy(module)
    assert torch.equal(copied(X), module(X)) and copied.graph.owning_module is copied
    with torch.no_grad():
        copied.scale.fill_(7)
    copied.graph.output_node().args = (next(iter(copied.graph.nodes)),)
    copied.recompile()
    assert torch.equal(copied(X), X) and not torch.equal(module(X), X)
    assert next(iter(module.graph.nodes)).graph is module.graph


def test_a_subclass_keeps_its_methods_in_copies():
    class Mine(fxlib.GraphModule):
        def seven(self):
            return 7

    root = Block()
    mine = Mine(root, fxlib.Tracer().trace(root))
    assert mine.seven() == 7 and copy.deepcopy(mine).seven() == 7 and torch.equal(copy.deepcopy(mine)(X), mine(X))


def test_pickle_and_torch_save(module):
    for again in (
        pickle.loads(pickle.dumps(module)),
        torch.load(_saved(module), weights_only=False),
    ):
        assert again.code == module.code and torch.equal(again(X), module(X))
        assert set(again.state_dict()) == set(module.state_dict())


def _saved(module):
    stream = io.BytesIO()
    torch.save(module, stream)
    stream.seek(0)
    return stream


def test_folder(module, tmp_path, monkeypatch):
    with pytest.warns(UserWarning, match="saved as pickled files instead: \\['parts'\\]"):
        module.to_folder(tmp_path / "written", "Written")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert torch.equal(importlib.import_module("written").Written()(X), module(X))
        (tmp_path / "written").rename(tmp_path / "moved")
        importlib.invalidate_caches()
        assert torch.equal(importlib.import_module("moved").Written()(X), module(X))
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] in ("written", "moved")]:
            del sys.modules[name]


def test_what_torch_does_with_modules(module):
    expected = module(X)
    assert torch.allclose(torch.jit.trace(module, (X,))(X), expected)
    assert torch.allclose(torch.compile(module, backend="eager", fullgraph=True)(X), expected)
    exported = torch.export.export(module, (X,))
    assert torch.allclose(exported.module()(X), expected)
    expected.sum().backward()
    assert module.linear.weight.grad is not None and module.scale.grad is not None
    assert fxlib.symbolic_trace(module).code == module.code
    assert {p.device.type for p in copy.deepcopy(module).to("meta").parameters()} == {"meta"}


def test_scripting():
    layers = fxlib.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.ReLU()).eval())
    assert torch.allclose(torch.jit.script(layers)(X), layers(X))


def test_inside_another_module(module):
    outer = nn.Sequential(module, nn.ReLU())
    assert torch.equal(outer(X), module(X).relu())
    assert {f"0.{name}" for name in module.state_dict()} == set(outer.state_dict())
    traced = fxlib.symbolic_trace(outer)
    assert torch.equal(traced(X), outer(X))


def test_hooks_run(module):
    seen = []
    module.register_forward_hook(lambda m, inputs, output: seen.append(output.shape))
    module(X)
    assert seen == [(3, 2)]
    module._register_deepcopy_hook(lambda copied: seen.append(type(copied).__name__))
    copy.deepcopy(module)
    assert seen[1] == "GraphModule"


def test_tabular(module, capsys):
    module.graph.print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"] and set(lines[1]) == {"-", " "}
    assert len(lines) == 2 + len(module.graph.nodes)
    assert lines[2].split() == ["placeholder", "x", "x", "()", "{}"]


def test_a_long_graph_pickles_without_deep_recursion():
    graph = fxlib.Graph()
    node = graph.placeholder("x")
    for _ in range(5000):
        node = graph.call_function(torch.neg, (node,))
    graph.output(node)
    again = pickle.loads(pickle.dumps(graph))
    assert str(again) == str(graph)
    third = pickle.loads(pickle.dumps(list(graph.nodes)[3]))
    assert third.name == "neg_2" and third.graph is not graph


def test_numbers_and_texts_of_numpy_are_written_as_python_has_them() -> None:
    class Bounded(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.clamp(x, min=np.float64(0.25), max=np.float64("inf"))
            return torch.pow(y, np.complex128(1 + 0j)).real

    traced = fxlib.symbolic_trace(Bounded())
    assert "min = 0.25, max = inf" in traced.code
    x = torch.tensor([0.0, 2.0])
    torch.testing.assert_close(traced(x), Bounded()(x))
