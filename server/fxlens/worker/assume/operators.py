"""What operators and comparisons tell about their operands."""

from __future__ import annotations

import ast
from typing import Any

from .places import NOTHING, Place
from .values import Known, Sequence, Shape

_OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@",
}  # fmt: skip


def arithmetic(left: Any, right: Any, operator: ast.operator, real: bool) -> Any:
    """``real``: in the code of a constructed module, where the result of a tensor is a tensor."""
    sign = _OPERATORS.get(type(operator), "?")
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Place):
            if isinstance(other, Sequence):
                one.use("int" if sign == "*" else "iterate")
            elif isinstance(other, Known) and isinstance(other.value, str):
                one.use("string" if sign == "+" else "format")
            elif isinstance(other, Place):
                one.use("arithmetic", sign)
                one.use("with", other)
            else:
                one.use("arithmetic", sign)
    if real and sign in "+-*/**%//":
        return left if isinstance(left, Place) else right if isinstance(right, Place) else None
    return None


def truth(value: Any) -> None:
    if isinstance(value, Place):
        value.use("truth")


def compared(left: Any, operator: ast.cmpop, right: Any) -> None:
    if isinstance(operator, (ast.In, ast.NotIn)):
        choices = [*map(_constant, right.items)] if isinstance(right, Sequence) else []
        if isinstance(right, Known) and isinstance(right.value, (list, tuple, set, frozenset, dict, range)):
            choices = list(right.value)[:50]
        for choice in choices:
            if choice is not NOTHING:
                compared_with(left, choice)
        if isinstance(right, Place) and isinstance(left, Known) and isinstance(left.value, str):
            right.use("contains", left.value)
        elif isinstance(right, Place):
            right.use("iterate")
        return
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Shape) and one.index is not None and isinstance(operator, (ast.Eq, ast.NotEq)):
            if isinstance(other, Known) and isinstance(other.value, int):
                one.place.use("size", (one.index, other.value))
        elif isinstance(other, Known):
            if isinstance(operator, (ast.Is, ast.IsNot)) and other.value is None:
                if isinstance(one, Place):
                    one.use("none")
            elif isinstance(operator, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
                compared_with(one, other.value)
            elif isinstance(one, Place):
                one.use("order", other.value if isinstance(other.value, (int, float)) else None)
        elif isinstance(one, Place) and isinstance(operator, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            one.use("order")


def _constant(value: Any) -> Any:
    """The constant that a value is, or a list of constants; NOTHING if it is neither."""
    if isinstance(value, Sequence) and all(isinstance(each, Known) for each in value.items):
        return [each.value for each in value.items]
    return value.value if isinstance(value, Known) else NOTHING


def compared_with(value: Any, constant: Any) -> None:
    if isinstance(value, Place):
        is_row = isinstance(constant, list)
        value.use("row" if is_row else "compare", repr(constant) if is_row else constant)


def as_number(value: Any, kind: str) -> None:
    if isinstance(value, Place):
        value.use(kind)
