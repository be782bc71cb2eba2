"""Calls in the code that is read: arguments are matched to the callee's parameters."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from . import methods
from .functions import Functions
from .methods import KEEPING, SIZED
from .places import NOTHING, Place
from .source import plain
from .values import Bound, Identity, Known, Local, Method, Parent, Reading, Self, Sequence, Shape

if TYPE_CHECKING:
    from .body import Body

_NUMBERS = {"int", "round", "float", "abs", "pow", "divmod", "hex"}
_SAME = {"list", "tuple", "sorted", "reversed", "set", "deepcopy", "copy", "iter", "dict"}
_OF_CONFIGURATIONS = tuple(
    f".OmegaConf.{each}" for each in ("merge", "create", "structured", "to_container", "to_object")
)
"""Functions that return a configuration with the values of their argument."""
_FACTORIES = {"zeros", "ones", "randn", "rand", "empty", "full", "arange", "linspace", "eye", "randint"}


class Calls:
    """Reads calls for one `Body`."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.reader = body.reader
        self._functions = Functions(self)
        self.spread: list[Place] = []
        """The ``**place`` arguments of the call that is read."""

    def value(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and "super" not in self.body.names:
            return self._super(node)
        function = self._callee(node.func)
        args, kwargs, spread = self._arguments(node)
        self.spread = spread
        result = self.apply(function, args, kwargs)
        self.spread = []
        return result

    def _super(self, node: ast.Call) -> Any:
        owner = self.body.owner
        if owner is None:
            return None
        above = self.body.value(node.args[0]) if node.args else self.body.names.get("__class__")
        kind = above.value if isinstance(above, Known) else None
        if isinstance(kind, type) and kind in owner.kind.__mro__:
            return Parent(owner, kind)
        return None

    def _callee(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Attribute):
            owner = self.body.value(node.value)
            if isinstance(owner, Known) and node.attr in SIZED and hasattr(owner.value, "shape"):
                return Bound(Place("tensor"), node.attr)
            if isinstance(owner, Place):
                return Bound(owner, node.attr)
            if isinstance(owner, Shape):
                return None
            return self.body.attribute(owner, node.attr)
        return self.body.value(node)

    def _arguments(self, node: ast.Call) -> tuple[list[Any], dict[str, Any], list[Place]]:
        args: list[Any] = []
        spread: list[Place] = []
        for each in node.args:
            if isinstance(each, ast.Starred):
                inner = self.body.value(each.value)
                if isinstance(inner, Place):
                    inner.use("star")
                args.extend(inner.items if isinstance(inner, Sequence) else [inner])
            else:
                args.append(self.body.value(each))
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.body.value(keyword.value)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif isinstance(value, Place):
                value.use("mapping")
                spread.append(value)
        return args, kwargs, spread

    def apply(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if isinstance(function, Place):
            function.use("call", (len(args), tuple(kwargs)))
            if any(isinstance(each, Place) for each in args) and self.body.owner and self.body.owner.real is None:
                function.use("call_with_values")
            return function.part("result")
        if isinstance(function, Bound):
            return methods.called(function, args, kwargs, self.apply)
        if isinstance(function, Method):
            if function.function.__name__ == "save_hyperparameters":
                self._hyperparameters(function.owner, args)
            reading = self.reader.function(function.function, function.owner)
            return self._connect(reading, args, kwargs)
        if isinstance(function, Local):
            return self._local(function, args, kwargs)
        if isinstance(function, Self) and function.real is None:
            method = plain(getattr(function.kind, "forward", None))
            if method is not None:
                return self._connect(self.reader.function(method, function), args, kwargs)
        if isinstance(function, Self) and function.real is not None:
            return self._module(function.real, args, kwargs)
        if isinstance(function, Known):
            return self._known(function.value, args, kwargs)
        return None

    def _hyperparameters(self, owner: Self, args: list[Any]) -> None:
        """``self.hparams`` of Lightning: the given values, or the constructor's arguments by name."""
        kept = owner.stored.setdefault("hparams", Place("hparams"))
        if not isinstance(kept, Place):
            return
        for each in args:
            if isinstance(each, Place):
                each.flow(kept)
        for name, value in self.body.names.items() if not args else ():
            if isinstance(value, Place):
                value.flow(kept.part("attribute", name))

    def _local(self, function: Local, args: list[Any], kwargs: dict[str, Any]) -> Any:
        names = [each.arg for each in function.node.args.args]
        reading = Reading({}, names)
        values = {**dict.fromkeys(names), **dict(zip(names, args, strict=False)), **kwargs}
        if self.reader.depth > 5 or self.reader.left <= 0:
            return None
        self.reader.depth += 1
        function.scope.within(values, reading).run(function.node)
        self.reader.depth -= 1
        return reading.returns[0] if reading.returns else None

    def _known(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        import torch

        if isinstance(function, torch.nn.Module):
            return self._module(function, args, kwargs)
        name = getattr(function, "__name__", "")
        if _dotted(function).endswith(_OF_CONFIGURATIONS):
            return _one_of(args)
        if isinstance(function, type):
            if issubclass(function, torch.nn.Module) or self.reader.is_own(getattr(function, "__init__", None)):
                if self.reader.is_own(function.__init__):  # type: ignore[misc]
                    self._connect(self.reader.constructor(function), args, kwargs)
                    return None
                return self._installed(function, args, kwargs)
        elif self.reader.is_own(function):
            return self._connect(self.reader.function(plain(function)), args, kwargs)
        module = str(getattr(function, "__module__", "") or "")
        special = self._functions.named(name, module)
        if special is not None:
            return special(args, kwargs)
        if name in _SAME and args:
            return args[0]
        if name in _NUMBERS and args and module in ("builtins", "math", ""):
            if isinstance(args[0], Place):
                args[0].use("number", name)
            return args[0] if name in ("int", "float") else None
        if module.split(".")[0] in ("math", "numpy") or (name in _FACTORIES and module in ("torch", "")):
            for each in args:
                inner = each.items if isinstance(each, Sequence) else [each]
                for one in inner:
                    if isinstance(one, Place):
                        one.use("int" if name in _FACTORIES else "number", name)
            return None
        return self._installed(function, args, kwargs)

    def _installed(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Something of torch or of another package: its parameters have names, annotations and defaults."""
        import torch

        name = getattr(function, "__name__", "")
        if function in (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict):
            return self._container(function, args)
        module = str(getattr(function, "__module__", "") or "")
        first = args[0] if args else None
        if module.startswith("torch.nn.init"):
            return first
        if name == "Parameter" and isinstance(first, Place):
            first.use("tensor", "Parameter")
            return first
        if not isinstance(function, type) and name in ("cat", "stack", "concat") and first is not None:
            self._joined(first)
            return None
        if not isinstance(function, type):
            self._tensor_function(name, args, kwargs)
        signature = self.reader.signature(function) if callable(function) else None
        if signature is not None:
            names = list(signature)
            for key, value in [*zip(names, args, strict=False), *kwargs.items()]:
                parameter = signature.get(key)
                if isinstance(value, Place) and parameter is not None and parameter.name not in ("args", "kwargs"):
                    value.flow(parameter)
        return first if name in KEEPING and isinstance(first, Place) else None

    def _container(self, function: Any, args: list[Any]) -> Any:
        import torch

        first = args[0] if args else None
        if function is torch.nn.Sequential:
            for each in args:
                if isinstance(each, Place):
                    each.use("module", "Sequential")
            return None
        if isinstance(first, Place):
            first.use("iterate")
            (first.part("item") if function is torch.nn.ModuleList else first.part("value")).use("module", "ModuleList")
        if isinstance(first, Sequence):
            for each in first.items:
                if isinstance(each, Place):
                    each.use("module", "ModuleList")
        return first

    def _tensor_function(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        for index, each in enumerate(args):
            if isinstance(each, Place):
                each.use("argument", (name, index))
        first = args[0] if args else None
        if name in ("bmm", "baddbmm") and isinstance(first, Place):
            first.use("dims", ("_",) * 3)
        weight = args[1] if len(args) > 1 else kwargs.get("weight")
        if isinstance(first, Place) and isinstance(weight, Known) and hasattr(weight.value, "shape"):
            first.use("weight", (name, tuple(weight.value.shape)))

    def _joined(self, tensors: Any) -> None:
        if isinstance(tensors, Place):
            tensors.use("iterate")
            tensors.part("item").use("tensor", "cat")
        places = [each for each in getattr(tensors, "items", ()) if isinstance(each, Place)]
        for one in places:
            one.use("tensor", "cat")
            for other in places:
                if other is not one:
                    one.use("joined", other)

    def _module(self, module: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call of a submodule that exists."""
        import torch

        first = args[0] if args else next(iter(kwargs.values()), None)
        if isinstance(module, torch.nn.Sequential):
            value = first
            for child in module:
                value = self._module(child, [value], {})
                if value is None:
                    break
            return value
        forward = plain(getattr(module, "forward", None))
        if forward is not None and self.reader.is_own(forward):
            owner = Self(type(module), module)
            return self._connect(self.reader.function(forward, owner), args, kwargs)
        for index, each in enumerate(args):
            if isinstance(each, Place):
                each.use("layer", (Identity(module), index))
        for name, each in kwargs.items():
            if isinstance(each, Place):
                each.use("layer", (Identity(module), name))
        if isinstance(module, torch.nn.Linear) and isinstance(first, Place):
            return first.part("linear")
        kept = type(module).__module__.rpartition(".")[2] in (
            "activation",
            "dropout",
            "batchnorm",
            "normalization",
            "instancenorm",
        )
        kept = kept or isinstance(module, torch.nn.Identity)
        return first if kept and not isinstance(module, (torch.nn.MultiheadAttention, torch.nn.GLU)) else None

    def _connect(self, reading: Reading | None, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if reading is None:
            return None
        given: dict[str, Any] = dict(zip(reading.order, args, strict=False))
        given.update({name: value for name, value in kwargs.items() if name in reading.parameters})
        for place in self.spread:
            for name in (*reading.order, *reading.named):
                if name not in given and reading.parameters[name].default is NOTHING:
                    place.use("key", name)
                    place.part("key", name).flow(reading.parameters[name])
            if reading.extra is not None:
                place.flow(reading.parameters[reading.extra])
        self.spread = []
        came: dict[int, Any] = {}
        for name, value in given.items():
            parameter = reading.parameters.get(name)
            if parameter is None:
                continue
            came[id(parameter)] = value
            if isinstance(value, Place):
                value.flow(parameter)
            elif isinstance(value, Sequence):
                for index, each in enumerate(value.items):
                    if isinstance(each, Place):
                        each.flow(parameter.part("item", index) if len(value.items) < 9 else parameter.part("item"))
                        each.flow(parameter.part("item"))
            elif isinstance(value, Known) and isinstance(value.value, (int, str, bool)):
                parameter.use("given", value.value)
        if reading.rest is not None and len(args) > len(reading.order):
            for each in args[len(reading.order) :]:
                if isinstance(each, Place):
                    each.flow(reading.parameters[reading.rest].part("item"))
        for result in reading.returns:
            if isinstance(result, Place):
                return came.get(id(result), result)
        first = reading.returns[0] if len(reading.returns) == 1 else None
        return first if isinstance(first, (Known, Local)) else None


def _one_of(values: list[Any]) -> Place | None:
    """A value that combines these: from those after the first, the values read before."""
    places = [each for each in values if isinstance(each, Place)]
    for each in places[1:]:
        for (kind, key), part in each.parts.items():
            part.flow(places[0].part(kind, key))
    return places[0] if places else None


def _dotted(function: Any) -> str:
    """The name of a function with its module, also for placeholders."""
    missing = vars(function).get("stands_for") if isinstance(function, type) else None
    return missing or f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
