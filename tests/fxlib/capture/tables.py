"""The table that a file of programs fills: what it decorates is kept by name."""

from __future__ import annotations

from typing import Any

from torch.nn import Module


class Case:
    """A program with concrete arguments."""

    def __init__(self, root: Any, concrete_args: Any = None) -> None:
        self.root, self.concrete_args = root, concrete_args


class Table(dict):
    """Programs by name: functions, modules, `Case`.

    For a module's class each look-up gives a new instance, since a trace may leave tensors on the one it traces.
    """

    def __getitem__(self, name: str) -> Any:
        thing = super().__getitem__(name)
        return Case(_root(thing.root), thing.concrete_args) if isinstance(thing, Case) else _root(thing)

    def case(self, thing: Any) -> Any:
        self[thing.__name__] = thing
        return thing

    def cases(self, prefix: str, *functions: Any) -> None:
        self.update({f"{prefix}_{number}": function for number, function in enumerate(functions)})

    def concrete(self, concrete_args: Any) -> Any:
        def add(thing: Any) -> Any:
            self[thing.__name__] = Case(thing, concrete_args)
            return thing

        return add


def _root(thing: Any) -> Any:
    return thing() if isinstance(thing, type) and issubclass(thing, Module) else thing
