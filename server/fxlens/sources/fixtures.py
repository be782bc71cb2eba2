"""What pytest gives to the parameters of a test. Standard library only."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeVar

from .bound_names import spelled
from .variables import OWN, stored

__all__ = ["FUNCTIONS", "decorated", "parametrized", "values_first"]

Statement = TypeVar("Statement", bound=ast.stmt)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def values_first(body: Sequence[Statement]) -> list[Statement]:
    """What tests use first: the values of a module, then fixtures and methods like ``setUp``."""

    def rank(node: ast.stmt) -> int:
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return 0
        gives = isinstance(node, FUNCTIONS) and (
            any(decorated(node, "fixture")) or any(map(OWN.fullmatch, stored(node)))
        )
        return 1 if gives else 2

    return sorted(body, key=rank)


def decorated(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Iterator[ast.expr]:
    for decorator in node.decorator_list:
        function = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (spelled(function) or "").rpartition(".")[2] == name:
            yield decorator


def parametrized(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.expr]:
    """The first values of ``pytest.mark.parametrize``."""
    found: dict[str, ast.expr] = {}
    for decorator in decorated(node, "parametrize"):
        if not isinstance(decorator, ast.Call) or len(decorator.args) < 2:
            continue
        try:
            names = ast.literal_eval(decorator.args[0])
        except ValueError:
            continue
        values = decorator.args[1]
        first = values.elts[0] if isinstance(values, (ast.List, ast.Tuple)) and values.elts else None
        if isinstance(first, ast.Call) and (spelled(first.func) or "").endswith("param"):
            first = ast.Tuple(first.args, ast.Load()) if len(first.args) > 1 else first.args[0] if first.args else None
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        if len(names) == 1 and first is not None:
            found[names[0]] = first
        elif isinstance(first, (ast.Tuple, ast.List)) and len(first.elts) == len(names):
            found.update(zip(names, first.elts, strict=True))
    return found
