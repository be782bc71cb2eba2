"""Follows the arguments of forward through the statements of a model, as a trace would, without running anything.

Conditions that the trace itself would decide (`isinstance` of a traced value, `x is None`, `torch.jit.is_scripting()`)
are decided here too; a branch that depends on anything else is followed, but what is found there is not certain.
"""

from __future__ import annotations

import ast
import contextlib

from . import calls
from .problems import Problems, Silent
from .scope import File, Function, is_setting, is_static
from .values import FALSE, NONE, PLAIN, TRUE, UNKNOWN, Value, constant, joined, traced

__all__ = ["Walk"]

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


class _Leaves(Exception):
    """The block does not go on: return, raise, break, continue."""


class Walk:
    """One function under analysis; calls of functions of the file are walked in a child."""

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

    # ---- entry

    def forward(self, function: Function) -> None:
        """Walk forward as the root of a trace: every argument is traced."""
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = dict(zip([a.arg for a in reversed(positional)], reversed(arguments.defaults), strict=False))
        defaults |= {
            a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None
        }
        if positional and not is_static(function):
            self.self_name = positional[0].arg
            self.names[self.self_name] = UNKNOWN
        for argument in [*positional, *arguments.kwonlyargs]:
            if argument.arg != self.self_name:
                cause = "argument" if is_setting(argument, defaults.get(argument.arg)) else "data"
                self.names[argument.arg] = traced(cause, argument.arg)
        if arguments.vararg is not None:
            self.names[arguments.vararg.arg] = Value("items", element="traced")
        if arguments.kwarg is not None:
            self.names[arguments.kwarg.arg] = Value("items", element="traced")
        self.body(function.body)

    def called(self, function: Function, values: list[Value], keywords: dict[str, Value], bound: bool) -> Value:
        """Walk a function of the file with the values of a call; its result."""
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        if bound and positional:
            self.self_name = positional[0].arg
            self.names[self.self_name] = UNKNOWN
            positional = positional[1:]
        defaults = dict(zip([a.arg for a in reversed(positional)], reversed(arguments.defaults), strict=False))
        defaults |= {
            a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None
        }
        for argument in [*positional, *arguments.kwonlyargs]:
            default = defaults.get(argument.arg)
            self.names[argument.arg] = constant(default) if default is not None else UNKNOWN
        for argument, value in zip(positional, values, strict=False):
            self.names[argument.arg] = value
        for name, value in keywords.items():
            self.names[name] = value
        rest = values[len(positional) :]
        if arguments.vararg is not None:
            self.names[arguments.vararg.arg] = Value(
                "items", element="traced" if any(v.is_traced for v in rest) else "unknown"
            )
        if arguments.kwarg is not None:
            self.names[arguments.kwarg.arg] = UNKNOWN
        self.body(function.body)
        return self.result if self.result is not None else NONE

    def body(self, statements: list[ast.stmt]) -> None:
        with contextlib.suppress(_Leaves):
            self.block(statements)

    # ---- statements

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            method = getattr(self, f"do_{type(statement).__name__}", None)
            if method is not None:
                method(statement)
            else:
                for child in ast.iter_child_nodes(statement):
                    if isinstance(child, ast.expr):
                        self.value(child)

    def report(self, code: str, node: ast.AST, form: str = "call") -> None:
        self.problems.report(code, node, self.target, self.certain, form)

    def do_Return(self, node: ast.Return) -> None:
        value = self.value(node.value) if node.value is not None else NONE
        self.result = value if self.result is None else joined(self.result, value)
        raise _Leaves

    def do_Raise(self, node: ast.Raise) -> None:
        raise _Leaves

    def do_Break(self, node: ast.Break) -> None:
        raise _Leaves

    def do_Continue(self, node: ast.Continue) -> None:
        raise _Leaves

    def do_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.functions[node.name] = node
        self.names[node.name] = UNKNOWN

    def do_ClassDef(self, node: ast.ClassDef) -> None:
        self.names[node.name] = UNKNOWN

    def do_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.store(target, value, node.value)

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.store(node.target, self.value(node.value), node.value)

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        value = self.value(node.value)
        target = node.target
        if isinstance(target, ast.Name):
            old = self.names.get(target.id, UNKNOWN)
            if old.is_traced or (value.is_traced and old.kind in ("plain", "traced")):
                self.names[target.id] = traced(old.cause if old.is_traced else value.cause)
            elif old.kind in ("items", "literal") and (value.is_traced or value.holds_traced):
                self.names[target.id] = Value("items", element=value.element if value.kind == "items" else "traced")
            elif old.kind != "plain" or value.kind != "plain":
                self.names[target.id] = UNKNOWN
            else:
                self.names[target.id] = PLAIN
        elif isinstance(target, ast.Subscript):
            if self.value(target.value).is_traced:
                self.report("FX150", target)
            self.value(target.slice)
        elif isinstance(target, ast.Attribute):
            self.attribute_store(target, value, True)

    def store(self, target: ast.expr, value: Value, source: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpack(target, value, source)
        elif isinstance(target, ast.Starred):
            self.store(target.value, Value("items", element="unknown"), None)
        elif isinstance(target, ast.Subscript):
            base = self.value(target.value)
            self.value(target.slice)
            if base.is_traced:
                self.report("FX150", target)
            elif base.kind in ("items", "literal") and isinstance(target.value, ast.Name):
                known = base.element if base.kind == "items" else "unknown"
                element = "traced" if value.is_traced and known != "unknown" else "unknown"
                self.names[target.value.id] = Value("items", element=element)
        elif isinstance(target, ast.Attribute):
            self.attribute_store(target, value, False)

    def attribute_store(self, target: ast.Attribute, value: Value, augmented: bool) -> None:
        base = self.value(target.value)
        if base.is_traced:
            self.report("FX211", target)
        elif isinstance(target.value, ast.Name) and target.value.id == self.self_name and self.self_name:
            if value.is_traced and not augmented:
                self.report("FX209", target)
            elif augmented and value.kind == "plain":
                self.report("FX208", target)

    def unpack(self, target: ast.Tuple | ast.List, value: Value, source: ast.expr | None) -> None:
        starred = any(isinstance(item, ast.Starred) for item in target.elts)
        if value.is_traced and starred:
            self.report("FX111", source if source is not None else target)
        parts = source.elts if isinstance(source, ast.Tuple | ast.List) else []
        if len(parts) == len(target.elts) and not starred and not any(isinstance(p, ast.Starred) for p in parts):
            for item, part in zip(target.elts, [self.peek(e) for e in parts], strict=True):
                self.store(item, part, None)
            return
        for item in target.elts:
            if isinstance(item, ast.Starred):
                self.store(item.value, Value("items", element="traced" if value.is_traced else "unknown"), None)
            else:
                self.store(item, traced(value.cause) if value.is_traced else self.element(value), None)

    def element(self, value: Value) -> Value:
        if value.kind == "items" and value.element == "traced":
            return traced()
        return PLAIN if value.kind == "literal" else UNKNOWN

    def do_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript) and self.value(target.value).is_traced:
                self.report("FX151", target)
            elif isinstance(target, ast.Name):
                self.names[target.id] = UNKNOWN

    def do_Assert(self, node: ast.Assert) -> None:
        self.truth(node.test, "assert")

    def do_If(self, node: ast.If) -> None:
        known = self.truth(node.test, "if")
        if known is True:
            self.block(node.body)
        elif known is False:
            self.block(node.orelse)
        else:
            self.branches([node.body, node.orelse])

    def branches(self, blocks: list[list[ast.stmt]]) -> None:
        """Follow ways of which one is taken; what follows is uncertain when one of them leaves."""
        before, certain = dict(self.names), self.certain
        ends: list[dict[str, Value]] = []
        left = False
        for block in blocks:
            self.names, self.certain = dict(before), False
            try:
                self.block(block)
                ends.append(self.names)
            except _Leaves:
                left = True
        self.certain = certain and not left
        if not ends:
            raise _Leaves
        self.names = ends[0]
        for other in ends[1:]:
            self.names = {
                name: joined(self.names.get(name, UNKNOWN), other.get(name, UNKNOWN))
                for name in dict.fromkeys([*self.names, *other])
            }

    def do_While(self, node: ast.While) -> None:
        known = self.truth(node.test, "while")
        if known is not False:
            self.loop(node.body, None, None)

    def do_For(self, node: ast.For) -> None:
        value = self.iterated(node.iter)
        self.loop(node.body, node.target, value)
        self.branches([node.orelse, []])

    def loop(self, body: list[ast.stmt], target: ast.expr | None, value: Value | None) -> None:
        """Walk a loop's body twice, so that what one turn binds is seen by the next."""
        certain = self.certain
        for turn in range(2):
            before = dict(self.names)
            if target is not None and value is not None:
                self.store(target, value, None)
            # The text does not say whether the body runs at all, except over what the trace would stop at.
            self.certain = certain and turn == 0 and value is not None and value.kind != "plain"
            with contextlib.suppress(_Leaves):
                self.block(body)
            self.names = {
                name: joined(before[name], after) if name in before else after for name, after in self.names.items()
            }
        self.certain = certain

    def do_With(self, node: ast.With) -> None:
        for item in node.items:
            called = self.file.dotted(item.context_expr.func) if isinstance(item.context_expr, ast.Call) else None
            self.value(item.context_expr)
            if called in ("torch.no_grad", "torch.enable_grad", "torch.inference_mode", "torch.set_grad_enabled"):
                self.report("FX212", item.context_expr)
            if item.optional_vars is not None:
                self.store(item.optional_vars, UNKNOWN, None)
        self.block(node.body)

    def do_Try(self, node: ast.Try) -> None:
        self.branches(
            [[*node.body, *node.orelse], *([*h.body] for h in node.handlers)] if node.handlers else [node.body]
        )
        self.block(node.finalbody)

    do_TryStar = do_Try

    def do_Match(self, node: ast.Match) -> None:
        self.value(node.subject)
        for case in node.cases:
            for name in (n for n in ast.walk(case.pattern) if isinstance(n, ast.MatchAs | ast.MatchStar)):
                if name.name:
                    self.names[name.name] = UNKNOWN
        self.branches([*(case.body for case in node.cases), []])

    # ---- truth and iteration

    def truth(self, node: ast.expr, form: str) -> bool | None:
        """The truth of an expression, where the trace would decide it; ``form`` says what needs it."""
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
        """`and` and `or`: later operands are reached only when the earlier ones let it."""
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
        """The value of an expression whose problems have been reported already."""
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
        """`is` of a traced value and a constant is decided while tracing."""
        is_not = isinstance(node.ops[0], ast.IsNot)
        for value, other in ((left, right), (right, left)):
            if value.is_traced and other.kind == "plain" and other.truth is not None:
                if other.constant is None and value.name is not None:
                    # Inside another module the argument may well be left out; only a root has every argument traced.
                    certain = self.certain and self.target not in self.file.parts
                    self.problems.report("FX201", node, self.target, certain)
                elif isinstance(other.constant, bool) and value.name is not None:
                    # What the argument is, the text does not say.
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


def _tuple_holds_traced(walk: Walk, node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple) and any(walk.peek(e).is_traced for e in node.elts)
