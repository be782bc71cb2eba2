"""Free variables of a piece of a function: what it reads, what it binds, and whether it can be moved."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from fxlib.diagnosis.engine.forms import may_catch
from fxlib.diagnosis.fixes.members import is_member_call, self_chain, self_name
from fxlib.diagnosis.fixes.source import FunctionNode, Source

__all__ = ["Flow", "analyse", "local_names", "surely_bound"]

# Attributes of a tensor: the function gets the tensor and reads them itself.
TENSOR_ATTRIBUTES = {
    "shape", "ndim", "dtype", "device", "data", "T", "mT", "H", "grad", "requires_grad", "is_cuda", "real", "imag",
}  # fmt: skip

_WORDS = {
    ast.Yield: "yield", ast.YieldFrom: "yield from", ast.Await: "await", ast.AsyncFor: "async for",
    ast.AsyncWith: "async with",
}  # fmt: skip


@dataclass
class Flow:
    """Names of one piece of code.

    ``reads`` are the local names whose value from before the piece may be read; ``writes`` are those that it binds,
    both in order of appearance; ``always`` are the writes that happen on every path. ``self_attributes`` are the
    attributes read as ``self.name`` or ``self.part.name``. ``obstacle`` says why the piece cannot become a function of
    its own, or is ``None``.
    """

    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    always: set[str] = field(default_factory=set)
    self_attributes: list[str] = field(default_factory=list)
    obstacle: str | None = None


@lru_cache(maxsize=256)
def local_names(function: ast.AST) -> frozenset[str]:
    """The parameters of a function and every name that it binds."""
    if isinstance(function, ast.Module):
        return frozenset()
    arguments = function.args  # type: ignore[attr-defined]
    names = {a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
    names |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None}
    body = function.body if isinstance(function.body, list) else [function.body]  # type: ignore[attr-defined]
    collector = _Collector(None)
    for statement in body:
        collector.visit(statement)
    return frozenset(names | set(collector.writes) | collector.comprehension_free_writes)


class _Collector(ast.NodeVisitor):
    """Walks a piece of code, in order of evaluation where that matters for names."""

    def __init__(self, self_name: str | None, may_return: bool = False):
        self.self_name = self_name
        self.may_return = may_return
        self.reads: list[str] = []
        self.sure: set[str] = set()
        self.writes: list[str] = []
        self.self_attributes: list[str] = []
        self.obstacles: list[str] = []
        self.called: list[str] = []
        self.comprehension_free_writes: set[str] = set()
        self._hidden: list[Collection[str]] = []
        self._loops = 0

    def _read(self, name: str) -> None:
        if not any(name in scope for scope in self._hidden) and name not in self.reads and name not in self.sure:
            self.reads.append(name)

    def _write(self, name: str) -> None:
        if any(name in scope for scope in self._hidden):
            return
        self.sure.add(name)
        if name not in self.writes:
            self.writes.append(name)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            if node.id == self.self_name:
                self.obstacles.append(f"it uses `{node.id}` itself")
            elif node.id in ("locals", "globals", "super", "__class__", "vars", "eval", "exec"):
                self.obstacles.append(f"it calls `{node.id}`")
            self._private(node.id)
            self._read(node.id)
        elif isinstance(node.ctx, ast.Store):
            self._write(node.id)
        else:
            self.obstacles.append(f"it deletes `{node.id}`")

    def _private(self, name: str) -> None:
        if name.startswith("__") and not name.endswith("__"):
            self.obstacles.append(f"`{name}` is private to its class")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain = self_chain(node, self.self_name)
        if chain is None:
            self._private(node.attr)
            self.generic_visit(node)
        elif not isinstance(node.ctx, ast.Load) and chain == node.attr:
            self.obstacles.append(f"it assigns `{self.self_name}.{node.attr}`")
        elif not isinstance(node.ctx, ast.Load) or (node.attr in TENSOR_ATTRIBUTES and chain.count(".")):
            self.visit(node.value)
        elif chain not in self.self_attributes:
            self.self_attributes.append(chain)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        items = function.value if getattr(function, "attr", "") in ("forward", "__call__") else function  # type: ignore[attr-defined]
        while isinstance(items, ast.Subscript):
            items = items.value
        if isinstance(items, ast.Name):
            self.called.append(items.id)
        elif items is not function and self_chain(items, self.self_name) is not None:
            self.obstacles.append(_hides(function))
        if (
            self.self_name is not None
            and isinstance(function, ast.Attribute)
            and any(isinstance(n, ast.Name) and n.id == self.self_name for n in ast.walk(function))
        ):
            if is_member_call(function, self.self_name):
                self.obstacles.append(_hides(function))
            for part in (function.value, *node.args, *node.keywords):
                self.visit(part)
        else:
            self.generic_visit(node)

    def _first_of(self, first: list[ast.expr], others: list[ast.expr]) -> None:
        """Parts of an expression of which only the first are surely evaluated."""
        for part in first:
            self.visit(part)
        self._branch(others)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._first_of(node.values[:1], node.values[1:])

    def visit_Compare(self, node: ast.Compare) -> None:
        self._first_of([node.left, node.comparators[0]], node.comparators[1:])

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._first_of([node.test], [node.body])
        self._branch([node.orelse])

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.visit(node.target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._read(node.target.id)
        self.visit(node.value)
        self.visit(node.target)

    def _branch(self, statements: Sequence[ast.stmt | ast.expr]) -> set[str]:
        """Walk a block that may not run; returns the names that are surely bound when it ends, and forgets them."""
        before = set(self.sure)
        for statement in statements:
            self.visit(statement)
        after, self.sure = self.sure, before
        return after

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        body, orelse = self._branch(node.body), self._branch(node.orelse)
        if _leaves(node.body):
            self.sure = orelse
        elif _leaves(node.orelse):
            self.sure = body
        else:
            self.sure = body & orelse

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            before = set(self.sure)
            self.visit(case.pattern)
            if case.guard is not None:
                self.visit(case.guard)
            self._branch(case.body)
            self.sure = before

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            self.visit(item)
        body = self._branch(node.body)
        if not may_catch(node):
            self.sure = body

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        before = set(self.sure)
        self.visit(node.target)
        self._loop(node)
        self.sure = before

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._loop(node)

    def _loop(self, node: ast.For | ast.While) -> None:
        self._loops += 1
        self._branch(node.body)
        self._loops -= 1
        self._branch(node.orelse)

    def visit_Try(self, node: ast.Try) -> None:
        body = self._branch([*node.body, *node.orelse])
        for handler in node.handlers:
            self._branch([handler])  # type: ignore[list-item]
        if all(_leaves(h.body) for h in node.handlers):
            self.sure = body
        for statement in node.finalbody:
            self.visit(statement)

    visit_TryStar = visit_Try  # type: ignore[assignment]

    def visit_Break(self, node: ast.Break) -> None:
        self._leaves_loop("break")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._leaves_loop("continue")

    def _leaves_loop(self, word: str) -> None:
        if not self._loops:
            self.obstacles.append(f"it holds `{word}` of a loop around it")

    def visit_Return(self, node: ast.Return) -> None:
        if not self.may_return:
            self.obstacles.append("it holds `return`")
        self.generic_visit(node)

    def _held(self, node: ast.AST) -> None:
        self.obstacles.append(f"it holds `{_WORDS[type(node)]}`")

    visit_Yield = visit_YieldFrom = visit_Await = visit_AsyncFor = visit_AsyncWith = _held

    def visit_Global(self, node: ast.Global) -> None:
        self.obstacles.append(f"it declares `global {', '.join(node.names)}`")

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.obstacles.append(f"it declares `nonlocal {', '.join(node.names)}`")

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self._write(alias.asname or alias.name.partition(".")[0])

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        self._hidden.append({node.name} if node.name else set())
        for statement in node.body:
            self.visit(statement)
        self._hidden.pop()

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        self.generic_visit(node)
        if name := node.rest if isinstance(node, ast.MatchMapping) else node.name:
            self._write(name)

    visit_MatchStar = visit_MatchMapping = visit_MatchAs

    def _nested(self, node: ast.AST) -> None:
        """A nested function or class: its own names are hidden, the rest counts as read where it is defined."""
        for default in [*getattr(node.args, "defaults", []), *(d for d in node.args.kw_defaults if d)]:  # type: ignore[attr-defined]
            self.visit(default)
        self._hidden.append(local_names(node))
        loops, self._loops = self._loops, 1
        obstacles = len(self.obstacles)
        body = node.body if isinstance(node.body, list) else [node.body]  # type: ignore[attr-defined]
        for statement in body:
            self.visit(statement)
        # `return` and `yield` inside belong to the nested function.
        self.obstacles[obstacles:] = [o for o in self.obstacles[obstacles:] if not o.startswith("it holds")]
        self._loops = loops
        self._hidden.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._nested(node)
        self._write(node.name)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._nested(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.obstacles.append(f"it defines class `{node.name}`")
        self._write(node.name)

    def _comprehension(self, node: ast.AST) -> None:
        generators = node.generators  # type: ignore[attr-defined]
        self.visit(generators[0].iter)
        for walrus in (n for n in ast.walk(node) if isinstance(n, ast.NamedExpr)):
            self.comprehension_free_writes.add(walrus.target.id)
        self._hidden.append(_of_comprehension(node))
        sure = set(self.sure)  # nothing in it is bound if there are no items
        for i, generator in enumerate(generators):
            if i:
                self.visit(generator.iter)
            for condition in generator.ifs:
                self.visit(condition)
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                self.visit(getattr(node, part))
        self._hidden.pop()
        self.sure = sure

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension


def _hides(called: ast.expr) -> str:
    return f"it calls `{ast.unparse(called)}`, which a wrapped function would hide from the graph"


def _leaves(statements: list[ast.stmt]) -> bool:
    return bool(statements) and isinstance(statements[-1], ast.Raise | ast.Return | ast.Break | ast.Continue)


def analyse(
    source: Source, pieces: list[ast.stmt] | ast.expr, function: FunctionNode, may_return: bool = False
) -> Flow:
    """The names of consecutive statements, or of one expression, inside a function.

    ``may_return`` says that the statements end the function, so that `return` in them is no obstacle.
    """
    collector = _Collector(self_name(source, function), may_return)
    every = pieces if isinstance(pieces, list) else [pieces]
    for piece in every:
        collector.visit(piece)
    flow = Flow(self_attributes=collector.self_attributes)
    flow.obstacle = collector.obstacles[0] if collector.obstacles else None
    flow.always = collector.sure
    scope: set[str] = set()
    outer: ast.AST | None = function
    while outer is not None:
        if isinstance(outer, FunctionNode | ast.Lambda):
            scope |= local_names(outer)
        outer = source.parents.get(outer)
    flow.reads = [n for n in collector.reads if n in scope]
    flow.writes = [n for n in collector.writes if n in scope]
    made = {each.name for piece in every for each in ast.walk(piece) if isinstance(each, FunctionNode)}
    bound = {name for piece in every for each in ast.walk(piece) for name in _of_comprehension(each)}
    hidden = next((name for name in collector.called if name in (scope | bound) - made), None)
    if hidden is not None and flow.obstacle is None:
        flow.obstacle = _hides(ast.Name(hidden))  # perhaps a layer
    return flow


def _of_comprehension(node: ast.AST) -> set[str]:
    """The names that a comprehension binds."""
    targets = (each.target for each in getattr(node, "generators", ()))
    return {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}


def surely_bound(source: Source, function: FunctionNode, statement: ast.stmt) -> set[str]:
    """The local names that have a value on every path to a statement: they can be passed to a function there."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    bound = {a.arg for a in every if a is not None}
    chain: list[ast.AST] = [statement]
    while chain[-1] is not function:
        chain.append(source.parents[chain[-1]])
    outer: ast.AST | None = source.parents.get(function)
    while outer is not None:
        if isinstance(outer, FunctionNode):
            given = [*outer.args.posonlyargs, *outer.args.args, *outer.args.kwonlyargs]
            bound |= {each.arg for each in given} - local_names(function)
        outer = source.parents.get(outer)
    for parent, child in zip(reversed(chain), reversed(chain[:-1]), strict=False):
        collector = _Collector(None)
        if isinstance(parent, ast.For) and child in parent.body:
            collector.visit(parent.iter)
            collector.visit(parent.target)
        elif isinstance(parent, ast.If | ast.While):
            collector.visit(parent.test)
        elif isinstance(parent, ast.With):
            for item in parent.items:
                collector.visit(item)
        for field_name in ("body", "orelse", "finalbody"):
            block = getattr(parent, field_name, None)
            if isinstance(block, list) and child in block:
                if isinstance(parent, ast.Try) and field_name == "orelse":
                    for earlier in parent.body:
                        collector.visit(earlier)
                for earlier in block[: block.index(child)]:
                    collector.visit(earlier)
        bound |= collector.sure
    return bound
