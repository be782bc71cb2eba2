"""Reading of calls: functions and methods of the workspace are followed, models are noted, the rest is left to the
tables in `library` and `methods`."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import Any, cast

from . import fields, library, methods, registries
from .expressions import name_of
from .machine import MOST_DEPTH, Exhausted, Frame, Machine, Names
from .symbols import Symbol
from .values import (
    NONE,
    OPEN,
    Apply,
    Attribute,
    Choice,
    Class,
    Const,
    External,
    Function,
    Hole,
    Item,
    Mapping,
    Method,
    Module,
    Object,
    Operation,
    Partial,
    Sequence,
    Tool,
    Unknown,
    Value,
    literal,
)  # fmt: skip

_SAME_MODEL = {
    "to", "cuda", "cpu", "eval", "train", "float", "half", "double", "bfloat16", "requires_grad_", "share_memory",
    "apply", "xpu", "type", "to_empty",
}  # fmt: skip
_STEPS_ASIDE = 1500
_HOLDS_MODEL = {"module", "_orig_mod", "model_without_ddp"}


class Calls(Machine):
    """``call(function, args, keywords, node)``."""

    def of_Call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return Hole("super")
        if isinstance(node.func, ast.Attribute) and _is_super(node.func.value):
            args, keywords = self._arguments(node)
            return self._call_super(node.func.attr, args, keywords, node)
        function = self.value(node.func)
        args, keywords = self._arguments(node)
        return self.call(function, args, keywords, node)

    def _arguments(self, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
        args: list[Value] = []
        keywords: dict[str, Value] = {}
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                inner = self.value(argument.value)
                items = self.items_of(inner)
                if items is None:
                    keywords[OPEN] = inner
                args += items or ()
            else:
                args.append(self.value(argument))
        for keyword in node.keywords:
            value = self.value(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, Mapping):
                keywords.update({key: item for key, item in value.items.items() if isinstance(key, str)})
                if not value.whole:
                    keywords[OPEN] = value
            else:
                keywords[OPEN] = value
        return args, keywords

    def call(self, function: Value, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
        self.step(node)
        if isinstance(function, Function):
            return self.invoke(function, args, keywords)
        if isinstance(function, Class):
            return self.construct(function, args, keywords, node)
        if isinstance(function, Partial):
            return self.call(function.function, [*function.args, *args], {**function.keywords, **keywords}, node)
        if isinstance(function, Choice):
            return self._call_each(function, args, keywords, node)
        if isinstance(function, External):
            return library.call(self, function.name, args, keywords, node)
        if isinstance(function, Method):
            return self._call_method(function, args, keywords, node)
        if isinstance(function, Object):
            return self._call_object(function, args, keywords, node)
        same = ("cuda", "cpu", "contiguous", "detach", "clone", "requires_grad_")
        if isinstance(function, Attribute) and isinstance(function.base, Apply) and not args and function.name in same:
            # `torch.randn(1, 3).cuda()`: the worker has no such device, and moves what it makes by itself.
            return function.base
        if isinstance(function, Attribute) and function.name == "to":
            args, keywords = _without_place(args, keywords)
            if not args and not keywords:
                return function.base
        if isinstance(function, (Attribute, Apply, Item)):
            return Apply(function, args, keywords)
        return Hole(name_of(node))

    def _call_each(self, choice: Choice, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
        """The usual callable as it is, the others as in a branch that is not taken."""
        found = [self.call(choice.options[0], args, keywords, node)]
        for other in choice.options[1:]:
            with self.not_taken():
                found.append(self.call(other, args, keywords, node))
        models: list[Value] = [each for each in found if isinstance(each, (Object, Class, Function, Partial, Module))]
        return Choice(models) if len(models) > 1 and found[0] in models else found[0]

    def _call_method(self, method: Method, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
        owner, name = method.receiver, method.name
        if isinstance(owner, Object):
            return self._method_of_model(owner, name, args, keywords, node)
        if isinstance(owner, Tool):
            return owner.state.call(self, name, args, keywords)
        if isinstance(owner, Mapping) and owner.kind == "config" and name in owner.items:
            return self.call(owner.items[name], args, keywords, node)
        return methods.call(self, owner, name, args, keywords)

    # ---- functions

    def invoke(self, function: Function, args: list[Value], keywords: dict[str, Value]) -> Value:
        """Follows a call into a function of the workspace."""
        node = function.node
        name = function.name.rpartition(".")[2]
        if len(self.frames) > MOST_DEPTH or any(frame.name == function.name for frame in self.frames[-4:-1]):
            return Hole(name)
        if function.receiver is not None:
            args = [function.receiver, *args]
        self.files.add(function.file)
        names = Names(function.env if isinstance(function.env, Names) else None)
        frame = Frame(function.file, function.name, names, function.receiver, function.owner)
        depth, floor = len(self.frames), self.floor
        if not self._matters(node, args, keywords):
            self.floor = max(floor, self.steps - _STEPS_ASIDE)
        self.frames.append(frame)
        try:
            names.update(self.bind(node.args, args, keywords))
            if isinstance(node, ast.Lambda):
                return self.value(node.body)
            ended = self.block(node.body)
        except Exhausted:
            if self.steps < floor:
                raise
            return Hole(name)
        finally:
            del self.frames[depth:]
            self.floor = floor
        if is_generator(node):
            return self.new_list(frame.returned, whole=False)
        if ended == "raise" and not frame.returned:
            return Hole(name)
        return self._returned(frame.returned, name)

    def _matters(self, node: ast.AST, args: list[Value], keywords: dict[str, Value]) -> bool:
        """Whether a function may construct, capture or call a model; others are not read at any length."""
        return any(isinstance(each, (Object, Choice)) for each in (*args, *keywords.values())) or (
            self.workspace.interesting(node)
        )

    def _returned(self, values: list[Value], name: str) -> Value:
        if not values:
            return NONE
        found = values[-1]
        for other in reversed(values[:-1]):
            found = self.either(found, other)
        return found

    def bind(self, arguments: ast.arguments, args: list[Value], keywords: dict[str, Value]) -> dict[str, Value]:
        """The parameters of a function with what they are given; holes for what nobody gives."""
        plain = [*arguments.posonlyargs, *arguments.args]
        found: dict[str, Value] = {}
        for parameter, value in zip(plain, args, strict=False):
            found[parameter.arg] = value
        if arguments.vararg:
            rest = args[len(plain) :]
            found[arguments.vararg.arg] = self.new_list(rest, "tuple", whole=OPEN not in keywords or bool(rest))
        defaults: dict[str, ast.expr] = {}
        if arguments.defaults:
            defaults.update(zip([p.arg for p in plain[-len(arguments.defaults) :]], arguments.defaults, strict=True))
        for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if default is not None:
                defaults[parameter.arg] = default
        extra = dict(keywords)
        for parameter in (*plain, *arguments.kwonlyargs):
            name = parameter.arg
            if name in extra:
                found[name] = extra.pop(name)
            elif name not in found:
                found[name] = self._default(parameter, defaults.get(name))
        extra_whole = extra.pop(OPEN, None) is None
        if arguments.kwarg:
            found[arguments.kwarg.arg] = self.new_dict(extra, whole=extra_whole)
        return found

    def _default(self, parameter: ast.arg, default: ast.expr | None) -> Value:
        if default is not None:
            return self.value(default)
        kind = self._annotated(parameter.annotation)
        if kind is not None and fields.has_defaults(self, kind):
            # A configuration class: an instance with its defaults is what its author calls usual.
            return self.construct(kind, [], {}, ast.Constant(None))
        return Hole(parameter.arg)

    def _annotated(self, annotation: ast.expr | None) -> Class | None:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            text = annotation.value.rpartition(".")[2]
            annotation = ast.Name(text, ast.Load()) if text.isidentifier() else None
        if not isinstance(annotation, (ast.Name, ast.Attribute)):
            return None
        value = self.value(annotation)
        return value if isinstance(value, Class) else None

    # ---- objects

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

    def _call_super(self, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
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

    def _call_object(self, owner: Object, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
        if self.symbols.is_module(owner.kind.symbol):
            self.note("call", owner, args, keywords, node)
            return Apply(owner, args, keywords)
        method = self.symbols.method(owner.kind.symbol, "__call__")
        return self.call_method(owner, method, args, keywords) if method else Hole(owner.kind.symbol.name)

    def _method_of_model(
        self, owner: Object, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        """A method that the workspace does not define: one of ``nn.Module``."""
        if name in _SAME_MODEL or (name == "compile" and not args):
            if name == "compile":
                self.note("capture", "torch.nn.Module.compile", [owner], {}, node)
            return owner
        if name in ("forward", "__call__"):
            return self._call_object(owner, args, keywords, node)
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

    # ---- attributes of what the workspace defines

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


def is_generator(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    known = getattr(node, "_fxlens_generator", None)
    if known is None:
        stack: list[Any] = list(node.body) if isinstance(node.body, list) else []
        known = False
        while stack and not known:
            each = stack.pop()
            known = isinstance(each, (ast.Yield, ast.YieldFrom))
            if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                stack.extend(ast.iter_child_nodes(each))
        node._fxlens_generator = known  # type: ignore[union-attr]
    return known


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _without_place(args: list[Value], keywords: dict[str, Value]) -> tuple[list[Value], dict[str, Value]]:
    """The arguments of ``to`` without a device."""
    ours = ("memory_format", "non_blocking", "device", "copy")
    return [each for each in args if not _is_device(each)], {n: v for n, v in keywords.items() if n not in ours}


def _is_device(value: Value) -> bool:
    if isinstance(value, External):
        return not value.name.startswith("torch.")
    if isinstance(value, Apply):
        return isinstance(value.function, External) and value.function.name == "torch.device"
    return isinstance(value, (Hole, Attribute)) or (isinstance(value, Const) and isinstance(value.value, (str, int)))


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
