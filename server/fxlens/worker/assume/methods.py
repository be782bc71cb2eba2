"""Methods called on parameters: their names tell what the values are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .places import Place
from .values import Bound, Known, Sequence, Shape

Apply = Callable[[Any, list[Any], dict[str, Any]], Any]
KEEPING = {
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
} | KEEPING  # fmt: skip
_TEXT_METHODS = {
    "lower", "upper", "startswith", "endswith", "strip", "replace", "rsplit", "format", "title", "capitalize", "join",
    "find", "rfind", "lstrip", "rstrip", "partition", "rpartition", "isdigit", "zfill", "casefold",
}  # fmt: skip
_MAPPING_METHODS = {"items", "keys", "values", "get", "pop", "setdefault", "update"}
_LIST_METHODS = {"append", "extend", "insert", "index", "count"}
_MODULE_METHODS = {
    "parameters", "named_parameters", "children", "named_children", "modules", "named_modules", "state_dict", "eval",
    "train", "load_state_dict", "add_module", "register_buffer", "apply", "get_submodule", "buffers", "forward",
}  # fmt: skip
SIZED = {"view", "reshape", "repeat", "expand", "narrow", "unflatten", "new_zeros", "new_ones", "new_full"}
"""Tensor methods whose arguments are sizes."""


def called(bound: Bound, args: list[Any], kwargs: dict[str, Any], apply: Apply) -> Any:
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
        if name in ("startswith", "find") and constants and isinstance(constants[0], str):
            place.use("compare", constants[0])
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
        return _of_tensor(place, name, args, constants)
    for each in args:
        if isinstance(each, Place):
            each.use("argument", (name, 0))
    place.use("method", name)
    part = place.part("attribute", name)
    return apply(part, args, kwargs)


def _of_tensor(place: Place, name: str, args: list[Any], constants: list[Any]) -> Any:
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
            each.use("int" if name in SIZED else "argument", (name, index + 1))
    return place if name in KEEPING or name in ("long", "int", "bool") else None
