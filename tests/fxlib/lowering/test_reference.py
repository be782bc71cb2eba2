"""The reference implementation of ONNX as an engine: a second opinion on every converter."""

from __future__ import annotations

import pytest
import torch

import fxlib
from examples.transformer import TransformerEncoder
from fxlib.lowering import BuildOptions, EngineError, get, to_onnx
from fxlib.lowering.onnx.export import functionalize
from fxlib.lowering.part import EnginePart

from .cases import CASES, Case
from .test_converters import check, traced

# What onnx 1.23 computes wrongly, or raises on; ONNX Runtime agrees with eager in each of these.
BUGS = {
    ("ConvTranspose2d", "nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)"),
    ("LocalResponseNorm", "nn.LocalResponseNorm(3)"),
    ("min", "dim, keepdim"),
    ("one_hot", "classes"),
    ("pad", "negative"),
}


def agrees(case: Case) -> bool:
    gm = traced(case)
    functionalize(gm)
    exported = to_onnx(gm, case.inputs)
    try:
        part = EnginePart(exported, get("reference").build(exported, BuildOptions()))
        with torch.no_grad():
            check(case.call(*case.inputs), part(*case.inputs), case.tolerance)
    except (AssertionError, EngineError, TypeError):
        return False
    return True


def test_every_form_but_five_agrees_with_eager() -> None:
    assert {(case.operator, case.form) for case in CASES if not agrees(case)} == BUGS


@pytest.mark.parametrize("precision, tolerance", [("fp32", 1e-5), ("fp16", 1e-2)])
def test_a_transformer_runs_whole(precision: str, tolerance: float) -> None:
    model = TransformerEncoder(500, positions=16, width=64, heads=4, inner=128, layers=1).eval()
    inputs = (torch.randint(0, 500, (2, 16)), torch.ones(2, 16))
    lowered = fxlib.lower(model, inputs, engine="reference", precision=precision, dynamic=True)
    assert lowered.report.complete and lowered.report.max_rel_error < tolerance
    bigger = (torch.randint(0, 500, (5, 16)), torch.ones(5, 16))
    with torch.no_grad():
        torch.testing.assert_close(lowered(*bigger), model(*bigger), rtol=tolerance, atol=3 * tolerance)


def test_bf16_is_refused() -> None:
    with pytest.raises(EngineError, match='use precision="fp32" or "fp16"'):
        fxlib.lower(
            torch.nn.Linear(4, 4).eval(), (torch.randn(1, 4),), engine="reference", precision="bf16", min_nodes=1
        )
