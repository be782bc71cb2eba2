"""What could tell code that moved into a function of its own from code in its old place. It is asked of the text that a
fix gives, whatever recipe wrote it. A small part of the language is known to do the same there: statements and
expressions that compute with values, and calls of torch, math and NumPy, of methods of tensors and containers, and of
some functions of Python. What has anything else in it is not applied by itself."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from textwrap import dedent

import torch

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.evaluated import may_catch
from fxlib.diagnosis.fixes.given import taken_away
from fxlib.diagnosis.fixes.imports import Bindings
from fxlib.diagnosis.fixes.source import FunctionNode, Source

__all__ = ["names_itself", "noticed"]

_OF_SCOPES = {"locals", "globals", "vars", "eval", "exec", "dir"}
_FRAMES = re.compile(r"\b(_getframe|currentframe|numexpr)\b|inspect\.stack\b")
_COMPUTING = {
    "abs", "bool", "divmod", "float", "int", "isinstance", "len", "list", "max", "min", "print", "range", "round",
    "sum", "tuple", "zip",
}  # fmt: skip
_DRAWS = re.compile(r"rand|drop|normal|seed|uniform|bernoulli|poisson|multinomial")
_PACKAGES = {"torch", "math", "numpy"}
_CONSUMING = {"all", "any", "dict", "list", "max", "min", "set", "sorted", "sum", "tuple"}
_KNOWN = (
    _COMPUTING | _CONSUMING | {"complex", "enumerate", "getattr", "hasattr", "pow", "repr", "reversed", "slice", "str"}
)
_CONTAINERS = (torch.Tensor, torch.Size, list, dict, set, str)
_LATER = (ast.Lambda, FunctionNode, ast.ClassDef)
_STATEMENTS = (
    ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.If, ast.For, ast.While, ast.With, ast.Return, ast.Raise,
    ast.Assert, ast.Delete, ast.Pass, ast.Break, ast.Continue,
)  # fmt: skip
_EXPRESSIONS = (
    ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Starred, ast.Tuple, ast.List, ast.Set,
    ast.Dict, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.JoinedStr, ast.FormattedValue,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


def noticed(source: Source, function: FunctionNode | None, edits: Iterable[Edit]) -> str | None:
    """How a function of a file, with those around it, may notice that ``edits`` move code of it to new functions; None
    if it cannot, or if there are none."""
    try:
        nodes = [node for each in edits for node in ast.walk(ast.parse(dedent(each.text).strip()))]
    except SyntaxError:
        return "what moves cannot be read by itself"
    made = [each for each in nodes if isinstance(each, ast.FunctionDef) and each.name not in source.defined]
    if made and _FRAMES.search(source.text):
        return "this file reads the names of calling functions"
    calls = {name: each for each in nodes if (name := _called(each)) is not None}
    scopes = list(_around(source, function))
    for each in made:
        found = _inside(source, each, scopes) or _declared(each, scopes)
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


def _inside(source: Source, made: ast.FunctionDef, scopes: list[FunctionNode]) -> str | None:
    """What a new function has in it that may do something else there."""
    nodes = [node for statement in made.body for node in ast.walk(statement)]
    consumed = {arg for node in nodes if _called(node) in _CONSUMING for arg in node.args}  # type: ignore[attr-defined]
    for node in nodes:
        if isinstance(node, _LATER) or (isinstance(node, ast.GeneratorExp) and node not in consumed):
            return "code in it may run later, and then with other values"
        deleted = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)
        known = not isinstance(node, ast.stmt | ast.expr) or isinstance(node, (*_STATEMENTS, *_EXPRESSIONS))
        if not known or deleted or may_catch(node):
            return "some of it runs only at times, and names keep values of before"
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name.startswith("__") and not name.endswith("__"):
                return f"`{name}` is private to its class"
    if (asks := _asks(source, nodes, set())) is not None:
        return asks
    # Names of comprehensions and of lambdas, too: a global may have the same name.
    bound = {name for each in scopes for node in ast.walk(each) for name in _bound(node)}
    free = {each.id for each in ast.walk(made) if isinstance(each, ast.Name)}
    free -= {name for node in ast.walk(made) for name in _bound(node)}
    return f"`{min(free & bound)}` is a name of the function that it leaves" if free & bound else None


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg


def names_itself(text: ast.AST) -> bool:
    """Whether it is a text like `f"{x=}"`."""
    for one, two in pairwise(text.values) if isinstance(text, ast.JoinedStr) else ():
        if isinstance(one, ast.Constant) and isinstance(two, ast.FormattedValue):
            before = str(one.value).rstrip()
            if before.endswith("=") and before[:-1].rstrip().endswith(ast.unparse(two.value)):
                return True
    return False


def _declared(made: ast.FunctionDef, scopes: list[FunctionNode]) -> str | None:
    """What the functions that code leaves say of names in it."""
    mentioned = {each.id for each in ast.walk(made) if isinstance(each, ast.Name)}
    for node in (node for each in scopes for node in ast.walk(each)):
        if names_itself(node):
            return "a text names its own expression"
        if isinstance(node, ast.Global | ast.Nonlocal) and (found := mentioned.intersection(node.names)):
            return f"`{min(found)}` is declared {type(node).__name__.lower()}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OF_SCOPES:
            return f"`{node.func.id}()` reads the names of the function"
    return None


def _given(source: Source, made: ast.FunctionDef, call: ast.AST | None, scopes: list[FunctionNode]) -> str | None:
    """What a new function is given that may have changed, or not be there, when it is called."""
    if not isinstance(call, ast.Call):
        return None
    bindings = Bindings.of(source)
    read = [each for statement in made.body for each in _read(statement, bindings)]
    for parameter, given in zip([each.arg for each in made.args.args], call.args, strict=False):
        text = ast.unparse(given)
        if isinstance(given, ast.Attribute):
            if any(parameter in _bound(each) for each in ast.walk(made) if not isinstance(each, ast.arg)):
                return f"`{text}` is then not assigned"
            first = read.index(parameter) if parameter in read else len(read)
            # A call may change it, and a property may give another value each time.
            changes = "" in read[:first] or (parameter in read[first + 1 :] and "" in read)
            if changes or (read.count(parameter) > 1 and not _is_set(source, scopes, given)):
                return f"`{text}` is then read once, before all else"
        elif isinstance(given, ast.Name) and any(given.id in taken_away(each) for each in scopes):
            return f"`{text}` may have no value there"
    return None


def _is_set(source: Source, scopes: list[FunctionNode], attribute: ast.Attribute) -> bool:
    """Whether the constructor of the class sets an attribute of its object: then it is no property."""
    owner = source.class_of(scopes[-1]) if scopes else None
    stored = (each for each in source.attributes.get(attribute.attr, ()) if isinstance(each.ctx, ast.Store))
    made_by = (source.function_of(each) for each in stored)
    plain = isinstance(attribute.value, ast.Name) and attribute.attr not in source.defined
    return plain and any(
        each is not None and each.name == "__init__" and source.class_of(each) is owner for each in made_by
    )


def _read(node: ast.AST, bindings: Bindings) -> Iterator[str]:
    """The names that code reads, in the order of evaluation, twice in a loop; an empty one for a call that may do
    anything."""
    parts = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
        parts.sort(key=lambda each: each is not node.value)
    if isinstance(node, ast.For):
        yield from _read(node.iter, bindings)
        parts = [*node.body, *node.body, *node.orelse]
    elif isinstance(node, ast.While | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        parts = [*parts, *parts]
    for each in parts:
        yield from _read(each, bindings)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    stores = isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load)
    if stores or (isinstance(node, ast.Call) and not _is_plain(node.func, bindings)):
        yield ""


def _asks(source: Source, nodes: Iterable[ast.AST], seen: set[str]) -> str | None:
    """What code calls that may look at who calls it. Functions of the same file are looked into."""
    nodes = list(nodes)
    raised = {node.exc for node in nodes if isinstance(node, ast.Raise)}
    bindings = Bindings.of(source)
    for call in (node for node in nodes if isinstance(node, ast.Call) and node not in raised):
        name = bindings.resolve(call.func) or ast.unparse(call.func)
        of_file = [each for each in source.tree.body if isinstance(each, FunctionNode) and each.name == name]
        if len(of_file) == 1 and isinstance(call.func, ast.Name):
            new, seen = name not in seen, {*seen, name}
            if new and (found := _asks(source, ast.walk(of_file[0]), seen)) is not None:
                return found
        elif not _is_known(source, call.func, name):
            return f"`{ast.unparse(call.func)}` may look at what calls it"
    return None


def _is_known(source: Source, called: ast.expr, name: str) -> bool:
    """Whether it is nothing to what is called where it is called from."""
    if isinstance(called, ast.Name) and hasattr(builtins, name):
        return name in _KNOWN and name not in source.defined
    if isinstance(called, ast.Attribute) and any(hasattr(each, called.attr) for each in _CONTAINERS):
        return True
    return name.partition(".")[0] in {*_PACKAGES, "random"} or name.endswith(".apply")


def _is_plain(called: ast.expr, bindings: Bindings) -> bool:
    """Whether what is called computes with tensors or numbers, draws nothing and writes into none: a method of tensors,
    a function of torch or math, some of Python's own."""
    name = bindings.resolve(called) or ast.unparse(called)
    if name.endswith("_") or _DRAWS.search(name):
        return False
    if name.partition(".")[0] in _PACKAGES or name in _COMPUTING:
        return True
    return isinstance(called, ast.Attribute) and hasattr(torch.Tensor, called.attr)
