"""Augmented assignments: recorded out of place, while eager changes a tensor that has other references."""

from __future__ import annotations

import ast
import operator
from typing import Any

import torch

from fxlib.diagnosis.engine.forms import surrounding_statement
from fxlib.diagnosis.engine.memory import Memory, meet
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.values import Unknown
from fxlib.diagnosis.report import Related
from fxlib.ir.node import Node
from fxlib.shapes import TensorMeta

__all__ = ["ON_GRAPH"]

_OPERATORS = frozenset(
    {
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.floordiv,
        operator.mod,
        operator.pow,
        operator.and_,
        operator.or_,
        operator.xor,
        operator.lshift,
        operator.rshift,
        operator.matmul,
    }
)


def augmented(search: Search) -> None:
    """FX230: ``y += 1`` on a tensor that is read again through another name, or that is an input."""
    run = search.best
    known, memory = run.values.known, Memory(run)
    order: dict[Node, int] = {}
    asked: dict[Any, bool] = {}
    for node in run.nodes:
        if node.op != "call_function" or node.target not in _OPERATORS:
            continue
        written = node.args[0]
        value = known.get(written) if isinstance(written, Node) else None
        if node._site is None or not isinstance(value, TensorMeta | Unknown):
            continue
        at = node._site[:2]  # repeated blocks have the same code
        if at not in asked:
            asked[at] = _is_augmented(run.place_of_node(node))
        if not asked[at]:
            continue
        if isinstance(value, Unknown):
            run.notes.unseen = True
            continue
        order = order or {each: index for index, each in enumerate(run.nodes)}
        owner = memory.owner(written)
        group = memory.group(owner)
        here = group[written]
        later = [
            user for alias, regions in group.items() if meet(here, regions)
            for user in alias.users if order.get(user, -1) > order[node] and not _is_metadata(known.get(user))
            and (user not in group or meet(here, group[user]))
        ]  # fmt: skip
        place = run.place_of_node(node) if later or owner.op in ("placeholder", "get_attr") else None
        if place is None:
            continue
        if later:
            where = run.place_of_node(min(later, key=order.__getitem__))
            note = Related("the tensor is used again here", where.span if where is not None else None, "note")
            run.add("FX230", place, node=node.name, related=(note,))
        else:
            detail = f"`{owner.target}` keeps its old values"
            run.add("FX230", place, detail=detail, node=node.name, severity="info")
    run.notes.unseen |= memory.unsure


def _is_augmented(place: Place | None) -> bool:
    """Whether an operator at a place is that of an augmented assignment: in ``x += y ** 2`` the power is a new tensor
    in a normal run, too, and tensors have no ``@=`` of their own."""
    node = place.node if place is not None else None
    statement = None if isinstance(node, ast.BinOp) else surrounding_statement(node)
    return isinstance(statement, ast.AugAssign) and not isinstance(statement.op, ast.MatMult)


def _is_metadata(value: Any) -> bool:
    """Whether an operation with this result reads only what a write does not change."""
    parts = value if isinstance(value, tuple) else (value,)
    return all(isinstance(each, int | torch.dtype | torch.device) for each in parts)


ON_GRAPH = (augmented,)
