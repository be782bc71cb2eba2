"""``assert_captures`` in the process of the tests: it judges models that hold what cannot be copied, and leaves the
model, the inputs and the random generators as they were."""

from __future__ import annotations

import contextlib
import functools
import queue
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from fxlens.testing import NotCaptured, assert_captures
from torch import nn


class Net(nn.Module):
    def __init__(self, held: Any = None, inner: nn.Module | None = None) -> None:
        super().__init__()
        self.held = held
        self.inner = nn.BatchNorm1d(2) if inner is None else inner
        self.calls = [0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls[0] += 1
        return self.inner(x)


class Locked(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.held:
            return self.inner(x)


class Refusing(Net):
    def __deepcopy__(self, memo: dict[int, Any]) -> Refusing:
        raise TypeError("there is only one")


@functools.singledispatch
def scaled(x: Any) -> Any:
    return x * 3


@scaled.register
def _(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class Differing(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scaled(x)


def nested() -> dict[str, Any]:
    return {"queues": [queue.Queue(), {"lock": threading.RLock()}], "bound": queue.Queue().get, "module": torch}


HOLDING: dict[str, Callable[[], nn.Module]] = {
    "lock": lambda: Net(threading.Lock()),
    "lock that forward takes": lambda: Locked(threading.Lock()),
    "generator": lambda: Net(each for each in range(3)),
    "file": lambda: Net(open(__file__)),  # noqa: SIM115
    "nested": lambda: Net(nested()),
    "of a part": lambda: Net(inner=Locked(threading.Lock())),
    "itself": lambda: Refusing(),
    "a part that refuses": lambda: Net(inner=Refusing()),
}


@pytest.mark.parametrize("name", HOLDING)
@pytest.mark.parametrize("leaves", [(), ("Locked", "Refusing")])
def test_a_model_that_holds_what_cannot_be_copied_is_judged(name: str, leaves: tuple[str, ...]):
    model = HOLDING[name]()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    assert_captures(model, torch.randn(4, 2), leaf_modules=leaves)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert model.calls == [0] and model.training


def test_what_cannot_be_compared_part_by_part_still_differs():
    with pytest.raises(NotCaptured, match="gives another result than the model"):
        assert_captures(Differing(threading.Lock()), torch.ones(4, 2))
    with pytest.raises(NotCaptured, match="gives another result than the model"):
        assert_captures(Differing(), torch.ones(4, 2))


class Two(nn.Module):
    def forward(self, x: torch.Tensor, other: Any) -> torch.Tensor:
        return x * 2


@pytest.mark.parametrize("other", [threading.Lock(), (each for each in range(3)), nested()])
def test_inputs_that_cannot_be_copied_are_used(other: Any):
    assert_captures(Two(), (torch.ones(2).requires_grad_() * 2, other))


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


class Drawing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * random.random() + torch.rand_like(x) + float(np.random.rand())


@pytest.mark.parametrize("options", [{}, {"export": True, "breaks": 9, "dynamic": True}], ids=["fx", "all"])
@pytest.mark.parametrize("model", [Net(), Branching(), Drawing(), nn.Dropout()], ids=lambda each: type(each).__name__)
def test_the_random_generators_go_on_as_before(model: nn.Module, options: dict[str, Any]):
    x = torch.randn(4, 2)

    def drawn() -> tuple[Any, ...]:
        return torch.rand(2).tolist(), random.random(), np.random.rand()

    for seed in (1, 2):
        for asserted in (False, True):
            torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed)
            if not asserted:
                expected = drawn()
                continue
            with contextlib.suppress(NotCaptured):
                assert_captures(model, x, **options)
            assert drawn() == expected


def test_what_others_hold_of_a_model_stays_its_own():
    """Containers are the same objects, also after captures that restore them."""
    model = Net(inner=nn.BatchNorm1d(2))
    history = model.history = [1, 2]
    names = model.names = {"a", "b"}
    held = {(each, name): value for each in model.modules() for name, value in vars(each).items()}
    assert_captures(model, torch.randn(4, 2), fx=False, export=True, breaks=0, dynamic=True)
    assert {(each, name): value for each in model.modules() for name, value in vars(each).items()}.keys() == held.keys()
    assert all(vars(each)[name] is value for (each, name), value in held.items())
    assert model.history is history == [1, 2] and model.names is names == {"a", "b"}
