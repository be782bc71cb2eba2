"""Which expressions are surely ints, and which are surely positive, by the text of their function alone: the example
may have 2 where another construction of the model, or another call, has 2.5."""

from __future__ import annotations

import ast

from fxlib.diagnosis.fixes.fix import Site
from fxlib.diagnosis.fixes.given import AN_INT, to_name
from fxlib.diagnosis.fixes.source import FunctionNode

__all__ = ["is_int", "is_positive", "is_size"]

_ANNOTATIONS = {"int", "Optional[int]", "typing.Optional[int]", "int | None", "None | int"}
_CALLS = {"int", "len", "math.floor", "math.ceil", "math.trunc", "math.gcd", "math.isqrt"}
_OF_INTS = {"abs", "max", "min"}
_KEEPING = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift)


def is_size(node: ast.AST) -> bool:
    """`x.shape[i]`, `x.size(i)`, `x.dim()`: an int under eager."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("size", "dim", "numel")
    return isinstance(node, ast.Attribute) and node.attr == "ndim"


def is_int(site: Site, node: ast.AST) -> bool:
    """Whether an expression of a function is an int, or raises, whatever the model is made of and called with: sizes,
    literals, and names that are annotated so or get nothing else."""
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
        if node is AN_INT:
            return not self.positive
        if isinstance(node, ast.arg):
            return self.holds(_annotated(node.annotation), None)
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
        if not isinstance(node, ast.Name):
            return False
        name, given = node.id, list(to_name(self.site.source, node, function))
        if name in self.seen:
            return True  # what else it gets decides
        self.seen.add(name)
        return bool(given) and all(self.holds(value, where) for value, where in given)


def _annotated(annotation: ast.expr | None) -> ast.AST | None:
    text = annotation.value if isinstance(annotation, ast.Constant) else annotation and ast.unparse(annotation)
    return AN_INT if text in _ANNOTATIONS else None
