"""What user code can change beside tensors, as it was: nested containers and arrays, and the random generators."""

from __future__ import annotations

import copy
import random
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from operator import is_
from typing import Any

import torch

__all__ = ["Contents", "Generators"]

_KINDS = frozenset((dict, list, set, deque, OrderedDict, defaultdict, Counter))
_SEARCHED = 1000
"""Larger containers are not searched for nested ones."""
_LARGEST = 10_000_000  # bytes of an array; larger ones are not kept


class Contents:
    """The contents of lists, dicts, sets, deques and NumPy arrays, and of those in them."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._containers: list[tuple[Any, Any]] = []
        self._arrays: list[tuple[Any, Any]] = []
        seen: set[int] = set()
        todo = [each for each in values if type(each) in _KINDS or type(each) is tuple or _is_array(each)]
        while todo:
            each = todo.pop()
            kind = type(each)
            if id(each) in seen:
                continue
            if kind in _KINDS:
                seen.add(id(each))
                self._containers.append((each, copy.copy(each)))
            elif kind is not tuple:
                if _is_array(each):
                    seen.add(id(each))
                    self._arrays.append((each, each.copy()))
                continue
            if len(each) <= _SEARCHED:
                todo.extend(each.values() if isinstance(each, dict) else each)

    def restore(self) -> None:
        for container, before in self._containers:
            if not _same(container, before):
                container.clear()
                container.extend(before) if isinstance(container, list | deque) else container.update(before)
        for array, before in self._arrays:
            if array.shape == before.shape and array.tobytes() != before.tobytes() and array.flags.writeable:
                array[...] = before


def _is_array(value: Any) -> bool:
    kind = type(value)
    return kind.__module__ == "numpy" and kind.__name__ == "ndarray" and value.nbytes <= _LARGEST


def _same(current: Any, before: Any) -> bool:
    """Whether two containers hold identical items in the same order."""
    if isinstance(current, set):
        return bool(current == before)
    if isinstance(current, dict):
        return [*current] == [*before] and all(map(is_, current.values(), before.values()))
    return len(current) == len(before) and all(map(is_, current, before))


class Generators:
    """The global generators of Python, torch and NumPy."""

    def __init__(self) -> None:
        self._python, self._torch, self._numpy = random.getstate(), torch.get_rng_state(), _numpys()

    def drew(self) -> bool:
        """Whether one of them has been used."""
        if random.getstate() != self._python or not torch.equal(torch.get_rng_state(), self._torch):
            return True
        return self._numpy is not None and _key(_numpys()) != _key(self._numpy)

    def restore(self) -> None:
        random.setstate(self._python)
        torch.set_rng_state(self._torch)
        if self._numpy is not None:
            sys.modules["numpy.random"].set_state(self._numpy)


def _numpys() -> Any:
    numpy = sys.modules.get("numpy.random")
    return None if numpy is None else numpy.get_state()


def _key(numpys: Any) -> tuple[Any, ...]:
    return tuple(each.tobytes() if hasattr(each, "tobytes") else each for each in numpys)
