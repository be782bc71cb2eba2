"""The values of expressions under analysis, and the problems in them."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod

from . import calls
from .problems import Problems, Silent
from .scope import File, Function
from .values import FALSE, PLAIN, TRUE, UNKNOWN, Value, joined, traced

__all__ = ["Expressions"]

_SHAPE_ATTRIBUTES = {
    "shape",
    "dtype",
    "device",
    "ndim",
    "is_cuda",
    "layout",
    "requires_grad",
    "is_quantized",
    "is_sparse",
}


class Expressions(ABC):
    """Evaluates expressions with the knowledge at their place."""

    def __init__(self, file: File, problems: Problems, target: str, owner: ast.ClassDef | None, depth: int = 0):
        self.file = file
        self.problems = problems
        self.target = target
        self.owner = owner
        self.depth = depth
        self.names: dict[str, Value] = {}
        self.certain = True
        self.result: Value | None = None
        self.self_name: str | None = None
        self.functions: dict[str, Function] = {}

    def report(self, code: str, node: ast.AST, form: str = "call") -> None:
        self.problems.report(code, node, self.target, self.certain, form)

    @abstractmethod
    def store(self, target: ast.expr, value: Value, source: ast.expr | None) -> None:
        """Bind the names of a target."""

    @abstractmethod
    def called(self, function: Function, values: list[Value], keywords: dict[str, Value], bound: bool) -> Value:
        """Walk a function of the file with the values of a call; its result."""

    def element(self, value: Value) -> Value:
        if value.kind == "items" and value.element == "traced":
            return traced()
        return PLAIN if value.kind == "literal" else UNKNOWN

    # ---- truth and iteration

    def truth(self, node: ast.expr, form: str) -> bool | None:
        """The truth value of an expression, if the trace would decide it; ``form`` is what needs it."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.truth(node.operand, form)
            return None if inner is None else not inner
        if isinstance(node, ast.BoolOp):
            return self.junction(node, form)
        value = self.value(node)
        if value.is_traced:
            code = "FX104" if form == "assert" else self.condition_code(node, value)
            self.report(code, node, form)
            return None
        return value.truth

    def junction(self, node: ast.BoolOp, form: str) -> bool | None:
        """`and` and `or`: later operands are reached only if the earlier ones allow it."""
        stops = isinstance(node.op, ast.Or)
        certain, known = self.certain, True
        result: bool | None = not stops
        for operand in node.values:
            truth = self.truth(operand, form)
            if truth is stops:
                result = stops if known else None
                break
            if truth is None:
                known, result = False, None
                self.certain = False
        self.certain = certain
        return result

    def condition_code(self, node: ast.expr, value: Value) -> str:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("any", "all"):
            return "FX114"
        return {"shape": "FX102", "argument": "FX103"}.get(value.cause, "FX101")

    def iterated(self, node: ast.expr, code: str = "FX110") -> Value:
        """Iterate over an expression; the value of an item."""
        value = self.value(node)
        if value.is_traced:
            self.report(code, node)
            return traced(value.cause)
        return self.element(value)

    # ---- expressions

    def peek(self, node: ast.expr) -> Value:
        """The value of an expression without reporting its problems again."""
        problems, self.problems = self.problems, Silent()
        try:
            return self.value(node)
        finally:
            self.problems = problems

    def value(self, node: ast.expr) -> Value:
        method = getattr(self, f"of_{type(node).__name__}", None)
        if method is not None:
            return method(node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
        return UNKNOWN

    def of_Constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, str | bytes):
            return Value("literal", constant=node.value)
        return Value("plain", constant=node.value)

    def of_Name(self, node: ast.Name) -> Value:
        return self.names.get(node.id, UNKNOWN)

    def of_Attribute(self, node: ast.Attribute) -> Value:
        base = self.value(node.value)
        if base.is_traced:
            return traced("shape" if node.attr in _SHAPE_ATTRIBUTES or base.cause == "shape" else "data")
        return UNKNOWN

    def of_Subscript(self, node: ast.Subscript) -> Value:
        base, index = self.value(node.value), self.value(node.slice)
        if base.is_traced:
            return traced(base.cause)
        if index.is_traced and base.kind in ("items", "literal"):
            self.report("FX134", node)
            return UNKNOWN
        if isinstance(node.slice, ast.Slice):
            return base
        return self.element(base)

    def of_Slice(self, node: ast.Slice) -> Value:
        parts = [self.value(p) for p in (node.lower, node.upper, node.step) if p is not None]
        return traced("shape") if any(p.is_traced for p in parts) else PLAIN

    def of_BinOp(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Mod) and left.kind == "literal" and isinstance(left.constant, str):
            if right.holds_traced or _tuple_holds_traced(self, node.right):
                self.report("FX136" if calls.wants_number(left.constant) else "FX205", node)
            return Value("literal")
        if left.is_traced or right.is_traced:
            if (right.kind in ("items", "literal") and not left.is_traced) or (
                left.kind in ("items", "literal") and not right.is_traced
            ):
                # A tuple plus a traced size is recorded as an addition.
                return traced("shape")
            causes = {v.cause for v in (left, right) if v.is_traced}
            return traced(causes.pop() if len(causes) == 1 else "data")
        if left.kind in ("items", "literal") and right.kind in ("items", "literal"):
            return Value("items", element="traced" if left.holds_traced and right.holds_traced else "unknown")
        return PLAIN if left.kind == right.kind == "plain" else UNKNOWN

    def of_UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            known = self.truth(node, "boolean")
            return PLAIN if known is None else (TRUE if known else FALSE)
        value = self.value(node.operand)
        return traced(value.cause) if value.is_traced else (PLAIN if value.kind == "plain" else UNKNOWN)

    def of_BoolOp(self, node: ast.BoolOp) -> Value:
        """As a value: the last operand decides nothing."""
        certain = self.certain
        results: list[Value] = []
        stops = isinstance(node.op, ast.Or)
        for operand in node.values[:-1]:
            value = self.value(operand)
            if value.is_traced:
                self.report(self.condition_code(operand, value), operand, "boolean")
            truth = None if value.is_traced else value.truth
            if truth is stops:
                self.certain = certain
                return value
            if truth is None:
                self.certain = False
                results.append(value)
        results.append(self.value(node.values[-1]))
        self.certain = certain
        if len(results) == 1:
            return results[0]
        return traced() if all(v.is_traced for v in results) else UNKNOWN

    def of_Compare(self, node: ast.Compare) -> Value:
        operands = [node.left, *node.comparators]
        values = [self.value(o) for o in operands]
        if len(node.ops) > 1:
            if values[0].is_traced or values[1].is_traced:
                self.report("FX107", node)
                return PLAIN
            return UNKNOWN
        (left, right), op = values, node.ops[0]
        if isinstance(op, ast.Is | ast.IsNot):
            return self.identity(node, left, right)
        if isinstance(op, ast.In | ast.NotIn):
            return self.membership(node, left, right)
        if left.is_traced or right.is_traced:
            causes = {v.cause for v in values if v.is_traced}
            return traced("shape" if "shape" in causes else causes.pop())
        return PLAIN

    def identity(self, node: ast.Compare, left: Value, right: Value) -> Value:
        """`is` of a traced value and a constant, which is decided while tracing."""
        is_not = isinstance(node.ops[0], ast.IsNot)
        for value, other in ((left, right), (right, left)):
            if value.is_traced and other.kind == "plain" and other.truth is not None:
                if other.constant is None and value.name is not None:
                    # Inside another module the argument may be left out; only for a root is every argument traced.
                    certain = self.certain and self.target not in self.file.parts
                    self.problems.report("FX201", node, self.target, certain)
                elif isinstance(other.constant, bool) and value.name is not None:
                    # The text does not show the argument.
                    self.problems.report("FX231", node, self.target, False)
                return TRUE if is_not else FALSE
        if left.truth is not None and right.truth is not None and left.kind == right.kind == "plain":
            same = left.constant is right.constant
            return TRUE if same != is_not else FALSE
        if right.constant is None and right.kind == "plain" and left.kind in ("items", "literal"):
            return TRUE if is_not else FALSE
        return PLAIN

    def membership(self, node: ast.Compare, left: Value, right: Value) -> Value:
        container = node.comparators[0]
        if right.is_traced:
            self.report("FX113", node)
        elif left.is_traced:
            if isinstance(container, ast.Set | ast.Dict):
                self.report("FX204", node)
                return FALSE if isinstance(node.ops[0], ast.In) else TRUE
            if isinstance(container, ast.Tuple | ast.List) and container.elts:
                self.report("FX105", node)
        return PLAIN

    def of_IfExp(self, node: ast.IfExp) -> Value:
        known = self.truth(node.test, "ternary")
        if known is not None:
            return self.value(node.body if known else node.orelse)
        certain, self.certain = self.certain, False
        left, right = self.value(node.body), self.value(node.orelse)
        self.certain = certain
        return joined(left, right)

    def of_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self.names[node.target.id] = value
        return value

    def of_Tuple(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        values = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                inner = self.value(item.value)
                if inner.is_traced:
                    self.report("FX110", item.value)
                values.append(self.element(inner))
            else:
                values.append(self.value(item))
        if any(v.is_traced or v.kind in ("unknown", "items") for v in values):
            return Value("items", element="traced" if values and all(v.is_traced for v in values) else "unknown")
        return Value("literal")

    of_List = of_Tuple
    of_Set = of_Tuple

    def of_Dict(self, node: ast.Dict) -> Value:
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.value(item)
            if key is None:
                if value.is_traced:
                    self.report("FX113", item)
            else:
                self.value(key)
        return UNKNOWN

    def of_JoinedStr(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.value(part.value)
                if value.is_traced:
                    form = part.format_spec.values if isinstance(part.format_spec, ast.JoinedStr) else []
                    text = "".join(str(f.value) for f in form if isinstance(f, ast.Constant))
                    self.report("FX136" if text and part.conversion == -1 else "FX205", part.value)
        return Value("literal")

    def of_Lambda(self, node: ast.Lambda) -> Value:
        return UNKNOWN

    def of_Await(self, node: ast.Await) -> Value:
        self.value(node.value)
        return UNKNOWN

    def of_Starred(self, node: ast.Starred) -> Value:
        return self.value(node.value)

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        before, certain = dict(self.names), self.certain
        items = UNKNOWN
        for generator in node.generators:
            items = self.iterated(generator.iter)
            self.store(generator.target, items, None)
            self.certain = self.certain and items.is_traced
            for condition in generator.ifs:
                self.truth(condition, "filter")
                self.certain = False
        if isinstance(node, ast.DictComp):
            self.value(node.key)
            self.value(node.value)
            result = UNKNOWN
        else:
            element = self.value(node.elt)
            result = Value("items", element="traced" if element.is_traced else "unknown")
        self.names, self.certain = before, certain
        return result

    of_ListComp = comprehension
    of_SetComp = comprehension
    of_GeneratorExp = comprehension
    of_DictComp = comprehension

    def of_Call(self, node: ast.Call) -> Value:
        return calls.call(self, node)


def _tuple_holds_traced(walk: Expressions, node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple) and any(walk.peek(e).is_traced for e in node.elts)
