"""Classes of the workspace and their objects: constructions are recorded, methods are followed."""

from __future__ import annotations

import ast
import collections
from collections.abc import Hashable
from typing import Any, cast

from . import fields, registries
from . import values as v
from .machine import Frame, Machine, Names
from .symbols import Symbol

_SAME_MODEL = {
    "to", "cuda", "cpu", "eval", "train", "float", "half", "double", "bfloat16", "requires_grad_", "share_memory",
    "apply", "xpu", "type", "to_empty",
}  # fmt: skip
_HOLDS_MODEL = {"module", "_orig_mod", "model_without_ddp"}


class Objects(Machine):
    """Constructions, methods and attributes."""

    def construct(self, kind: v.Class, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
        """An instance of a class of the workspace. ``__init__`` is read for its attributes and constructions."""
        symbol = kind.symbol
        self.files.add(symbol.file)
        made = fields.construct(self, kind, args, keywords)
        if made is not None:
            return made
        place = (self.frame.file, getattr(node, "lineno", self.frame.line))
        made = v.Object(kind, args, keywords, {}, self.tick(), place)
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

    def _key_of(self, args: list[v.Value], keywords: dict[str, v.Value]) -> str:
        """A key that is equal for similar constructions, for which ``__init__`` is read once."""
        return repr([_brief(each) for each in args] + [(name, _brief(each)) for name, each in keywords.items()])

    def call_method(self, owner: v.Value, method: Symbol, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
        """Calls a method of the workspace on an object, or on a class."""
        function = self.value_of(method)
        if not isinstance(function, v.Function):
            return v.Hole(method.name)
        home = Symbol("class", method.file, method.name.rpartition(".")[0])
        env = owner.kind.env if isinstance(owner, v.Object) else None
        return self.invoke(v.Function(function.file, function.name, function.node, env, home, owner), args, keywords)

    def call_super(self, name: str, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
        receiver, owner = self.frame.receiver, self.frame.owner
        if not isinstance(receiver, v.Object) or owner is None:
            return v.Hole(name)
        order = list(self.symbols.mro(receiver.kind.symbol))
        after = order[order.index(owner) + 1 :] if owner in order else []
        for each in after:
            method = Symbol("function", each.file, f"{each.name}.{name}")
            if each.kind == "class" and method.name in self.symbols.scopes(each.file):
                if name == "__init__":
                    self.note("base", v.Class(each), args, keywords, node)
                return self.call_method(receiver, method, args, keywords)
        if name == "__init__":
            fields.external_init(self, receiver, args, keywords)
        return v.NONE

    def call_object(
        self, owner: v.Object, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr
    ) -> v.Value:
        if self.symbols.is_module(owner.kind.symbol):
            self.note("call", owner, args, keywords, node)
            return v.Apply(owner, args, keywords)
        method = self.symbols.method(owner.kind.symbol, "__call__")
        return self.call_method(owner, method, args, keywords) if method else v.Hole(owner.kind.symbol.name)

    def method_of_model(
        self, owner: v.Object, name: str, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr
    ) -> v.Value:
        """A method that the workspace does not define, such as one of ``nn.Module``."""
        if name in _SAME_MODEL or (name == "compile" and not args):
            if name == "compile":
                self.note("capture", "torch.nn.Module.compile", [owner], {}, node)
            return owner
        if name in ("forward", "__call__"):
            return self.call_object(owner, args, keywords, node)
        if name == "save_hyperparameters":
            tables = [each.items for each in args if isinstance(each, v.Mapping)]
            given = {key: each for key, each in self.frame.names.items() if each is not owner}
            kept = dict(collections.ChainMap(*reversed(tables))) if tables else given
            owner.fields["hparams"] = self.new_dict(kept, "config")
            return v.NONE
        if name in ("add_module", "register_module", "register_buffer", "__setattr__") and len(args) > 1:
            field_name = args[0]
            if isinstance(field_name, v.Const) and isinstance(field_name.value, str):
                self.set_attribute(owner, field_name.value, args[1])
            return v.NONE
        return v.Hole(name)

    # ---- attributes

    def attribute_of_code(self, base: v.Value, name: str) -> v.Value:
        if isinstance(base, v.Object):
            return self._of_object(base, name)
        if isinstance(base, v.Class):
            return self._of_class(base, name)
        if isinstance(base, v.Function):
            return v.Const(base.name.rpartition(".")[2]) if name == "__name__" else v.Hole(name)
        return v.Hole(name)

    def _of_object(self, base: v.Object, name: str) -> v.Value:
        if name in base.fields:
            return base.fields[name]
        if name == "__dict__":
            return v.Mapping(cast(dict[Hashable, v.Value], base.fields), "dict", True, base.born)
        if name == "__class__":
            return base.kind
        symbol = base.kind.symbol
        method = self.symbols.method(symbol, name)
        if method is not None:
            if not (name == "forward" and self.symbols.is_module(symbol)):
                return self._bound(base, method)
            return v.Method(base, name)
        found = self.class_names_of(base.kind).get(name)
        if isinstance(found, v.Value):
            return found
        getter = self.symbols.method(symbol, "__getattr__")
        if getter is not None and not self.symbols.is_module(symbol):
            return self.call_method(base, getter, [v.Const(name)], {})
        if self.symbols.is_module(symbol):
            return base if name in _HOLDS_MODEL else v.Method(base, name)
        registered = registries.attribute(self, base, name)
        return v.Hole(name) if registered is None else registered

    def _bound(self, owner: v.Value, method: Symbol) -> v.Value:
        function = self.value_of(method)
        if not isinstance(function, v.Function):
            return function
        scope = self.symbols.scopes(method.file).get(method.name)
        decorators = {name.rpartition(".")[2] for name, _ in scope.decorators} if scope else set()
        home = Symbol("class", method.file, method.name.rpartition(".")[0])
        if "staticmethod" in decorators:
            return function
        receiver = owner
        if "classmethod" in decorators and isinstance(owner, v.Object):
            receiver = owner.kind
        env = owner.kind.env if isinstance(owner, v.Object) else None
        bound = v.Function(function.file, function.name, function.node, env, home, receiver)
        if decorators & {"property", "cached_property", "lazy_property"} and isinstance(owner, v.Object):
            return self.invoke(bound, [], {})
        return bound

    def _of_class(self, base: v.Class, name: str) -> v.Value:
        if name in ("__name__", "__qualname__"):
            return v.Const(base.symbol.name.rpartition(".")[2])
        method = self.symbols.method(base.symbol, name)
        if method is not None:
            scope = self.symbols.scopes(method.file).get(method.name)
            decorators = {each.rpartition(".")[2] for each, _ in scope.decorators} if scope else set()
            return self._bound(base, method) if "classmethod" in decorators else self.value_of(method)
        inner = self.symbols.member(base.symbol, name)
        if inner is not None:
            return self.value_of(inner)
        found = self.class_names_of(base).get(name)
        if isinstance(found, v.Value):
            return v.Attribute(base, name) if fields.is_enum(self.symbols, base.symbol) else found
        made = registries.attribute(self, base, name)
        return v.External(f"<class>.{name}") if made is None else made

    def class_names_of(self, kind: v.Class) -> Names:
        """The assignments in the bodies of a class and its bases."""
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

    def set_attribute(self, base: v.Value, name: str, value: v.Value) -> None:
        if isinstance(base, v.Object):
            self.changes(base)
            base.fields[name] = value
            if self.frame.receiver is not base:
                base.changed[name] = value
        elif isinstance(base, v.Mapping):
            self.changes(base)
            base.items[name] = value
        elif isinstance(base, v.Tool) and hasattr(base.state, "set_attribute"):
            base.state.set_attribute(self, name, value)
        elif isinstance(base, v.Class):
            names = self.class_names_of(base)
            self.changes(names)
            names[name] = value

    def set_item(self, base: v.Value, index: v.Value, value: v.Value) -> None:
        if isinstance(base, v.Object):
            method = self.symbols.method(base.kind.symbol, "__setitem__")
            if method is not None:
                self.call_method(base, method, [index, value], {})
            return
        if not isinstance(base, (v.Mapping, v.Sequence)):
            return
        self.changes(base)
        try:
            key = v.literal(index)
            if isinstance(base, v.Mapping):
                base.items[key] = value
            elif isinstance(key, slice):
                items = self.known_items(value)
                if len(base.items) + len(items) > v.MOST_TEXT:
                    raise v.Unknown
                base.items[key] = items
            else:
                base.items[key] = value
        except (v.Unknown, TypeError, ValueError, IndexError):
            if isinstance(base, v.Sequence):
                base.items.clear()
            base.whole = False


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _brief(value: v.Value, depth: int = 4) -> Any:
    if isinstance(value, v.Const):
        return value.value
    if isinstance(value, (v.Hole, v.External)):
        return value.name
    if isinstance(value, v.Class):
        return value.symbol
    if isinstance(value, v.Sequence) and depth:
        return [_brief(each, depth - 1) for each in value.items[:40]]
    if isinstance(value, v.Operation):
        return ast.dump(value.node)
    return id(value)
