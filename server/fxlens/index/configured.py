"""Classes that a configuration names: ``type: RRDBNet``, ``_target_: src.models.Net``, ``dict(type="ResNet",
depth=50)`` with their arguments next to or below the name; and those paired with their options in a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from . import configs
from .machine import Machine
from .render import init_of
from .symbols import Symbol
from .values import Class, Const, Hole, Mapping, Sequence, Value

KEYS = (
    "_target_",
    "class_path",
    "type",
    "target",
    "class_name",
    "name",
    "arch",
    "model_name",
    "cls",
    "class",
    "module",
)
_ARGUMENTS = ("init_args", "params", "args", "kwargs", "arguments", "model_args", "model_params", "hparams", "options")
_NAMED = re.compile(
    r"""["']?\b(?:_target_|class_path|type|target|class_name|name|arch|model_name|cls|class|module)["']?\s*[:=][ \t]*"""
    r"""["']?([A-Za-z_][\w.]*)|!new:([\w.]+)"""
)
_MOST_TEXT = 1 << 18


def names_in(text: str) -> set[str]:
    """Last components of names in a configuration's text that may be classes."""
    if len(text) > _MOST_TEXT:
        return set()
    return {(first or second).rpartition(".")[2] for first, second in _NAMED.findall(text)}


def constructions(
    machine: Machine, kind: Symbol, keys: set[str], data: Value
) -> Iterator[tuple[Class, dict[str, Value]]]:
    """The class with its arguments at each place in the data that names it (by one of ``keys``)."""
    for mapping in _naming(machine, data, kind, keys, 0):
        arguments = _arguments(machine, kind, mapping)
        if arguments is not None:
            yield Class(kind), arguments


def _naming(machine: Machine, value: Value, kind: Symbol, keys: set[str], depth: int) -> Iterator[Mapping]:
    if depth > 20 or not isinstance(value, (Mapping, Sequence)):
        return
    items = list(value.items.values()) if isinstance(value, Mapping) else value.items
    named = [value.items.get(key) for key in KEYS] if isinstance(value, Mapping) else []
    if isinstance(value, Mapping) and any(_means(each, kind, keys) for each in named):
        yield value
    elif depth and (options := _paired(machine, value, items, kind)) is not None:
        yield machine.new_dict({"type": Class(kind), "kwargs": options})
    for each in items:
        yield from _naming(machine, each, kind, keys, depth + 1)


def _means(value: Value | None, kind: Symbol, keys: set[str]) -> bool:
    if isinstance(value, Class):
        return value.symbol == kind
    return isinstance(value, Const) and isinstance(value.value, str) and value.value.rpartition(".")[2] in keys


def _paired(machine: Machine, value: Mapping | Sequence, items: list[Value], kind: Symbol) -> Mapping | None:
    """The options next to the class: ``{"encoder": Net, "params": {"depth": 3}}``, ``(Net, {"depth": 3})``; not those
    of something else, as in ``{"model": Net, "optimizer": {"lr": 0.1}}``."""
    if [each.symbol for each in items if isinstance(each, Class)] != [kind]:
        return None
    found = [value.items.get(key) for key in _ARGUMENTS] if isinstance(value, Mapping) else items
    options = [each for each in found if isinstance(each, Mapping)]
    if len(options) != 1 or isinstance(value, Mapping):
        return options[0] if len(options) == 1 else None
    parameters = {each.rstrip("=") for each in init_of(machine.symbols, kind)}
    return options[0] if parameters & set(options[0].items) else None


def _arguments(machine: Machine, kind: Symbol, mapping: Mapping) -> dict[str, Value] | None:
    """The items that are parameters; None if the mapping is about something else of that name."""
    init = init_of(machine.symbols, kind)
    plain = {each.rstrip("=") for each in init if each[:1] != "*"}
    required = {each for each in init if each.isidentifier()}
    takes_all = any(each[:2] == "**" for each in init)
    below = next((mapping.items[key] for key in _ARGUMENTS if isinstance(mapping.items.get(key), Mapping)), None)
    beside = {
        key: each for key, each in mapping.items.items() if isinstance(key, str) and key not in (*KEYS, *_ARGUMENTS)
    }
    found: dict[str, Value] | None = None
    for items in ([below.items] if isinstance(below, Mapping) and not set(mapping.items) & plain else []) + [beside]:
        known = {str(key): each for key, each in items.items() if key in plain or takes_all}
        if known or not required:
            found = known
            break
    exact = any(key in mapping.items for key in ("_target_", "class_path", "type", "target"))
    if found is None or not (exact or set(found) & plain):
        return None
    return {key: _part(machine, each) for key, each in found.items()}


def _part(machine: Machine, value: Value) -> Value:
    """An argument: nested descriptions are constructed, references to elsewhere are unknown."""
    if isinstance(value, Const) and isinstance(value.value, str) and "${" in value.value:
        return Hole(value.value.strip("${}").rpartition(".")[2])
    if isinstance(value, Mapping) and ("_target_" in value.items or "class_path" in value.items):
        made = configs.instantiate(machine, value, {}, configs.NOWHERE)
        return made
    if isinstance(value, Mapping):
        items = {key: _part(machine, each) for key, each in value.items.items()}
        return machine.new_dict(items, value.kind, value.whole)
    if isinstance(value, Sequence):
        return machine.new_list([_part(machine, each) for each in value.items], value.kind, value.whole)
    return value


def line_of(text: str, keys: set[str]) -> int:
    """The line with the class's name."""
    for number, line in enumerate(text.splitlines(), 1):
        if not keys.isdisjoint(names_in(line)):
            return number
    return 1


Data = Any
