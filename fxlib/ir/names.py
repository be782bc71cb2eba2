"""Names: unique, legal Python identifiers for the values of one graph or one generated function.

What a name is for (a node, a global of the generated code) is left to the callers.
"""

import builtins
import keyword
import math
import re
import types
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from fxlib.ir import pytree as fx_pytree

__all__ = ["_Namespace"]


class _CustomBuiltin(NamedTuple):
    """A name that is global in every generated function: its object, and how a written file imports it."""

    import_str: str
    obj: Any


_custom_builtins: dict[str, _CustomBuiltin] = {
    "inf": _CustomBuiltin("from math import inf", math.inf),
    "nan": _CustomBuiltin("from math import nan", math.nan),
    "NoneType": _CustomBuiltin("NoneType = type(None)", types.NoneType),
    "torch": _CustomBuiltin("import torch", torch),
    "device": _CustomBuiltin("from torch import device", torch.device),
    "fx_pytree": _CustomBuiltin("import fxlib._pytree as fx_pytree", fx_pytree),
    "pytree": _CustomBuiltin("import torch.utils._pytree as pytree", pytree),
}


def _register_custom_builtin(name: str, import_str: str, obj: object) -> None:
    _custom_builtins[name] = _CustomBuiltin(import_str, obj)
    _illegal_names[name] = obj


_ABSENT = object()
# A name in this table is reserved for its object.
_illegal_names: dict[str, Any] = {name: object() for name in keyword.kwlist}
_illegal_names.update(builtins.__dict__)
_illegal_names.update({name: entry.obj for name, entry in _custom_builtins.items()})

_NOT_IN_A_NAME = re.compile("[^0-9a-zA-Z_]+")
_SUFFIXED = re.compile(r"(.+?)_(\d+)", re.DOTALL)

# candidate -> (legal identifier, its part before a numeric suffix, the suffix or -1)
_parsed: dict[str, tuple[str, str, int]] = {}


def _parse(candidate: str) -> tuple[str, str, int]:
    name = candidate
    if not (name.isascii() and name.isidentifier()):
        name = _NOT_IN_A_NAME.sub("_", name) or "_unnamed"
        if name[0].isdigit():
            name = "_" + name
    match = _SUFFIXED.fullmatch(name)
    parsed = (name, match[1], int(match[2])) if match else (name, name, -1)
    if len(_parsed) > 100_000:
        _parsed.clear()
    _parsed[candidate] = parsed
    return parsed


class _Namespace:
    """Hands out unique names and remembers the object of each.

    A name that is taken gets the next free number: ``add``, ``add_1``, ``add_2``. Amortised constant time.
    """

    __slots__ = ("_base_count", "_obj_to_name", "_used_names")

    def __init__(self) -> None:
        self._obj_to_name: dict[object, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = {}

    def create_name(self, candidate: str, obj: object | None) -> str:
        """A new name as close to ``candidate`` as can be, for ``obj`` if it is given (once: the same object gets the
        same name again)."""
        if obj is not None:
            known = self._obj_to_name.get(obj)
            if known is not None:
                return known
        name, base, number = _parsed.get(candidate) or _parse(candidate)
        used = self._used_names
        if number < 0 or name in used:
            number = self._base_count.get(base, 0)
        while name in used or (name in _illegal_names and _illegal_names[name] is not obj):
            number += 1
            name = f"{base}_{number}"
        used.add(name)
        self._base_count[base] = number
        if obj is not None:
            self._obj_to_name[obj] = name
        return name

    def associate_name_with_obj(self, name: str, obj: object) -> None:
        """Associate a name that is already taken with an object."""
        known = self._obj_to_name.setdefault(obj, name)
        assert known == name, "obj is already associated"

    def _rename_object(self, obj: Any, name: str) -> None:
        assert obj in self._obj_to_name
        self._obj_to_name[obj] = name
        self._used_names.add(name)
