"""The blocks of forward that runs reached, and those that none reached, with the deciding value."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from types import CodeType
from typing import Any

from fxlib.diagnosis.engine import trees
from fxlib.diagnosis.engine.probes import Probe
from fxlib.diagnosis.report import Untaken
from fxlib.ir.span import Span

__all__ = ["taken", "untaken"]

_BLOCKS = ("body", "orelse", "rest")
_Reached = Collection[tuple[CodeType, int, str]]


def taken(probes: Collection[Probe], reached: _Reached) -> list[Span]:
    """The blocks that were entered. A block that is ``untaken`` here may be taken by another root."""
    entered = [each for each in probes if each.kind in _BLOCKS and (each.code, id(each.node), each.kind) in reached]
    return list(dict.fromkeys(_span(each) for each in entered))


def untaken(probes: Collection[Probe], reached: _Reached, deciding: Mapping[int, str]) -> list[Untaken]:
    """Blocks that were not entered, of functions that were. Only the outermost are listed.

    ``reached`` holds what the probes of block entries reported, ``deciding`` the value seen by each probe of a test.
    """
    values: dict[int, str] = {}
    for index, probe in enumerate(probes):
        if index in deciding:
            values.setdefault(id(probe.node), deciding[index])
    found: dict[Span, Untaken] = {}
    for probe in probes:
        if probe.kind not in _BLOCKS or (probe.code, id(probe.node), probe.kind) in reached:
            continue
        if (probe.code, id(probe.tree), "enter") not in reached:
            continue
        span = _span(probe)
        if span not in found:
            found[span] = Untaken(span, _reason(probe, values))
    outermost: list[Untaken] = []
    for item in sorted(found.values(), key=lambda item: (*item.span[:3], -item.span.end_line, -item.span.end_column)):
        last = outermost[-1].span if outermost else None
        if (
            last is None
            or last.file != item.span.file
            or (last.end_line, last.end_column)
            <= (
                item.span.line,
                item.span.column,
            )
        ):
            outermost.append(item)
    return outermost


def _span(probe: Probe) -> Span:
    """The span of a block; for ``rest``, that of the statements after the one that may exit."""
    node = probe.node
    if probe.kind == "rest":
        block = _siblings(node)
        return _cover(block[block.index(node) :], probe.file)
    return _cover(getattr(node, probe.kind), probe.file)


def _reason(probe: Probe, values: Mapping[int, str]) -> str:
    node = probe.node
    if probe.kind == "rest":
        block = _siblings(node)
        return f"the code above exits first: {_because(block[block.index(node) - 1], values)}"
    return _because(node, values, probe.kind == "body")


def _cover(block: list[Any], file: str) -> Span:
    first, last = block[0], block[-1]
    return Span(file, first.lineno, first.col_offset, last.end_lineno, last.end_col_offset)


def _siblings(node: Any) -> list[Any]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node.parent, name, None)
        if isinstance(block, list) and node in block:
            return block
    return [node]


def _because(node: Any, values: Mapping[int, str], body: bool | None = None) -> str:
    if isinstance(node, (ast.For, ast.While)) and body is False:
        return "the loop ends with break"
    if isinstance(node, ast.For):
        return f"the loop over `{trees.text_of(node.iter)}` has no items"
    test = getattr(node, "test", None)
    if test is None:
        return "it was not reached"
    text = trees.text_of(test)
    if body is None and node.orelse:
        outcome = f" is {values[id(test)]}" if id(test) in values else " was decided"
    else:
        outcome = " is False" if body else " is True"
    parts = []
    for inner in ast.walk(test):
        value = values.get(id(inner))
        if value is not None and inner is not test:
            parts.append(f"`{trees.text_of(inner)}` is {value}")
    why = f" ({', '.join(parts[:3])})" if parts else ""
    return f"`{text}`{outcome} in this trace{why}"
