"""Reading of calls: functions and methods of the workspace are followed, models are recorded, and others are handled by
the tables in `library` and `methods`."""

from __future__ import annotations

import ast
from types import NoneType
from typing import Any

from . import configs, fields, library, methods
from . import values as v
from .machine import MOST_DEPTH, Exhausted, Frame, Machine, Names
from .naming import name_of

_STEPS_ASIDE = 4000
_PART_ASIDE = 5  # of the remaining steps


class Calls(Machine):
    """``call(function, args, keywords, node)``."""

    def of_Call(self, node: ast.Call) -> v.Value:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return v.Hole("super")
        if isinstance(node.func, ast.Attribute) and _is_super(node.func.value):
            args, keywords = self._arguments(node)
            return self.call_super(node.func.attr, args, keywords, node)
        function = self.value(node.func)
        args, keywords = self._arguments(node)
        return self.call(function, args, keywords, node)

    def _arguments(self, node: ast.Call) -> tuple[list[v.Value], dict[str, v.Value]]:
        args: list[v.Value] = []
        keywords: dict[str, v.Value] = {}
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                inner = self.value(argument.value)
                if not v.added(args, self.items_of(inner)):
                    keywords[v.OPEN] = inner
            else:
                args.append(self.value(argument))
        for keyword in node.keywords:
            value = self.value(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, v.Mapping):
                keywords.update({key: item for key, item in value.items.items() if isinstance(key, str)})
                if not value.whole:
                    keywords[v.OPEN] = value
            else:
                keywords[v.OPEN] = value
        return args, keywords

    def call(self, function: v.Value, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
        self.step(node)
        if isinstance(function, v.Function) and function.name.endswith(".fromfile"):
            return configs.from_file(self, args, keywords, node)
        if isinstance(function, v.Function):
            made = self.invoke(function, args, keywords)
            if (
                isinstance(function.receiver, v.Class)
                and isinstance(made, v.Object)
                and self.symbols.is_module(made.kind.symbol)
            ):
                self.note("factory", function, args, keywords, node)
            return made
        if isinstance(function, v.Class):
            return self.construct(function, args, keywords, node)
        if isinstance(function, v.Partial):
            return self.call(function.function, [*function.args, *args], {**function.keywords, **keywords}, node)
        if isinstance(function, v.Choice):
            return self._call_each(function, args, keywords, node)
        if isinstance(function, v.External):
            return library.call(self, function.name, args, keywords, node)
        if isinstance(function, v.Method):
            return self._call_method(function, args, keywords, node)
        if isinstance(function, v.Object):
            return self.call_object(function, args, keywords, node)
        same = ("cuda", "cpu", "contiguous", "detach", "clone", "requires_grad_")
        if (
            isinstance(function, v.Attribute)
            and isinstance(function.base, v.Apply)
            and not args
            and function.name in same
        ):
            # `torch.randn(1, 3).cuda()`: the worker has no such device, and moves values itself.
            return function.base
        if isinstance(function, v.Attribute) and function.name == "to":
            args, keywords = _without_place(args, keywords)
            if not args and not keywords:
                return function.base
        if isinstance(function, (v.Attribute, v.Apply, v.Item)):
            return v.Apply(function, args, keywords)
        if isinstance(function, v.Hole) and len(args) == 2 and _is_named_get(node) and isinstance(args[0], v.Const):
            return args[1]  # of options that nobody knows: the default
        return v.Hole(name_of(node))

    def _call_each(
        self, choice: v.Choice, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr
    ) -> v.Value:
        """Calls the usual callable normally, the others as in a branch not taken."""
        found = [self.call(choice.options[0], args, keywords, node)]
        for other in choice.options[1:]:
            with self.not_taken():
                found.append(self.call(other, args, keywords, node))
        models: list[v.Value] = [
            each for each in found if isinstance(each, (v.Object, v.Class, v.Function, v.Partial, v.Module))
        ]
        return v.Choice(models) if len(models) > 1 and found[0] in models else found[0]

    def _call_method(
        self, method: v.Method, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr
    ) -> v.Value:
        owner, name = method.receiver, method.name
        if isinstance(owner, v.Object):
            return self.method_of_model(owner, name, args, keywords, node)
        if isinstance(owner, v.Tool):
            return owner.state.call(self, name, args, keywords)
        if isinstance(owner, v.Mapping) and owner.kind == "config" and name in owner.items:
            return self.call(owner.items[name], args, keywords, node)
        return methods.call(self, owner, name, args, keywords)

    # ---- functions

    def invoke(self, function: v.Function, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
        """Follows a call into a function of the workspace."""
        node = function.node
        name = function.name.rpartition(".")[2]
        if len(self.frames) > MOST_DEPTH or any(frame.name == function.name for frame in self.frames[-4:-1]):
            return v.Hole(name)
        if function.receiver is not None:
            args = [function.receiver, *args]
        self.files.add(function.file)
        names = Names(function.env if isinstance(function.env, Names) else None)
        frame = Frame(function.file, function.name, names, function.receiver, function.owner)
        depth, floor = len(self.frames), self.floor
        if not self._matters(node, args, keywords):
            self.floor = max(floor, self.steps - max(_STEPS_ASIDE, self.steps // _PART_ASIDE))
        evaluated = self._evaluated(function)
        self.frames.append(frame)
        try:
            names.update(self.bind(node.args, args, keywords, evaluated))
            if isinstance(node, ast.Lambda):
                return self.value(node.body)
            ended = self.block(node.body)
        except Exhausted:
            if self.steps < floor:
                raise
            return v.Hole(name)
        finally:
            del self.frames[depth:]
            self.floor = floor
        if is_generator(node):
            return self.new_list(frame.returned, whole=False)
        if ended == "raise" and not frame.returned:
            return v.Hole(name)
        return self._returned(frame.returned, name)

    def _matters(self, node: ast.AST, args: list[v.Value], keywords: dict[str, v.Value]) -> bool:
        """Whether a function may construct, capture or call a model; others are not read in full."""
        given = (*args, *keywords.values())
        return (
            len(self.frames) == 1  # where the reading starts
            or any(isinstance(each, (v.Object, v.Choice)) for each in given)
            or (bool(args) and isinstance(args[0], v.Class) and self.symbols.is_module(args[0].symbol))
            or self.workspace.interesting(node)
        )

    def _returned(self, values: list[v.Value], name: str) -> v.Value:
        if not values:
            return v.NONE
        found = values[-1]
        for other in reversed(values[:-1]):
            found = self.either(found, other)
        return found

    def _evaluated(self, function: v.Function) -> dict[str, v.Value]:
        """The defaults of a function, from where its module or the function around it defines it."""
        if function.defaults is None and function.owner is None and _has_defaults(function.node):
            defined = self.names_of(function.file).get(function.name)
            if isinstance(defined, v.Function) and defined.node.lineno == function.node.lineno:
                return defined.defaults or {}
        return function.defaults or {}

    def bind(
        self,
        arguments: ast.arguments,
        args: list[v.Value],
        keywords: dict[str, v.Value],
        evaluated: dict[str, v.Value],
    ) -> dict[str, v.Value]:
        """The parameters of a function with their arguments; holes for missing ones."""
        plain = [*arguments.posonlyargs, *arguments.args]
        found: dict[str, v.Value] = {}
        for parameter, value in zip(plain, args, strict=False):
            found[parameter.arg] = value
        if arguments.vararg:
            rest = args[len(plain) :]
            found[arguments.vararg.arg] = self.new_list(rest, "tuple", whole=v.OPEN not in keywords or bool(rest))
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
                found[name] = evaluated.get(name) or self._default(parameter, defaults.get(name))
        extra_whole = extra.pop(v.OPEN, None) is None
        if arguments.kwarg:
            found[arguments.kwarg.arg] = self.new_dict(extra, whole=extra_whole)
        return found

    def _default(self, parameter: ast.arg, default: ast.expr | None) -> v.Value:
        if default is not None:
            return self.value(default)
        kind = self._annotated(parameter.annotation)
        if kind is not None and fields.has_defaults(self, kind):
            # A configuration class: an instance with its defaults is the usual case.
            return self.construct(kind, [], {}, ast.Constant(None))
        return v.Hole(parameter.arg)

    def _annotated(self, annotation: ast.expr | None) -> v.Class | None:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            text = annotation.value.rpartition(".")[2]
            annotation = ast.Name(text, ast.Load()) if text.isidentifier() else None
        if not isinstance(annotation, (ast.Name, ast.Attribute)):
            return None
        value = self.value(annotation)
        return value if isinstance(value, v.Class) else None


def _has_defaults(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    """Whether one of a function's parameters has a default other than a constant."""
    return not all(isinstance(each, (ast.Constant, NoneType)) for each in (*node.args.defaults, *node.args.kw_defaults))


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


def _without_place(args: list[v.Value], keywords: dict[str, v.Value]) -> tuple[list[v.Value], dict[str, v.Value]]:
    """The arguments of ``to`` without a device."""
    ours = ("memory_format", "non_blocking", "device", "copy")
    named = {name: each for name, each in keywords.items() if name not in ours}
    return [each for each in args if not _is_device(each)], named


def _is_device(value: v.Value) -> bool:
    if isinstance(value, v.External):
        return not value.name.startswith("torch.")
    if isinstance(value, v.Apply):
        return isinstance(value.function, v.External) and value.function.name == "torch.device"
    return isinstance(value, (v.Hole, v.Attribute)) or (
        isinstance(value, v.Const) and isinstance(value.value, (str, int))
    )


def _is_named_get(node: ast.expr) -> bool:
    """Whether it is a call ``options.get(name, default)``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get"
