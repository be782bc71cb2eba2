"""Augmented assignments: recorded out of place, while eager changes a tensor that has other references."""

from __future__ import annotations

import ast
import operator
from typing import Any, NamedTuple

import torch

from fxlib.diagnosis.engine.forms import surrounding_statement
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.writes import VIEWS
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
_VIEW_FUNCTIONS = frozenset(
    {
        torch.transpose,
        torch.permute,
        torch.squeeze,
        torch.unsqueeze,
        torch.narrow,
        torch.select,
        torch.detach,
        torch.chunk,
        torch.split,
        torch.unbind,
        torch.movedim,
    }
)


def _viewed(node: Node) -> Any:
    """The node that ``node`` is a view of, or None."""
    table = {"call_method": VIEWS, "call_function": _VIEW_FUNCTIONS}.get(node.op, frozenset())
    if node.target in table:
        return node.args[0] if node.args else None
    if node.op == "call_function" and node.target is operator.getitem and _basic(node.args[1]):
        return node.args[0]
    return None


def _basic(index: Any) -> bool:
    """Whether indexing gives a view: ints, slices, None and ``...``, not lists or tensors."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or part is ... or type(part) in (int, slice) for part in parts)


class _Place(NamedTuple):
    """What of the memory of ``owner`` a value is: the indices that were taken of it, one after the other, and other
    views."""

    owner: Node
    path: tuple[int | Node, ...] = ()

    def within(self, node: Node) -> _Place:
        """That of a view of it."""
        taken = node.args[1] if node.target is operator.getitem else None
        return _Place(self.owner, (*self.path, taken if type(taken) is int else node))

    def meets(self, other: _Place) -> bool:
        """Whether both may have memory in common: the items of a tuple, or of a dimension, have none."""
        for one, two in zip(self.path, other.path, strict=False):
            if one != two:
                return isinstance(one, Node) or isinstance(two, Node) or (one < 0) != (two < 0)
        return True


def augmented(search: Search) -> None:
    """FX230: ``y += 1`` on a tensor that is read again through another name, or that is an input."""
    run = search.best
    nodes = run.nodes
    candidates = [node for node in nodes if node.op == "call_function" and node.target in _OPERATORS]
    if not candidates:
        return
    known = run.values.known
    places: dict[Node, _Place] = {}
    groups: dict[Node, list[Node]] = {}
    order: dict[Node, int] = {}
    for index, node in enumerate(nodes):
        viewed = _viewed(node)
        around = places.get(viewed) if isinstance(viewed, Node) else None
        places[node] = around.within(node) if around else _Place(node)
        groups.setdefault(places[node].owner, []).append(node)
        order[node] = index
    for node in candidates:
        written = node.args[0]
        if not isinstance(written, Node) or not isinstance(known.get(written), TensorMeta):
            continue
        at, here = order[node], places[written]
        owner = here.owner
        later = [
            user for alias in groups[owner] if here.meets(places[alias])
            for user in alias.users if order.get(user, at) > at
            and (places[user].owner is not owner or here.meets(places[user]))
        ]  # fmt: skip
        given = owner.op in ("placeholder", "get_attr")
        if not later and not given:
            continue
        place = run.place_of_node(node)
        statement = surrounding_statement(place.node) if place is not None else None
        if place is None or not isinstance(statement, ast.AugAssign) or isinstance(place.node, ast.BinOp):
            continue  # in `x += y ** 2` the power is a new tensor in a normal run, too
        if isinstance(statement.op, ast.MatMult):
            continue  # tensors have no `@=` of their own
        if later:
            where = run.place_of_node(later[0])
            note = Related("the tensor is used again here", where.span if where is not None else None, "note")
            run.add("FX230", place, node=node.name, related=(note,))
        else:
            detail = f"`{owner.target}` keeps its old values"
            run.add("FX230", place, detail=detail, node=node.name, severity="info")


ON_GRAPH = (augmented,)
