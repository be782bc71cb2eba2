"""Sizes that a file declares as dynamic: ``dynamic_shapes`` for torch.export, in the constant ``NET_SHAPES``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fxlens.sources.shapes_constant import shapes_constant

if TYPE_CHECKING:
    from fxlib.shapes.derived import Expression


@dataclass(frozen=True)
class Size:
    """A dimension that follows a root; ``low`` and ``high`` bound the root, ``high`` is None if open."""

    expression: Expression
    low: int = 0
    high: int | None = None

    @property
    def lowest(self) -> int:
        """The smallest size of the dimension itself."""
        return max(self.expression.at(max(self.low, 1)), 1)

    @property
    def highest(self) -> int | None:
        return None if self.high is None else self.expression.at(self.high)


Said = Mapping[str, Any]
"""``dynamic_shapes`` by argument."""


def read(namespace: object, name: str) -> Said:
    """The module's specification for a class; empty if there is none that can be read."""
    # Not getattr, which would call a module's own `__getattr__`.
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


def dimensions(said: Said, given: Mapping[str, Any]) -> dict[str, dict[int, tuple[int, int | None]]]:
    """The dimensions that may change, by argument: of all tensors in an argument, with the smallest and largest size of
    each, None if open. Tensors without a specification have the sizes of the example."""
    from torch.utils import _pytree as pytree

    found: dict[str, dict[int, tuple[int, int | None]]] = {}
    for name, value in said.items():
        for table in pytree.tree_leaves(value, is_leaf=lambda each: bool(_dims(each))):
            for dim, size in _dims(table).items():
                low, high = found.setdefault(name, {}).get(dim, (size.lowest, size.highest))
                ends = None if high is None or size.highest is None else max(high, size.highest)
                found[name][dim] = min(low, size.lowest), ends
    for name, ranges in found.items():
        for path, leaf in pytree.tree_leaves_with_path(given.get(name)):
            sizes = getattr(leaf, "shape", ())
            for dim in ranges.keys() - _dims(_at(said[name], path)).keys():
                if -len(sizes) <= dim < len(sizes):
                    low, high = ranges[dim]
                    ranges[dim] = min(low, sizes[dim]), high if high is None else max(high, sizes[dim])
    return found


def _at(said: Any, path: Sequence[Any]) -> Any:
    """The specification of one tensor of an argument."""
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
    """A ``torch.export.Dim``, or one that is computed from another; None if it has no name."""
    from fxlib.shapes.derived import Expression

    root = getattr(value, "root", value)
    name, low, high = (getattr(root, each, None) for each in ("__name__", "min", "max"))
    if not isinstance(name, str) or not isinstance(low, int):
        return None
    shift = value.fn(0) if root is not value else 0
    factor = value.fn(1) - shift if root is not value else 1
    return Size(Expression(name, factor, shift), low, high if isinstance(high, int) else None)
