"""The place of a question: the expression, the calls that led there, and the handler of an error there."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from fxlib.diagnosis.engine import trees
from fxlib.diagnosis.engine.forms import catching
from fxlib.diagnosis.engine.packages import library_call
from fxlib.diagnosis.engine.probes import Probe
from fxlib.ir import span as spans
from fxlib.ir.span import Site, Span

__all__ = ["Place", "catcher", "place_of", "within"]


@dataclass(frozen=True)
class Place:
    """``node`` is the syntax tree of ``span`` (None without source), ``call_path`` ends with ``span``.

    ``caller`` is the user's expression that calls the package function containing this one, if any.
    """

    span: Span
    node: Any
    site: Site | None
    call_path: tuple[Span, ...]
    caller: Place | None = None

    @property
    def text(self) -> str:
        """The expression on one line; empty without source."""
        if self.node is not None and isinstance(self.node, (ast.expr, ast.stmt)):
            return trees.text_of(self.node)
        return " ".join((spans.source_text(self.span) or "").split())[:80]

    def widened(self, node: Any) -> Place:
        """The place of an expression or statement around this one."""
        span = trees.span_of(node, self.span.file)
        return replace(self, span=span, node=node, call_path=(*self.call_path[:-1], span))


def place_of(site: Site | None, original: dict[CodeType, CodeType], probe: Probe | None = None) -> Place | None:
    """The place of ``site``, refined by the probe that has just reported, if any. ``original`` maps rewritten code to
    the function's own."""
    if site is None:
        return None
    path = spans.call_path(site)
    code = original.get(site[0], site[0])
    if probe is not None and probe.file == code.co_filename:
        span: Span | None = probe.span
        node = probe.node
    else:
        span = spans.resolve(site)
        if span is None:
            return None
        tree = trees.function_tree(code) or _enclosing_tree(site, original)
        node = trees.at_span(tree, span) if tree is not None else spans.expression(span)
        exact = _asked(node)
        if exact is not node:
            span, node = trees.span_of(exact, span.file), exact
    assert span is not None
    return Place(span, node, site, (*path[:-1], span), _caller(site, original))


def _caller(site: Site, original: dict[CodeType, CodeType]) -> Place | None:
    found = place_of(library_call(site), original)
    return found if found is not None and isinstance(found.node, ast.Call) else None


def _asked(node: Any) -> Any:
    """The expression that a question is about, if the instruction covers a larger one or a pattern."""
    if isinstance(node, (ast.With, ast.AsyncWith)) and len(node.items) == 1:
        return node.items[0].context_expr
    parent = getattr(node, "parent", None)
    if isinstance(parent, (ast.MatchValue, ast.MatchSingleton)):
        for above in trees.ancestors(parent):
            if isinstance(above, ast.Match):
                return above.subject
    return node


def _enclosing_tree(site: Site, original: dict[CodeType, CodeType]) -> Any:
    """The tree of the function around a comprehension or lambda: its code is on the caller's lines."""
    above = site[2]
    while above is not None and above[0].co_filename == site[0].co_filename:
        code = original.get(above[0], above[0])
        tree = trees.function_tree(code)
        if tree is not None and tree.lineno <= site[0].co_firstlineno <= (tree.end_lineno or 0):
            return tree
        above = above[2]
    return None


def catcher(place: Place, error: type[BaseException] | None, original: dict[CodeType, CodeType]) -> Any:
    """The handler in the user's code that would swallow ``error`` raised at ``place`` (None: any exception); handlers
    that re-raise do not count."""
    site: Any = place.site
    node = place.node
    while site is not None:
        if node is not None:
            found = catching(node, error)
            if found is not None:
                return found
        site = site[2]
        if site is not None:
            tree = trees.function_tree(original.get(site[0], site[0]))
            span = spans.resolve(site)
            node = trees.at_span(tree, span) if tree is not None and span is not None else None
    return None


def within(inner: Span, outer: Span) -> bool:
    """Whether a source range lies within another one."""
    return (
        inner.file == outer.file
        and (inner.line, inner.column) >= (outer.line, outer.column)
        and (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)
    )
