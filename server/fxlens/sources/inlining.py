"""What the names in an expression stand for, and expressions with these values in their place.

Standard library only: the worker reads the same file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .bound_names import spelled

__all__ = ["Binding", "Inlining", "Known", "Unresolvable", "alike", "bind", "scoped", "unchanging"]

_MOST_NODES = 5_000
_MOST_STEPS = 40
"""How many values may stand in each other."""
_SAFE_BUILTINS = {
    "int", "float", "bool", "str", "list", "tuple", "dict", "set", "range", "len", "min", "max", "sum", "abs",
}  # fmt: skip
_OF_NUMBERS = {"int", "float", "bool", "str", "range", "len", "min", "max", "sum", "abs", "tuple"}
_WRITING = re.compile(r"save|dump|write|(from|to)_?file|memmap|DataSource|download")
"""Names of functions that may change files, also in C, where nothing notices."""
_STATEFUL = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


class Unresolvable(Exception):
    """An expression uses something unknown."""


@dataclass(eq=False)
class Binding:
    """The value of a name, and what the names in it were then. ``changed``: the object may have changed since."""

    value: ast.expr
    uses: Known = field(default_factory=dict)
    changed: bool = False


Known = dict[str, "Binding | None"]
"""Names, and ``self.name``, with their values: None if something unknown was assigned."""


def bind(value: ast.expr, known: Known, local: set[str]) -> Binding:
    """The value as a binding that later assignments do not affect. Other names are those of the module, unless they are
    ``local``."""
    uses: Known = {}
    for node in ast.walk(value):
        if isinstance(node, ast.Name) and (node.id in known or node.id in local):
            uses[node.id] = known.get(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in known:
                uses[name] = known[name]
    return Binding(value, uses)


def alike(one: Binding | None, other: Binding | None) -> bool:
    """Whether both are the same value."""
    if one is other:
        return True
    if one is None or other is None or one.uses != other.uses:
        return False
    return ast.dump(one.value) == ast.dump(other.value)


def unchanging(binding: Binding, trusted: set[str], steps: int = _MOST_STEPS) -> bool:
    """Whether this is a number, a text or a tensor: what functions change in these, no graph depends on."""
    return steps > 0 and _unchanging(binding.value, binding.uses, trusted, steps)


def _unchanging(value: ast.expr, uses: Known, trusted: set[str], steps: int) -> bool:
    def all_of(*parts: ast.expr) -> bool:
        return all(_unchanging(each, uses, trusted, steps - 1) for each in parts) if steps else False

    if isinstance(value, (ast.Constant, ast.JoinedStr, ast.Compare)):
        return True
    if isinstance(value, ast.BinOp):
        return all_of(value.left, value.right)
    if isinstance(value, ast.UnaryOp):
        return all_of(value.operand)
    if isinstance(value, ast.Tuple):
        return all_of(*value.elts)
    if isinstance(value, ast.IfExp):
        return all_of(value.body, value.orelse)
    if isinstance(value, ast.Call):
        name = spelled(value.func) or ""
        if name in _OF_NUMBERS or (name.partition(".")[0] in trusted and name.rpartition(".")[2][:1].islower()):
            return True
        return isinstance(value.func, ast.Attribute) and all_of(value.func.value)
    found = uses.get(spelled(value) or "")
    if found is not None:
        return unchanging(found, trusted, steps - 1)
    if isinstance(value, ast.Attribute):
        return (spelled(value) or "").partition(".")[0] in trusted or all_of(value.value)
    return isinstance(value, ast.Subscript) and all_of(value.value)


def scoped(node: ast.AST, hidden: frozenset[str] = frozenset()) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """All nodes of an expression or a simple statement, with the names of lambdas and comprehensions around them."""
    waiting = [(node, hidden)]
    while waiting:
        node, hidden = waiting.pop()
        yield node, hidden
        inner = hidden | _own_names(node)
        waiting += [(child, inner) for child in ast.iter_child_nodes(node)]


def _own_names(node: ast.AST) -> frozenset[str]:
    """The names of a lambda or a comprehension."""
    if isinstance(node, ast.Lambda):
        return frozenset(part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg))
    if isinstance(node, _COMPREHENSIONS):
        targets = (part for each in node.generators for part in ast.walk(each.target))
        return frozenset(part.id for part in targets if isinstance(part, ast.Name))
    return frozenset()


@dataclass(frozen=True)
class _Scope:
    """What names mean at a place: those of lambdas and comprehensions around it within its expression (``own``), and of
    those around the expression in which that one stands (``around``), which would capture its names."""

    uses: Known
    own: frozenset[str] = frozenset()
    around: frozenset[str] = frozenset()
    steps: int = _MOST_STEPS


class Inlining:
    """Writes expressions with values for names.

    Args:
        classes: spellings of classes -> the names to write for them.
        allowed: names that may stay.
        trusted: those whose functions may be called; classes may, too.
    """

    def __init__(self, classes: Mapping[str, str], allowed: set[str], trusted: set[str]) -> None:
        self.classes, self.allowed = classes, allowed
        self.callable = {*trusted, *classes.values(), *_SAFE_BUILTINS}
        self._left = _MOST_NODES

    def text(self, expression: ast.expr, known: Known) -> str:
        """The text of an expression. Raises Unresolvable."""
        try:
            return ast.unparse(self._copy(expression, _Scope(known)))
        except RecursionError:
            raise Unresolvable from None

    def _copy(self, node: ast.AST, scope: _Scope) -> ast.AST:
        self._left -= 1
        if self._left < 0 or isinstance(node, _STATEFUL):
            raise Unresolvable
        if isinstance(node, ast.Name):
            return self._name(node, node.id, scope)
        if isinstance(node, ast.Attribute):
            name = spelled(node) or ""
            known = name in self.classes or name in scope.uses
            if known and name.partition(".")[0] not in scope.own:
                return self._name(node, name, scope)
        if isinstance(node, ast.Lambda):
            return self._lambda(node, scope)
        if isinstance(node, _COMPREHENSIONS):
            return self._comprehension(node, scope)
        copied = self._parts(node, scope)
        if isinstance(copied, ast.Call) and not self._may_call(copied.func):
            raise Unresolvable
        return copied

    def _parts(self, node: ast.AST, scope: _Scope, **done: Any) -> Any:
        """A copy of the node with copies of its parts, except for those that are ``done``."""
        for name, value in ast.iter_fields(node):
            if name not in done:
                done[name] = self._list(value, scope) if isinstance(value, list) else self._part(value, scope)
        return type(node)(**done)

    def _list(self, values: Iterable[Any], scope: _Scope) -> list[Any]:
        return [self._part(each, scope) for each in values]

    def _part(self, value: Any, scope: _Scope) -> Any:
        return self._copy(value, scope) if isinstance(value, ast.AST) and value._fields else value

    def _lambda(self, node: ast.Lambda, scope: _Scope) -> ast.AST:
        outside = {name: self._list(getattr(node.args, name), scope) for name in ("defaults", "kw_defaults")}
        inner = replace(scope, own=scope.own | _own_names(node))
        return self._parts(node, inner, args=self._parts(node.args, inner, **outside))

    def _comprehension(self, node: ast.AST, scope: _Scope) -> ast.AST:
        inner = replace(scope, own=scope.own | _own_names(node))
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        first = self._parts(generators[0], inner, iter=self._copy(generators[0].iter, scope))
        return self._parts(node, inner, generators=[first, *self._list(generators[1:], inner)])

    def _name(self, node: ast.Name | ast.Attribute, name: str, scope: _Scope) -> ast.AST:
        if name in scope.own:
            return node
        if name in self.classes:
            return self._global(ast.Name(self.classes[name], ast.Load()), scope)
        if name not in scope.uses:
            if name not in self.allowed:
                raise Unresolvable
            return self._global(ast.Name(name, ast.Load()), scope)
        found = scope.uses[name]
        if found is None or found.changed or scope.steps == 0:
            raise Unresolvable
        return self._copy(found.value, _Scope(found.uses, frozenset(), scope.own | scope.around, scope.steps - 1))

    def _global(self, name: ast.Name, scope: _Scope) -> ast.Name:
        if name.id.partition(".")[0] in scope.own | scope.around:
            raise Unresolvable
        return name

    def _may_call(self, function: ast.AST) -> bool:
        """Whether this may be called to make an example: yes for classes and well-known libraries, no for the file's
        own functions and what writes files."""
        while isinstance(function, (ast.Attribute, ast.Call)):
            if isinstance(function, ast.Attribute) and _WRITING.search(function.attr):
                return False
            function = function.value if isinstance(function, ast.Attribute) else function.func
        if not isinstance(function, ast.Name):
            return not isinstance(function, ast.Lambda)
        if function.id in self.callable:
            return function.id in self.classes.values() or not _WRITING.search(function.id)
        return function.id[:1].isupper()
