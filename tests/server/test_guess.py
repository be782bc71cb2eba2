"""Inputs inferred from annotations and first layers, for models that give none."""

from __future__ import annotations

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from fxlens.worker import guess as guessing

import fxlib


def guess(model, constant=None):
    return guessing.guess(model, fxlib.diagnose(model, None).graph, constant or {})


class LeNet(nn.Module):
    """The flatten fixes the size of the image: only 32 x 32 fits."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.MaxPool2d(2)
        )
        self.classifier = nn.Linear(400, 10)

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 8)
        self.rnn = nn.LSTM(8, 4, batch_first=True)

    def forward(self, ids):
        return self.rnn(self.embed(ids))[0]


class Branch(nn.Module):
    """A question about data stands between the input and its first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(12, 3)

    def forward(self, x):
        if x.sum() > 0:
            x = x * 2
        return self.inner(x)


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 2, 3))

    def forward(self, x):
        return F.conv1d(F.relu(x), self.weight)


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(5, 5)

    def forward(self, x, y):
        return self.left(x) + y


class Annotated(nn.Module):
    def forward(self, x: Float[Tensor, "b 3 8 8"], k: int, flag: bool = True):  # noqa: F722, F821
        return x * k if flag else x


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 16)

    def forward(self, ids, scale, mask):
        return (self.embed(ids) * scale).masked_fill(mask == 0, 0.0)


class Wide(nn.Module):
    def forward(self, *args):
        return args[0]


@pytest.mark.parametrize(
    "make, expected",
    [
        (LeNet, "torch.randn(1, 1, 32, 32)"),
        (Tokens, "torch.randint(0, 100, (2, 16))"),
        (Branch, "torch.randn(2, 12)"),
        (Functional, "torch.randn(1, 2, 64)"),
        (Two, "torch.randn(2, 5), torch.randn(2, 5)"),
        (Scaled, "torch.randint(0, 100, (2, 16)), torch.ones(1), torch.ones(1)"),
        (Annotated, "torch.randn(2, 3, 8, 8), 4"),
        (lambda: nn.Sequential(nn.BatchNorm1d(7), nn.Linear(7, 2)), "torch.randn(2, 7)"),
        (lambda: nn.Sequential(nn.Conv3d(2, 3, 3), nn.ReLU()), "torch.randn(1, 2, 16, 16, 16)"),
        (Wide, None),
    ],
)
@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_guess(make, expected: str | None, device: str) -> None:
    with torch.device(device):
        model = make()
    assert guess(model) == expected


def test_the_users_module_is_not_touched() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return self.layer(x)

    model = Counting()
    assert guess(model) == "torch.randn(2, 3)"
    assert model.calls == 0 and all(not p.is_meta for p in model.parameters())


def test_arguments_that_are_constant_need_no_example() -> None:
    class Mode(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x, mode):
            return self.layer(x)

    assert guess(Mode(), {"mode": None}) == "torch.randn(2, 3)"
    assert guess(Mode()) == "torch.randn(2, 3), torch.randn(2, 3)"


def test_a_search_ends_where_no_arguments_help():
    from fxlens.worker.assume.search import Budget, Outcome, search
    from fxlens.worker.assume.slots import Slot

    tried: list[str] = []

    def attempt(text, state):
        tried.append(text)
        error = ImportError("a package is missing") if len(tried) == 3 else ValueError("of another size")
        return Outcome(error=error, progress=(len(tried),))

    slot = Slot("x", None, ("x",))
    found = search(
        [{}],
        lambda state: str(state.get(slot, 0)),
        attempt,
        lambda state, outcome: ({slot: number} for number in range(1, 50)),
        Budget(),
        lambda outcome: isinstance(outcome.error, ImportError),
    )
    assert tried == ["0", "1", "2"] and found.text == "2" and found.trials == 3
