"""Reading of operators: known values are computed, unknown ones stay expressions."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

from . import values as v
from . import ways
from .machine import PLAIN_ERRORS, SYMBOLIC, Machine
from .naming import name_of

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_, ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitXor: operator.xor,
}  # fmt: skip
_COMPARED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Invert: operator.invert,
}  # fmt: skip
_LARGE = 1 << 64
_MOST_ADDED = 4096
_WIDE = re.compile(r"\d{4}|\*")  # `"%9999d" % 3`, `"%*d" % (9999, 3)`


class Operators(Machine):
    """Operators, comparisons and conditional expressions."""

    def of_BinOp(self, node: ast.BinOp) -> v.Value:
        return self.binary(node, node.op, self.value(node.left), self.value(node.right))

    def binary(self, node: ast.expr, op: ast.operator, left: v.Value, right: v.Value) -> v.Value:
        """An operator on two values; ``node`` is the form that is kept if they are unknown."""
        if isinstance(left, v.Sequence) and isinstance(right, v.Sequence) and isinstance(op, ast.Add):
            items = [*left.items, *right.items]
            whole = left.whole and right.whole and len(items) <= _MOST_ADDED
            return self.new_list(items[:_MOST_ADDED], left.kind, whole)
        if isinstance(op, ast.BitOr) and isinstance(left, v.Mapping) and isinstance(right, v.Mapping):
            return self.new_dict({**left.items, **right.items}, left.kind, left.whole and right.whole)
        if isinstance(op, ast.Mult):
            for many, times in ((left, right), (right, left)):
                if isinstance(many, v.Sequence) and isinstance(times, v.Const) and isinstance(times.value, int):
                    whole = many.whole and len(many.items) * times.value <= _MOST_ADDED
                    items = many.items * min(times.value, -(-_MOST_ADDED // max(1, len(many.items))))
                    return self.new_list(items[:_MOST_ADDED], many.kind, whole)
        try:
            a, b = v.literal(left), v.literal(right)
            if not _too_large(op, a, b):
                return v.lift(_BINARY[type(op)](a, b), self.clock)
        except (v.Unknown, KeyError):
            pass
        except PLAIN_ERRORS:
            return v.Hole(name_of(node))
        return self._symbolic(node, [left, right])

    def of_UnaryOp(self, node: ast.UnaryOp) -> v.Value:
        operand = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            known = v.truth(operand)
            return self._symbolic(node, [operand]) if known is None else v.Const(not known)
        try:
            return v.lift(_UNARY[type(node.op)](v.literal(operand)))
        except (v.Unknown, KeyError, *PLAIN_ERRORS):
            return self._symbolic(node, [operand])

    def of_BoolOp(self, node: ast.BoolOp) -> v.Value:
        """The first operand that decides; if it is unknown, the first known one."""
        wanted = isinstance(node.op, ast.Or)
        unknown = False
        value: v.Value = v.NONE
        for operand in node.values:
            value = self.value(operand)
            known = v.truth(value)
            if known is None:
                unknown = True
            elif known is wanted:
                # In `x or default` with x unknown, the default is a good value; `x and False` is always False.
                return value
        if unknown:
            return v.Hole(name_of(node.values[0]))
        return value

    def of_IfExp(self, node: ast.IfExp) -> v.Value:
        known = v.truth(self.value(node.test))
        if known is not None:
            return self.value(node.body if known else node.orelse)
        with self.way() as taken:
            first = self.value(node.body)
        with self.way() as other:
            second = self.value(node.orelse)
        ways.apply(ways.joined(taken.after, other.after, self.chosen))
        return self.either(first, second)

    def either(self, first: v.Value, second: v.Value) -> v.Value:
        """One of two values; both if they are callables or models."""
        options = [*_options(first), *_options(second)]
        if all(isinstance(each, (v.Class, v.Function, v.Partial, v.Object, v.External)) for each in options):
            return v.Choice(options[:12])
        for each in (first, second):
            if not isinstance(each, v.Hole) and not (isinstance(each, v.Const) and each.value is None):
                return each
        return second if isinstance(first, v.Hole) else first

    def of_Compare(self, node: ast.Compare) -> v.Value:
        values = [self.value(each) for each in (node.left, *node.comparators)]
        answer = True
        for op, left, right in zip(node.ops, values, values[1:], strict=False):
            known = self._compared(op, left, right)
            if known is None:
                return self._symbolic(node, values)
            answer = answer and known
        return v.Const(answer)

    def compared(self, op: ast.cmpop, left: v.Value, right: v.Value) -> v.Value:
        """One comparison."""
        known = self._compared(op, left, right)
        return v.Hole("value") if known is None else v.Const(known)

    def _compared(self, op: ast.cmpop, left: v.Value, right: v.Value) -> bool | None:
        if isinstance(op, (ast.Is, ast.IsNot)):
            same = _same(left, right)
            if isinstance(left, v.Const) and isinstance(right, v.Const):
                same = same and type(left.value) is type(right.value)  # `1 == True`
            return None if same is None else same is isinstance(op, ast.Is)
        if isinstance(op, (ast.In, ast.NotIn)):
            return self._contains(op, left, right)
        if isinstance(op, (ast.Eq, ast.NotEq)):
            same = _same(left, right) if not isinstance(left, v.Const) or not isinstance(right, v.Const) else None
            if same is not None:
                return same is isinstance(op, ast.Eq)
        try:
            return bool(_COMPARED[type(op)](v.literal(left), v.literal(right)))
        except (v.Unknown, *PLAIN_ERRORS):
            return None

    def _contains(self, op: ast.cmpop, item: v.Value, owner: v.Value) -> bool | None:
        found: bool | None = None
        try:
            if isinstance(owner, v.Mapping):
                key = v.literal(item)
                found = key in owner.items or (None if not owner.whole else False)
            elif isinstance(owner, v.Sequence):
                answers = [_same(item, each) for each in owner.items]
                found = True if True in answers else None if None in answers or not owner.whole else False
            else:
                found = v.literal(item) in v.literal(owner)
        except (v.Unknown, *PLAIN_ERRORS):
            return None
        return None if found is None else found is isinstance(op, ast.In)

    def _symbolic(self, node: ast.expr, operands: list[v.Value]) -> v.Value:
        if all(isinstance(each, (v.Hole, *SYMBOLIC, v.Const, v.Sequence)) for each in operands):
            return v.Operation(node, operands)
        return v.Hole(name_of(node))


def _same(left: v.Value, right: v.Value) -> bool | None:
    """Whether two values are identical; None if unknown. Unknown values are assumed to be given, that is, not None."""
    if isinstance(left, v.Const) and isinstance(right, v.Const):
        return left.value is right.value or left.value == right.value
    kinds = (v.Const, v.Class, v.External, v.Function, v.Sequence, v.Mapping)
    if isinstance(left, kinds) and isinstance(right, kinds) and type(left) is not type(right):
        return False
    if isinstance(left, v.Function) and isinstance(right, v.Function):
        return left.node is right.node
    if isinstance(left, v.Sequence) and isinstance(right, v.Sequence):
        try:
            return bool(v.literal(left) == v.literal(right))
        except v.Unknown:
            return None
    if isinstance(left, v.Class) and isinstance(right, v.Class):
        return left.symbol == right.symbol
    if isinstance(left, v.External) and isinstance(right, v.External):
        return left.name == right.name
    for one, other in ((left, right), (right, left)):
        if isinstance(one, v.Const) and one.value is None and not isinstance(other, (v.Hole, *SYMBOLIC)):
            return False
    return None


def _options(value: v.Value) -> list[v.Value]:
    return value.options if isinstance(value, v.Choice) else [value]


def _too_large(op: ast.operator, left: Any, right: Any) -> bool:
    """Whether computing an operator could take long or much memory."""
    if isinstance(op, (ast.Pow, ast.LShift)):
        return not isinstance(right, (int, float)) or abs(right) > 64 or (isinstance(left, int) and abs(left) > _LARGE)
    if isinstance(op, ast.Mult) and not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
        many, times = (right, left) if isinstance(left, int) else (left, right)
        return not isinstance(times, int) or times * len(many) > 4096
    if isinstance(op, ast.Mult) and isinstance(left, int) and isinstance(right, int):
        return left.bit_length() + right.bit_length() > 4096
    if isinstance(op, ast.Mod) and isinstance(left, (str, bytes)):
        text = left if isinstance(left, str) else left.decode("latin-1")
        return len(text) > 4096 or _WIDE.search(text) is not None
    return False
