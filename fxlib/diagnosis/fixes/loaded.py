"""Which modules were loaded at a moment, and which came later.

A process with torch has two thousand, and a fork shares them with its parent: to look at all of them copies more than a
thousand pages of memory, a third of what a short job writes. So a process that will be forked notes them once, and its
forks look at what came after that. Python keeps modules in the order in which they were loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

__all__ = ["Loaded", "note"]

_noted: dict[str, ModuleType] = {}


def note() -> None:
    """From here on, the modules that are loaded now are not looked at one by one, neither here nor in forks."""
    global _noted
    sys.modules[__name__] = sys.modules.pop(__name__)  # the last of those that are noted
    _noted = dict(sys.modules)


class Loaded:
    """The modules that are loaded when it is made."""

    def __init__(self) -> None:
        self._noted = _noted
        self._more = {name: sys.modules[name] for name in _later()}

    def since(self) -> list[str]:
        """The names of those that are loaded now and were not then, in their order."""
        return [name for name in _later() if name not in self._noted and name not in self._more]

    def put_back(self) -> None:
        """Where something that is no module has taken the place of one, it has its place again."""
        if all(isinstance(each, ModuleType) for each in sys.modules.values()):
            return  # their names were not looked at
        for modules in (self._noted, self._more):
            for name, module in modules.items():
                if name in sys.modules and not isinstance(sys.modules[name], ModuleType):
                    sys.modules[name] = module


def _later() -> Iterator[str]:
    """The names of what was loaded after `note`; of everything if the mark is gone."""
    found = []
    for name in reversed(sys.modules):
        if name == __name__:
            break
        found.append(name)
    return reversed(found)


note()
