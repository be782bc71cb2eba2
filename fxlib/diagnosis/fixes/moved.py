"""What could tell code that moved into a function of its own from code in its old place. It is asked of the text that a
fix gives, whatever recipe wrote it: what is not known to do the same there is not applied by itself."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from fxlib.diagnosis.fixes.evaluated import may_catch
from fxlib.diagnosis.fixes.given import taken_away
from fxlib.diagnosis.fixes.names import local_names
from fxlib.diagnosis.fixes.source import FunctionNode, Source

__all__ = ["noticed"]

_OF_SCOPES = {"locals", "globals", "vars", "eval", "exec", "dir", "super", "__class__"}
_FRAMES = re.compile(r"\b(_getframe|currentframe|numexpr)\b|inspect\.stack\b")
_CONSUMING = {"all", "any", "dict", "list", "max", "min", "set", "sorted", "sum", "tuple"}
_BINDING = (ast.Match, ast.Import, ast.ImportFrom)


def noticed(source: Source, function: FunctionNode | None, text: str) -> str | None:
    """How a function of a file, with those around it, may notice that ``text`` has code of it in new functions; None if
    it cannot, or if there are none."""
    try:
        after = ast.parse(text)
    except SyntaxError:
        return None
    made = [each for each in ast.walk(after) if isinstance(each, ast.FunctionDef) and each.name not in source.defined]
    if made and _FRAMES.search(source.text):
        return "this file reads the names of calling functions"
    calls = {name: each for each in ast.walk(after) if (name := _called(each)) is not None}
    scopes = list(_around(source, function))
    for each in made:
        found = _inside(each, scopes) or _declared(each, scopes)
        found = found or _given(source, each, calls.get(each.name), scopes)
        if found is not None:
            return found
    return None


def _called(node: ast.AST) -> str | None:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None


def _around(source: Source, function: ast.AST | None) -> Iterator[FunctionNode]:
    """A function, and those in which it is defined."""
    while function is not None:
        if isinstance(function, FunctionNode):
            yield function
        function = source.parents.get(function)


def _inside(made: ast.FunctionDef, scopes: list[FunctionNode]) -> str | None:
    """What a new function has in it that may do something else there."""
    consumed = {arg for node in ast.walk(made) if _called(node) in _CONSUMING for arg in node.args}  # type: ignore[attr-defined]
    for node in (node for statement in made.body for node in ast.walk(statement)):
        later = isinstance(node, ast.Lambda | FunctionNode | ast.ClassDef)
        if later or (isinstance(node, ast.GeneratorExp) and node not in consumed):
            return "code in it may run later, and then with other values"
        deleted = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)
        if isinstance(node, _BINDING) or deleted or may_catch(node):
            return "some of it runs only at times, and names keep values of before"
        if isinstance(node, ast.JoinedStr) and _names_itself(node):
            return "a text in it names its own expression"
        if isinstance(node, ast.keyword) and node.arg == "stacklevel":
            return "a warning in it names its caller"
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name.startswith("__") and not name.endswith("__"):
                return f"`{name}` is private to its class"
    local = {name for each in scopes for name in local_names(each)}
    free = {each.id for each in ast.walk(made) if isinstance(each, ast.Name)} - local_names(made) - set(dir(builtins))
    # The names that comprehensions bind are no local names.
    free -= {each.id for each in ast.walk(made) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return f"`{min(free & local)}` is a name of the function that it leaves" if free & local else None


def _names_itself(text: ast.JoinedStr) -> bool:
    """Whether it is like `f"{x=}"`."""
    parts = zip(text.values, text.values[1:], strict=False)
    return any(
        isinstance(one, ast.Constant) and str(one.value).endswith("=") and isinstance(two, ast.FormattedValue)
        for one, two in parts
    )


def _declared(made: ast.FunctionDef, scopes: list[FunctionNode]) -> str | None:
    """What the functions that code leaves say of names in it."""
    mentioned = {each.id for each in ast.walk(made) if isinstance(each, ast.Name)}
    for node in (node for each in scopes for node in ast.walk(each)):
        if isinstance(node, ast.Global | ast.Nonlocal) and (found := mentioned.intersection(node.names)):
            return f"`{min(found)}` is declared {type(node).__name__.lower()}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OF_SCOPES - {"super"}:
            return f"`{node.func.id}()` reads the names of the function"
    return None


def _given(source: Source, made: ast.FunctionDef, call: ast.AST | None, scopes: list[FunctionNode]) -> str | None:
    """What a new function is given that may have changed, or not be there, when it is called."""
    if not isinstance(call, ast.Call):
        return None
    written = {each.id for each in ast.walk(made) if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}
    for parameter, given in zip([each.arg for each in made.args.args], call.args, strict=False):
        text = ast.unparse(given)
        if isinstance(given, ast.Attribute):
            if parameter in written:
                return f"`{text}` is then not assigned"
            path = set(text.split(".")[1:])
            if path & source.defined:
                return f"`{text}` is then computed once, and in every call"
        elif isinstance(given, ast.Name) and any(given.id in taken_away(each) for each in scopes):
            return f"`{text}` may have no value there"
    return None
