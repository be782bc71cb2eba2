"""Input shapes (smallest, usual, largest) for engines that are built for a range of sizes.

The usual sizes are those of the example. A size within the model is computed from those of its inputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from fxlib.ir.node import Node
from fxlib.lowering.inputs import Inputs, Range
from fxlib.lowering.values import is_fixed

if TYPE_CHECKING:
    from fxlib.lowering.onnx.export import Exported

_LARGEST, _TIMES = 64, 4
"""The largest size if unbounded: 64, or four times the example's if that is more."""
_UNKNOWN = (1, 8, _LARGEST)
"""For a size that does not follow from the inputs, such as the number of elements that a mask selects, or that has no
value at an end of the range."""
_CORNERS = 4
"""If a size depends on at most this many others, every combination of their limits is evaluated."""


def add(exported: Exported, placeholders: Sequence[Node], values: Mapping[Node, Any], roots: Mapping[Any, Any]) -> None:
    """Write the profiles of an ONNX model, by the names of its inputs.

    Args:
        exported: the model of a part.
        placeholders: those of the part's graph, and their values in `values`.
        roots: of `roots_of`.
    """
    for value, index in zip(exported.model.graph.inputs, exported.inputs, strict=True):
        shape = getattr(values[placeholders[index]], "shape", ())
        if not all(isinstance(size, int) for size in shape):
            sizes = [_profile(size, roots) for size in shape]
            low, usual, high = ([each[end] for each in sizes] for end in range(3))
            exported.profiles[str(value.name)] = low, usual, high


def roots_of(inputs: Inputs, placeholders: Sequence[Node], values: Mapping[Node, Any]) -> dict[Any, Any]:
    """The smallest, usual and largest size of each symbol in the shapes of a model's inputs.

    Args:
        inputs: the arguments of its example.
        placeholders: one for each of their tensors, and their values in `values`.
    """
    roots: dict[Any, tuple[int, int, int]] = {}
    for tensor, ranges, node in zip(inputs.tensors, inputs.ranges, placeholders, strict=True):
        for dim, given in ranges.items():
            size = values[node].shape[dim]
            if is_fixed(size) or len(size.node.expr.free_symbols) != 1:
                continue
            (symbol,) = size.node.expr.free_symbols
            low, usual, high = (_root(size, symbol, each) for each in _range(given, tensor.shape[dim]))
            if symbol in roots:  # several equal dimensions
                low, usual, high = max(low, roots[symbol][0]), roots[symbol][1], min(high, roots[symbol][2])
            roots[symbol] = low, usual, max(low, high)
    return roots


def _range(given: Range | None, size: int) -> tuple[int, int, int]:
    low, high = given or (1, None)
    return low, size, max(_LARGEST, _TIMES * size, low) if high is None else high


def _root(size: torch.SymInt, symbol: Any, value: int) -> int:
    """The symbol's size at which a linear expression of it has a given value."""
    shift = int(size.node.expr.subs(symbol, 0))
    factor = int(size.node.expr.subs(symbol, 1)) - shift
    return max((value - shift) // factor, 1) if factor else value


def of_example(size: torch.SymInt, roots: Mapping[Any, Any]) -> int:
    """The size on the example inputs.

    Raises:
        KeyError: it does not follow from the inputs.
    """
    expression = size.node.expr
    return int(expression.subs({symbol: roots[symbol][1] for symbol in expression.free_symbols}))


def _profile(size: int | torch.SymInt, roots: Mapping[Any, Any]) -> tuple[int, int, int]:
    if isinstance(size, int):
        return size, size, size
    expression = size.node.expr
    symbols = sorted(expression.free_symbols, key=str)

    def at(ends: Sequence[int], unknown: list[int]) -> list[int]:
        known = {symbol: roots.get(symbol, _UNKNOWN)[end] for symbol, end in zip(symbols, ends, strict=True)}
        try:
            return [max(int(expression.subs(known)), 1)]
        except (ArithmeticError, AssertionError, TypeError, ValueError):  # such as 64 // (n - 1) for n = 1
            return unknown

    corners: Iterable[Sequence[int]] = [(end,) * len(symbols) for end in (0, 2)]
    if len(symbols) <= _CORNERS:  # h - w is largest where h is largest and w is smallest
        corners = itertools.product((0, 2), repeat=len(symbols))
    (usual,) = at([1] * len(symbols), [_UNKNOWN[1]])
    found = [usual, *itertools.chain.from_iterable(at(ends, [_UNKNOWN[0], _UNKNOWN[2]]) for ends in corners)]
    return min(found), usual, max(found)
