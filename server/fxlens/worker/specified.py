"""Sizes that a file itself says may vary: ``dynamic_shapes`` for torch.export, in the constant ``NET_SHAPES``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fxlens.sources.shapes_constant import shapes_constant


@dataclass(frozen=True)
class Size:
    """A dimension as ``factor * root + shift``; ``low`` and ``high`` bound the root, ``high`` None without an end."""

    root: str
    factor: int = 1
    shift: int = 0
    low: int = 2
    high: int | None = None

    def at(self, root: int) -> int:
        return self.factor * root + self.shift


Said = Mapping[str, Any]
"""``dynamic_shapes`` by argument."""


def read(namespace: object, name: str) -> Said:
    """What the module says of a class; empty where it says nothing that can be read."""
    # Not getattr, which calls a module's own `__getattr__`.
    said = vars(namespace).get(shapes_constant(name))
    return said if isinstance(said, Mapping) else {}


def of_tensors(said: Said, arguments: Iterable[tuple[str, Any]]) -> list[dict[int, Size]]:
    """The named dimensions of each tensor among the arguments of a call, in the order of `tree_leaves`."""
    from torch.utils import _pytree as pytree

    found = []
    for name, value in arguments:
        for path, leaf in pytree.tree_leaves_with_path(value):
            if hasattr(leaf, "shape"):
                found.append(_dims(_at(said.get(name), path)))
    return found


def dimensions(said: Said) -> dict[str, tuple[int, ...]]:
    """The dimensions that may change, by argument: of all tensors that an argument holds."""
    from torch.utils import _pytree as pytree

    found: dict[str, tuple[int, ...]] = {}
    for name, value in said.items():
        tables = pytree.tree_leaves(value, is_leaf=lambda each: bool(_dims(each)))
        dims = {dim for each in tables for dim in _dims(each)}
        if dims:
            found[name] = tuple(sorted(dims))
    return found


def _at(said: Any, path: Sequence[Any]) -> Any:
    """What is said of one tensor of an argument."""
    for step in path:
        where = getattr(step, "key", getattr(step, "idx", None))
        if isinstance(said, Mapping):
            said = said.get(where)
        elif isinstance(said, (list, tuple)) and isinstance(where, int) and where < len(said):
            said = said[where]
        else:
            return None
    return said


def _dims(said: Any) -> dict[int, Size]:
    entries = said.items() if isinstance(said, Mapping) else enumerate(said if isinstance(said, (list, tuple)) else ())
    return {dim: size for dim, value in entries if isinstance(dim, int) and (size := _size(value)) is not None}


def _size(value: Any) -> Size | None:
    """A ``torch.export.Dim``, or one that is computed from another; None for what has no name."""
    root = getattr(value, "root", value)
    name, low, high = (getattr(root, each, None) for each in ("__name__", "min", "max"))
    if not isinstance(name, str) or not isinstance(low, int):
        return None
    shift = value.fn(0) if root is not value else 0
    factor = value.fn(1) - shift if root is not value else 1
    return Size(name, factor, shift, max(low, 2), high if isinstance(high, int) else None)
