"""Requirements of a file's import statements on a package."""

from __future__ import annotations

import ast
import linecache
import os
from collections.abc import Iterator


def are_there(package: str, folder: str, file: str) -> bool:
    """Whether the folder has what the file imports from a package of this name: its modules, and names that its
    ``__init__`` mentions. Undecided for a plain import of the package."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return False
    asked = set(_asked(tree, package))
    init = "".join(linecache.getlines(os.path.join(folder, "__init__.py")))
    return bool(asked) and all(_is_module(folder, name) or (sure and name in init) for name, sure in asked)


def _asked(tree: ast.Module, package: str) -> Iterator[tuple[str, bool]]:
    """Imported names directly below the package, and whether they may be something other than modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name.startswith(f"{package}."):
                    yield each.name.split(".")[1], False
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            if node.module == package:
                yield from ((each.name, True) for each in node.names)
            elif node.module.startswith(f"{package}."):
                yield node.module.split(".")[1], False


def _is_module(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, f"{name}.py")) or os.path.isdir(os.path.join(folder, name))
