"""Shapes with the batch dimension by name: which sizes follow it, found by giving the model other batches.

On the traced graph and without data.  A size that is ``a * batch + b`` (or a fraction)
at three batches is written so; a graph that takes no other batch keeps its numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from fxlens.record import Node

_FACTORS = (6, 10)
"""Other batches, as multiples of the example's: even, so that halves are exact."""


def add(nodes: Sequence[Node], report: Any, inputs: Any, name: str) -> Sequence[Node]:
    """The nodes with ``symbolic``: their shapes with ``name`` in them, where the batch decides."""
    if report.graph_module is None or inputs is None or inputs.values is None:
        return nodes
    batch = _batch(inputs.values)
    if batch is None:
        return nodes
    others = [batch * factor for factor in _FACTORS]
    found = []
    for other in others:
        shapes = _shapes(report, inputs.values, batch, other)
        if shapes is None:
            return nodes
        found.append(shapes)
    return [_named(node, [shapes.get(node["name"]) for shapes in found], [batch, *others], name) for node in nodes]


def _named(node: Node, there: list[list[int] | None], batches: list[int], name: str) -> Node:
    """A node with its shape by the name of the batch; ``there`` are its shapes at the other batches."""
    shape, known = node["shape"], [each for each in there if each is not None]
    if shape is None or len(known) < len(there) or any(len(each) != len(shape) for each in known):
        return node
    texts = [_size(list(each), batches, name) for each in zip(shape, *known, strict=True)]
    return node if texts == shape else {**node, "symbolic": texts}


def _batch(values: Any) -> int | None:
    """The first size of the first tensor that has one."""
    from torch.utils import _pytree as pytree

    shapes = [tuple(each.shape) for each in pytree.tree_leaves(values) if hasattr(each, "shape")]
    return next((int(shape[0]) for shape in shapes if len(shape) and shape[0]), None)


def _shapes(report: Any, values: Any, batch: int, other: int) -> dict[str, list[int]] | None:
    """Every node's shape where tensors begin with ``other`` in place of ``batch``; None where the graph refuses it."""
    import torch
    from torch.utils import _pytree as pytree

    from fxlib.shapes import propagate

    def resized(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.ndim or value.shape[0] != batch:
            return value
        return torch.empty((other, *value.shape[1:]), dtype=value.dtype, device="meta")

    nodes = list(report.graph_module.graph.nodes)
    before = [dict(node.meta) for node in nodes]
    try:
        propagate(report.graph_module, *pytree.tree_map(resized, tuple(values)))
        metas = {node.name: node.meta.get("tensor_meta") for node in nodes}
    except Exception:
        # The example's size is part of this graph: it is right to show it.
        return None
    finally:
        for node, meta in zip(nodes, before, strict=True):
            node.meta.clear()
            node.meta.update(meta)
    return {name: list(meta.shape) for name, meta in metas.items() if hasattr(meta, "shape")}


def _size(sizes: list[int], batches: list[int], name: str) -> int | str:
    """One size as a function of the batch; ``?`` where no simple function fits."""
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
