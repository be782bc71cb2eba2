"""The classes of a script that raises when it is imported: without the statement that raised, and those after it that
define nothing."""

from __future__ import annotations
import __future__

import ast
import contextlib
import sys
from types import ModuleType, TracebackType

_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom)
_OF_THE_CODE = (ImportError, NameError, SyntaxError, NotImplementedError, RecursionError, MemoryError)
"""What is raised wherever the file runs: other errors may be about data, devices or arguments that are not here."""


def without_script(error: BaseException, path: str, tree: ast.Module) -> ModuleType | None:
    """The module as far as it got, with the definitions that come later; None where that gives no ``nn.Module``, or
    where the error is one of the code."""
    at = _top_level(error.__traceback__, path)
    if at is None or isinstance(error, _OF_THE_CODE):
        return None
    names = at.tb_frame.f_globals
    flags = __future__.annotations.compiler_flag if names.get("annotations") is __future__.annotations else 0
    for node in tree.body:
        if node.lineno > at.tb_lineno and (isinstance(node, _DEFINITIONS) or _is_literal(node)):
            code = compile(ast.Module([node], []), path, "exec", flags, dont_inherit=True)
            with contextlib.suppress(Exception):
                exec(code, names)
    kind = sys.modules["torch"].nn.Module if "torch" in sys.modules else ()
    own = (each for each in names.values() if isinstance(each, type) and each.__module__ == names["__name__"])
    if not any(issubclass(each, kind) for each in own):
        return None
    module = ModuleType(names["__name__"])
    module.__dict__.update(names)
    sys.modules[module.__name__] = module
    return module


def _top_level(trace: TracebackType | None, path: str) -> TracebackType | None:
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == path and code.co_name == "<module>":
            return trace
        trace = trace.tb_next
    return None


def _is_literal(node: ast.stmt) -> bool:
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return False
    try:
        ast.literal_eval(node.value)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return False
    return True
