"""Nodes for the parts of a result that define a symbol: the implementation of ``Graph._resolve_unbacked_binding``.

Where a result's size depends on data, torch gives a path of keys to the symbol in that result.
"""

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from fxlib.ir.node import Node

if TYPE_CHECKING:
    from fxlib.ir.graph import Graph

__all__ = ["resolve_binding"]

_Lower = Callable[[torch.SymInt], Node | int]


def resolve_binding(graph: "Graph", producer: Node, keypath: tuple[Any, ...], lower_symint: _Lower) -> Node:
    """The part of ``producer``'s result that ``keypath`` leads to, as a node.

    Raises:
        AssertionError: a key of an unknown kind.
    """
    node = producer
    for write, operand in _steps(keypath):
        node = write(graph, node, lower_symint(operand) if isinstance(operand, torch.SymInt) else operand)
    return node


def _item(graph: "Graph", node: Node, index: int) -> Node:
    part = graph.call_function(operator.getitem, (node, index))
    wholes = {key: node.meta.get(key) for key in ("val", "example_value")}
    part.meta.update({key: whole[index] for key, whole in wholes.items() if isinstance(whole, (tuple, list))})
    return part


def _method(graph: "Graph", node: Node, name: str) -> Node:
    return graph.call_method(name, (node,))


def _as_integer(graph: "Graph", node: Node, _: object) -> Node:
    return graph.call_function(torch.sym_ite, (node, 1, 0))


def _divided(graph: "Graph", node: Node, divisor: Node | int) -> Node:
    return graph.call_function(operator.floordiv, (node, divisor))


def _inner_tensor(graph: "Graph", node: Node, name: str) -> Node:
    return graph.call_function(getattr, (node, name))


def _size(graph: "Graph", node: Node, dim: int) -> Node:
    return graph.create_size_node(node, dim)


def _stride(graph: "Graph", node: Node, dim: int) -> Node:
    return graph.create_stride_node(node, dim)


def _offset(graph: "Graph", node: Node, _: object) -> Node:
    return graph.create_storage_offset_node(node)


_Write = Callable[["Graph", Node, Any], Node]
# Keys by class name, since the classes are internal to torch: the function that writes them, and their operand.
_KEYS: dict[str, tuple[_Write, Callable[[Any], Any]]] = {
    "CallMethodKey": (_method, operator.attrgetter("name")),
    "SequenceKey": (_item, operator.attrgetter("idx")),
    "ConvertIntKey": (_as_integer, repr),
    "DivideByKey": (_divided, operator.attrgetter("divisor")),
    "InnerTensorKey": (_inner_tensor, operator.attrgetter("inner_name")),
}
# Methods of tensors that have an operator with an index.
_INDEXED: dict[str, _Write] = {"size": _size, "stride": _stride}


def _steps(keypath: tuple[Any, ...]) -> Iterator[tuple[_Write, Any]]:
    """For each key, or pair of a method and an index, the function that writes it and its operand."""
    last_first = list(reversed(keypath))
    while last_first:
        key = last_first.pop()
        method = key.name if type(key).__name__ == "CallMethodKey" else None
        if method == "storage_offset":
            yield _offset, None
        elif method in _INDEXED and last_first and type(last_first[-1]).__name__ == "SequenceKey":
            yield _INDEXED[method], last_first.pop().idx
        elif type(key).__name__ in _KEYS:
            write, operand = _KEYS[type(key).__name__]
            yield write, operand(key)
        else:
            raise AssertionError(
                f"unrecognized keypath component {key}: fxlib knows how to write the keys of sizes, strides, offsets, "
                "positions in a result, inner tensors, conversions and divisions"
            )
