"""Abstract values of the syntax-level analysis."""

from __future__ import annotations

import ast
from dataclasses import dataclass

__all__ = ["FALSE", "NONE", "PLAIN", "TRUE", "UNKNOWN", "Value", "constant", "joined", "traced"]

_MISSING = object()


@dataclass(frozen=True)
class Value:
    """``kind``: ``traced`` (a Proxy), ``items`` (a Python collection that may hold traced values), ``literal`` (a list,
    tuple, dict or text of plain values), ``plain`` or ``unknown``.

    ``cause`` is the origin of a traced value: ``data``, ``shape`` or ``argument``. ``constant`` is the value itself if
    the text shows it. ``name`` is the argument of forward, if it is one unchanged.
    """

    kind: str
    cause: str = "data"
    constant: object = _MISSING
    name: str | None = None
    element: str = "unknown"

    @property
    def is_traced(self) -> bool:
        return self.kind == "traced"

    @property
    def truth(self) -> bool | None:
        """The truth value, if known."""
        return None if self.constant is _MISSING else bool(self.constant)

    @property
    def holds_traced(self) -> bool:
        """Whether it is traced or certainly holds a traced value."""
        return self.kind == "traced" or (self.kind == "items" and self.element == "traced")


UNKNOWN = Value("unknown")
PLAIN = Value("plain")
TRUE = Value("plain", constant=True)
FALSE = Value("plain", constant=False)
NONE = Value("plain", constant=None)


def traced(cause: str = "data", name: str | None = None) -> Value:
    return Value("traced", cause, name=name)


def joined(left: Value, right: Value) -> Value:
    """The value after either of two branches."""
    if left == right:
        return left
    if left.is_traced and right.is_traced:
        return traced(left.cause if left.cause == right.cause else "data")
    if left.kind == right.kind and left.kind in ("items", "literal"):
        return Value(left.kind, element=left.element if left.element == right.element else "unknown")
    return PLAIN if left.kind == right.kind == "plain" else UNKNOWN


def constant(node: ast.expr) -> Value:
    """The value of a default, if the text shows it."""
    if isinstance(node, ast.Constant) and not isinstance(node.value, str | bytes):
        return Value("plain", constant=node.value)
    return PLAIN if isinstance(node, ast.Constant) else UNKNOWN
