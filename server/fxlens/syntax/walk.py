"""Follows the arguments of forward through the statements of a model, as a trace would, without running anything.

Conditions that the trace itself would decide (`isinstance` of a traced value, `x is None`, `torch.jit.is_scripting()`)
are decided here too; branches that depend on anything else are followed, but findings there are uncertain.
"""

from __future__ import annotations

import ast
import contextlib

from .expressions import Expressions
from .scope import Function, is_setting, is_static
from .values import NONE, PLAIN, UNKNOWN, Value, constant, joined, traced

__all__ = ["Walk"]


class _Leaves(Exception):
    """The block ends here: return, raise, break, continue."""


class Walk(Expressions):
    """One function under analysis; calls of functions of the file are walked in a child."""

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
        """Follow alternative branches; code after them is uncertain if one of them returns or raises."""
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
        """Walk a loop's body twice, so that bindings of one iteration are seen by the next."""
        certain = self.certain
        for turn in range(2):
            before = dict(self.names)
            if target is not None and value is not None:
                self.store(target, value, None)
            # The text does not show whether the body runs at all, unless the iterable is one that the trace would stop
            # at.
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
