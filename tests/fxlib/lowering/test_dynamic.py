"""Sizes that change between calls: what an engine cannot take stays in PyTorch, and the rest is lowered."""

from __future__ import annotations

import pytest
import torch
import torch.utils._pytree as pytree
from torch import nn

import fxlib
from fxlib.lowering import preview
from fxlib.lowering.prepare import prepare
from fxlib.lowering.structure import take_apart
from tests.fxlib.zoo.calls import timm_calls, transformers_calls


def agree(lowered: nn.Module, model: nn.Module, *args: torch.Tensor, **kwargs: torch.Tensor) -> None:
    with torch.no_grad():
        expected, got = pytree.tree_leaves(model(*args, **kwargs)), pytree.tree_leaves(lowered(*args, **kwargs))
    assert [type(each) for each in got] == [type(each) for each in expected]
    for a, b in zip(expected, got, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-4)


class Sizes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x).relu(), x.shape[0], x.size(0) * 2, x.shape


class Recurrent(nn.Module):
    """An engine before the LSTM, and one after it."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.lstm, self.after = nn.Linear(8, 8), nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 8)

    def forward(self, x):
        y, _ = self.lstm(self.before(x).relu() + 1)
        return self.after(y).relu() * 2


class Fixing(nn.Module):
    """torch's own shape propagation unrolls this GRU over the length that it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.gru = nn.Linear(8, 8), nn.GRU(8, 8)

    def forward(self, x):
        y, state = self.gru(self.before(x).relu() + 1)
        return (y * 2 + 1).reshape(x.shape[0], -1), state


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = self.layer(x).relu() + 1
        chosen = y[y > 1]
        return (self.layer(x) * 2 + 1).relu(), chosen


class Flattened(nn.Module):
    """Height and width, which the example has the same number of."""

    def forward(self, x):
        batch, channels, height, width = x.shape
        return (x * 2).relu().reshape(batch, channels, height * width).transpose(1, 2) + 1


class Added(nn.Module):
    """Sizes that have to be equal."""

    def forward(self, x):
        y = (x * 2).relu()
        return (y + y.transpose(1, 2)).reshape(x.shape[0], -1) + 1


CASES = [
    (Flattened, (2, 3, 8, 8), (3, 3, 6, 10), {"x": (0, 2, 3)}, set()),
    (Added, (2, 8, 8), (6, 5, 5), {"x": (0, 1, 2)}, set()),
    (Sizes, (4, 8), (7, 8), True, set()),
    (Recurrent, (2, 5, 8), (3, 6, 8), {"x": (0, 1)}, {"lstm"}),
    (Fixing, (5, 2, 8), (7, 2, 8), {"x": [0]}, {"gru"}),
    (Masked, (5, 8), (9, 8), {"x": [-2]}, {"getitem"}),
]


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
@pytest.mark.parametrize(("make", "shape", "other", "dynamic", "left"), CASES, ids=[c[0].__name__ for c in CASES])
def test_what_an_engine_cannot_take_stays(make, shape, other, dynamic, left, engine):
    model = make().eval()
    lowered = fxlib.lower(model, (torch.randn(shape),), dynamic=dynamic, engine=engine)
    assert lowered.engine_parts() and left <= set(lowered.report.reasons) and lowered.report.mismatch is None
    for size in (shape, other):
        agree(lowered, model, torch.randn(size))


@fxlib.wrap
def _first(x):
    """As many as the values say, which torch cannot find out without them."""
    return x[: len(str(x.tolist())) % 3 + int(x.abs().max()) + 1]


class Chosen(nn.Module):
    """Sizes that depend on values, read by parts for an engine; every second result has a size that does not."""

    def forward(self, x):
        y = (x * 2 + 1).relu() * 3
        several = [x.unique(), y[y > 3], x.nonzero().float(), torch.masked_select(y, x > 1), _first(x)]
        return [each.sin().cos() * 2 + 1 for each in several] + [each.tanh().exp().sum() * 2 for each in several]


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_sizes_that_depend_on_values_are_not_those_of_the_example(engine):
    model = Chosen().eval()
    lowered = fxlib.lower(model, (torch.arange(8.0) - 3,), engine=engine)
    assert {lowered.report.codes[name] for name in ("unique", "nonzero", "masked_select")} == {"FX402"}
    assert (
        len(lowered.engine_parts()) == 2 and "sin" not in lowered.report.reasons and "sin_4" in lowered.report.reasons
    )
    for other in (torch.ones(8) * 2, torch.arange(8.0) - 5, torch.arange(8.0) / 2 - 1):
        agree(lowered, model, other)


def test_a_size_that_the_model_computes_with_is_named():
    class Branch(nn.Module):
        def forward(self, x):
            return x.reshape(2, -1) * 2 if x.shape[0] == 4 else x * 3

    with pytest.raises(fxlib.lowering.CaptureError, match="dimension 0 of 'x' cannot be dynamic"):
        fxlib.lower(Branch().eval(), (torch.randn(4, 8),), dynamic={"x": [0]})


class Branches(nn.Module):
    """Branches on the size of one input, and of two."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, y):
        z = self.layer(x)
        z = z * 2 + 1 if x.shape[0] > 3 else z - 1
        return z + y.sum() if x.shape[0] + 2 != y.shape[1] else z * y.sum()


def test_a_call_that_would_take_another_branch_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model, dynamic = Branches().eval(), {"x": (0,), "y": (1,)}
    lowered = fxlib.lower(model, (torch.randn(4, 8), torch.randn(2, 9)), dynamic=dynamic)
    assert lowered.report.conditions == ["x.shape[0] > 3", "(2 + x.shape[0]) != y.shape[1]"]
    assert "may change: x: 0, y: 1; x.shape[0] > 3; (2 + x.shape[0]) !=" in str(lowered.report)
    lowered.save(tmp_path / "branches")
    for call in (lowered, fxlib.lowering.load(tmp_path / "branches")):
        agree(call, model, torch.randn(7, 8), torch.randn(2, 1))
        with pytest.raises(ValueError, match=r"x of shape \[2, 8\], .* captured for x.shape\[0\] > 3: forward takes"):
            call(torch.randn(2, 8), torch.randn(2, 9))
        with pytest.raises(ValueError, match=r"captured for \(2 \+ x.shape\[0\]\) != y.shape\[1\]"):
            call(torch.randn(5, 8), torch.randn(2, 7))
    assert not fxlib.lower(model, (torch.randn(2, 8), torch.randn(2, 4))).report.conditions
    with pytest.raises(
        fxlib.lowering.CaptureError, match=r"another branch with the example's sizes than for x.shape\[0\] != 1"
    ):
        fxlib.lower(Lonely().eval(), (torch.randn(1, 8),), dynamic=True)
    lowered = fxlib.lower(Lonely().eval(), (torch.randn(3, 8),), dynamic=True, min_nodes=1)
    assert lowered.report.conditions == ["x.shape[0] != 1"]


class Lonely(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] == 1 else x * 3


def test_the_example_is_within_the_range_that_is_given():
    with pytest.raises(ValueError, match="got 8 to 16 for dimension 0 of 'input' in dynamic, but the example has 4"):
        fxlib.lower(nn.Linear(8, 8).eval(), {"input": torch.randn(4, 8)}, dynamic={"input": {0: (8, 16)}})
    with pytest.raises(TypeError, match=r"dynamic=\{'input': \{0: \(1, 64\)\}\}, not 16"):
        fxlib.lower(nn.Linear(8, 8).eval(), {"input": torch.randn(4, 8)}, dynamic={"input": {0: 16}})
    with pytest.raises(TypeError, match=r"both 1 or more, .*not \(0, 16\)"):
        fxlib.lower(nn.Linear(8, 8).eval(), {"input": torch.randn(4, 8)}, dynamic={"input": {0: (0, 16)}})
    twice = {"input": {0: (1, 16), -2: (2, 8)}}
    with pytest.raises(ValueError, match=r"two ranges for dimension 0 .*, which is also dimension -2"):
        fxlib.lower(nn.Linear(8, 8).eval(), {"input": torch.randn(4, 8)}, dynamic=twice)


CALLS = {str(call): call for family in (timm_calls, transformers_calls) for call in family()}
MODELS = ["timm:mobilenetv3_small_050", "transformers:bert", "transformers:t5"]


@pytest.mark.parametrize("name", MODELS)
def test_models_of_libraries_take_other_batches(name):
    model = CALLS[name].build().eval()
    inputs = CALLS[name].inputs(model)
    lowered = fxlib.lower(model, inputs, dynamic=True)
    assert not lowered.report.reasons
    more = {key: torch.cat([value, value]) for key, value in inputs.items()}
    with torch.no_grad():
        expected, got = model(**more), lowered(**more)
    assert type(got) is type(expected)
    for a, b in zip(take_apart(expected)[0], take_apart(got)[0], strict=True):
        torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-4)


class Divided(nn.Module):
    """A number of values that has none where the batch is 1."""

    def forward(self, x):
        chosen = (x * 2).relu().reshape(-1)[: 64 // (x.shape[0] - 1)]
        return torch.bernoulli(chosen.tan().sin().clamp(0, 1)).cos() + 1


@pytest.mark.parametrize("engine", ["onnxruntime", "tensorrt"])
def test_a_size_may_have_no_value_at_an_end_of_a_range(engine):
    assert preview(Divided().eval(), (torch.ones(4, 8),), dynamic=True, engine=engine, min_nodes=1).parts
    prepared = prepare(Divided().eval(), (torch.ones(4, 8),), dynamic=True, min_nodes=1)
    prepared.add_profiles()
    *_, last = prepared.exports.values()
    assert [*last.profiles.values()] == [([1], [21], [64])]


def test_a_lowered_model_takes_the_ends_that_a_profile_cannot():
    lowered = fxlib.lower(Divided().eval(), (torch.ones(4, 8),), dynamic=True, min_nodes=1)
    assert [lowered(torch.ones(batch, 8)).shape for batch in (5, 65)] == [(16,), (1,)]


class Difference(nn.Module):
    """A size that is positive on the example, whose height is larger than its width."""

    def forward(self, x):
        batch, height, width = x.shape
        some = (x * 2).relu().reshape(batch, height * width)[:, : height - width]
        return torch.bernoulli(some.clamp(0, 1)).tan() * 2


def test_a_difference_of_sizes_goes_from_its_smallest_to_its_largest_value():
    dynamic = {"x": {1: (32, 64), 2: (4, 16)}}
    prepared = prepare(Difference().eval(), (torch.ones(1, 40, 8),), dynamic=dynamic, min_nodes=1)
    prepared.add_profiles()
    *_, last = prepared.exports.values()
    assert [*last.profiles.values()] == [([1, 16], [1, 32], [1, 60])]


@pytest.mark.parametrize("capture", ["fx", "export"])
def test_flops_are_those_of_the_example(capture):
    fixed, changing = (
        preview(Sizes().eval(), (torch.ones(4, 8),), dynamic=dynamic, capture=capture).layers
        for dynamic in (None, True)
    )
    assert [row.flops for row in changing if row.flops] == [row.flops for row in fixed if row.flops] == [512]


class Centre(nn.Module):
    def forward(self, x):
        return x.relu().mean(0) + 1, x.mean(), x.mean((0, 2), keepdim=True)


def test_nothing_has_no_mean():
    model = Centre().eval()
    lowered = fxlib.lower(model, (torch.randn(2, 4, 3),), engine="onnxruntime", dynamic=True, min_nodes=1)
    for rows in (0, 3):
        with torch.no_grad():
            expected, got = model(torch.ones(rows, 4, 3)), lowered(torch.ones(rows, 4, 3))
        torch.testing.assert_close(got, expected, equal_nan=True)
