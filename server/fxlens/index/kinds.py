"""Kinds of values: ``isinstance``, ``issubclass`` and ``type``."""

from __future__ import annotations

import ast
import collections.abc
import numbers
from os import PathLike
from pathlib import PurePath
from typing import Any

from . import values as v
from .machine import Machine


def is_instance(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    if len(args) != 2:
        return None
    kinds = args[1].items if isinstance(args[1], v.Sequence) else [args[1]]
    answers = [_is_a(machine, args[0], kind) for kind in kinds]
    if True in answers:
        return v.Const(True)
    return None if None in answers else v.Const(False)


_TYPES = {
    "int": int, "float": float, "str": str, "bool": bool, "bytes": bytes, "list": list, "tuple": tuple, "dict": dict,
    "set": set, "complex": complex,
}  # fmt: skip
_KINDS = {
    **_TYPES, "object": object, "slice": slice, "PurePath": PurePath, "Path": PurePath, "PathLike": PathLike,
    "NoneType": type(None), "type": type, "List": list, "Tuple": tuple, "Dict": dict, "Set": set,
    "frozenset": frozenset,
    **{name: getattr(numbers, name) for name in numbers.__all__},
    **{name: getattr(collections.abc, name) for name in collections.abc.__all__ if name != "ByteString"},
}  # fmt: skip
_OF_PYTHON = ("builtins.", "collections.", "numbers.", "typing.", "types.", "pathlib.", "os.")
_EXAMPLES: dict[str, Any] = {"list": [], "tuple": (), "set": set(), "dict": {}}


def _is_a(machine: Machine, value: v.Value, kind: v.Value) -> bool | None:
    if isinstance(kind, v.External):
        short = kind.name.rpartition(".")[2]
        if isinstance(value, (v.Const, v.Sequence)) or (isinstance(value, v.Mapping) and value.kind == "dict"):
            if not kind.name.startswith(_OF_PYTHON):
                return False
            data = value.value if isinstance(value, v.Const) else _EXAMPLES[value.kind]
            wanted = _KINDS.get(short)
            return None if wanted is None else isinstance(data, wanted)
        if isinstance(value, v.Mapping):
            return short not in _TYPES
        if isinstance(value, (v.Class, v.Function, v.Partial)):
            return short in ("Callable", "type", "partial", "FunctionType")
        if isinstance(value, v.Object):
            names = {each.name for each in machine.symbols.mro(value.kind.symbol) if each.kind == "external"}
            if kind.name == "torch.nn.Module":
                return machine.symbols.is_module(value.kind.symbol)
            return kind.name in names or (None if short[:1].isupper() and short not in ("Path", "Tensor") else False)
        return None
    if isinstance(kind, v.Class):
        if isinstance(value, v.Object):
            return kind.symbol in machine.symbols.mro(value.kind.symbol)
        return False if isinstance(value, (v.Const, v.Sequence)) else None
    return None


def is_subclass(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    if len(args) != 2:
        return None
    kind, base = args
    if isinstance(kind, v.Class) and isinstance(base, v.Class):
        return v.Const(base.symbol in machine.symbols.mro(kind.symbol))
    if isinstance(kind, v.Class) and isinstance(base, v.External) and base.name == "torch.nn.Module":
        return v.Const(machine.symbols.is_module(kind.symbol))
    return None


def type_of(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    if len(args) == 1 and isinstance(args[0], v.Object):
        return args[0].kind
    if len(args) == 1 and isinstance(args[0], v.Const) and type(args[0].value).__name__ in _TYPES:
        return v.External(f"builtins.{type(args[0].value).__name__}")
    return None
