"""All attributes and keys that failing code reads from an object that lacks one of them."""

from __future__ import annotations

import ast
import inspect
from types import FunctionType
from typing import Any

from . import blame
from .blame import Failure, Step
from .places import Place, View
from .reading import Reader
from .source import plain


def of(reader: Reader, failed: Failure) -> View:
    """The places of the object in the functions of the traceback: as parameters, or attributes of ``self``."""
    thing = owner(failed)
    found: list[Place] = []
    for step in failed.path if thing is not None else ():
        found += _places(reader, step, thing)
    return View(found)


def owner(failed: Failure) -> Any:
    """The object that lacks an attribute or a key; None if unknown."""
    if isinstance(failed.error, AttributeError):
        return getattr(failed.error, "obj", None)
    node = failed.path[-1].node if failed.path else None
    if isinstance(failed.error, KeyError) and isinstance(node, ast.Subscript):
        chain = blame.chain_of(node.value)
        return blame.value_of(failed.path[-1], chain) if chain is not None else None
    return None


def names(view: View) -> list[str]:
    """The names that are read without a check whether they exist."""
    optional = {*view.details("hasattr"), *view.details("get"), *view.details("contains")}
    read = [*view.keys("attribute"), *view.keys("key")]
    return [name for name in dict.fromkeys(read) if isinstance(name, str) and name not in optional and name[:2] != "__"]


def _places(reader: Reader, step: Step, thing: Any) -> list[Place]:
    mine = step.frame.f_locals.get("self")
    function = _function(step, mine)
    if function is None:
        return []
    kind = type(mine)
    whole = reader.constructor(kind) if function is plain(getattr(kind, "__init__", None)) else None
    found: list[Place] = []
    reading = whole or (reader.function(function) if mine is None else None)
    for name, place in reading.parameters.items() if reading is not None else ():
        if step.frame.f_locals.get(name) is thing:
            found.append(place)
    for name, value in getattr(mine, "__dict__", {}).items():
        kept = reader.stored(kind, name.lstrip("_")) or reader.stored(kind, name)
        if value is thing and kept is not None:
            found.append(kept)
    return found


def _function(step: Step, mine: Any) -> FunctionType | None:
    """The function that a step ran."""
    name = step.code.co_name
    for kind in type(mine).__mro__ if mine is not None else ():
        function = plain(inspect.getattr_static(kind, name, None))
        if function is not None and function.__code__ is step.code:
            return function
    function = plain(step.frame.f_globals.get(name))
    return function if function is not None and function.__code__ is step.code else None
