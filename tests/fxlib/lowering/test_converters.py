"""Every converter against eager, through ONNX Runtime, at the example's sizes and with a dynamic batch."""

from __future__ import annotations

import inspect
import math

import pytest
import torch
import torch.utils._pytree as pytree

import fxlib
from fxlib.lowering import BuildOptions, get, to_onnx
from fxlib.lowering.lowered import EnginePart
from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.export import functionalize
from fxlib.lowering.onnx.registry import ATEN, FUNCTIONS, find

from .cases import CASES, Case
from .core_cases import CORE, CORE_CASES, LEFT, NO_TENSOR, UNSEEN
from .forms import FORMS, joined


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
    assert len(want) == len(have) and (not isinstance(expected, tuple) or type(got) is type(expected))
    for a, b in zip(want, have, strict=True):
        if isinstance(a, torch.Tensor):
            assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
            torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance, equal_nan=True)
        else:
            assert a == b


NOT_FOR_REFERENCE = {"bfloat16 softmax"}
EVERY = [*CASES, *CORE_CASES]


@pytest.mark.parametrize("case", EVERY, ids=[f"{c.operator}-{c.form}" for c in EVERY])
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


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino", "reference"])
def test_digits_of_small_numbers_and_angles_of_zeros_and_infinities(engine) -> None:
    small = 10.0 ** torch.arange(-30, 1).float() * 0.37
    numbers = torch.cat([small, -small, torch.tensor([0.0, 0.4999, -0.5, 0.75, -0.999999, -1.0, 30.0, 1e4, math.inf])])
    ends = torch.tensor([0.0, -0.0, math.inf, -math.inf, 1.0, -7.5, 1e-30, 1e30])
    call = lambda x, y, z: (torch.log1p(x), torch.expm1(x), torch.atan2(y, z))  # noqa: E731
    given = numbers, ends.repeat(8), ends.repeat_interleave(8)
    exported = to_onnx(traced(Case("", "", lambda *each: call(*each), given)), given)
    part = EnginePart(exported, get(engine).build(exported, BuildOptions(threads=1)))
    for expected, got in zip(call(*given), part(*given), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=0)


def core_overloads() -> set[str]:
    """torch's own list of the core operator set."""
    packets = (getattr(torch.ops.aten, name) for name in dir(torch.ops.aten))
    overloads = (getattr(p, name) for p in packets if hasattr(p, "overloads") for name in p.overloads())
    return {str(each).removeprefix("aten.") for each in overloads if torch.Tag.core in each.tags}


def test_every_operator_of_the_core_set_is_converted_or_has_its_reason() -> None:
    left = {f"{name}.default": code for code, names in LEFT.items() for name in names.split()}
    numbers = {name for name in core_overloads() if name.partition(".")[0] in NO_TENSOR}
    assert core_overloads() - set(CORE) - set(left) - set(UNSEEN) - numbers == set()
    assert set(left) | set(UNSEEN) <= core_overloads() and not set(CORE) & (set(left) | set(UNSEEN))
    for name, code in left.items():
        converter = find("call_function", getattr(torch.ops.aten, name.partition(".")[0]).default, None)
        with pytest.raises(Unsupported) as caught:
            converter(None)
        assert caught.value.code == code


def test_tensors_are_taken_at_the_places_where_aten_has_them() -> None:
    """`F.batch_norm` and `F.embedding` take theirs in another order than `torch.batch_norm` and ATen's operators."""
    given = {f"aten.{name}": (name, converter) for name, converter in ATEN.items()}
    builtins = {f: c for f, c in FUNCTIONS.items() if inspect.isbuiltin(f) and not f.__name__.startswith("_")}
    given |= {f"torch.{f.__name__}": (f.__name__.removesuffix("_"), c) for f, c in builtins.items()}
    swapped = set()
    for shown, (name, converter) in given.items():
        places = [*inspect.signature(converter).parameters][1:]
        operator = getattr(getattr(torch.ops.aten, name, None), "default", None)
        for place, argument in enumerate(() if operator is None else operator._schema.arguments):
            if "Tensor" in str(argument.type) and argument.name in places and places.index(argument.name) != place:
                swapped.add(shown)
    assert swapped == set()


@pytest.mark.parametrize(
    "engine, capture", [("onnxruntime", "fx"), ("onnxruntime", "export"), ("openvino", "fx"), ("reference", "export")]
)
def test_forms_that_onnx_or_an_engine_computes_otherwise(engine, capture) -> None:
    forms = [each for each in FORMS if engine != "reference" or each.name not in NOT_FOR_REFERENCE]
    model = joined(forms)
    example, other = ([value for each in forms for value in getattr(each, name)] for name in ("example", "other"))
    lowered = fxlib.lower(model, example, engine=engine, capture=capture, min_nodes=1)
    for given in (example, other):
        with torch.no_grad():
            expected, got = model(*given), lowered(*given)
        for each, want, have in zip(forms, expected, got, strict=True):
            try:
                check(want, have, 1e-2 if "half" in each.name or "bfloat16" in each.name else 2e-5)
            except AssertionError as error:
                raise AssertionError(f"{each.name}: {error}") from error
    if engine == "onnxruntime":
        assert not [text for text in lowered.report.reasons.values() if "the engine" in text]
