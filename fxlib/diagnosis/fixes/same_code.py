"""Edits that change only what is traced, not what eager computes, so that eager need not run again: names of leaf
modules, and functions given to torch.fx.wrap."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping

__all__ = ["runs_the_same"]


def runs_the_same(texts: Mapping[str, str], read: Callable[[str], str | None]) -> bool:
    """Whether files with these texts compute the same in eager mode as before."""
    return all(file.endswith(".toml") or _statements(text) == _statements(read(file)) for file, text in texts.items())


@functools.lru_cache(maxsize=32)
def _statements(text: str | None) -> list[str]:
    """The statements of a file, without registrations and the imports that these need. Cached, since each model that an
    edit concerns needs them."""
    try:
        body = ast.parse(text or "").body
    except (SyntaxError, ValueError):
        return [text or ""]
    return [ast.dump(each) for each in body if not _registers(each)]


def _registers(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import):
        return all(each.name in ("torch", "torch.fx") and each.asname is None for each in statement.names)
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    call = statement.value
    named = all(isinstance(each, ast.Constant) for each in call.args) and not call.keywords
    return named and ast.unparse(call.func) == "torch.fx.wrap"
