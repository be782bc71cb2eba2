"""Reading of statements: assignments, definitions and loops."""

from __future__ import annotations

import ast
from typing import Any

from . import values as v
from . import ways
from .machine import Machine
from .naming import name_of
from .symbols import Symbol

_METHODS = {kind: f"do_{kind.__name__}" for kind in ast.stmt.__subclasses__()}
_MOST_TURNS = 256
_STEPS_PER_LOOP = 3000


class Statements(Machine):
    """``block(body)``: how it ends, one of `_ENDS`, or None if it runs to its end."""

    def block(self, body: list[ast.stmt]) -> str | None:
        for node in body:
            self.step(node)
            method = getattr(self, _METHODS.get(node.__class__, ""), None)
            self.frame.line = node.lineno
            ended = method(node) if method else None
            if ended is not None:
                return ended
        return None

    # ---- simple statements

    def do_Expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def do_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value)

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.value(node.value))

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        old, more = self.value(_read(node.target)), self.value(node.value)
        if isinstance(old, v.Sequence) and old.kind == "list" and isinstance(node.op, ast.Add):
            self.changes(old)
            old.whole = v.added(old.items, self.items_of(more)) and old.whole
            return
        made = ast.BinOp(_read(node.target), node.op, node.value)
        value = self.binary(made, node.op, old, more)
        if isinstance(old, v.Mapping) or (isinstance(old, v.Sequence) and old.kind != "tuple"):
            # It changes for all its names.
            self.forget(old)
            if isinstance(value, v.Sequence) and isinstance(old, v.Sequence):
                old.items[:], old.whole = value.items, value.whole
            elif isinstance(value, v.Mapping) and isinstance(old, v.Mapping):
                old.items.update(value.items)
                old.whole = value.whole
            return
        self.assign(node.target, value)

    def do_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                self._delete(self.value(target.value), self.value(target.slice))

    def _delete(self, owner: v.Value, index: v.Value) -> None:
        if not isinstance(owner, (v.Mapping, v.Sequence)):
            return
        self.changes(owner)
        try:
            key = v.literal(index)
            if isinstance(owner, v.Mapping):
                owner.items.pop(key, None)
            else:
                del owner.items[key]
        except (v.Unknown, TypeError, IndexError):
            self.forget(owner)

    def do_Return(self, node: ast.Return) -> str:
        self.frame.returned.append(self.value(node.value) if node.value else v.NONE)
        return "return"

    def do_Raise(self, node: ast.Raise) -> str:
        return "raise"

    def do_Break(self, node: ast.Break) -> str:
        return "break"

    def do_Continue(self, node: ast.Continue) -> str:
        return "continue"

    def do_Assert(self, node: ast.Assert) -> None:
        self.value(node.test)

    # ---- names

    def do_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            target = alias.name if alias.asname else name
            source = self.symbols.modules.resolve(self.frame.file, 0, target)
            kind = ("external", "") if source is None else ("module", source)
            self._bind(name, Symbol(*kind, target))

    def do_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = self.symbols.modules.resolve(self.frame.file, node.level, node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self._star(source)
                continue
            if source is None:
                symbol: Symbol | None = Symbol("external", "", f"{node.module or ''}.{alias.name}")
            else:
                symbol = self.symbols.lookup(source, alias.name)
            # A package hidden by a workspace module of the same name, or a name made at run time.
            self._bind(alias.asname or alias.name, symbol or v.Hole(alias.name))

    def _star(self, source: str | None) -> None:
        facts = self.symbols.facts.get(source or "")
        if source is None or facts is None or not self._is_module_level():
            return  # resolved through the facts when a name is read
        kinds, functions = self.symbols.classes(source), self.symbols.scopes(source)
        for name in (*facts.imports, *facts.assigned, *kinds, *functions):
            if name[:1] in ("_", "") or "." in name:
                continue
            if (symbol := self.symbols.lookup(source, name)) is not None:
                self.frame.names[name] = symbol

    def _is_module_level(self) -> bool:
        return not self.frame.name

    def _bind(self, name: str, value: Any) -> None:
        elsewhere = self.frame.elsewhere.get(name)
        if elsewhere is not None:
            self.changes(elsewhere)
        (self.frame.names if elsewhere is None else elsewhere)[name] = value

    def do_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        defaults = self._defaults(node.args)
        if not self._is_module_level():
            name = f"{self.frame.name}.<locals>.{node.name}"
            made: Any = v.Function(self.frame.file, name, node, self.frame.names, defaults=defaults)
        elif defaults or self.workspace.node(self.frame.file, node.name) is not node:
            made = v.Function(self.frame.file, node.name, node, defaults=defaults)
        else:
            made = Symbol("function", self.frame.file, node.name)
        self._bind(node.name, made)

    def _defaults(self, arguments: ast.arguments) -> dict[str, v.Value]:
        """The defaults of parameters, which Python evaluates once; without constants, which are always the same."""
        plain = [*arguments.posonlyargs, *arguments.args]
        pairs = [*zip(plain[::-1], arguments.defaults[::-1], strict=False)]
        pairs += [(each, node) for each, node in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if node]
        return {each.arg: self.value(node) for each, node in pairs if not isinstance(node, ast.Constant)}

    do_AsyncFunctionDef = do_FunctionDef

    def do_ClassDef(self, node: ast.ClassDef) -> None:
        if self._is_module_level():
            self._bind(node.name, Symbol("class", self.frame.file, node.name))
            return
        symbol = Symbol("class", self.frame.file, f"{self.frame.name}.<locals>.{node.name}")
        self._bind(node.name, v.Class(symbol, self.frame.names))

    def do_Global(self, node: ast.Global) -> None:
        self.frame.elsewhere.update(dict.fromkeys(node.names, self.names_of(self.frame.file)))

    def do_Nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            names = self.frame.names.outer
            while names is not None and name not in names:
                names = names.outer
            if names is not None:
                self.frame.elsewhere[name] = names

    # ---- assignment

    def assign(self, target: ast.expr, value: v.Value) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, _named(value, target.id))
        elif isinstance(target, ast.Attribute):
            self.set_attribute(self.value(target.value), target.attr, _named(value, target.attr))
        elif isinstance(target, ast.Subscript):
            self.set_item(self.value(target.value), self.value(target.slice), value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value)

    def _unpack(self, targets: list[ast.expr], value: v.Value) -> None:
        items = self.items_of(value)
        starred = next((at for at, each in enumerate(targets) if isinstance(each, ast.Starred)), None)
        if items is not None and starred is not None and len(items) >= len(targets) - 1:
            end = len(items) - (len(targets) - 1 - starred)
            middle: v.Value = self.new_list(items[starred:end])
            items = [*items[:starred], middle, *items[end:]]
        if items is None or len(items) != len(targets):
            models = [each for each in items or () if isinstance(each, v.Object)]
            rest: list[v.Value] = [self._part(value, at, target) for at, target in enumerate(targets)]
            items = [*models[:1], *rest[1:]] if models else rest
        for target, item in zip(targets, items, strict=False):
            self.assign(target, item)

    def _part(self, value: v.Value, at: int, target: ast.expr) -> v.Value:
        if isinstance(value, (v.Apply, v.Item)):
            return v.Item(value, v.Const(at))
        if isinstance(value, (v.Object, v.Choice)) and not at:
            # A function that prepares a model for devices returns it among others.
            return value
        return v.Hole(name_of(target))

    # ---- loops

    def do_For(self, node: ast.For | ast.AsyncFor) -> str | None:
        values = self.items_of(self.value(node.iter))
        most = self._most_steps(node)
        before, ended, cut = self.steps, None, values is None
        with self.way(undone=False) as way:
            for at, value in enumerate([v.Hole(name_of(node.target))] if values is None else values):
                cut = cut or at == _MOST_TURNS or (at > 0 and before - self.steps > most)
                if cut and at:
                    break
                self.assign(node.target, value)
                ended = self.block(node.body)
                if ended in ("break", "return"):
                    break
        if cut:
            self._repeat(way, node)
        if ended == "return" and not cut:
            return ended
        return self.block(node.orelse) if ended != "break" else None

    do_AsyncFor = do_For

    def _most_steps(self, node: ast.For | ast.AsyncFor) -> int:
        """The number of iterations to read of a loop over known items: one for training, all for building a model."""
        names = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
        if names & {"backward", "zero_grad"}:
            return 0
        builds = "append" in names or self.workspace.interesting(node)
        return _STEPS_PER_LOOP * 8 if builds else _STEPS_PER_LOOP

    def do_While(self, node: ast.While) -> str | None:
        before = self.steps
        with self.way(undone=False) as way:
            for _ in range(_MOST_TURNS):
                known = v.truth(self.value(node.test))
                if known is False:
                    return self.block(node.orelse)
                ended = self.block(node.body)
                if known and ended in ("break", "return"):
                    return ended if ended == "return" else None
                if ended in ("break", "return", "raise") or known is None or before - self.steps > _STEPS_PER_LOOP:
                    break
        self._repeat(way, node)
        return None

    def _repeat(self, way: ways.Way, node: ast.stmt) -> None:
        """After a loop of which not all iterations were read."""
        ways.repeat(way)
        for each in ast.walk(node):  # also where it was read as a way that may not be executed, and undone
            name = each.target.id if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name) else ""
            if isinstance(self.frame.names.get(name), v.Const):
                self.frame.names[name] = v.Hole(name)

    def do_With(self, node: ast.With | ast.AsyncWith) -> str | None:
        quiet = 0
        for item in node.items:
            value = self.value(item.context_expr)
            if isinstance(value, v.Apply) and isinstance(value.function, v.External):
                quiet += value.function.name in ("torch.no_grad", "torch.inference_mode")
            if item.optional_vars is not None:
                opened = isinstance(value, (v.Tool, v.Object, v.Sequence))
                if isinstance(value, v.Sequence) and value.items:
                    value = value.items[0]  # of a generator: what it yields first
                self.assign(item.optional_vars, value if opened else v.Hole(name_of(item.optional_vars)))
        self.no_grad += quiet
        ended = self.block(node.body)
        self.no_grad -= quiet
        return ended

    do_AsyncWith = do_With


def _read(target: ast.expr) -> ast.expr:
    """The target of an assignment as an expression."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    return target


def _named(value: v.Value, name: str) -> v.Value:
    """A hole takes the name of its variable, unless its own says more."""
    if isinstance(value, v.Hole) and (len(name) > 1 and value.name != name) and not value.name.islower():
        return v.Hole(name)
    if isinstance(value, v.Hole) and value.name in _SAYING_NOTHING:
        return v.Hole(name)
    return value


_SAYING_NOTHING = {
    "item", "value", "text", "get", "load", "pop", "items", "values", "read", "shape", "size", "len", "int", "main",
}  # fmt: skip
