"""Annotations: their members, and the kinds of values that they allow."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import enum
import inspect
import pathlib
import re
import sys
import types
import typing
from typing import Any

from ..stand_in_spaces import GYMS
from .places import NOTHING

_PLAIN = {int: "int", float: "float", bool: "bool", str: "str", dict: "mapping", type(None): "none", object: "any"}
_TEXTS = {
    "int": int, "float": float, "bool": bool, "str": str, "dict": dict, "list": list, "tuple": tuple, "Tensor": None,
}  # fmt: skip

_REQUIRED = ("gin.REQUIRED", "gin.config.REQUIRED")


def unwrapped(note: Any) -> Any:
    """Without Annotated, Final, NewType and the like."""
    for _ in range(5):
        origin = typing.get_origin(note)
        if origin in (typing.Final, typing.ClassVar) or hasattr(note, "__metadata__"):
            note = typing.get_args(note)[0]
        elif isinstance(note, typing.NewType):
            note = note.__supertype__
        elif isinstance(note, typing.TypeVar):
            note = note.__bound__ if note.__bound__ is not None else NOTHING
        else:
            break
    return note


def members(note: Any) -> list[Any]:
    """The arms of a union, None last; a single one for others."""
    note = unwrapped(note)
    if typing.get_origin(note) in (typing.Union, types.UnionType):
        arms = [unwrapped(each) for each in typing.get_args(note)]
        return [each for each in arms if each is not type(None)] + [each for each in arms if each is type(None)]
    return [note]


_CONFIGURATIONS = (
    "Namespace", "SimpleNamespace", "DictConfig", "AttrDict", "EasyDict", "CfgNode", "ConfigDict", "ListConfig",
)  # fmt: skip
_OF_TENSORS = ("jaxtyping", "torchtyping")
"""Packages whose annotations specify the sizes of tensors."""


def kind(note: Any) -> str:
    """int, float, bool, str, list, tuple, mapping, callable, class, module, tensor, config, path, device, dtype,
    choice, space, call, none, any; empty if it says nothing."""
    import torch

    note = unwrapped(note)
    if note is NOTHING or note is inspect.Parameter.empty:
        return ""
    if note is None:
        return "none"
    if isinstance(note, str):
        return _of_text(note)
    origin = typing.get_origin(note)
    if origin is typing.Literal:
        return "choice"
    if origin in (type, collections.abc.Callable):
        return "class" if origin is type else "callable"
    missing = vars(note).get("stands_for") if isinstance(note, type) else None
    if missing is not None:  # a placeholder, which has every attribute
        package, _, name = missing.rpartition(".")
        return "tensor" if package in _OF_TENSORS else _of_text(name)
    if hasattr(note, "dim_str") and hasattr(note, "dtypes"):
        return "tensor"
    if origin is tuple or note is tuple:
        return "tuple"
    if origin is not None and isinstance(origin, type):
        if issubclass(origin, collections.abc.Mapping):
            return "mapping"
        if issubclass(origin, collections.abc.Iterable):
            return "list"
        note = origin
    if note in _PLAIN:
        return _PLAIN[note]
    if not isinstance(note, type):
        return "callable" if note is typing.Callable else ""
    if issubclass(note, torch.Tensor):
        return "tensor"
    if issubclass(note, torch.nn.Module):
        return "module"
    if issubclass(note, enum.Enum):
        return "choice"
    if is_space(note):
        return "space"
    if note is torch.device:
        return "device"
    if note is torch.dtype:
        return "dtype"
    if issubclass(note, (torch.Size, list, collections.abc.Sequence)) and not issubclass(note, str):
        return "list"
    if issubclass(note, pathlib.PurePath):
        return "path"
    if note is type:
        return "class"
    if note.__name__ in _CONFIGURATIONS:
        return "list" if note.__name__ == "ListConfig" else "config"
    if issubclass(note, collections.abc.Callable):  # type: ignore[arg-type]
        return "callable"
    if issubclass(note, collections.abc.Mapping):
        return "mapping"
    return "call"


_DOCUMENTED = {
    "list": "list", "tuple": "tuple", "sequence": "list", "dict": "mapping", "int": "int", "float": "float",
    "bool": "bool", "str": "str", "string": "str", "tensor": "tensor", "torch.tensor": "tensor",
    "callable": "callable", "nn.module": "module",
}  # fmt: skip


def documented(text: str, name: str) -> str:
    """The kind that a docstring gives for a parameter: ``feats (list[Tensor]): …``."""
    match = re.search(rf"(?<![\w.]){re.escape(name)}`?\s*[(:]\s*([A-Za-z.]+)", text) if text else None
    return _DOCUMENTED.get(match[1].lower(), "") if match else ""


def is_attribute_dict(note: Any) -> bool:
    """Whether it is a configuration whose values can be read both as attributes and by key."""
    note = members(note)[0]
    missing = vars(note).get("stands_for") if isinstance(note, type) else None
    name = missing or (note if isinstance(note, str) else getattr(note, "__name__", ""))
    return str(name).rpartition(".")[2] in _CONFIGURATIONS[2:-1]


def result(note: Any) -> str:
    """The kind of what a callable returns; empty if the annotation does not say it."""
    for arm in members(note):
        given = typing.get_args(arm)
        if typing.get_origin(arm) is collections.abc.Callable and len(given) == 2:
            return kind(given[1])
    return ""


def is_space(kind: type) -> bool:
    """Whether it is a space of gym or gymnasium, which specifies a policy's observations or actions."""
    return any(each.__name__ == "Space" and each.__module__.split(".")[0] in GYMS for each in kind.__mro__)


def choices(note: Any) -> list[Any]:
    """The values of a Literal or of an Enum."""
    note = unwrapped(note)
    if typing.get_origin(note) is typing.Literal:
        return list(typing.get_args(note))
    return list(note) if isinstance(note, type) and issubclass(note, enum.Enum) else []


def items(note: Any) -> tuple[list[Any], int | None]:
    """Annotations of the items of a list or tuple, and their number if fixed."""
    args = list(typing.get_args(unwrapped(note)))
    if not args:
        return [NOTHING], None
    if typing.get_origin(unwrapped(note)) is tuple:
        if len(args) == 2 and args[1] is ...:
            return [args[0]], None
        return args, len(args)
    return args[-1:], None


def default_of(parameter: inspect.Parameter) -> Any:
    """Its default; NOTHING if it has none, or that of gin by which only a configuration can give one."""
    default = parameter.default
    if isinstance(default, type):  # a placeholder where gin is missing
        return NOTHING if default is parameter.empty or vars(default).get("stands_for") in _REQUIRED else default
    required = getattr(sys.modules.get("gin.config"), "__dict__", {}).get("REQUIRED", NOTHING)
    return NOTHING if default is required else default


def fields(kind: type) -> dict[str, tuple[Any, Any]]:
    """Parameters of a class's constructor: annotation and default of each, NOTHING if there is none."""
    namespace = vars(sys.modules.get(kind.__module__, types))
    found = {}
    for name, each in _parameters(kind).items():
        note: Any = NOTHING if each.annotation is each.empty else each.annotation
        if isinstance(note, str):
            with contextlib.suppress(Exception):
                note = eval(note, dict(namespace))
        default = default_of(each)
        if default is not NOTHING and type(default).__name__ == "_HAS_DEFAULT_FACTORY_CLASS":
            default = _from_factory(kind, name)
        found[name] = (note, default)
    return found


def _parameters(kind: type) -> dict[str, inspect.Parameter]:
    """Those of the constructor; with ``**kwargs``, also those of parents that may receive them."""
    found: dict[str, inspect.Parameter] = {}
    try:
        signature = inspect.signature(kind)
        makers = [each for each in kind.__mro__[:-1] if "__init__" in vars(each)]
    except (TypeError, ValueError):
        return {}
    for above in [None, *makers[1:]]:
        if above is not None:
            if above.__module__.startswith("torch.nn.modules.module"):
                break
            signature = inspect.signature(above)
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        for name, each in signature.parameters.items():
            if each.kind not in variable:
                found.setdefault(name, each)
        if not any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values()):
            break
    return found


def _from_factory(kind: type, name: str) -> Any:
    for field in dataclasses.fields(kind):
        if field.name == name and field.default_factory is not dataclasses.MISSING:
            try:
                return field.default_factory()
            except Exception:
                break
    return None


def _of_text(note: str) -> str:
    """The kind of an annotation that could not be evaluated, such as one under TYPE_CHECKING."""
    name = note.strip().rpartition(".")[2]
    known = _TEXTS.get(name)
    if known in _PLAIN:
        return _PLAIN[known]
    if name.startswith(("Optional[", "list[", "List[", "Sequence[")):
        return "list" if "ist[" in name or "Seq" in name else ""
    return {
        "Tensor": "tensor",
        "Module": "module",
        "list": "list",
        "tuple": "tuple",
    }.get(name, "config" if name in _CONFIGURATIONS else "")
