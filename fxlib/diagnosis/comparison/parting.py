"""Where a graph and eager diverge: the first operation with another result, or that only one of them reaches."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fxlib.diagnosis.comparison.recording import Digest, Event, Key, key_of, same
from fxlib.diagnosis.engine import trees
from fxlib.diagnosis.engine.place import Place, place_of
from fxlib.ir.node import Node

__all__ = ["Parting", "part"]

_OPERATIONS = ("call_function", "call_method", "call_module")
_TORCHS = ("torch", "_operator", "operator", "builtins")
_MOST = 40  # characters of a value in a message


@dataclass(frozen=True)
class Parting:
    """``kind`` is ``value`` if a node has another result, ``kept`` if the graph keeps a value from tracing, ``way`` if
    only one of the two reaches an operation. ``old`` and ``new`` are the values in eager and in the graph, as text."""

    kind: str
    place: Place
    node: str | None = None
    old: str = ""
    new: str = ""


def part(eager: Sequence[Event], nodes: Sequence[tuple[Node, Any]], kept: Sequence[Event]) -> Parting | None:
    """
    Args:
        eager: the operations of the call in eager.
        nodes: the results of the graph's nodes in the same call.
        kept: the operations on real values while the graph was traced.
    """
    ran = _grouped((key_of(each.site), each) for each in eager)
    recorded = [(number, node, value) for number, (node, value) in enumerate(nodes) if node.op in _OPERATIONS]
    placed = _grouped((key_of(node._site), (number, node, value)) for number, node, value in recorded if node._site)
    held = _grouped((key_of(each.site), each) for each in kept)
    found: list[tuple[int, int, Callable[[], Parting | None]]] = []
    for key, group in held.items():
        now = ran.get(key, [])
        if len(now) == len(group):
            for old, new in zip(now, group, strict=True):
                if not same(old.value, new.value):
                    found.append((new.nodes, 0, lambda old=old, new=new: _kept(old, new)))  # type: ignore[misc]
                    break
    for key, members in placed.items():
        now = ran.get(key, [])
        certain = [each for each in members if _is_always_recorded(*each[1:])]
        if len(now) == len(members) or len(now) == len(certain):
            for old, (number, node, value) in zip(now, members if len(now) == len(members) else certain, strict=True):
                if not same(old.value, value):
                    found.append((number, 1, lambda o=old, n=node, v=value: _differing(o, n, v)))  # type: ignore[misc]
                    break
        elif not now and certain:
            number, node, _ = certain[0]
            found.append((number, 1, lambda n=node: _only_in_graph(n, ran)))  # type: ignore[misc]
    known = placed.keys() | held.keys()
    for _, _, make in sorted(found, key=lambda each: each[:2]):
        parting = make()
        if parting is not None:
            return _other_way(parting, eager, known) or parting
    return None


def _other_way(parting: Parting, eager: Sequence[Event], known: Collection[Key]) -> Parting | None:
    """If a node differs because eager ran an earlier operation that the graph lacks: the test that decided."""
    if parting.kind != "value":
        return None
    here = key_of(parting.place.site)
    for event in eager:
        key = key_of(event.site)
        if key == here:
            break
        same_frame = key[:-1] == here[:-1] and key[-1][:3] == here[-1][:3]
        if same_frame and key not in known and (place := place_of(event.site, {})) is not None:
            test = _deciding(place.node) if place.node is not None else None
            if test is not None:
                return Parting("way", place.widened(test), parting.node)
    return None


def _grouped(pairs: Iterable[tuple[Key, Any]]) -> dict[Key, list[Any]]:
    found: dict[Key, list[Any]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def _is_always_recorded(node: Node, value: Any) -> bool:
    """Whether the recording of eager always contains a node's operation."""
    if node.op == "call_module":
        return True
    if not any(isinstance(each, Digest) for each in value):
        return False
    module = getattr(node.target, "__module__", "") or ""
    return node.op == "call_method" or module.partition(".")[0] in _TORCHS


def _kept(old: Event, new: Event) -> Parting | None:
    place = place_of(old.site, {})
    return None if place is None else Parting("kept", place, None, *_differing_texts(old.value, new.value))


def _differing(old: Event, node: Node, value: Any) -> Parting | None:
    place = place_of(old.site, {})
    return None if place is None else Parting("value", place, node.name, *_differing_texts(old.value, value))


def _only_in_graph(node: Node, ran: dict[Key, list[Event]]) -> Parting | None:
    """If only the graph reaches a node: the test that decided, or else the node."""
    chain: list[Any] = []
    site = node._site
    while site is not None:
        chain.append(site)
        site = site[2]
    chain.reverse()
    key = key_of(node._site)
    # How far eager gets on the way to it.
    deepest = max((_common(key, other) for other in ran), default=0)
    at = chain[min(deepest, len(chain) - 1)]
    place = place_of(at, {})
    if place is None:
        return None
    test = _deciding(place.node) if place.node is not None else None
    return Parting("only", place, node.name) if test is None else Parting("way", place.widened(test), node.name)


def _common(one: Key, other: Key) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _deciding(node: Any) -> Any:
    """The test that decides whether an expression is evaluated: the innermost one around it, or an earlier one that
    leaves the block."""
    below = node
    for above in trees.ancestors(node):
        if isinstance(above, ast.If | ast.IfExp | ast.While) and below is not above.test:
            return above.test
        if isinstance(above, ast.For | ast.comprehension) and below is not above.iter:
            return above.iter
        if isinstance(above, ast.BoolOp) and below is not above.values[0]:
            return above.values[above.values.index(below) - 1]
        if isinstance(above, ast.Match) and below is not above.subject:
            return above.subject
        for name in ("body", "orelse", "finalbody"):
            block = getattr(above, name, None)
            if isinstance(block, list) and below in block:
                for statement in reversed(block[: block.index(below)]):
                    if isinstance(statement, ast.If) and any(
                        isinstance(each, ast.Return | ast.Raise | ast.Continue | ast.Break)
                        for each in ast.walk(statement)
                    ):
                        return statement.test
        below = above
    return None


def _differing_texts(old: Any, new: Any) -> tuple[str, str]:
    """The first difference between two values, as two short texts that differ."""
    if len(old) != len(new):
        return f"{len(old)} values", f"{len(new)} values"
    for one, other in zip(old, new, strict=True):
        if same((one,), (other,)):
            continue
        if not (isinstance(one, Digest) and isinstance(other, Digest)):
            return _short(one), _short(other)
        if one.shape != other.shape:
            return f"a tensor of shape {list(one.shape)}", f"one of shape {list(other.shape)}"
        if one.dtype != other.dtype:
            return str(one.dtype), str(other.dtype)
        a, b = one.sample, other.sample
        apart = ~torch.isclose(a, b, 1e-4, 1e-6, equal_nan=True)
        at = int(apart.nonzero()[0]) if apart.any() else 0
        return _number(a[at].item()), _number(b[at].item())
    return "", ""


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:_MOST]


def _short(value: Any) -> str:
    if isinstance(value, Digest):
        return f"a tensor of shape {list(value.shape)}"
    return _number(value) if isinstance(value, float) else repr(value)[:_MOST]
