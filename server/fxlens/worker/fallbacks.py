"""Models whose code continues without a package, ``except ImportError: DCN = None``, and then uses it."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import linecache
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import placeholders
from .errors import text_of

_NONE = re.compile(r"'NoneType' object (is not callable|has no attribute)")
_MISSING = object()


@dataclass(frozen=True)
class Absent:
    """A global name that a failed import should have bound, its dotted name, and where it is used."""

    names: dict[str, Any]
    name: str
    dotted: str
    place: tuple[str, int]


def behind(error: BaseException | None) -> Absent | None:
    """The name that is None or missing because its import failed, if its use raised this."""
    unnamed = error.name if isinstance(error, NameError) else None
    none = isinstance(error, (TypeError, AttributeError)) and _NONE.search(text_of(error)) is not None
    if error is None or not (unnamed or none):
        return None
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        code, names = frame.f_code, frame.f_globals
        given = _imported(code.co_filename)
        for name in code.co_names:
            is_it = name == unnamed if unnamed else names.get(name, _MISSING) is None
            if name in given and is_it:
                return Absent(names, name, given[name], (code.co_filename, line))
        return None
    return None


@contextlib.contextmanager
def standing_in(absent: Absent) -> Iterator[None]:
    """Bind it to a placeholder, or to the object itself if only an earlier import failed."""
    found = _installed(absent.dotted)
    finder = placeholders.placeholder_finder()
    if finder is not None and found is None:
        finder.replaced.setdefault(absent.dotted.rpartition(".")[0] or absent.dotted, absent.place)
    before = absent.names.get(absent.name, _MISSING)
    absent.names[absent.name] = placeholders.placeholder(absent.dotted) if found is None else found
    try:
        yield
    finally:
        if before is _MISSING:
            del absent.names[absent.name]
        else:
            absent.names[absent.name] = before


def _installed(dotted: str) -> Any:
    """The object of a dotted name in an installed package; None if there is none."""
    module, _, name = dotted.rpartition(".")
    with contextlib.suppress(Exception):
        if importlib.util.find_spec(dotted.partition(".")[0]) is not None:
            return getattr(importlib.import_module(module), name) if module else importlib.import_module(dotted)
    return None


def _imported(file: str) -> dict[str, str]:
    """The names bound by imports in a ``try`` that tolerates their failure, with the dotted names."""
    text = "".join(linecache.getlines(file))
    try:
        tree = ast.parse(text if "except" in text else "")
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        for part in node.body if isinstance(node, ast.Try) and node.handlers else ():
            for alias in part.names if isinstance(part, (ast.Import, ast.ImportFrom)) else ():
                module = f"{part.module}." if isinstance(part, ast.ImportFrom) and part.module else ""
                found[alias.asname or alias.name.partition(".")[0]] = f"{module}{alias.name}"
    return found
