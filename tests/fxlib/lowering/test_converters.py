"""Every converter against eager, through ONNX Runtime, at the example's sizes and with a dynamic batch."""

from __future__ import annotations

import pytest
import torch
import torch.utils._pytree as pytree

import fxlib
from fxlib.lowering import BuildOptions, get, to_onnx
from fxlib.lowering.lowered import EnginePart
from fxlib.lowering.onnx.export import functionalize

from .cases import CASES, Case


class Holder(torch.nn.Module):
    """A root around a function or module, so that a module under test is called as a submodule."""

    def __init__(self, held, count: int) -> None:
        super().__init__()
        self.held = held
        self.count = count

    def forward(self, *args):
        return self.held(*args)


def traced(case: Case) -> torch.nn.Module:
    if isinstance(case.call, torch.nn.Module) and fxlib.Tracer().is_leaf_module(case.call, "held"):
        graph = fxlib.Graph()
        inputs = [graph.placeholder(f"x{i}") for i in range(len(case.inputs))]
        graph.output(graph.call_module("held", tuple(inputs)))
        root = torch.nn.Module()
        root.held = case.call
        return fxlib.GraphModule(root, graph).eval()
    if isinstance(case.call, torch.nn.Module):
        return fxlib.symbolic_trace(case.call).eval()
    names = ", ".join(f"x{i}" for i in range(len(case.inputs)))
    space = {"call": case.call}
    exec(f"def forward({names}): return call({names})", space)  # the tracer counts arguments by the signature
    return fxlib.symbolic_trace(space["forward"])


def check(expected, got, tolerance: float) -> None:
    want, have = pytree.tree_leaves(expected), pytree.tree_leaves(got)
    assert len(want) == len(have)
    for a, b in zip(want, have, strict=True):
        if isinstance(a, torch.Tensor):
            assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
            torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance)
        else:
            assert a == b


@pytest.mark.parametrize("case", CASES, ids=[f"{c.operator}-{c.form}" for c in CASES])
def test_agrees_with_eager(case: Case) -> None:
    gm = traced(case)
    functionalize(gm)
    part = EnginePart(exported := to_onnx(gm, case.inputs), get("onnxruntime").build(exported, BuildOptions(threads=1)))
    with torch.no_grad():
        check(case.call(*case.inputs), part(*case.inputs), case.tolerance)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.dynamic], ids=[f"{c.operator}-{c.form}" for c in CASES if c.dynamic]
)
def test_dynamic_batch(case: Case) -> None:
    gm = traced(case)
    functionalize(gm)
    exported = to_onnx(gm, case.inputs, dynamic=True)
    part = EnginePart(exported, get("onnxruntime").build(exported, BuildOptions(threads=1)))
    for times in (1, 3):
        bigger = tuple(v.repeat(times, *[1] * (v.dim() - 1)) for v in case.inputs)
        with torch.no_grad():
            check(case.call(*bigger), part(*bigger), case.tolerance)
