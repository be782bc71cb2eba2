"""Replaces extensions that files of the workspace compile (``torch.utils.cpp_extension.load``) on import or during
construction."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_MODULE = "torch.utils.cpp_extension"
_NAMES = ("load", "load_inline")
Make = Callable[[str, tuple[str, int]], ModuleType | None]
"""Makes a placeholder for an extension, from its name and the requesting file and line; None to compile it."""


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for the import of the module, and lets ``make`` provide its extensions from then on."""

    def __init__(self) -> None:
        self.make: Make = lambda name, place: None

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path) if fullname == _MODULE else None
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def then_replace(module: ModuleType) -> None:
                execute(module)
                self.replace(module)

            spec.loader.exec_module = then_replace  # type: ignore[method-assign]
        return spec

    def replace(self, module: Any) -> None:
        for name in _NAMES:
            setattr(module, name, self._or_made(getattr(module, name)))

    def _or_made(self, function: Any) -> Any:
        @functools.wraps(function)
        def given(name: str, *args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)
            made = self.make(name, (frame.f_code.co_filename, frame.f_lineno))
            return function(name, *args, **kwargs) if made is None else made

        return given


_finder = _Finder()


def replaced_by(make: Make) -> None:
    """Let ``make`` provide the extensions."""
    _finder.make = make
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
        if _MODULE in sys.modules:
            _finder.replace(sys.modules[_MODULE])
