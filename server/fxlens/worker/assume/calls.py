"""Calls in the code that is read: arguments meet the parameters of what is called."""

from __future__ import annotations

import ast
import re
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .places import NOTHING, Place
from .reading import Bound, Known, Local, Method, Parent, Reading, Self, Sequence, Shape
from .source import plain

if TYPE_CHECKING:
    from .reading import Body

_NUMBERS = {"int", "round", "float", "abs", "pow", "divmod", "hex"}
_SAME = {"list", "tuple", "sorted", "reversed", "set", "deepcopy", "copy", "iter", "dict"}
_FACTORIES = {"zeros", "ones", "randn", "rand", "empty", "full", "arange", "linspace", "eye", "randint"}
_KEEPING = {
    "relu", "dropout", "float", "contiguous", "detach", "clone", "to", "gelu", "silu", "tanh", "sigmoid", "add", "sub",
    "mul", "div", "normalize", "type_as", "half", "requires_grad_", "type", "double", "bfloat16", "cuda", "cpu",
    "relu_", "softmax", "leaky_relu", "checkpoint", "abs", "exp", "log", "sqrt", "pow", "square", "log_softmax",
    "nan_to_num", "clamp", "elu",
}  # fmt: skip
"""Tensor functions whose result has the shape of the first argument."""
_TENSOR_METHODS = {
    "size", "dim", "view", "reshape", "permute", "transpose", "unsqueeze", "squeeze", "flatten", "mean", "sum", "max",
    "min", "chunk", "split", "expand", "expand_as", "repeat", "masked_fill", "masked_fill_", "long", "bool", "int",
    "std", "var", "argmax", "topk", "gather", "matmul", "bmm", "new_zeros", "new_ones", "numel", "device", "unbind",
    "repeat_interleave", "roll", "norm", "cumsum", "ne", "eq", "lt", "gt", "t", "unfold", "tolist", "item", "numpy",
    "index_select", "swapaxes", "movedim", "stride", "diff", "prod", "all", "any", "nonzero", "new_tensor", "new_full",
} | _KEEPING  # fmt: skip
_TEXT_METHODS = {
    "lower", "upper", "startswith", "endswith", "strip", "replace", "rsplit", "format", "title", "capitalize", "join",
}  # fmt: skip
_MAPPING_METHODS = {"items", "keys", "values", "get", "pop", "setdefault", "update"}
_LIST_METHODS = {"append", "extend", "insert", "index", "count"}
_MODULE_METHODS = {
    "parameters", "named_parameters", "children", "named_children", "modules", "named_modules", "state_dict", "eval",
    "train", "load_state_dict", "add_module", "register_buffer", "apply", "get_submodule", "buffers", "forward",
}  # fmt: skip
_SIZED = {"view", "reshape", "repeat", "expand", "narrow", "unflatten", "new_zeros", "new_ones", "new_full"}
"""Tensor methods whose arguments are sizes."""


class Calls:
    """Reads calls for one `Body`."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.reader = body.reader
        self.spread: list[Place] = []
        """What the call that is read gives as ``**place``."""

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
            if isinstance(owner, Known) and node.attr in _SIZED and hasattr(owner.value, "shape"):
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
            return self._on_place(function, args, kwargs)
        if isinstance(function, Method):
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

    def _local(self, function: Local, args: list[Any], kwargs: dict[str, Any]) -> Any:
        from .reading import Body

        names = [each.arg for each in function.node.args.args]
        reading = Reading({}, names)
        values = {**dict.fromkeys(names), **dict(zip(names, args, strict=False)), **kwargs}
        if self.reader.depth > 5 or self.reader.left <= 0:
            return None
        self.reader.depth += 1
        scope = {**function.scope.names, **values}
        Body(self.reader, function.scope.function, scope, function.scope.owner, reading).run(function.node)
        self.reader.depth -= 1
        return reading.returns[0] if reading.returns else None

    def _known(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        import torch

        if isinstance(function, torch.nn.Module):
            return self._module(function, args, kwargs)
        name = getattr(function, "__name__", "")
        if isinstance(function, type):
            if issubclass(function, torch.nn.Module) or self.reader.is_own(getattr(function, "__init__", None)):
                if self.reader.is_own(function.__init__):  # type: ignore[misc]
                    self._connect(self.reader.constructor(function), args, kwargs)
                    return None
                return self._installed(function, args, kwargs)
        elif self.reader.is_own(function):
            return self._connect(self.reader.function(plain(function)), args, kwargs)
        special = getattr(self, f"_call_{name}", None)
        module = str(getattr(function, "__module__", "") or "")
        if special is not None and (module in ("builtins", "copy", "functools", "einops.einops", "torch.functional")):
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
        return first if name in _KEEPING and isinstance(first, Place) else None

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
                each.use("layer", (_Identity(module), index))
        for name, each in kwargs.items():
            if isinstance(each, Place):
                each.use("layer", (_Identity(module), name))
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
        return reading.returns[0] if len(reading.returns) == 1 and isinstance(reading.returns[0], Known) else None

    def _on_place(self, bound: Bound, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """``place.name(…)``."""
        place, name = bound.place, bound.name
        constants = [each.value if isinstance(each, Known) else None for each in args]
        if name in ("get", "pop", "setdefault", "getattr") and constants and isinstance(constants[0], str):
            place.use("get", constants[0])
            part = place.part("key", constants[0])
            if len(args) > 1 and isinstance(args[1], Known):
                part.default = args[1].value
            else:
                part.default = None
            return part
        if name in _TEXT_METHODS:
            place.use("string", name)
            return place
        if name == "split" and (not constants or isinstance(constants[0], str)):
            place.use("string", name)
            return None
        if name in _MAPPING_METHODS:
            place.use("mapping")
            if name in ("items", "values"):
                value = place.part("value")
                return Sequence([Sequence([place.part("key_text"), value]) if name == "items" else value])
            return None
        if name in _LIST_METHODS:
            place.use("iterate")
            return None
        if name in _MODULE_METHODS:
            place.use("module", name)
            return place if name in ("eval", "train") else None
        if name in _TENSOR_METHODS:
            return self._tensor_method(place, name, args, constants)
        for each in args:
            if isinstance(each, Place):
                each.use("argument", (name, 0))
        place.use("method", name)
        part = place.part("attribute", name)
        return self.apply(part, args, kwargs)

    def _tensor_method(self, place: Place, name: str, args: list[Any], constants: list[Any]) -> Any:
        place.use("tensor", name)
        numbers = [each for each in constants if isinstance(each, int) and not isinstance(each, bool)]
        if name == "permute":
            count = len(args) if len(args) > 1 else len(getattr(args[0], "items", ())) if args else 0
            if len(args) == 1 and isinstance(constants[0], (list, tuple)):
                count = len(constants[0])
            if count:
                place.use("dims", ("_",) * count)
        if name in ("transpose", "size", "flatten", "unbind", "chunk", "softmax", "mean", "sum") and numbers:
            index = numbers[-1] if name == "chunk" else max(numbers, default=0)
            lowest = min(numbers)
            place.use("rank_at_least", max(index + 1, -lowest) if name != "chunk" else index + 1)
        if name == "size":
            return Shape(place, numbers[0]) if numbers else Shape(place)
        if name in ("t",):
            place.use("dims", ("_", "_"))
        if name in ("long", "bool"):
            place.use("cast", name)
        for index, each in enumerate(args):
            if isinstance(each, Place):
                each.use("int" if name in _SIZED else "argument", (name, index + 1))
        return place if name in _KEEPING or name in ("long", "int", "bool") else None

    # Functions that say something of their own

    def _call_isinstance(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) == 2 and isinstance(args[0], Place) and isinstance(args[1], Known):
            kinds = args[1].value if isinstance(args[1].value, (tuple, list)) else (args[1].value,)
            for each in kinds:
                if isinstance(each, type):
                    args[0].use("isinstance", each)
        return None

    def _call_len(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args and isinstance(args[0], Place):
            args[0].use("length")
        return None

    def _call_range(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        for each in args:
            if isinstance(each, Place):
                each.use("int", "range")
        return None

    def _call_hasattr(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) == 2 and isinstance(args[0], Place) and isinstance(args[1], Known):
            args[0].use("hasattr", args[1].value)
        return None

    def _call_getattr(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) < 2:
            return None
        owner, name = args[0], args[1]
        if isinstance(name, Place):
            if isinstance(owner, Known) and isinstance(owner.value, (ModuleType, type)):
                name.use("name_in", _Identity(owner.value))
            else:
                name.use("string", "getattr")
            return None
        if isinstance(name, Known) and isinstance(name.value, str):
            if isinstance(owner, Place) and len(args) == 3:
                owner.use("hasattr", name.value)
                part = owner.part("attribute", name.value)
                part.default = args[2].value if isinstance(args[2], Known) else None
                return part
            return self.body.attribute(owner, name.value)
        return None

    def _call_enumerate(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        inner = self.body.of_iterable(args[0]) if args else [None]
        if len(inner) > 1 or (args and isinstance(args[0], Known)):
            return Sequence([Sequence([Known(index), each]) for index, each in enumerate(inner)])
        return Sequence([Sequence([None, each]) for each in inner])

    def _call_zip(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        places = [each for each in args if isinstance(each, Place)]
        for one in places:
            one.use("iterate")
            for other in args:
                if other is not one and isinstance(other, Place):
                    one.use("same_length", other)
        known = [self.body.of_iterable(each) for each in args if isinstance(each, (Known, Sequence))]
        count = min((len(each) for each in known), default=1)
        rows = []
        for index in range(max(count, 1)):
            row: list[Any] = []
            for each in args:
                if isinstance(each, Place):
                    row.append(each.part("item", index) if known and count > 1 else each.part("item"))
                else:
                    items = self.body.of_iterable(each)
                    row.append(items[min(index, len(items) - 1)])
            rows.append(Sequence(row))
        return Sequence(rows)

    def _call_map(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) == 2:
            return Sequence([self.apply(args[0], [self.body.of_iterable(args[1])[0]], {})])
        return None

    def _call_sum(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args and isinstance(args[0], Place):
            args[0].use("iterate")
            args[0].part("item").use("arithmetic", "+")
        return None

    _call_max = _call_min = _call_sum

    def _call_callable(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args and isinstance(args[0], Place):
            args[0].use("callable")
        return None

    def _call_partial(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return self.apply(args[0], args[1:], kwargs) if args else None

    def _call_str(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args and isinstance(args[0], Place):
            args[0].use("format")
        return None

    def _call_rearrange(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) < 2 or not isinstance(args[1], Known):
            return None
        pattern = str(args[1].value).split("->")[0].strip()
        if isinstance(args[0], Place):
            args[0].use("pattern", (pattern, _sizes(kwargs)))
        for place in self.spread:
            for group in re.findall(r"\(([^)]*)\)", pattern):
                for name in group.split():
                    place.use("key", name)
                    place.part("key", name).use("int")
        return None

    _call_reduce = _call_repeat = _call_rearrange

    def _call_einsum(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        pattern = args[0].value if args and isinstance(args[0], Known) and isinstance(args[0].value, str) else ""
        tensors = args[1].items if len(args) == 2 and isinstance(args[1], Sequence) else args[1:]
        for part, each in zip(pattern.split("->")[0].split(","), tensors, strict=False):
            if isinstance(each, Place) and "." not in part:
                letters = part.split() if " " in part.strip() else list(part.strip())
                each.use("dims", tuple(letters))
        return None


class _Identity:
    """Something that may not be hashable, as the detail of a use."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _sizes(kwargs: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    return tuple(
        (name, value.value)
        for name, value in kwargs.items()
        if isinstance(value, Known) and isinstance(value.value, int) and not isinstance(value.value, bool)
    )
