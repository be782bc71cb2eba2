"""The classes of a script that raises on import: executed without the failing statement, and without later ones except
definitions and plain values. For a notebook, only such statements are run."""

from __future__ import annotations
import __future__

import ast
import builtins
import contextlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, TracebackType
from typing import Any

from fxlens.sources.bound_names import bound, module_level
from fxlens.sources.notebook import is_notebook
from fxlens.sources.targets import Target, classes, has_forward

from .scope import class_named

_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom)
_OF_THE_CODE = (ImportError, NameError, SyntaxError, NotImplementedError, RecursionError, MemoryError)
"""Errors that occur on every machine; others may be due to missing data, devices or arguments."""


def without_script(
    error: BaseException, path: str, tree: ast.Module, complete: Callable[[dict[str, Any]], None]
) -> ModuleType | None:
    """The module as far as it got, with the definitions that come later; None if that gives no ``nn.Module``, or if the
    error is a bug in the code, except a missing name. ``complete`` adds to its names."""
    at = _top_level(error.__traceback__, path)
    # The name may be made outside of a notebook's definitions, or by a failed statement of another file.
    left_out = isinstance(error, NameError) and at is not None and (is_notebook(path) or at.tb_next is None)
    if at is None or (isinstance(error, _OF_THE_CODE) and not left_out):
        return None
    names = at.tb_frame.f_globals
    flags = __future__.annotations.compiler_flag if names.get("annotations") is __future__.annotations else 0
    for node in tree.body:
        if node.lineno > at.tb_lineno and (isinstance(node, _DEFINITIONS) or _is_value(node, names)):
            code = compile(ast.Module([node], []), path, "exec", flags, dont_inherit=True)
            with contextlib.suppress(Exception):
                exec(code, names)
    for name, value in _literals(tree):
        names.setdefault(name, value)
    complete(names)
    kind = sys.modules["torch"].nn.Module if "torch" in sys.modules else ()
    own = (each for each in names.values() if isinstance(each, type) and each.__module__ == names["__name__"])
    if not any(issubclass(each, kind) for each in own):
        return None
    module = ModuleType(names["__name__"])
    module.__dict__.update(names)
    sys.modules[module.__name__] = module
    return module


def lost(tree: ast.Module, namespace: ModuleType, found: list[Target]) -> list[Target]:
    """Classes with a forward that are missing, because failing statements were left out."""
    names = {name for name, node in classes(tree) if node in tree.body and has_forward(node)}
    return [each for each in found if each.name in names and class_named(namespace, each.name) is None]


def _top_level(trace: TracebackType | None, path: str) -> TracebackType | None:
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == path and code.co_name == "<module>":
            return trace
        trace = trace.tb_next
    return None


def _literals(tree: ast.Module) -> Iterator[tuple[str, object]]:
    """Plain values assigned under some condition, such as a number of channels for each data set."""
    for top in tree.body:
        for node in ast.walk(top) if isinstance(top, (ast.If, ast.Try, ast.With)) else ():
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                with contextlib.suppress(ValueError, TypeError, MemoryError, RecursionError):
                    yield node.targets[0].id, ast.literal_eval(node.value)


def _is_value(node: ast.stmt, names: dict[str, object]) -> bool:
    """Whether it assigns a plain value, like a command-line option."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return False
    return _plain(node, {*vars(builtins), *names}, MAKERS)


MAKERS = {
    "dict", "list", "tuple", "set", "int", "float", "str", "range", "SimpleNamespace", "Namespace",
    "types.SimpleNamespace", "argparse.Namespace", "torch.device",
}  # fmt: skip
"""Constructors of plain values, as written; ``openai.models.list()`` is not one."""


def only(tree: ast.Module) -> ast.Module:
    """Only definitions, imports, `wrap` calls, and assignments that call only constructors of plain values and data
    classes and use no omitted name."""
    known = {*vars(builtins)}
    own = {each.name for each in ast.walk(tree) if isinstance(each, (ast.FunctionDef, ast.ClassDef))}
    wraps = {"torch.fx.wrap", "fxlib.wrap", *_imported_wraps(tree)} - own
    makers = {*MAKERS}
    kept: list[ast.stmt] = []
    for node in _statements(tree):
        if isinstance(node, _DEFINITIONS) or (isinstance(node, ast.Try) and _only_defines(node, known, makers)):
            known |= _gives(node)
            makers |= _data_classes(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None and _plain(node, known, makers):
            known |= _gives(node)
        elif not _marks(node, wraps):
            continue
        kept.append(node)
    # It must come first in the text, but may be in any cell.
    kept.sort(key=lambda node: not isinstance(node, ast.ImportFrom) or node.module != "__future__")
    return ast.Module(kept, tree.type_ignores)


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements, also of cells that are indented as a whole (see `Notebook.joined`)."""
    for node in tree.body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Constant) and node.test.value is True:
            yield from node.body
        else:
            yield node


def _imported_wraps(tree: ast.Module) -> Iterator[str]:
    """The names of ``torch.fx.wrap`` after ``from torch import fx``, ``import torch.fx as fx`` and the like."""
    for node in tree.body:
        for alias in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            full, name = f"{module}{alias.name}", alias.asname or alias.name
            if full in ("torch.fx", "fxlib"):
                yield f"{name}.wrap"
            elif full in ("torch.fx.wrap", "fxlib.wrap"):
                yield name


def _marks(node: ast.stmt, wraps: set[str]) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not all(isinstance(each, (ast.Constant, ast.Name)) for each in call.args):
        return False
    return not call.keywords and ast.unparse(call.func) in wraps


def _only_defines(node: ast.Try, known: set[str], makers: set[str]) -> bool:
    """Whether all its branches hold imports, definitions and plain values."""
    inside = known | _gives(node)
    branches = [node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody]
    return all(_defines(each, inside, makers) for branch in branches for each in branch)


def _defines(node: ast.stmt, known: set[str], makers: set[str]) -> bool:
    if isinstance(node, ast.Try):
        return _only_defines(node, known, makers)
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        return node.value is None or _plain(node, known, makers)
    return isinstance(node, (*_DEFINITIONS, ast.Pass))


def first_line(node: ast.stmt) -> int:
    """The first line, including decorators."""
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])


def _gives(node: ast.stmt) -> set[str]:
    """The names that a statement may bind."""
    return {name for part in module_level([node]) for name in bound(part)}


def _data_classes(node: ast.stmt) -> set[str]:
    if not isinstance(node, ast.ClassDef):
        return set()
    marks = " ".join(ast.unparse(each) for each in (*node.decorator_list, *node.bases))
    return {node.name} if "dataclass" in marks or "NamedTuple" in marks else set()


def _plain(node: ast.stmt, known: set[str], makers: set[str]) -> bool:
    return all(_is_plain(each, known, makers) for each in ast.walk(node))


def _is_plain(node: ast.AST, known: set[str], makers: set[str]) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in makers
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return node.id in known
    return not isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr))
