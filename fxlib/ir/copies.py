"""Copies of models and values that hold what cannot be copied, such as a lock, a generator or an open file."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Mapping, Set
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

from fxlib.ir.modules import copy_of

__all__ = ["value_copy", "whole_copy"]

_DEEPEST = 30
_MOST = 5000  # objects that are looked into; those beyond are shared


def whole_copy(model: nn.Module, sharing: bool = False) -> tuple[Any, list[Any]]:
    """A deep copy of a module, as by `copy_of`, and what it shares with the module because it cannot be copied."""
    try:
        return copy_of(model, sharing), []
    except Exception:
        known = {id(each): each for each in (*model.parameters(), *model.buffers())}
        shared = _Sharing(known).of(model)
        return copy_of(model, sharing, shared), shared


def value_copy(value: Any) -> Any:
    """A deep copy that shares what cannot be copied. Computed tensors are copied without their autograd history."""
    try:
        return copy.deepcopy(value)
    except Exception:
        sharing = _Sharing({})
        memo = {id(each): each for each in sharing.of(value)}
        return copy.deepcopy(value, memo | {key: _alone(each) for key, each in sharing.computed.items()})


def _alone(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


class _Sharing:
    """Finds the smallest parts of a value that cannot be copied; those ``known`` need not be tried."""

    def __init__(self, known: Mapping[int, Any]) -> None:
        self.computed: dict[int, torch.Tensor] = {}
        self._memo = {**known}
        self._seen: dict[int, Any] = {}  # kept, so that no other object gets its number
        self._found: list[Any] = []

    def of(self, value: Any) -> list[Any]:
        self._look(value, 0)
        return self._found

    def _look(self, value: Any, depth: int) -> None:
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, torch.Tensor) and not value.is_leaf:
            self.computed[id(value)] = self._memo[id(value)] = value
        if self._is_copied(value):
            return
        if depth < _DEEPEST and len(self._seen) < _MOST:
            for each in _parts(value):
                self._look(each, depth + 1)
            if self._is_copied(value):
                return
        self._memo[id(value)] = value
        self._found.append(value)

    def _is_copied(self, value: Any) -> bool:
        try:
            copy.deepcopy(value, dict(self._memo))
        except Exception:
            return False
        return True


def _parts(value: Any) -> Iterator[Any]:
    """What an object holds, as far as a copy of it has copies of that."""
    if isinstance(value, ModuleType | type | FunctionType):
        return
    if isinstance(value, Mapping):
        yield from list(value.values())
    elif isinstance(value, list | tuple | deque | Set):
        yield from list(value)
    elif isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, MethodType):
        yield value.__self__
    yield from list(getattr(value, "__dict__", {}).values())
    for name in (name for kind in type(value).__mro__ for name in _slots(kind)):
        if hasattr(value, name):
            yield getattr(value, name)


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
