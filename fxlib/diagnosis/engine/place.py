"""Where a question was asked: the expression, its syntax, the calls that led there, and who would catch an error."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from fxlib.diagnosis.engine import source
from fxlib.diagnosis.engine.instrument import Probe
from fxlib.diagnosis.engine.packages import library_call
from fxlib.ir import span as spans
from fxlib.ir.span import Site, Span

__all__ = ["Place", "called_name", "catcher", "form_of", "place_of", "surrounding_statement", "within"]

_FUNCTION_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Place:
    """``node`` is the syntax tree of ``span`` (None without source), ``call_path`` ends with ``span``.

    ``caller`` is the user's own expression where this one lies in a function of an installed package that it calls.
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
            return source.text_of(self.node)
        return " ".join((spans.source_text(self.span) or "").split())[:80]

    def widened(self, span: Span, node: Any) -> Place:
        """The place of an expression around this one."""
        return replace(self, span=span, node=node, call_path=(*self.call_path[:-1], span))


def place_of(site: Site | None, original: dict[CodeType, CodeType], probe: Probe | None = None) -> Place | None:
    """The place of ``site``, made exact by the probe that just reported, if one did. ``original`` maps rewritten code
    to the function's own."""
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
        tree = source.function_tree(code) or _enclosing_tree(site, original)
        node = source.at_span(tree, span) if tree is not None else spans.expression(span)
        exact = _asked(node)
        if exact is not node:
            span, node = source.span_of(exact, span.file), exact
    assert span is not None
    return Place(span, node, site, (*path[:-1], span), _caller(site, original))


def _caller(site: Site, original: dict[CodeType, CodeType]) -> Place | None:
    found = place_of(library_call(site), original)
    return found if found is not None and isinstance(found.node, ast.Call) else None


def _asked(node: Any) -> Any:
    """What a question is about, where the instruction stands on something larger or on a pattern."""
    if isinstance(node, (ast.With, ast.AsyncWith)) and len(node.items) == 1:
        return node.items[0].context_expr
    parent = getattr(node, "parent", None)
    if isinstance(parent, (ast.MatchValue, ast.MatchSingleton)):
        for above in source.ancestors(parent):
            if isinstance(above, ast.Match):
                return above.subject
    return node


def _enclosing_tree(site: Site, original: dict[CodeType, CodeType]) -> Any:
    """The tree of the function around a comprehension or lambda: its code runs in the caller's source lines."""
    above = site[2]
    while above is not None and above[0].co_filename == site[0].co_filename:
        code = original.get(above[0], above[0])
        tree = source.function_tree(code)
        if tree is not None and tree.lineno <= site[0].co_firstlineno <= (tree.end_lineno or 0):
            return tree
        above = above[2]
    return None


def form_of(node: Any) -> tuple[str, Any]:
    """How the truth of ``node`` is used, as ``(form, owner)``: "if", "while", "ternary", "assert", "filter" (a
    comprehension's), "in", "chain", "boolean" (and, or, not outside of these) or "call"."""
    if isinstance(node, ast.Compare):
        if len(node.ops) > 1:
            return "chain", node
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return "in", node
    above = node
    boolean = False
    while above is not None:
        parent = getattr(above, "parent", None)
        if isinstance(parent, (ast.BoolOp, ast.UnaryOp)):
            boolean = True
        elif isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)) and parent.test is above:
            name = {ast.If: "if", ast.While: "while", ast.IfExp: "ternary", ast.Assert: "assert"}[type(parent)]
            return name, parent
        elif isinstance(parent, ast.comprehension) and above in parent.ifs:
            return "filter", parent
        else:
            break
        above = parent
    return ("boolean" if boolean else "call"), node


def wanted_truth(node: Any, owner: Any, truth: bool) -> bool:
    """What ``node`` must answer for the test of ``owner`` to come out as ``truth`` (other operands allowing)."""
    above = node
    while above is not None and getattr(above, "parent", None) is not owner:
        above = above.parent
        if isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not):
            truth = not truth
    return truth


def called_name(node: Any) -> str:
    """The dotted name that a call calls, ``""`` for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    parts: list[str] = []
    function: Any = node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    parts.append(function.id if isinstance(function, ast.Name) else "")
    return ".".join(reversed(parts))


def surrounding_statement(node: Any) -> Any:
    """The statement that ``node`` is, or is part of."""
    while node is not None and not isinstance(node, ast.stmt):
        node = getattr(node, "parent", None)
    return node


def catcher(place: Place, error: type[BaseException], original: dict[CodeType, CodeType]) -> Any:
    """The handler in the user's code that would swallow ``error`` raised at ``place``; handlers that raise again do
    not count."""
    site: Any = place.site
    node = place.node
    while site is not None:
        if node is not None:
            found = _handler(node, error)
            if found is not None:
                return found
        site = site[2]
        if site is not None:
            tree = source.function_tree(original.get(site[0], site[0]))
            span = spans.resolve(site)
            node = source.at_span(tree, span) if tree is not None and span is not None else None
    return None


def _handler(node: Any, error: type[BaseException]) -> Any:
    below = node
    for above in source.ancestors(node):
        if isinstance(above, ast.Try) and below in above.body:
            for handler in above.handlers:
                if _catches(handler.type, error):
                    return None if raises_again(handler) else handler
        if isinstance(above, ast.With) and below in above.body:
            for item in above.items:
                call: Any = item.context_expr
                named = called_name(call).rpartition(".")[2] == "suppress"
                if named and any(_catches(kind, error) for kind in call.args):
                    return call
        if isinstance(above, _FUNCTION_SCOPES):
            return None
        below = above
    return None


def raises_again(handler: ast.ExceptHandler) -> bool:
    """Whether the handler lets the failure through."""
    return any(isinstance(node, ast.Raise) for statement in handler.body for node in ast.walk(statement))


def _catches(kind: Any, error: type[BaseException]) -> bool:
    if kind is None:
        return True
    names = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    bases = {base.__name__ for base in error.__mro__}
    for name in names:
        text = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
        if text in bases:
            return True
        known = getattr(builtins, text, None)
        if isinstance(known, type) and issubclass(error, known):
            return True
    return False


def within(inner: Span, outer: Span) -> bool:
    """Whether a range of source text lies in another one."""
    return (
        inner.file == outer.file
        and (inner.line, inner.column) >= (outer.line, outer.column)
        and (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)
    )
