"""Runs both texts on every path through the branches that a fix rewrites, since the inputs that are tried may miss one.

Both texts are executed with calls of the `Switch` in place of the conditions (`Branches`).
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from fxlib.diagnosis.fixes.compare import KINDS, WHOLE, Outcome, agree, in_another_dtype
from fxlib.diagnosis.fixes.fix import SWITCH

__all__ = ["Switch", "differing", "switching"]

Ways = list[list[Outcome]]
"""Per path, the outcomes of the same inputs."""


class Switch:
    """Decides the conditions: the one with the number ``way`` is the first that holds."""

    def __init__(self) -> None:
        self.way = 0
        self.asked: set[int] = set()

    def __call__(self, number: int, value: Any) -> Any:
        self.asked.add(number)
        holds = number == self.way
        return torch.full_like(value, holds, dtype=torch.bool) if isinstance(value, torch.Tensor) else holds


@contextmanager
def switching() -> Iterator[Switch]:
    """A switch that the code of any file can call."""
    switch = Switch()
    setattr(builtins, SWITCH, switch)
    try:
        yield switch
    finally:
        delattr(builtins, SWITCH)


def differing(before: Ways, after: Ways) -> tuple[bool, str | None, list[str], list[str]]:
    """Compare both texts: (whether every path ran without an error, what differs, what callers notice, what differs in
    integers)."""
    every, effects, whole = True, list[str](), list[str]()
    for old_ones, new_ones in zip(before, after, strict=True):
        compared = False
        for old, new in zip(old_ones, new_ones, strict=True):
            if old.error is not None:
                continue  # the branch is not made for this input
            compared = True
            same, _, reason = agree(old, new)
            if old.name in KINDS:
                if not same:
                    (whole if old.name == WHOLE else effects).append(in_another_dtype(old.name, reason))
                continue
            if not same:
                return True, reason, [], []
            effects += old.differing_effects(new)
        every = every and compared
    return every, None, list(dict.fromkeys(effects)), list(dict.fromkeys(whole))
