"""Functions rewritten for the time of a trace, so that questions which Python answers by itself are seen.

``x is None`` or ``isinstance(x, T)`` cannot be observed from outside, and the bytecode does not say which operand of an
``and`` is asked for its truth. So the functions that a trace reaches are compiled again from their source with calls of
a listener around such expressions: the value passes through unchanged, and every instruction keeps its position in the
source. What is looked for stands in one table, `_LOOKERS`. Functions without source stay as they are.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from fxlib.diagnosis.engine import source
from fxlib.ir.span import Span

__all__ = ["HOLE", "LISTENER", "Instrumentation", "Probe"]

LISTENER = "__fxlens_probe__"
HOLE = "__fxlens_hole__"
_FUTURE = 0
for _feature in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _feature).compiler_flag

_RANDOM = frozenset(
    {
        "rand",
        "randn",
        "randint",
        "randperm",
        "random",
        "uniform",
        "normal",
        "normalvariate",
        "gauss",
        "choice",
        "choices",
        "sample",
        "shuffle",
        "bernoulli",
        "multinomial",
        "poisson",
        "standard_normal",
        "random_sample",
        "permutation",
        "betavariate",
        "expovariate",
        "triangular",
        "getrandbits",
        "randrange",
        "rand_like",
    }
)
_RANDOM |= {
    "normal_",
    "uniform_",
    "bernoulli_",
    "random_",
    "exponential_",
    "cauchy_",
    "geometric_",
    "log_normal_",
}
_TYPE_TESTS = frozenset({"isinstance", "is_tensor", "is_storage", "type", "issubclass"})
_NUMBER_FORMAT = re.compile(r"%[-#0 +]*\d*(\.\d+)?[diouxXeEfFgGc]")
_TEXTS = frozenset({"str", "repr", "ascii", "print", "format"})
_ATTRIBUTE_TESTS = frozenset({"hasattr", "callable", "getattr"})
_KEYED = frozenset({"get", "pop", "setdefault", "add", "discard"})


@dataclass(slots=True)
class Probe:
    """One place that is listened to. ``kind`` says what for, ``node`` is the expression, ``seen`` what came by."""

    kind: str
    node: Any
    file: str
    code: CodeType
    tree: Any
    seen: list[Any] = field(default_factory=list)

    @property
    def span(self) -> Span:
        return source.span_of(self.node, self.file)


def _mark_test(node: ast.expr, found: list[tuple[str, Any]]) -> None:
    """The operands of ``node`` that Python asks for their truth when it asks ``node``."""
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            _mark_test(value, found)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        _mark_test(node.operand, found)
    elif not isinstance(node, (ast.Constant, ast.NamedExpr)):
        found.append(("test", node))


def _look_test(node: Any, found: list[tuple[str, Any]]) -> None:
    _mark_test(node.test, found)


def _look_not(node: ast.UnaryOp, found: list[tuple[str, Any]]) -> None:
    if isinstance(node.op, ast.Not):
        _mark_test(node.operand, found)


def _look_boolean(node: ast.BoolOp, found: list[tuple[str, Any]]) -> None:
    for value in node.values[:-1]:
        _mark_test(value, found)


def _look_comprehension(node: ast.comprehension, found: list[tuple[str, Any]]) -> None:
    found.append(("iter", node.iter))
    for test in node.ifs:
        _mark_test(test, found)


def _look_for(node: Any, found: list[tuple[str, Any]]) -> None:
    found.append(("iter", node.iter))


def _look_compare(node: ast.Compare, found: list[tuple[str, Any]]) -> None:
    first, operator = node.comparators[0], node.ops[0]
    one = len(node.ops) == 1
    identity = isinstance(operator, (ast.Is, ast.IsNot))
    if identity and isinstance(first, ast.Constant) and first.value is None:
        found.append(("none", node.left))
    elif one and isinstance(operator, (ast.In, ast.NotIn)):
        if not isinstance(first, (ast.Tuple, ast.List, ast.Constant)) and not isinstance(node.left, ast.Constant):
            found.extend((("member", node.left), ("container", first)))
    elif one:
        if identity:
            found.extend((("same", node.left), ("other", first)))
        if isinstance(node.left, (ast.Attribute, ast.Name)):
            found.append(("operand", node.left))


def _makes_text(function: ast.expr, name: str | None) -> bool:
    if isinstance(function, ast.Name):
        return name in _TEXTS
    return name == "format" and isinstance(getattr(function, "value", None), ast.Constant)


def _look_call(node: ast.Call, found: list[tuple[str, Any]]) -> None:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    first = node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None
    if name in _TYPE_TESTS and first is not None and not (name == "type" and len(node.args) != 1):
        found.append(("type", first))
    elif name in _ATTRIBUTE_TESTS and isinstance(function, ast.Name) and first is not None:
        if name != "getattr" or len(node.args) == 3:
            found.append(("attribute", first))
    elif _makes_text(function, name):
        found.extend(("text", argument) for argument in node.args if not isinstance(argument, ast.Starred))
    elif name == "hash" and first is not None:
        found.append(("hash", first))
    elif name in _RANDOM:
        found.append(("random", node))
    elif name in ("checkpoint", "checkpoint_sequential", "set_grad_enabled"):
        found.append((name, function))
    elif name == "apply" and isinstance(function, ast.Attribute):
        found.append(("apply", function.value))
    elif name in _KEYED and isinstance(function, ast.Attribute) and first is not None:
        found.extend((("keyed", function.value), ("key", first)))
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            found.append(("star", argument.value))
    for keyword in node.keywords:
        if keyword.arg is None:
            found.append(("mapping", keyword.value))


def _look_dict(node: ast.Dict, found: list[tuple[str, Any]]) -> None:
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            found.append(("mapping", value))
        elif not isinstance(key, ast.Constant):
            found.append(("hash", key))


def _look_formatted(node: ast.FormattedValue, found: list[tuple[str, Any]]) -> None:
    if node.format_spec is None:
        found.append(("text", node.value))


def _look_operator(node: ast.BinOp, found: list[tuple[str, Any]]) -> None:
    template = node.left.value if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant) else None
    # A template with number formats raises, and is found by that.
    if isinstance(template, str) and not _NUMBER_FORMAT.search(template):
        parts = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        found.extend(("text", part) for part in parts if not isinstance(part, ast.Starred))


def _look_return(node: ast.Return, found: list[tuple[str, Any]]) -> None:
    if node.value is not None:
        found.append(("return", node.value))


def _look_display(node: Any, found: list[tuple[str, Any]]) -> None:
    if isinstance(getattr(node, "ctx", None), ast.Store):
        return
    found.extend(("star", item.value) for item in node.elts if isinstance(item, ast.Starred))
    if isinstance(node, ast.Set):
        found.extend(("hash", item) for item in node.elts if not isinstance(item, (ast.Starred, ast.Constant)))


def _look_assign(node: ast.Assign, found: list[tuple[str, Any]]) -> None:
    for target in node.targets:
        if isinstance(target, (ast.Tuple, ast.List)) and any(isinstance(item, ast.Starred) for item in target.elts):
            found.append(("unpack", node.value))
        if isinstance(target, ast.Subscript) and not isinstance(target.slice, (ast.Slice, ast.Tuple, ast.Constant)):
            found.extend((("keyed", target.value), ("key", target.slice)))
        if isinstance(target, ast.Attribute) and getattr(target.value, "id", None) != "self":
            found.append(("store", target.value))


def _look_attribute(node: ast.Attribute, found: list[tuple[str, Any]]) -> None:
    if node.attr == "training" and isinstance(node.ctx, ast.Load):
        found.append(("training", node))


def _look_with(node: Any, found: list[tuple[str, Any]]) -> None:
    found.extend(("context", item.context_expr) for item in node.items)


_LOOKERS: dict[type, Callable[[Any, list[tuple[str, Any]]], None]] = {
    ast.If: _look_test,
    ast.While: _look_test,
    ast.IfExp: _look_test,
    ast.Assert: _look_test,
    ast.UnaryOp: _look_not,
    ast.BoolOp: _look_boolean,
    ast.comprehension: _look_comprehension,
    ast.For: _look_for,
    ast.Compare: _look_compare,
    ast.Call: _look_call,
    ast.Dict: _look_dict,
    ast.List: _look_display,
    ast.Tuple: _look_display,
    ast.Set: _look_display,
    ast.Assign: _look_assign,
    ast.Attribute: _look_attribute,
    ast.With: _look_with,
    ast.FormattedValue: _look_formatted,
    ast.BinOp: _look_operator,
    ast.Return: _look_return,
}
_BLOCKS = {
    ast.If: ("body", "orelse"),
    ast.For: ("body", "orelse"),
    ast.While: ("body", "orelse"),
    ast.ExceptHandler: ("body",),
}
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def _outside(tree: Any) -> set[Any]:
    """Decorators, defaults and annotations: they do not run when the function does."""
    found: set[Any] = set()
    for part in (*tree.decorator_list, tree.args, tree.returns):
        if part is not None:
            found.update(source.nodes_of(part))
    return found


def _plan(tree: Any) -> tuple[dict[int, list[str]], list[tuple[Any, str]]]:
    """What to listen to in ``tree``: kinds by the id of the expression, and the blocks whose entry is noted."""
    found: list[tuple[str, Any]] = []
    blocks: list[tuple[Any, str]] = []
    outside = _outside(tree)
    for node in tree.nodes:
        if node in outside:
            continue
        looker = _LOOKERS.get(type(node))
        if looker is not None:
            looker(node, found)
        for name in _BLOCKS.get(type(node), ()):
            if getattr(node, name):
                blocks.append((node, name))
    kinds: dict[int, list[str]] = {}
    for kind, node in found:
        names = kinds.setdefault(id(node), [])
        if kind not in names:
            names.append(kind)
    return kinds, blocks


def _call(name: str, arguments: list[Any], place: Any) -> ast.Call:
    node = ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=arguments, keywords=[])
    for part in (node, node.func, *(a for a in arguments if not hasattr(a, "lineno"))):
        ast.copy_location(part, place)
    return node


class _Rewriter:
    """Puts the listener into a fresh tree whose nodes know their original by the attribute ``origin``."""

    def __init__(self, owner: Instrumentation, code: CodeType, tree: Any, holes: dict[int, int]) -> None:
        self.owner, self.code, self.tree, self.holes = owner, code, tree, holes
        self.kinds, blocks = _plan(tree)
        self.blocks = {(id(node), name) for node, name in blocks}

    def _probe(self, kind: str, node: Any) -> int:
        self.owner.probes.append(Probe(kind, node, self.code.co_filename, self.code, self.tree))
        return len(self.owner.probes) - 1

    def _entry(self, kind: str, node: Any, place: Any) -> ast.stmt:
        index = ast.Constant(self._probe(kind, node))
        statement = ast.Expr(_call(LISTENER, [index, ast.copy_location(ast.Constant(None), place)], place))
        return ast.copy_location(statement, place)

    def function(self, fresh: Any) -> None:
        fresh.body = self.block(fresh.body)
        first = next((s for s in fresh.body if not _is_docstring(s)), fresh.body[0])
        fresh.body.insert(fresh.body.index(first), self._entry("enter", self.tree, first))

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
                    entry = self._entry(kind, origin, value[0]) if (id(origin), name) in self.blocks else None
                    value = self.block(value)
                    setattr(node, name, value if entry is None else [entry, *value])
                else:
                    setattr(node, name, [self.visit(item) if isinstance(item, ast.AST) else item for item in value])
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        for kind in self.kinds.get(id(origin), ()):
            index = ast.Constant(self._probe(kind, origin))
            node = ast.copy_location(_call(LISTENER, [index, node], node), node)
        return node

    def hole(self, node: Any, index: int) -> Any:
        """``node`` replaced by a call that does not evaluate it. It stays inside a lambda, to keep its free names."""
        number = ast.copy_location(ast.Constant(index), node)
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        kept = ast.copy_location(ast.Lambda(args=empty, body=node), node)
        return _call(HOLE, [number, kept], node)

    def skipped(self, node: Any, index: int) -> list[Any]:
        """A statement left out. It stays inside a function that is never called, to keep its free names."""
        number = ast.copy_location(ast.Constant(index), node)
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        kept = ast.FunctionDef(name="__fxlens_kept__", args=empty, body=[node], decorator_list=[])
        if hasattr(ast, "TypeVar"):
            kept.type_params = []  # type: ignore[attr-defined]
        report = ast.Expr(_call(HOLE, [number], node))
        return [ast.copy_location(report, node), ast.copy_location(kept, node)]


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _leaves(block: list[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], _LEAVES)


def _compile(fresh: Any, function: FunctionType) -> CodeType | None:
    """The code object of ``fresh``, compiled in scopes like those of ``function``; None when they cannot be had."""
    code = function.__code__
    fresh.decorator_list = []
    fresh.returns = None
    fresh.args.defaults = []
    fresh.args.kw_defaults = [None] * len(fresh.args.kwonlyargs)
    arguments = fresh.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
        if argument is not None:
            argument.annotation = None
    # A function with too few defaults before later ones would not compile; without any it always does.
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
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    outer = ast.FunctionDef(name="scope", args=empty, body=statements, decorator_list=[])
    if hasattr(ast, "TypeVar"):
        outer.type_params = []  # type: ignore[attr-defined]
        if isinstance(body, ast.ClassDef):
            body.type_params = []  # type: ignore[attr-defined]
    module = ast.Module(body=[outer], type_ignores=[])
    for node in (outer, body, *statements, *targets, getattr(statements[0], "value", fresh)):
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


class Instrumentation:
    """The functions of one diagnosis, their rewritten code and their probes.

    A function is made anew when a place in it is `cut`: its evaluation is left out from then on.
    """

    def __init__(self, functions: Iterable[FunctionType]) -> None:
        self.functions = list(functions)
        self.probes: list[Probe] = []
        self.original: dict[CodeType, CodeType] = {}
        self._made: dict[FunctionType, CodeType] = {}
        self._holes: dict[tuple[Any, ...], int] = {}
        for function in self.functions:
            self._make(function, {})

    def _make(self, function: FunctionType, holes: dict[tuple[Any, ...], int]) -> bool:
        code = self.original.get(function.__code__, function.__code__)
        tree = source.function_tree(code)
        fresh = source.parse(code) if tree is not None else None
        if tree is None or fresh is None:
            return False
        placed: dict[int, int] = {}
        for old, new in zip(tree.nodes, source.nodes_of(fresh), strict=True):  # type: ignore[union-attr]
            new.origin = old
        for span, number in holes.items():
            target = _hole_target(tree, Span(*span))
            if target is not None:
                placed[id(target)] = number
        rewriter = _Rewriter(self, code, tree, placed)
        if not rewriter.kinds and not rewriter.blocks and not placed:
            return False
        mark = len(self.probes)
        rewriter.function(fresh)
        made = _compile(fresh, function)
        if made is None:
            del self.probes[mark:]
            return False
        self._made[function] = made
        self.original[made] = code
        return bool(placed) or not holes

    def cut(self, span: Span, number: int) -> bool:
        """Leave out the evaluation of ``span`` from the next run on. False when no rewritten function contains it."""
        self._holes[tuple(span)] = number
        done = False
        for function in self.functions:
            code = self.original.get(function.__code__, function.__code__)
            if code.co_filename == span.file:
                tree = source.function_tree(code)
                if tree is not None and tree.lineno <= span.line and span.end_line <= (tree.end_lineno or 0):
                    inside = {s: n for s, n in self._holes.items() if s[0] == span.file}
                    done = self._make(function, inside) or done
        return done

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
        """The rewritten code in place of the functions' own, reporting to ``listener(index, value)``."""
        before = [(function, function.__code__) for function in self._made]
        setattr(builtins, LISTENER, listener)
        setattr(builtins, HOLE, hole)
        try:
            for function, code in self._made.items():
                function.__code__ = code
            yield
        finally:
            for function, code in before:
                function.__code__ = code
            delattr(builtins, LISTENER)
            delattr(builtins, HOLE)


def _hole_target(tree: Any, span: Span) -> Any:
    node = source.at_span(tree, span)
    if node is None or source.span_of(node, span.file) != span:
        return None
    if isinstance(node, ast.Expr):
        return node.value
    if isinstance(node, ast.expr):
        if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
            return _statement(node)
        if any(isinstance(inner, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) for inner in ast.walk(node)):
            return None
        return node
    if isinstance(node, (ast.Assign, ast.AugAssign)) and not isinstance(node.value, ast.Name):
        return node.value if isinstance(node, ast.Assign) else node
    return node if isinstance(node, (ast.Raise, ast.Delete, ast.AugAssign, ast.Assert)) else None


def _statement(node: Any) -> Any:
    while not isinstance(node, ast.stmt):
        node = node.parent
    return node if isinstance(node, (ast.Assign, ast.AugAssign, ast.Delete)) else None
