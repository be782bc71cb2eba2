"""The user's frames on the stack, and the values of names there."""

from __future__ import annotations

import ast
import builtins
import sys
from inspect import getattr_static
from types import FrameType, FunctionType
from typing import Any

from fxlib.capture import wrapping
from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.engine.raised import way_of
from fxlib.ir.objects import attribute, is_a
from fxlib.ir.span import is_hidden

__all__ = ["constant", "named", "raising_frame", "users_frame"]


def users_frame() -> FrameType | None:
    """The user's innermost running frame."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_hidden(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def raising_frame(error: BaseException) -> FrameType | None:
    """The user's innermost frame in the traceback of ``error``."""
    way = way_of(error, is_hidden)
    return way[-1].tb_frame if way else None


def constant(node: ast.expr, frame: FrameType | None) -> Any:
    """The value of a name or a dotted name in ``frame``; None for other expressions, and for parts of a proxy."""
    parts: list[str] = []
    at = node
    while isinstance(at, ast.Attribute):
        parts.append(at.attr)
        at = at.value
    if not isinstance(at, ast.Name) or frame is None:
        return None
    value = frame.f_locals.get(at.id, frame.f_globals.get(at.id, getattr(builtins, at.id, None)))
    for part in reversed(parts):
        if is_a(value, Proxy):
            return None
        value = attribute(value, part)
    return value if is_a(value, Proxy) else attribute(value, wrapping._MARK, value)


def named(function: FunctionType, node: ast.AST) -> Any:
    """What a name or a dotted name in a function is outside of it: in its file, or in Python. Nothing is run for that;
    None for other expressions."""
    if isinstance(node, ast.Attribute):
        found = getattr_static(named(function, node.value), node.attr, None)
    elif isinstance(node, ast.Name):
        found = function.__globals__.get(node.id, getattr(builtins, node.id, None))
    else:
        return None
    return wrapping.unwrapped(found) if isinstance(found, FunctionType) else found
