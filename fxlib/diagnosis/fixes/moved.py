"""What could tell code that moved into a function of its own from code in its old place. It is asked of the text that a
fix gives, whatever recipe wrote it. A small part of the language is known to do the same there: statements and
expressions that compute with values, and calls of torch, math and NumPy, of methods of tensors and containers, and of
some functions of Python. What has anything else in it is not applied by itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from textwrap import dedent

from fxlib.diagnosis.engine.forms import may_catch
from fxlib.diagnosis.fixes.attributes import is_kept, is_tensor_of
from fxlib.diagnosis.fixes.calls import is_pure, looking
from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.given import taken_away, to_name
from fxlib.diagnosis.fixes.members import self_name
from fxlib.diagnosis.fixes.source import FunctionNode, Source

__all__ = ["names_itself", "noticed"]

_OF_SCOPES = {"locals", "globals", "vars", "eval", "exec", "dir"}
_FRAMES = re.compile(r"\b(_getframe|currentframe|numexpr)\b|inspect\.stack\b")
_CONSUMING = {"all", "any", "dict", "list", "max", "min", "set", "sorted", "sum", "tuple"}
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
    if (asks := looking(source, nodes)) is not None:
        return f"`{asks}` may look at what calls it"
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
    given = dict(zip([each.arg for each in made.args.args], call.args, strict=False))
    # What an input is does not matter for a value: for anything else it may be a part of the module, too.
    of_values, of_all = (
        [each for statement in made.body for each in _Reads(source, scopes, given, inputs).of(statement)]
        for inputs in (False, True)
    )
    within = {each.id for node in ast.walk(made) if isinstance(node, ast.With) for each in _names(node.body)}
    for parameter, value in given.items():
        text = ast.unparse(value)
        if isinstance(value, ast.Attribute):
            if any(parameter in _bound(each) for each in ast.walk(made) if not isinstance(each, ast.arg)):
                return f"`{text}` is then not assigned"
            kept, tensor = is_kept(source, scopes, value), is_tensor_of(source, scopes, value)
            read = of_values if kept or tensor else of_all
            if not tensor and (method := _method_of(made, parameter)):
                return f"`{text}.{method}` may be a layer, which the graph would not show"
            first = read.index(parameter) if parameter in read else len(read)
            again = parameter in read[first + 1 :]
            changed = "" in read[:first] or (again and "" in read)
            # A property, or a parametrization, may do something each time, and something else without gradients.
            asked = again or "print" in read[:first] or parameter in within
            if changed or (asked and not kept):
                return f"`{text}` is then read once, before all else"
        elif isinstance(value, ast.Name) and any(value.id in taken_away(each) for each in scopes):
            return f"`{text}` may have no value there"
    return None


def _method_of(made: ast.FunctionDef, name: str) -> str | None:
    """A method of a value that code calls."""
    called = (each.func for each in ast.walk(made) if isinstance(each, ast.Call))
    of_value = (each.attr for each in called if isinstance(each, ast.Attribute) and _is_name(each.value, name))
    return next(of_value, None)


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _names(block: list[ast.stmt]) -> Iterator[ast.Name]:
    return (node for statement in block for node in ast.walk(statement) if isinstance(node, ast.Name))


class _Reads:
    """The order in which a new function reads what it is given."""

    def __init__(
        self, source: Source, scopes: list[FunctionNode], given: dict[str, ast.expr], inputs: bool = False
    ) -> None:
        self.source, self.function = source, scopes[0] if scopes else None
        self.inputs = inputs
        self.parts = {name for name, value in given.items() if isinstance(value, ast.Attribute)}
        if self.function is not None and (me := self_name(source, self.function)) is not None:
            self.parts.add(me)  # the names of the function get their values from it
        self.seen: dict[str, bool] = {}

    def of(self, node: ast.AST) -> Iterator[str]:
        """The names that code reads, twice in a loop; an empty one for what may change something else."""
        inner = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
            inner.sort(key=lambda each: each is not node.value)
        if isinstance(node, ast.For):
            yield from self.of(node.iter)
            inner = [*node.body, *node.body, *node.orelse]
        elif isinstance(node, ast.While | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            inner = [*inner, *inner]
        for each in inner:
            yield from self.of(each)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        stores = isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load)
        in_place = isinstance(node, ast.AugAssign) and self.is_part(node.target)
        printed = isinstance(node, ast.Call) and ast.unparse(node.func) == "print"  # a name, too
        called = isinstance(node, ast.Call) and not printed and not is_pure(self.source, node, self.is_part)
        if stores or in_place or called:
            yield ""

    def is_part(self, node: ast.AST | None) -> bool:
        """Whether a value may be a part of the module."""
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
            node = node.value
        if isinstance(node, ast.Name):
            if node.id not in self.seen:
                self.seen[node.id] = False  # while it is looked for
                values = to_name(self.source, node, self.function)
                self.seen[node.id] = node.id in self.parts or any(self.is_part(value) for value, _ in values)
            return self.seen[node.id]
        if isinstance(node, ast.IfExp | ast.BoolOp | ast.NamedExpr | ast.Tuple | ast.List):
            return any(self.is_part(each) for each in ast.iter_child_nodes(node))
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Name) and node.func.id == "getattr"
        return node is None or (self.inputs and isinstance(node, ast.arg))
