"""How far results are apart where they are not finite, as a number, for people, and as JSON."""

from __future__ import annotations

import json
import math
from collections import namedtuple
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from fxlib.benchmark import benchmark
from fxlib.lowering import lower, stages
from fxlib.lowering.difference import difference, mismatch
from fxlib.lowering.onnx.registry import METHODS

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("expected", "got", "apart"),
    [
        ([1.0, 2.0], [1.0, 2.5], (0.5, 0.25)),
        ([1.0, 2.0], [1.0, NAN], (INF, INF)),
        ([1.0, NAN], [1.0, 2.0], (INF, INF)),
        ([1.0, 2.0], [1.0, INF], (INF, INF)),
        ([-INF, 1.0], [INF, 1.0], (INF, INF)),
        ([NAN, 1.0], [NAN, 1.0], (0.0, 0.0)),
        ([-INF, 1.0], [-INF, 100.0], (99.0, 99.0)),
        ([-INF, NAN], [-INF, NAN], (0.0, 0.0)),
    ],
)
def test_what_is_not_finite_in_only_one_is_infinitely_far(expected, got, apart):
    assert difference(torch.tensor(expected), torch.tensor(got)) == apart


class Causal(nn.Module):
    def forward(self, x):
        scores = x @ x.transpose(-1, -2)
        mask = torch.triu(torch.ones(4, 4, dtype=torch.bool), diagonal=1)
        return torch.softmax(scores.masked_fill(mask, -INF), -1) @ x


def test_masked_scores_are_compared_where_they_are_finite():
    torch.manual_seed(0)
    found = stages(Causal().eval(), (torch.randn(2, 4, 4),), compare=True)
    for stage in found.stages[1:]:  # the first is compared where modules end
        masked = [step for step in stage.steps if step.origins == ["masked_fill"] and step.max_rel is not None]
        assert stage.diverges is None and masked and all(step.max_rel < 1e-5 for step in masked), stage.name


class Undefined(nn.Module):
    """Eager gives NaN where a trace does not."""

    def forward(self, x):
        return torch.relu(x) * (NAN if type(x) is torch.Tensor else 2.0)


def test_a_result_that_is_nan_in_eager_alone_diverges_and_is_said_in_json_and_in_words():
    found = stages(Undefined().eval(), (torch.randn(2, 4),), compare=True)
    first = json.loads(json.dumps(found.as_dict(), allow_nan=False))["stages"][0]
    assert first["diverges"] == "output" and first["steps"][-1]["max_rel"] == "not finite"
    assert "in places not finite where eager is, or the reverse; diverges first at output" in str(found)
    report = lower(Undefined().eval(), (torch.randn(2, 4),)).report
    assert report.max_abs_error == INF and json.dumps(report.as_dict(), allow_nan=False)
    assert "difference from eager: not finite absolute, not finite relative" in str(report)
    rows = benchmark(Undefined().eval(), (torch.randn(2, 4),), variants=["generated"], seconds=0.1)
    assert json.dumps(rows.as_dict(), allow_nan=False) and "not finite" in rows.table()


class Failing(nn.Module):
    def forward(self, x):
        return torch.relu(x) + torch.ones(3)


def test_a_model_that_fails_itself_is_said_to():
    with pytest.raises(ValueError, match="the model itself fails on the example inputs: RuntimeError: The size of"):
        stages(Failing().eval(), (torch.randn(2, 4),), compare=True)


def test_large_integers_that_differ_by_one_differ():
    assert difference(torch.tensor([2**62 + 1]), torch.tensor([2**62])) == (1.0, 1.0 / 2**62)
    assert difference(torch.tensor([2**62]), torch.tensor([2**62])) == (0.0, 0.0)
    assert difference(torch.tensor([1 + 2j]), torch.tensor([1 + 4j])) == (2.0, 1.0)


class Pair(NamedTuple):
    first: Any
    second: Any


_FLOAT = torch.zeros(3, 5)
_OTHER = namedtuple("_OTHER", "first second")


@pytest.mark.parametrize(
    ("expected", "got", "said", "apart"),
    [
        (_FLOAT, torch.zeros(1, 3, 5), "a tensor of shape [1, 3, 5] instead of [3, 5]", INF),
        ((torch.zeros(0),), (torch.ones(3),), "a tensor of shape [3] instead of [0]", INF),
        (_FLOAT, _FLOAT.long(), "a tensor of torch.int64 instead of torch.float32", INF),
        (_FLOAT, _FLOAT.half(), "a tensor of torch.float16 instead of torch.float32", 0.0),
        ((_FLOAT, _FLOAT), (_FLOAT,), "1 tensor instead of 2 tensors", INF),
        ([_FLOAT, {"a": _FLOAT}], (_FLOAT, {"a": _FLOAT}), "a tuple of 2 instead of a list of 2", 0.0),
        (_FLOAT.max(1), tuple(_FLOAT.max(1)), "a tuple of 2 instead of a max of 2", 0.0),
        (Pair(_FLOAT, 1), Pair(_FLOAT, 1), None, 0.0),
        (Pair(_FLOAT, 1), _OTHER(_FLOAT, 1), "a _OTHER of 2 instead of a Pair of 2", 0.0),
        (Pair(_FLOAT, 1), (_FLOAT, 1), "a tuple of 2 instead of a Pair of 2", 0.0),
        (_FLOAT, (_FLOAT,), "a tuple of 1 instead of a tensor", 0.0),
        ((_FLOAT, 3), (_FLOAT, 4), "4 instead of 3", 0.0),
        ((_FLOAT, torch.device("cpu")), (_FLOAT, torch.device("meta")), "device(type='meta') instead of", 0.0),
        (_FLOAT + 1j, _FLOAT, "a tensor of torch.float32 instead of torch.complex64", 1.0),
        ((_FLOAT, [3, {"a": _FLOAT}]), (_FLOAT + 1, [3, {"a": _FLOAT}]), None, 1.0),
    ],
)
def test_results_differ_in_shape_dtype_or_structure(expected, got, said, apart) -> None:
    found = mismatch(expected, got)
    assert found is None if said is None else found.startswith(said)
    assert difference(expected, got)[0] == apart


class Squeezed(nn.Module):
    def forward(self, x):
        return (x * 2).relu().squeeze() + 1


def test_a_result_that_is_another_is_told_and_not_as_a_number(monkeypatch) -> None:
    monkeypatch.setitem(METHODS, "squeeze", lambda ctx, x: x)
    report = lower(Squeezed().eval(), (torch.randn(1, 4),), min_nodes=1, dynamic=True).report
    assert report.max_rel_error == INF and report.mismatch == "a tensor of shape [1, 4] instead of [4]"
    assert "differs from eager on the example inputs: it gives a tensor of shape [1, 4]" in str(report)
    monkeypatch.undo()
    report = lower(Squeezed().eval(), (torch.randn(1, 4),), min_nodes=1, dynamic=True).report
    assert report.codes == {"squeeze": "FX402"} and report.max_rel_error < 1e-6
