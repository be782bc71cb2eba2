"""Names that a script binds under ``if __name__ == "__main__"`` and its classes read: options, mostly.

The block is not run as a whole: only statements that bind such a name are, if they build parsers, parse, or assign
plain values."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Container
from typing import Any

from fxlens.sources.uses import is_main_guard

from .definitions import MAKERS

_DECLARES = {
    "add_argument", "set_defaults", "add_argument_group", "add_mutually_exclusive_group", "add_parser",
    "add_subparsers",
}  # fmt: skip
_PARSERS = {"parse_args", "parse_known_args", *_DECLARES}
_GIVES = {
    "ArgumentParser", "argparse.ArgumentParser", "tyro.cli", "torch.cuda.is_available", "torch.device", *MAKERS,
}  # fmt: skip
_OPTIONS = re.compile(r"(parse|get)_?(args?|arguments|opts?|options|parser)", re.I)
"""Names of a script's functions that make options."""


def fill(names: dict[str, Any], tree: ast.Module, file: str) -> None:
    """Adds to a module the names of the block that its functions and classes read."""
    body = _body(tree)
    if not (wanted := _bound_in(body) & (_read(tree) - names.keys())):
        return
    inner = dict(names)
    for node in _leading_to(wanted, body):
        with contextlib.suppress(Exception, SystemExit):
            exec(compile(ast.Module([node], []), file, "exec", dont_inherit=True), inner)
    names.update({name: inner[name] for name in wanted if name in inner})


def missing(names: Container[str], tree: ast.Module) -> frozenset[str] | None:
    """The missing names of the block, if none is read; None if one is read."""
    absent = {each for each in _bound_in(_body(tree)) if each not in names}
    return frozenset(absent) if not absent or absent.isdisjoint(_read(tree)) else None


def _body(tree: ast.Module) -> list[ast.stmt]:
    block = next(filter(is_main_guard, tree.body), None)
    return block.body if isinstance(block, ast.If) else []


def _bound_in(body: list[ast.stmt]) -> set[str]:
    return {each for node in body for each in _bound(node)}


def _read(tree: ast.Module) -> set[str]:
    inner = [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    return {name for node in inner for name in _loaded(node)}


def _loaded(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}


def _leading_to(wanted: set[str], body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements that these names depend on, in order."""
    needed, found = set(wanted), []
    for node in reversed(body):
        if (_bound(node) or _of_parser(node)) & needed and _declares(node):
            needed |= _loaded(node)
            found.append(node)
    return found[::-1]


def _bound(node: ast.stmt) -> set[str]:
    """The names bound by an assignment to names; none for others."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    parts = [part for each in targets for part in (each.elts if isinstance(each, (ast.Tuple, ast.List)) else [each])]
    return {part.id for part in parts if isinstance(part, ast.Name)} if _all_names(parts) else set()


def _all_names(parts: list[ast.expr]) -> bool:
    return all(isinstance(part, ast.Name) for part in parts)


def _of_parser(node: ast.stmt) -> set[str]:
    """The parser, or group, to which a statement adds something."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in _DECLARES:
        return set()
    return {call.func.value.id} if isinstance(call.func.value, ast.Name) else set()


def _declares(node: ast.stmt) -> bool:
    return all(_gives(each) for each in ast.walk(node) if isinstance(each, ast.Call))


def _gives(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    of_parser = isinstance(call.func, ast.Attribute) and call.func.attr in _PARSERS
    return of_parser or name in _GIVES or _OPTIONS.fullmatch(name) is not None
