"""The definitions of a file by their qualified names, and which of several with one name counts."""

from __future__ import annotations

import ast
from typing import Any


def definitions_of(tree: ast.Module) -> dict[str, ast.AST]:
    """Of several definitions of a name, the last one of the same block, else the first."""
    found: dict[str, ast.AST] = {}
    stack: list[tuple[Any, str, bool]] = [(node, "", True) for node in reversed(tree.body)]
    while stack:
        node, prefix, always = stack.pop()
        inner, defines = prefix, isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if defines:
            name = prefix + node.name
            if always and name in found and replaces(node):
                found = {each: old for each, old in found.items() if not f"{each}.".startswith(f"{name}.")}
            found.setdefault(name, node)
            inner = f"{name}." if isinstance(node, ast.ClassDef) else f"{name}.<locals>."
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            below = [each for each in getattr(node, part, None) or [] if isinstance(each, ast.AST)]
            stack += [(each, inner, defines) for each in reversed(below)]
    return found


def replaces(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether a definition replaces an earlier one of the same block, other than as the setter of a property."""
    return not any(getattr(each, "attr", "") in ("setter", "getter", "deleter") for each in node.decorator_list)
