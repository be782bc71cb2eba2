"""Shapes with dimensions by name: which sizes depend on them, found by trying other sizes.

Works on the traced graph, without data. Dimensions are named by the file's ``dynamic_shapes``; those that differ
between recorded calls get generated names, and the batch a name from a setting.

A size that equals ``a * batch + b`` (or a fraction) at three sizes is written so; a graph that accepts no other size
keeps its numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from fxlens.record import Node

from . import specified
from .specified import Size

if TYPE_CHECKING:
    from fxlib.shapes.derived import Expression

_FACTORS = (6, 10)
"""Other batches, as multiples of the example's: even, so that halves are exact."""
_MORE = (2, 4, 3)
"""Other sizes for other dimensions, besides the recorded ones."""
_NAMES = {
    (1, 0): "L", (2, 1): "L", (3, 1): "L", (3, 2): "L", (4, 2): "H", (4, 3): "W", (5, 2): "T", (5, 3): "H", (5, 4): "W",
}  # fmt: skip
"""By rank and position."""
Place = tuple[int, int]
"""The index of an input tensor, and of its dimension."""


@dataclass(frozen=True)
class _Symbol:
    """A dimension with a name: its size in the example, other sizes to try, and the dimensions that depend on it."""

    name: str
    places: Mapping[Place, Expression]
    size: int
    others: tuple[int, ...]


def add(
    nodes: Sequence[Node],
    report: Any,
    values: tuple[Any, ...] | None,
    batch: str,
    recorded: Sequence[tuple[Any, ...]],
    said: specified.Said,
) -> Sequence[Node]:
    """The nodes with ``symbolic``: their shapes with names for the dimensions that may vary.

    ``batch`` is the name of the batch dimension, empty where it has none; ``recorded`` are other inputs that the model
    was called with; ``said`` is what the file says of it.
    """  # fmt: skip
    if report.graph_module is None or values is None:
        return nodes
    shapes: dict[str, list[int | str]] = {each["name"]: list(each["shape"]) for each in nodes if each["shape"]}
    plain = {name: list(shape) for name, shape in shapes.items()}
    named = specified.of_tensors(said, zip(_arguments(report), values, strict=False)) if said else []
    for symbol in _symbols(_leaves(values), [_leaves(each) for each in recorded], batch, named):
        there = list(_tried(report, values, symbol))
        if len(there) < 2:
            continue
        sizes = [symbol.size, *(size for size, _ in there)]
        for name, shape in shapes.items():
            found = [each.get(name) for _, each in there]
            if any(each is None or len(each) != len(shape) for each in found):
                continue
            for at, size in enumerate(plain[name]):
                text = _size([size, *(each[at] for each in found if each)], sizes, symbol.name)  # type: ignore[list-item]
                if text != size:
                    shape[at] = text if shape[at] == size else "?"
    return [
        {**node, "symbolic": shapes[node["name"]]} if shapes.get(node["name"]) != plain.get(node["name"]) else node
        for node in nodes
    ]


def _leaves(values: Any) -> list[tuple[int, ...]]:
    """The shapes of the tensors."""
    from torch.utils import _pytree as pytree

    return [tuple(each.shape) for each in pytree.tree_leaves(values) if hasattr(each, "shape")]


def _arguments(report: Any) -> list[str]:
    """The names of the graph's arguments."""
    return [str(node.target).lstrip("*") for node in report.graph_module.graph.nodes if node.op == "placeholder"]


def _symbols(
    shapes: list[tuple[int, ...]], recorded: list[list[tuple[int, ...]]], batch: str, named: list[dict[int, Size]]
) -> Iterator[_Symbol]:
    """The dimensions that the file names; then those that differ between calls, grouped if they always have the same
    size; and the batch."""
    from fxlib.shapes.derived import Expression

    places = {(at, dim): size for at, dims in enumerate(named) for dim, size in dims.items() if dim < len(shapes[at])}
    roots = list(dict.fromkeys(size.expression.root for size in places.values()))
    for root in roots:
        yield from _said(root, shapes, {place: size for place, size in places.items() if size.expression.root == root})
    alike = [each for each in recorded if [len(shape) for shape in each] == [len(shape) for shape in shapes]]
    groups: dict[tuple[int, ...], set[Place]] = {}
    for at, shape in enumerate(shapes):
        for dim, size in enumerate(shape):
            sizes = (size, *(each[at][dim] for each in alike))
            if len(set(sizes)) > 1 and (at, dim) not in places:
                groups.setdefault(sizes, set()).add((at, dim))
    first = next((at for at, shape in enumerate(shapes) if shape and shape[0]), None)
    if batch and first is not None and not any((first, 0) in each for each in (places, *groups.values())):
        size = shapes[first][0]
        same = {
            (at, 0): Expression(batch)
            for at, shape in enumerate(shapes)
            if shape and shape[0] == size and (at, 0) not in places
        }
        yield _Symbol(batch, same, size, tuple(size * factor for factor in _FACTORS))
    taken = {batch, *roots}
    for sizes, group in groups.items():
        is_batch = any(dim == 0 and len(shapes[at]) > 1 for at, dim in group)
        at, dim = min(group)
        name = (batch or "B") if is_batch else _NAMES.get((len(shapes[at]), dim), "S")
        if name in taken and not (is_batch and name == batch):
            name = next(f"{name}{number}" for number in range(2, 99) if f"{name}{number}" not in taken)
        taken.add(name)
        usual = _FACTORS if is_batch else _MORE
        others = dict.fromkeys([*(sizes[0] * factor for factor in usual), *sizes[1:]])
        same = dict.fromkeys(group, Expression(name))
        yield _Symbol(name, same, sizes[0], tuple(each for each in others if each != sizes[0]))


def _said(root: str, shapes: list[tuple[int, ...]], places: dict[Place, Size]) -> Iterator[_Symbol]:
    """A dimension that the file names, unless the example's sizes contradict it."""
    (at, dim), first = next(iter(places.items()))
    size = first.expression.root_at(shapes[at][dim])
    follow = {place: each.expression for place, each in places.items()}
    if size is None or any(each.at(size) != shapes[at][dim] for (at, dim), each in follow.items()):
        return
    others = dict.fromkeys([*(size * factor for factor in _MORE), size + 2, size + 4])
    taken = [each for each in others if each >= max(first.low, 2) and (first.high is None or each <= first.high)]
    yield _Symbol(root, follow, size, tuple(taken))


def _tried(report: Any, values: tuple[Any, ...], symbol: _Symbol) -> Iterator[tuple[int, dict[str, list[int]]]]:
    """The shapes of all nodes at two other sizes that the graph accepts."""
    count = 0
    for size in symbol.others:
        if count < 2 and (shapes := _shapes(report, values, symbol.places, size)) is not None:
            count += 1
            yield size, shapes


def _shapes(
    report: Any, values: tuple[Any, ...], places: Mapping[Place, Expression], other: int
) -> dict[str, list[int]] | None:
    """Every node's shape with these dimensions at the size ``other``; None if the graph rejects it."""
    import torch
    from torch.utils import _pytree as pytree

    from fxlib.shapes import propagate

    number = -1

    def resized(value: Any) -> Any:
        nonlocal number
        if not hasattr(value, "shape"):
            return value
        number += 1
        dims = {dim: each.at(other) for (at, dim), each in places.items() if at == number}
        if not isinstance(value, torch.Tensor) or not dims:
            return value
        shape = [dims.get(dim, size) for dim, size in enumerate(value.shape)]
        return torch.empty(shape, dtype=value.dtype, device="meta")

    nodes = list(report.graph_module.graph.nodes)
    before = [dict(node.meta) for node in nodes]
    try:
        propagate(report.graph_module, *pytree.tree_map(resized, tuple(values)))
        metas = {node.name: node.meta.get("tensor_meta") for node in nodes}
    except Exception:
        # The graph depends on the example's size, so show it.
        return None
    finally:
        for node, meta in zip(nodes, before, strict=True):
            node.meta.clear()
            node.meta.update(meta)
    return {name: list(meta.shape) for name, meta in metas.items() if hasattr(meta, "shape")}


def _size(sizes: list[int], batches: list[int], name: str) -> int | str:
    """One size as a function of another, from a few points; ``?`` if no simple function fits."""
    if len(set(sizes)) == 1:
        return sizes[0]
    slope = Fraction(sizes[1] - sizes[0], batches[1] - batches[0])
    offset = sizes[0] - slope * batches[0]
    if (
        any(slope * batch + offset != size for size, batch in zip(sizes, batches, strict=True))
        or offset.denominator > 1
    ):
        return "?"
    times = "" if slope.numerator == 1 else f"{slope.numerator}*"
    divided = "" if slope.denominator == 1 else f"/{slope.denominator}"
    added = f"{int(offset):+d}" if offset else ""
    return f"{times}{name}{divided}{added}"
