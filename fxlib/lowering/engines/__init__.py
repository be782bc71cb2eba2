"""The table of engines. Each file of this folder is one engine; no registration is needed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fxlib.lowering.engine import Engine, EngineError

DEFAULT = "onnxruntime"


@cache
def table() -> dict[str, Engine]:
    """Name -> engine, in alphabetical order."""
    found = [import_module(f"{__name__}.{each.name}").ENGINE for each in iter_modules(__path__)]
    return {engine.name: engine for engine in sorted(found, key=lambda engine: engine.name)}


def get(name: str) -> Engine:
    """The engine of that name.

    Raises:
        EngineError: there is no such engine; the text lists the existing ones.
    """
    if not isinstance(name, str) or name not in table():
        raise EngineError(f"there is no engine {name!r}; the engines are {', '.join(table())}")
    return table()[name]
