"""Names that a script binds under ``if __name__ == "__main__"`` and its classes read: options, mostly.

The block is not run: of its statements only those that build parsers, parse, and name plain values."""

from __future__ import annotations

import ast
import contextlib
import re
from types import ModuleType

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
"""Functions of the script that make options."""


def fill(module: ModuleType, tree: ast.Module) -> None:
    """Gives the module those names of the block that its functions and classes read."""
    block = next(filter(_is_main, tree.body), None)
    if not isinstance(block, ast.If):
        return
    names_in = [each for node in block.body for each in ast.walk(node) if isinstance(each, ast.Name)]
    bound = {each.id for each in names_in if isinstance(each.ctx, ast.Store)}
    wanted = {name for name in bound - vars(module).keys() if name in _read(tree)}
    if not wanted:
        return
    names = dict(vars(module))
    for node in block.body:
        if _declares(node):
            with contextlib.suppress(Exception, SystemExit):
                exec(compile(ast.Module([node], []), module.__file__ or "", "exec", dont_inherit=True), names)
    vars(module).update({name: names[name] for name in wanted if name in names})


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("__name__ == '__main__'", "'__main__' == __name__")


def _read(tree: ast.Module) -> set[str]:
    inner = [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    return {
        each.id
        for node in inner
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }


def _declares(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and _called(node.value) in _DECLARES
    if not isinstance(node, (ast.Assign, ast.AnnAssign)):
        return False
    return all(_gives(each) for each in ast.walk(node) if isinstance(each, ast.Call))


def _gives(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    of_parser = isinstance(call.func, ast.Attribute) and call.func.attr in _PARSERS
    return of_parser or name in _GIVES or _OPTIONS.fullmatch(name) is not None


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
