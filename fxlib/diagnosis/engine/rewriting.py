"""Rewrites a function's tree: listener calls around probed expressions, and without the cut ones."""

from __future__ import annotations
import __future__

import ast
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any

from fxlib.diagnosis.engine.probes import Plan

__all__ = ["Port", "compiled", "connected", "rewrite"]

_PORT = "\0the port of a diagnosis"
_INDEX = "\0the index of probe "
_FUTURE = 0
for _feature in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _feature).compiler_flag
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Port:
    """What rewritten code calls: ``probe(index, value)`` with each probed value, ``hole(number, ...)`` in place of each
    cut. It is a constant of the code, so that no user namespace changes.

    While it is closed, code that outlives a run (a closure kept on the module) behaves as written.
    """

    __slots__ = ("hole", "probe")

    def __init__(self) -> None:
        self.close()

    def open(self, probe: Callable[[int, Any], Any], hole: Callable[..., Any]) -> None:
        self.probe, self.hole = probe, hole

    def close(self) -> None:
        self.probe = lambda index, value: value
        self.hole = lambda number, kept=None: None if kept is None else kept()


def _call(method: str, arguments: list[Any], place: Any) -> ast.Call:
    port = ast.Attribute(ast.Constant(_PORT), method, ast.Load())
    node = ast.Call(func=port, args=arguments, keywords=[])
    for part in (node, port, port.value, *(a for a in arguments if not hasattr(a, "lineno"))):
        ast.copy_location(part, place)
    return node


def rewrite(fresh: Any, plan: Plan, holes: Mapping[int, int], probe: Callable[[str, Any], int]) -> None:
    """Change the tree of a function, whose nodes know their original by the attribute ``origin``.

    Args:
        plan: the probes, by the ids of the originals.
        holes: numbers of the cuts by the ids of the originals.
        probe: returns the number of a new probe of this kind at this original, from 0 in each function.
    """
    _Rewriter(plan, holes, probe).function(fresh)


class _Rewriter:
    def __init__(self, plan: Plan, holes: Mapping[int, int], probe: Callable[[str, Any], int]) -> None:
        self.plan, self.holes, self.probe = plan, holes, probe

    def index(self, kind: str, node: Any) -> ast.Constant:
        return ast.Constant(f"{_INDEX}{self.probe(kind, node)}")

    def _entry(self, kind: str, node: Any, place: Any) -> ast.stmt:
        index = self.index(kind, node)
        statement = ast.Expr(_call("probe", [index, ast.copy_location(ast.Constant(None), place)], place))
        return ast.copy_location(statement, place)

    def function(self, fresh: Any) -> None:
        fresh.body = self.block(fresh.body)
        first = next((s for s in fresh.body if not _is_docstring(s)), fresh.body[0])
        fresh.body.insert(fresh.body.index(first), self._entry("enter", fresh.origin, first))

    def block(self, statements: list[Any]) -> list[Any]:
        out: list[Any] = []
        for place, statement in enumerate(statements):
            number = self.holes.get(id(statement.origin))
            if number is not None:
                out.extend(self.skipped(statement, number))
                continue
            leaves = isinstance(statement, ast.If) and (_leaves(statement.body) or _leaves(statement.orelse))
            out.append(self.visit(statement))
            if leaves and place + 1 < len(statements):
                following = statements[place + 1]
                out.append(self._entry("rest", following.origin, following))
        return out

    def visit(self, node: Any) -> Any:
        origin = getattr(node, "origin", None)
        hole = self.holes.get(id(origin)) if origin is not None else None
        if hole is not None:
            return self.hole(node, hole)
        for name in node._fields:
            value = getattr(node, name, None)
            if value.__class__ is list:
                if value and isinstance(value[0], ast.stmt):
                    kind = "handler" if isinstance(node, ast.ExceptHandler) else name
                    entry = self._entry(kind, origin, value[0]) if (id(origin), name) in self.plan.blocks else None
                    value = self.block(value)
                    setattr(node, name, value if entry is None else [entry, *value])
                else:
                    setattr(node, name, [self.visit(item) if isinstance(item, ast.AST) else item for item in value])
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        for kind in self.plan.kinds.get(id(origin), ()):
            index = self.index(kind, origin)
            node = ast.copy_location(_call("probe", [index, node], node), node)
        return node

    def hole(self, node: Any, index: int) -> Any:
        """``node`` replaced by a call that does not evaluate it. The original stays inside a lambda, to keep its free
        names."""
        number = ast.copy_location(ast.Constant(index), node)
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        kept = ast.copy_location(ast.Lambda(args=empty, body=node), node)
        return _call("hole", [number, kept], node)

    def skipped(self, node: Any, index: int) -> list[Any]:
        """A statement left out. The original stays inside a function that is never called, to keep its free names."""
        number = ast.copy_location(ast.Constant(index), node)
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        kept = ast.FunctionDef(name="__fxlens_kept__", args=empty, body=[node], decorator_list=[])
        if hasattr(ast, "TypeVar"):
            kept.type_params = []  # type: ignore[attr-defined]
        report = ast.Expr(_call("hole", [number], node))
        return [ast.copy_location(report, node), ast.copy_location(kept, node)]


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _leaves(block: list[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], _LEAVES)


def compiled(fresh: Any, function: FunctionType) -> CodeType | None:
    """The code object of ``fresh``, compiled in scopes like those of ``function``, to be `connected`; None if that is
    impossible."""
    code = function.__code__
    fresh.decorator_list = []
    fresh.returns = None
    fresh.args.defaults = []
    fresh.args.kw_defaults = [None] * len(fresh.args.kwonlyargs)
    arguments = fresh.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
        if argument is not None:
            argument.annotation = None
    # Too few defaults before later ones would not compile; without any, it always does.
    path = [fresh.name]
    body: Any = fresh
    scopes = function.__qualname__.split(".")[:-1]
    if scopes and scopes[-1] != "<locals>":
        body = ast.ClassDef(name=scopes[-1], bases=[], keywords=[], body=[fresh], decorator_list=[])
        path.insert(0, scopes[-1])
    names = [name for name in code.co_freevars if name.isidentifier()]
    statements: list[Any] = [body]
    targets: list[Any] = []
    if names:
        targets = [ast.Name(id=name, ctx=ast.Store()) for name in names]
        statements.insert(0, ast.Assign(targets=targets, value=ast.Constant(None)))
    if body.name not in names:
        # In a function that calls itself, or a method that names its class, the name is the global.
        statements.insert(0, ast.Global([body.name]))
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    outer = ast.FunctionDef(name="scope", args=empty, body=statements, decorator_list=[])
    if hasattr(ast, "TypeVar"):
        outer.type_params = []  # type: ignore[attr-defined]
        if isinstance(body, ast.ClassDef):
            body.type_params = []  # type: ignore[attr-defined]
    module = ast.Module(body=[outer], type_ignores=[])
    for node in (outer, *statements, *targets, *(each.value for each in statements if isinstance(each, ast.Assign))):
        if not hasattr(node, "lineno"):
            ast.copy_location(node, fresh)
    try:
        made = compile(module, code.co_filename, "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return None
    for name in ["scope", *path]:
        found = next((c for c in made.co_consts if isinstance(c, CodeType) and c.co_name == name), None)
        if found is None:
            return None
        made = found
    if made.co_freevars != code.co_freevars or made.co_argcount != code.co_argcount:
        return None
    # Not co_firstlineno, which is that of a decorator: lines are stored relative to it.
    return made.replace(co_qualname=code.co_qualname) if hasattr(code, "co_qualname") else made


def connected(code: CodeType, port: Port, first: int) -> CodeType:
    """The code with the port as a constant, also of inner functions; its probes are numbered from ``first`` on."""

    def one(constant: Any) -> Any:
        if isinstance(constant, CodeType):
            return connected(constant, port, first)
        if constant.__class__ is str and constant.startswith(_INDEX):
            return first + int(constant.removeprefix(_INDEX))
        return port if constant.__class__ is str and constant == _PORT else constant

    return code.replace(co_consts=tuple(one(constant) for constant in code.co_consts))
