"""What the statements of a text bind, and which of them run at module level. Standard library only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

__all__ = ["bound", "is_main_guard", "module_level", "spelled", "trusted_imports"]

_TRUSTED_ROOTS = {"torch", "torchvision", "torchaudio", "numpy", "math", "timm", "transformers", "functools", "einops"}


def spelled(node: ast.expr) -> str | None:
    """``Net`` or ``models.Net``; None for anything but a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def bound(node: ast.AST) -> Iterator[str]:
    """Names that this statement binds in its scope."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield (alias.asname or alias.name).split(".")[0]
        return
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id
        elif not isinstance(part, ast.stmt):
            yield from bound(part)


def trusted_imports(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] in _TRUSTED_ROOTS:
                yield (alias.asname or alias.name).split(".")[0]
    elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in _TRUSTED_ROOTS:
        for alias in node.names:
            yield alias.asname or alias.name


def module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run in the scope of these, without the main block. In the order of the text; not recursive,
    since each ``elif`` is a level."""
    waiting = body[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)) and not is_main_guard(node):
            inner = [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
            inner += [each for handler in getattr(node, "handlers", []) for each in handler.body]
            waiting += inner[::-1]


def is_main_guard(node: ast.stmt) -> bool:
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
        return False
    sides = (node.test.left, *node.test.comparators)
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
