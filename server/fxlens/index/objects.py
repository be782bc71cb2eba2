"""Classes of the workspace and their objects: constructions are noted, methods are followed."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import Any, cast

from . import fields, registries
from .machine import Frame, Machine, Names
from .symbols import Symbol
from .values import (
    NONE,
    Apply,
    Attribute,
    Class,
    Const,
    External,
    Function,
    Hole,
    Mapping,
    Method,
    Object,
    Operation,
    Sequence,
    Tool,
    Unknown,
    Value,
    literal,
)

_SAME_MODEL = {
    "to", "cuda", "cpu", "eval", "train", "float", "half", "double", "bfloat16", "requires_grad_", "share_memory",
    "apply", "xpu", "type", "to_empty",
}  # fmt: skip
_HOLDS_MODEL = {"module", "_orig_mod", "model_without_ddp"}


class Objects(Machine):
    """Constructions, methods and attributes."""

    def construct(self, kind: Class, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
        """An instance of a class of the workspace.  ``__init__`` is read for what it keeps and constructs."""
        symbol = kind.symbol
        self.files.add(symbol.file)
        made = fields.construct(self, kind, args, keywords)
        if made is not None:
            return made
        place = (self.frame.file, getattr(node, "lineno", self.frame.line))
        made = Object(kind, args, keywords, {}, self.tick(), place)
        is_module = self.symbols.is_module(symbol)
        if is_module:
            self.note("construct", kind, args, keywords, node)
        init = self.symbols.method(symbol, "__init__")
        if init is None:
            return made
        key = (symbol, self._key_of(args, keywords))
        if is_module and key in self.made:
            made.fields.update(self.made[key])
            return made
        self.call_method(made, init, args, keywords)
        if is_module:
            self.made[key] = dict(made.fields)
        return made

    def _key_of(self, args: list[Value], keywords: dict[str, Value]) -> str:
        """Says which constructions are alike, well enough to read ``__init__`` once for each."""
        return repr([_brief(each) for each in args] + [(name, _brief(each)) for name, each in keywords.items()])

    def call_method(self, owner: Value, method: Symbol, args: list[Value], keywords: dict[str, Value]) -> Value:
        """Calls a method of the workspace on an object, or on a class."""
        function = self.value_of(method)
        if not isinstance(function, Function):
            return Hole(method.name)
        home = Symbol("class", method.file, method.name.rpartition(".")[0])
        env = owner.kind.env if isinstance(owner, Object) else None
        return self.invoke(Function(function.file, function.name, function.node, env, home, owner), args, keywords)

    def call_super(self, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
        receiver, owner = self.frame.receiver, self.frame.owner
        if not isinstance(receiver, Object) or owner is None:
            return Hole(name)
        order = list(self.symbols.mro(receiver.kind.symbol))
        after = order[order.index(owner) + 1 :] if owner in order else []
        for each in after:
            method = Symbol("function", each.file, f"{each.name}.{name}")
            if each.kind == "class" and method.name in self.symbols.scopes(each.file):
                return self.call_method(receiver, method, args, keywords)
        if name == "__init__":
            fields.external_init(self, receiver, args, keywords)
        return NONE

    def call_object(self, owner: Object, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
        if self.symbols.is_module(owner.kind.symbol):
            self.note("call", owner, args, keywords, node)
            return Apply(owner, args, keywords)
        method = self.symbols.method(owner.kind.symbol, "__call__")
        return self.call_method(owner, method, args, keywords) if method else Hole(owner.kind.symbol.name)

    def method_of_model(
        self, owner: Object, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        """A method that the workspace does not define: one of ``nn.Module``."""
        if name in _SAME_MODEL or (name == "compile" and not args):
            if name == "compile":
                self.note("capture", "torch.nn.Module.compile", [owner], {}, node)
            return owner
        if name in ("forward", "__call__"):
            return self.call_object(owner, args, keywords, node)
        if name == "save_hyperparameters":
            given = {key: each for key, each in self.frame.names.items() if each is not owner}
            owner.fields["hparams"] = self.new_dict(given, "config")
            return NONE
        if name in ("add_module", "register_module", "register_buffer", "__setattr__") and len(args) > 1:
            field_name = args[0]
            if isinstance(field_name, Const) and isinstance(field_name.value, str):
                self.set_attribute(owner, field_name.value, args[1])
            return NONE
        return Hole(name)

    # ---- attributes

    def attribute_of_code(self, base: Value, name: str) -> Value:
        if isinstance(base, Object):
            return self._of_object(base, name)
        if isinstance(base, Class):
            return self._of_class(base, name)
        if isinstance(base, Function):
            return Const(base.name.rpartition(".")[2]) if name == "__name__" else Hole(name)
        return Hole(name)

    def _of_object(self, base: Object, name: str) -> Value:
        if name in base.fields:
            return base.fields[name]
        if name == "__dict__":
            return Mapping(cast(dict[Hashable, Value], base.fields), "dict", True, base.born)
        if name == "__class__":
            return base.kind
        symbol = base.kind.symbol
        method = self.symbols.method(symbol, name)
        if method is not None:
            if not (name == "forward" and self.symbols.is_module(symbol)):
                return self._bound(base, method)
            return Method(base, name)
        found = self.class_names_of(base.kind).get(name)
        if isinstance(found, Value):
            return found
        getter = self.symbols.method(symbol, "__getattr__")
        if getter is not None and not self.symbols.is_module(symbol):
            return self.call_method(base, getter, [Const(name)], {})
        if self.symbols.is_module(symbol):
            return base if name in _HOLDS_MODEL else Method(base, name)
        registered = registries.attribute(self, base, name)
        return Hole(name) if registered is None else registered

    def _bound(self, owner: Value, method: Symbol) -> Value:
        function = self.value_of(method)
        if not isinstance(function, Function):
            return function
        scope = self.symbols.scopes(method.file).get(method.name)
        decorators = {name.rpartition(".")[2] for name, _ in scope.decorators} if scope else set()
        home = Symbol("class", method.file, method.name.rpartition(".")[0])
        if "staticmethod" in decorators:
            return function
        receiver = owner
        if "classmethod" in decorators and isinstance(owner, Object):
            receiver = owner.kind
        env = owner.kind.env if isinstance(owner, Object) else None
        bound = Function(function.file, function.name, function.node, env, home, receiver)
        if decorators & {"property", "cached_property", "lazy_property"} and isinstance(owner, Object):
            return self.invoke(bound, [], {})
        return bound

    def _of_class(self, base: Class, name: str) -> Value:
        if name in ("__name__", "__qualname__"):
            return Const(base.symbol.name.rpartition(".")[2])
        method = self.symbols.method(base.symbol, name)
        if method is not None:
            scope = self.symbols.scopes(method.file).get(method.name)
            decorators = {each.rpartition(".")[2] for each, _ in scope.decorators} if scope else set()
            return self._bound(base, method) if "classmethod" in decorators else self.value_of(method)
        inner = self.symbols.member(base.symbol, name)
        if inner is not None:
            return self.value_of(inner)
        found = self.class_names_of(base).get(name)
        if isinstance(found, Value):
            return Attribute(base, name) if fields.is_enum(self.symbols, base.symbol) else found
        made = registries.attribute(self, base, name)
        return External(f"<class>.{name}") if made is None else made

    def class_names_of(self, kind: Class) -> Names:
        """What the body of a class, and those of its bases, assign."""
        names = self.class_names.get(kind.symbol)
        if names is not None:
            return names
        names = self.class_names[kind.symbol] = Names(kind.env if isinstance(kind.env, Names) else None)
        for each in reversed(list(self.symbols.mro(kind.symbol))):
            node = self.workspace.node(each.file, each.name) if each.kind == "class" else None
            if not isinstance(node, ast.ClassDef):
                continue
            self.files.add(each.file)
            self.frames.append(Frame(each.file, each.name, names))
            try:
                body = [part for part in node.body if isinstance(part, (ast.Assign, ast.AnnAssign, ast.Expr))]
                self.block([part for part in body if not _is_docstring(part)])
            finally:
                self.frames.pop()
        return names

    def set_attribute(self, base: Value, name: str, value: Value) -> None:
        if isinstance(base, Object) and self.may_change(base, base.fields.get(name)):
            base.fields[name] = value
            if self.frame.receiver is not base:
                base.changed[name] = value
        elif isinstance(base, Mapping) and self.may_change(base, base.items.get(name)):
            base.items[name] = value
        elif isinstance(base, Tool) and hasattr(base.state, "set_attribute"):
            base.state.set_attribute(self, name, value)
        elif isinstance(base, Class) and self.dead_since is None:
            self.class_names_of(base)[name] = value

    def set_item(self, base: Value, index: Value, value: Value) -> None:
        if isinstance(base, Object):
            method = self.symbols.method(base.kind.symbol, "__setitem__")
            if method is not None:
                self.call_method(base, method, [index, value], {})
            return
        try:
            key = literal(index)
            if isinstance(base, Mapping):
                if self.may_change(base, base.items.get(key)):
                    base.items[key] = value
            elif isinstance(base, Sequence) and self.may_change(base, None) and isinstance(key, int):
                base.items[key] = value
        except (Unknown, TypeError, IndexError):
            if isinstance(base, (Mapping, Sequence)):
                base.whole = False


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _brief(value: Value, depth: int = 4) -> Any:
    if isinstance(value, Const):
        return value.value
    if isinstance(value, (Hole, External)):
        return value.name
    if isinstance(value, Class):
        return value.symbol
    if isinstance(value, Sequence) and depth:
        return [_brief(each, depth - 1) for each in value.items[:40]]
    if isinstance(value, Operation):
        return ast.dump(value.node)
    return id(value)
