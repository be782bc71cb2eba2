"""Extensions that a file compiles when it is imported (``torch.utils.cpp_extension.load``) are not compiled here."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_MODULE = "torch.utils.cpp_extension"
_NAMES = ("load", "load_inline")
Make = Callable[[str, tuple[str, int]], ModuleType]
"""Makes what stands for an extension, from its name and the file and line that ask for it."""


def replaced_by(make: Make) -> Callable[[], None]:
    """From now on ``make`` gives the extensions; until what this returns is called."""
    before: dict[str, Any] = {}

    def replace(module: Any) -> None:
        before.update({name: getattr(module, name) for name in _NAMES})
        for name in _NAMES:
            setattr(module, name, given)

    def given(name: str, *_: Any, **__: Any) -> ModuleType:
        frame = sys._getframe(1)
        return make(name, (frame.f_code.co_filename, frame.f_lineno))

    finder = _Finder(replace)
    if _MODULE in sys.modules:
        replace(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, finder)

    def undo() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        for name, function in before.items():
            setattr(sys.modules[_MODULE], name, function)

    return undo


class _Finder(importlib.abc.MetaPathFinder):
    """Sees the module imported, and has ``replace`` called with it."""

    def __init__(self, replace: Callable[[Any], None]) -> None:
        self._replace = replace

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path) if fullname == _MODULE else None
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def then_replace(module: ModuleType) -> None:
                execute(module)
                self._replace(module)

            spec.loader.exec_module = then_replace  # type: ignore[method-assign]
        return spec
