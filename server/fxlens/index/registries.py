"""Registries in which decorators enter classes and functions: ``@MODELS.register_module()``, ``@register``."""

from __future__ import annotations

from .machine import Machine
from .symbols import Symbol
from .values import Choice, Class, Const, Function, Hole, Mapping, Value


def attribute(machine: Machine, owner: Value, name: str) -> Value | None:
    """An attribute of a registry object, if the workspace does not define it."""
    return None


def entries(machine: Machine, home: Symbol) -> dict[str, Symbol]:
    """The entries made by a decorator, or a registry object, that is defined at ``home``."""
    machine.files.add("*")
    return machine.workspace.registered(home.file, home.name)


def chosen(machine: Machine, table: dict[str, Symbol], key: object) -> Value:
    """The entry of this name, the others after it; a hole if there is none."""
    first = [table[key]] if isinstance(key, str) and key in table else []
    values = [machine.value_of(each) for each in (*first, *(each for each in table.values() if each not in first))]
    callables: list[Value] = []
    callables += [each for each in values if isinstance(each, (Class, Function))][:40]
    if not callables:
        return Hole("registry")
    return Choice(callables) if len(callables) > 1 else callables[0]


def built(machine: Machine, config: Value, table: dict[str, Symbol] | None, node: object) -> Value | None:
    """``build(dict(type="Net", depth=3))``: the class of that name with the other keys as arguments."""
    if not isinstance(config, Mapping):
        return None
    for key in ("type", "name", "_target_", "TYPE", "NAME"):
        named = config.items.get(key)
        if isinstance(named, Const) and isinstance(named.value, str):
            found = [table[named.value]] if table and named.value in table else machine.workspace.named(named.value)
            if not found:
                continue
            rest = {str(name): value for name, value in config.items.items() if name != key}
            kind = machine.value_of(found[0])
            return machine.call(kind, [], rest, node)  # type: ignore[arg-type]
        if isinstance(named, (Class, Function)):
            rest = {str(name): value for name, value in config.items.items() if name != key}
            return machine.call(named, [], rest, node)  # type: ignore[arg-type]
    return None
