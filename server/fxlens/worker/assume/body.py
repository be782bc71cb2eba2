"""Statements of a function that is read, and the values of its names."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING, Any

from .expressions import Expressions
from .operators import arithmetic, compared_with, truth
from .places import Place
from .source import FunctionNode
from .values import Known, Local, Reading, Self, Sequence, Shape

if TYPE_CHECKING:
    from .reading import Reader


class Body:
    """Names and their values while a function is read."""

    def __init__(self, reader: Reader, function: Any, names: dict[str, Any], owner: Self | None, to: Reading) -> None:
        self.reader = reader
        self.function = function
        self.names = names
        self.owner = owner
        self.reading = to
        self.branch = 0
        self.outer: dict[str, Any] = {}
        if function is not None and function.__closure__:
            for name, cell in zip(function.__code__.co_freevars, function.__closure__, strict=True):
                try:
                    self.outer[name] = cell.cell_contents
                except ValueError:
                    continue
        expressions = Expressions(self)
        self.value, self.attribute = expressions.value, expressions.attribute

    @property
    def in_real(self) -> bool:
        """Whether this is the code of a module that exists."""
        return self.owner is not None and self.owner.real is not None

    def within(self, values: dict[str, Any], to: Reading) -> Body:
        """A function defined in here, with its arguments."""
        return Body(self.reader, self.function, {**self.names, **values}, self.owner, to)

    def run(self, node: FunctionNode) -> None:
        if isinstance(node, ast.Lambda):
            self.reading.returns.append(self.value(node.body))
        else:
            self.block(node.body)

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            method = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if method is not None:
                method(statement)
            else:
                for part in ast.iter_child_nodes(statement):
                    if isinstance(part, ast.expr):
                        self.value(part)

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.store(target, value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.store(node.target, self.value(node.value))

    def _augassign(self, node: ast.AugAssign) -> None:
        kept = self.value(_loaded(node.target))
        other = self.value(node.value)
        result = arithmetic(kept, other, node.op, self.in_real)
        if not isinstance(kept, (Sequence, Known)):
            self.store(node.target, result if result is not None else kept)

    def store(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Starred):
            target = target.value
        if isinstance(target, ast.Name):
            before = self.names.get(target.id)
            # `if x is None: x = …` keeps x, since its other value still counts.
            if not (self.branch and isinstance(before, Place) and not isinstance(value, Place)):
                self.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            for each, part in zip(target.elts, self._unpacked(value, target), strict=False):
                self.store(each, part)
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value)
            if isinstance(owner, Self):
                self._keep(owner, target.attr, value)
        elif isinstance(target, ast.Subscript):
            self.value(target.value)
            self.value(target.slice)

    def _keep(self, owner: Self, name: str, value: Any) -> None:
        if isinstance(value, Place):
            kept = owner.stored.get(name)
            if not isinstance(kept, Place):
                kept = owner.stored[name] = Place(name)
            value.flow(kept)
        elif not isinstance(owner.stored.get(name), Place) and value is not None:
            owner.stored[name] = value

    def _unpacked(self, value: Any, target: ast.Tuple | ast.List) -> list[Any]:
        count = len(target.elts)
        starred = any(isinstance(each, ast.Starred) for each in target.elts)
        if isinstance(value, Place):
            value.use("iterate" if starred else "unpack", None if starred else count)
            return [value.part("item", index) for index in range(count)]
        if isinstance(value, Shape) and value.index is None:
            names = tuple(each.id if isinstance(each, ast.Name) else "_" for each in target.elts)
            value.place.use("rank_at_least" if starred else "dims", count - 1 if starred else names)
            if starred and isinstance(target.elts[0], ast.Starred):
                return [Shape(value.place, index - count) for index in range(count)]
            return [Shape(value.place, index) for index in range(count)]
        if isinstance(value, Sequence) and len(value.items) == count:
            return value.items
        if isinstance(value, Known) and isinstance(value.value, (tuple, list)) and len(value.value) == count:
            return [Known(each) for each in value.value]
        return [None] * count

    def _return(self, node: ast.Return) -> None:
        self.reading.returns.append(self.value(node.value))

    def _if(self, node: ast.If) -> None:
        truth(self.value(node.test))
        self.branch += 1
        before = dict(self.names)
        self.block(node.body)
        after, self.names = self.names, before
        self.block(node.orelse)
        self.branch -= 1
        self.names = {**self.names, **{k: v for k, v in after.items() if v is not None or k not in self.names}}

    def _while(self, node: ast.While) -> None:
        truth(self.value(node.test))
        self.block(node.body)

    def _for(self, node: ast.For) -> None:
        for item in self.items(node.iter):
            self.store(node.target, item)
            self.block(node.body)
        self.block(node.orelse)

    _asyncfor = _for

    def _try(self, node: ast.Try) -> None:
        self.block(node.body)
        for handler in node.handlers:
            self.block(handler.body)
        self.block(node.orelse)
        self.block(node.finalbody)

    def _with(self, node: ast.With) -> None:
        for item in node.items:
            self.value(item.context_expr)
        self.block(node.body)

    def _assert(self, node: ast.Assert) -> None:
        truth(self.value(node.test))

    def _functiondef(self, node: ast.FunctionDef) -> None:
        self.names[node.name] = Local(node, self)

    def _importfrom(self, node: ast.ImportFrom) -> None:
        """The imports of a function from already loaded modules; reading never imports."""
        package = (getattr(self.function, "__globals__", {}).get("__package__") or "").split(".")
        inner = package[: len(package) - node.level + 1] if node.level else []
        module = sys.modules.get(".".join([*inner, *([node.module] if node.module else [])]))
        for each in node.names:
            if module is not None and (found := vars(module).get(each.name)) is not None:
                self.names[each.asname or each.name] = Known(found)

    def _match(self, node: ast.Match) -> None:
        subject = self.value(node.subject)
        for case in node.cases:
            for part in ast.walk(case.pattern):
                if isinstance(part, ast.MatchValue) and isinstance(part.value, ast.Constant):
                    compared_with(subject, part.value.value)
            self.block(case.body)

    def items(self, node: ast.expr) -> list[Any]:
        """The items of a loop, one for each iteration worth reading."""
        return self.of_iterable(self.value(node))

    def of_iterable(self, value: Any) -> list[Any]:
        import torch

        if isinstance(value, Place):
            value.use("iterate")
            return [value.part("item")]
        if isinstance(value, Sequence):
            return value.items[:12] or [None]
        if isinstance(value, Known):
            if isinstance(value.value, (list, tuple, torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ParameterList)):
                texts = all(isinstance(each, str) for each in value.value)
                return [Known(each) for each in list(value.value)[: 12 if texts else 4]] or [None]
            if isinstance(value.value, torch.nn.ModuleDict):
                return [Known(each) for each in list(value.value)[:4]] or [None]
        return [None]


def _loaded(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body
