"""Parameters of methods outside of LSP, which pygls passes as nested named tuples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def of(params: Any) -> Mapping[str, Any]:
    """The parameters as plain data."""
    plain = _plain(params)
    return plain if isinstance(plain, dict) else {}


def text(params: Mapping[str, object], name: str) -> str:
    """A string parameter; empty if missing or of another type."""
    value = params.get(name)
    return value if isinstance(value, str) else ""


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value
