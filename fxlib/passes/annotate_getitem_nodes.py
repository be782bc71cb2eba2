"""Types of the elements that a graph takes out of annotated sequences, so that TorchScript need not guess them."""

from __future__ import annotations

import operator
from typing import Any, get_args, get_origin, get_type_hints

from fxlib.graph import Graph

__all__ = ["annotate_getitem_nodes"]


def annotate_getitem_nodes(graph: Graph) -> None:
    """Give every ``getitem`` node the type that follows from the type of what it reads.

    Tuples, lists and named tuples are looked into; where the sequence has no type, nothing is changed. A slice of a
    list, or of a tuple of one element type, is of the list's type. Types reach through nested sequences.
    """
    for node in graph.nodes:
        if node.op == "call_function" and node.target is operator.getitem:
            sequence, index = node.args
            found = _element_type(getattr(sequence, "type", None), index)
            if found is not None:
                node.type = found


def _element_type(sequence: Any, index: Any) -> Any:
    if isinstance(sequence, type) and issubclass(sequence, tuple) and hasattr(sequence, "_fields"):
        hints = get_type_hints(sequence)
        return _at([hints.get(name) for name in sequence._fields], index)
    arguments = get_args(sequence)
    if not arguments:
        return None
    if get_origin(sequence) is list or (get_origin(sequence) is tuple and arguments[1:] == (...,)):
        return sequence if isinstance(index, slice) else arguments[0]
    return _at(arguments, index) if get_origin(sequence) is tuple else None


def _at(types: Any, index: Any) -> Any:
    return types[index] if isinstance(index, int) and -len(types) <= index < len(types) else None
