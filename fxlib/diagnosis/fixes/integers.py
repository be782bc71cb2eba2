"""Which expressions are surely ints, and which are surely positive, by the text alone: the example may have 2 where
another construction of the model, or another call, has 2.5."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fxlib.diagnosis.fixes.fix import Site
from fxlib.diagnosis.fixes.names import self_name
from fxlib.diagnosis.fixes.source import FunctionNode

__all__ = ["is_int", "is_positive", "is_size"]

_ANNOTATIONS = {"int", "Optional[int]", "typing.Optional[int]", "int | None", "None | int"}
_CALLS = {"int", "len", "math.floor", "math.ceil", "math.trunc", "math.gcd", "math.isqrt"}
_OF_INTS = {"abs", "max", "min"}
_KEEPING = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift)
# What a name gets where no expression of the text says it.
_ANY_INT = ast.Name("int")
_A_SIZE = ast.Attribute(ast.Name("x"), "ndim")

_Given = Iterator[tuple["ast.AST | None", "FunctionNode | None"]]


def is_size(node: ast.AST) -> bool:
    """`x.shape[i]`, `x.size(i)`, `x.dim()`: an int under eager."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("size", "dim", "numel")
    return isinstance(node, ast.Attribute) and node.attr == "ndim"


def is_int(site: Site, node: ast.AST) -> bool:
    """Whether an expression of a function is an int, or raises, whatever the model is made of and called with: sizes,
    literals, and names and attributes that are annotated so or get nothing else."""
    return _Asked(site, positive=False).holds(node, site.function)


def is_positive(site: Site, node: ast.AST) -> bool:
    """Whether an expression is surely above 0, too: sizes, literals, and products of them."""
    return _Asked(site, positive=True).holds(node, site.function)


class _Asked:
    """One question about an expression, and what its names get their values from."""

    def __init__(self, site: Site, positive: bool) -> None:
        self.site = site
        self.positive = positive
        self.seen: set[str] = set()

    def holds(self, node: ast.AST | None, function: FunctionNode | None) -> bool:
        """Whether it is so of an expression in a function, or at the level of the class or the module."""
        if node is None or is_size(node):
            return node is not None
        if node is _ANY_INT:
            return not self.positive
        if isinstance(node, ast.Constant):
            return type(node.value) is int and (node.value > 0 or not self.positive)
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.USub) and not self.positive and self.holds(node.operand, function)
        if isinstance(node, ast.IfExp):
            return self.holds(node.body, function) and self.holds(node.orelse, function)
        if isinstance(node, ast.BinOp):
            kept = (ast.Add, ast.Mult) if self.positive else _KEEPING
            return isinstance(node.op, kept) and all(self.holds(each, function) for each in (node.left, node.right))
        if isinstance(node, ast.Call):
            name = self.site.call_name(node)
            if name in _OF_INTS and node.args and not node.keywords:
                return all(self.holds(each, function) for each in node.args)
            return name == "len" or (name in _CALLS and not self.positive)
        return self._of_name(node, function)

    def _of_name(self, node: ast.AST, function: FunctionNode | None) -> bool:
        me = self_name(self.site.source, function) if function is not None else None
        if isinstance(node, ast.Name):
            name, given = node.id, list(self._given_to_name(node.id, function))
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == me is not None:
            name, given = f"{me}.{node.attr}", list(self._given_to_attribute(node.attr))
        else:
            return False
        if name in self.seen:
            return True  # what else it gets decides
        self.seen.add(name)
        return bool(given) and all(self.holds(value, where) for value, where in given)

    def _given_to_name(self, name: str, function: FunctionNode | None) -> _Given:
        if function is None:
            yield from ((value, None) for value in _bound(self.site.source.tree.body, name))
            return
        arguments = function.args
        for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            if each.arg == name:
                yield _annotated(each.annotation), None
        if name in {each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None}:
            yield None, None
        found = list(_bound(function.body, name))
        yield from ((value, function) for value in found)
        if not found and all(each.arg != name for each in ast.walk(arguments) if isinstance(each, ast.arg)):
            yield from self._given_to_name(name, None)

    def _given_to_attribute(self, name: str) -> _Given:
        """What it gets in the class, and by anybody in the file who writes to an attribute of that name."""
        source = self.site.source
        owner = source.class_of(self.site.node)
        if owner is not None:
            yield from ((value, None) for value in _bound(owner.body, name))
        for node in source.nodes:
            if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store):
                statement, function = source.parents[node], source.function_of(node)
                yield from ((value, function) for value in _from_statement(statement, node))


def _bound(block: list[ast.stmt], name: str) -> Iterator[ast.AST | None]:
    """What the statements of a block, less those of functions and classes in it, give to a name."""
    for statement in block:
        if isinstance(statement, FunctionNode | ast.ClassDef):
            if statement.name == name:
                yield None
            continue
        inner = [each for part in ("body", "orelse", "finalbody", "handlers") for each in getattr(statement, part, ())]
        own = [each for each in ast.iter_child_nodes(statement) if each not in inner]
        for node in (each for head in own for each in ast.walk(head)):
            if isinstance(node, ast.NamedExpr) and node.target.id == name:
                yield node.value
            elif isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
                yield from _from_statement(statement, node)
        yield from _bound([each for each in inner if isinstance(each, ast.stmt)], name)
        for handler in getattr(statement, "handlers", ()):
            yield from _bound(handler.body, name)


def _from_statement(statement: ast.AST, target: ast.expr) -> Iterator[ast.AST | None]:
    """What a statement gives to a target in it."""
    if isinstance(statement, ast.AugAssign):
        yield ast.BinOp(statement.target, statement.op, statement.value)
    elif isinstance(statement, ast.AnnAssign):
        yield statement.value if statement.value is not None else _annotated(statement.annotation)
    elif isinstance(statement, ast.For) and isinstance(statement.iter, ast.Call):
        counts = getattr(statement.iter.func, "id", "")
        first = statement.target.elts[0] if isinstance(statement.target, ast.Tuple) else None
        counted = counts == "range" or (counts == "enumerate" and first is target)
        yield _ANY_INT if counted else None
    elif isinstance(statement, ast.Assign):
        for each in statement.targets:
            items = getattr(each, "elts", None)
            if each is target:
                yield statement.value
            elif items is not None and target in items:
                yield _item(statement.value, items.index(target), len(items))
    else:
        yield None


def _item(value: ast.expr, index: int, count: int) -> ast.AST | None:
    """What unpacking a value gives the target at an index."""
    if isinstance(value, ast.Tuple | ast.List):
        return value.elts[index] if len(value.elts) == count else None
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice):
        value = value.value
    of_shape = isinstance(value, ast.Attribute) and value.attr == "shape"
    sized = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "size"
    return _A_SIZE if of_shape or sized else None


def _annotated(annotation: ast.expr | None) -> ast.AST | None:
    text = annotation.value if isinstance(annotation, ast.Constant) else annotation and ast.unparse(annotation)
    return _ANY_INT if text in _ANNOTATIONS else None
