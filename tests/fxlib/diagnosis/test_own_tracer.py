"""``diagnose(tracer=…)``: a project's own tracer decides, and its graph is the report's."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.fx
import torchvision
from torch import nn
from torch.ao.quantization.fx.tracer import QuantizationTracer
from torchvision.models.feature_extraction import NodePathTracer

import fxlib
from fxlib.diagnosis.diagnose import diagnose

from . import copied_fx


def lines(graph: Any) -> list[tuple[str, ...]]:
    return [tuple(map(str, (node.op, node.name, node.target, node.args, node.kwargs))) for node in graph.nodes]


class Gate(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x


def rounded(value):
    return float(value) if math.isfinite(value) else 0.0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(self.gate(x)) * rounded(x.sum())


class Wrapping(torch.fx.Tracer):
    """Like tracers of projects: further leaves, and a function that is wrapped wherever it is called."""

    def __init__(self) -> None:
        super().__init__(autowrap_functions=(rounded,))

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, Gate) or super().is_leaf_module(m, module_qualified_name)


class Ours(fxlib.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, Gate) or super().is_leaf_module(m, module_qualified_name)


class Deciding(torch.fx.Tracer):
    def to_bool(self, obj: torch.fx.Proxy) -> bool:
        return True


class Refusing(torch.fx.Tracer):
    def call_module(self, m: Any, forward: Any, args: Any, kwargs: Any) -> Any:
        raise NotImplementedError("only functions here")


@pytest.mark.parametrize(
    "make",
    [
        partial(NodePathTracer, leaf_modules=[torchvision.models.resnet.BasicBlock]),
        partial(QuantizationTracer, ["layer1.0"], [torchvision.models.resnet.BasicBlock]),
        partial(QuantizationTracer, [], []),
    ],
    ids=["torchvision NodePathTracer", "torch.ao QuantizationTracer with leaves", "torch.ao QuantizationTracer"],
)
def test_the_graph_is_that_of_the_tracer(make: Callable[[], Any]):
    with torch.device("meta"):
        model = torchvision.models.resnet18().eval()
    report = diagnose(model, torch.empty(1, 3, 32, 32, device="meta"), tracer=make)
    expected = make().trace(model)
    assert report.graph_module is not None, "asked for before the graph, it has places and values too"
    placed = [node for node in report.graph_module.graph.nodes if node.op in ("call_module", "call_function")]
    assert all(node.span is not None and "val" in node.meta for node in placed)
    assert lines(report.graph) == lines(expected)
    assert report.graph_module.code == torch.fx.GraphModule(model, expected).code
    assert not [each for each in report.findings if each.loud]


def test_its_leaves_and_wraps_hold():
    model, x = Net(), torch.randn(2, 4)
    assert {each.code for each in diagnose(model, x).findings} >= {"FX101"}
    report = diagnose(model, x, tracer=Wrapping)
    assert report.findings == [] and lines(report.graph) == lines(Wrapping().trace(model))
    assert [node.name for node in report.graph.nodes] == ["x", "gate", "linear", "sum_1", "rounded", "mul", "output"]
    assert torch.equal(report.graph_module(x), model(x))


def test_a_subclass_of_ours():
    model = nn.Sequential(Gate(), nn.Linear(4, 4))
    report = diagnose(model, torch.randn(2, 4), tracer=Ours)
    assert [node.op for node in report.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]


def test_one_of_a_library_that_has_a_copy_of_torch_fx():
    model, x = nn.Sequential(Gate(), nn.Linear(4, 4)).eval(), torch.randn(2, 4)
    report = diagnose(model, x, tracer=copied_fx.Tracer)
    assert report.findings == [] and lines(report.graph) == lines(copied_fx.Tracer().trace(model))
    assert torch.equal(report.graph_module(x), model(x))
    assert [list(map(str, node.users)) for node in report.graph.nodes] == [["_0"], ["_1"], ["output"], []]
    (_, linear) = report.graph.find_nodes(op="call_module", target="1")[0].meta["nn_module_stack"]["1"]
    assert linear is nn.Linear, "as torch.fx has it now"


def test_what_it_decides_by_itself_is_no_problem():
    report = diagnose(Gate(), torch.randn(2, 4), tracer=Deciding)
    assert report.graph_module is not None and not [each for each in report.findings if each.loud]
    assert lines(report.graph) == lines(Deciding().trace(Gate()))


def test_what_it_raises_is_a_finding():
    report = diagnose(nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4), tracer=Refusing)
    assert report.graph_module is None
    (finding,) = report.findings
    assert finding.code == "FX199"
    assert "The tracer of the project, Refusing, raises NotImplementedError: only functions here" in finding.message


def test_each_trace_gets_a_tracer_of_its_own():
    made = []

    def make() -> Wrapping:
        made.append(Wrapping())
        return made[-1]

    diagnose(Net(), torch.randn(2, 4), tracer=make)
    assert len([each for each in made if hasattr(each, "graph")]) == 1
