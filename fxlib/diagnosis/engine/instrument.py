"""Rewrites functions during a trace, so that tests that Python evaluates by itself are seen.

``x is None`` or ``isinstance(x, T)`` cannot be observed from outside, and the bytecode does not show which operand of
an ``and`` decided. So the functions that a trace reaches are recompiled from source with calls of a listener around
such expressions: the value passes through unchanged, and every instruction keeps its source position. Functions without
source stay unchanged.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

from fxlib.diagnosis.engine import trees
from fxlib.diagnosis.engine.forms import surrounding_statement
from fxlib.diagnosis.engine.probes import Lookers, Probe, plan
from fxlib.diagnosis.engine.rewriting import Port, compiled, connected, rewrite
from fxlib.ir.span import Span

__all__ = ["Instrumentation"]


class Instrumentation:
    """The functions of one diagnosis, their rewritten code and their probes.

    A function is rewritten again when a place in it is `cut`: that place is not evaluated from then on. ``original``
    maps rewritten code to the function's own.
    """

    def __init__(self, functions: Iterable[FunctionType], lookers: Lookers) -> None:
        self.functions = list(functions)
        self.probes: list[Probe] = []
        self._lookers = lookers
        self._port = Port()
        self.original: dict[CodeType, CodeType] = {}
        self._made: dict[FunctionType, CodeType] = {}
        self._holes: dict[tuple[Any, ...], int] = {}
        for function in self.functions:
            self._make(function, {})

    def _make(self, function: FunctionType, holes: dict[tuple[Any, ...], int]) -> bool:
        code = self.own_code(function)
        tree = trees.function_tree(code)
        if tree is None:
            return False
        placed: dict[int, int] = {}
        for span, number in holes.items():
            target = _hole_target(tree, Span(*span))
            if target is not None:
                placed[id(target)] = number
        if placed:
            made = _rewritten(function, code, tree, self._lookers, placed)
        else:
            # The lookers are stored with it, so that their ids are not reused.
            known = vars(tree).setdefault("rewritten", {})
            mark = (id(self._lookers), function.__qualname__, code.co_flags, code.co_freevars)
            if mark not in known:
                known[mark] = self._lookers, _rewritten(function, code, tree, self._lookers, {})
            _, made = known[mark]
        if made is None:
            return False
        written, probes = made
        self._made[function] = connected(written, self._port, len(self.probes))
        self.original[self._made[function]] = code
        self.probes += [Probe(kind, node, code.co_filename, code, tree) for kind, node in probes]
        return bool(placed) or not holes

    def cut(self, span: Span, number: int) -> bool:
        """Leave out the evaluation of ``span`` from the next run on. False if no rewritten function contains it."""
        self._holes[tuple(span)] = number
        done = False
        for function in self.functions:
            code = self.own_code(function)
            if code.co_filename == span.file:
                tree = trees.function_tree(code)
                if tree is not None and tree.lineno <= span.line and span.end_line <= (tree.end_lineno or 0):
                    inside = {s: n for s, n in self._holes.items() if s[0] == span.file}
                    done = self._make(function, inside) or done
        return done

    def own_code(self, function: FunctionType) -> CodeType:
        """The code of a function as it was before it was rewritten."""
        return self.original.get(function.__code__, function.__code__)

    def first_line(self, graph: Any) -> int | None:
        """The first line of the function that ``graph`` was traced from, decorators included."""
        fields = getattr(graph, "_co_fields", {})
        for code, own in self.original.items():
            if (code.co_filename, code.co_name, code.co_firstlineno) == (
                fields.get("co_filename"),
                fields.get("co_name"),
                fields.get("co_firstlineno"),
            ):
                return own.co_firstlineno
        return None

    @contextmanager
    def active(self, listener: Callable[[int, Any], Any], hole: Callable[..., Any]) -> Iterator[None]:
        """Run the functions with their rewritten code, which reports to ``listener(index, value)``."""
        before = [(function, function.__code__) for function in self._made]
        self._port.open(listener, hole)
        try:
            for function, code in self._made.items():
                function.__code__ = code
            yield
        finally:
            for function, code in before:
                function.__code__ = code
            self._port.close()


def _rewritten(
    function: FunctionType, code: CodeType, tree: Any, lookers: Lookers, placed: Mapping[int, int]
) -> tuple[CodeType, list[tuple[str, Any]]] | None:
    """The code to be `connected`, and its probes as kinds and nodes; None if there are no probes, or no source.
    ``placed`` are numbers of holes by the ids of the nodes that they replace."""
    fresh = trees.parse(code)
    if fresh is None:
        return None
    for old, new in zip(tree.nodes, trees.nodes_of(fresh), strict=True):
        new.origin = old
    wanted = plan(tree, lookers)
    if not wanted and not placed:
        return None
    probes: list[tuple[str, Any]] = []

    def probe(kind: str, node: Any) -> int:
        probes.append((kind, node))
        return len(probes) - 1

    rewrite(fresh, wanted, placed, probe)
    made = compiled(fresh, function)
    return None if made is None else (made, probes)


def _hole_target(tree: Any, span: Span) -> Any:
    node = trees.at_span(tree, span)
    if node is None or trees.span_of(node, span.file) != span:
        return None
    if isinstance(node, ast.Expr):
        return node.value
    if isinstance(node, ast.expr):
        if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
            statement = surrounding_statement(node)
            return statement if isinstance(statement, (ast.Assign, ast.AugAssign, ast.Delete)) else None
        if any(isinstance(inner, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) for inner in ast.walk(node)):
            return None
        return node
    if isinstance(node, (ast.Assign, ast.AugAssign)) and not isinstance(node.value, ast.Name):
        return node.value if isinstance(node, ast.Assign) else node
    return node if isinstance(node, (ast.Raise, ast.Delete, ast.AugAssign, ast.Assert)) else None
