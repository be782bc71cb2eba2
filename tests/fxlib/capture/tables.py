"""The table that a file of programs fills: what it decorates is kept by name."""

from __future__ import annotations

from typing import Any


class Case:
    """A program with concrete arguments."""

    def __init__(self, root: Any, concrete_args: Any = None) -> None:
        self.root, self.concrete_args = root, concrete_args


class Table(dict):
    """Programs by name: functions, modules, `Case`. Of a module's class an instance is kept."""

    def case(self, thing: Any) -> Any:
        self[thing.__name__] = _root(thing)
        return thing

    def cases(self, prefix: str, *functions: Any) -> None:
        self.update({f"{prefix}_{number}": function for number, function in enumerate(functions)})

    def concrete(self, concrete_args: Any) -> Any:
        def add(thing: Any) -> Any:
            self[thing.__name__] = Case(_root(thing), concrete_args)
            return thing

        return add


def _root(thing: Any) -> Any:
    return thing() if isinstance(thing, type) else thing
