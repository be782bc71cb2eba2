"""Expressions of the code that is read: names, attributes, items, containers."""

from __future__ import annotations

import ast
import builtins
import inspect
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .calls import Calls
from .operators import arithmetic, as_number, compared, truth
from .places import NOTHING, Place
from .source import plain
from .values import Known, Local, Method, Parent, Self, Sequence, Shape

if TYPE_CHECKING:
    from .body import Body


class Expressions:
    """Reads expressions for one `Body`."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self._calls = Calls(body)

    def value(self, node: ast.expr | None) -> Any:
        if node is None or self.body.reader.left <= 0:
            return None
        self.body.reader.left -= 1
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            return method(node)
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr):
                self.value(part)
        return None

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.body.names:
            return self.body.names[node.id]
        for scope in (self.body.outer, getattr(self.body.function, "__globals__", {}), vars(builtins)):
            if node.id in scope:
                return Known(scope[node.id])
        return None

    def _constant(self, node: ast.Constant) -> Any:
        return Known(node.value)

    def _attribute(self, node: ast.Attribute) -> Any:
        return self.attribute(self.value(node.value), node.attr)

    def attribute(self, owner: Any, name: str) -> Any:
        if isinstance(owner, Place):
            if name == "shape":
                owner.use("tensor", "shape")
                return Shape(owner)
            owner.use("attribute", name)
            return owner.part("attribute", name)
        if isinstance(owner, Self):
            if owner.real is not None:
                return _attribute_of(owner.real, name, owner)
            if name in owner.stored:
                return owner.stored[name]
            static = inspect.getattr_static(owner.kind, name, None)
            function = plain(static)
            if function is not None:
                bare = isinstance(static, staticmethod)
                return Known(function) if bare else Method(owner, function)
            if isinstance(static, (int, float, str, bool, type, list, tuple, dict)):
                return Known(static)
            owner.stored[name] = Place(name)
            return owner.stored[name]
        if isinstance(owner, Parent):
            function = plain(getattr(super(owner.above, owner.owner.kind), name, None))
            return Method(owner.owner, function) if function is not None else None
        if isinstance(owner, Known):
            return _attribute_of(owner.value, name, None)
        return None

    def _subscript(self, node: ast.Subscript) -> Any:
        owner = self.value(node.value)
        key = node.slice
        if isinstance(key, ast.Slice):
            for part in (key.lower, key.upper, key.step):
                as_number(self.value(part), "int")
            if isinstance(owner, Place):
                owner.use("slice")
            return owner if isinstance(owner, (Place, Shape)) else None
        if isinstance(key, ast.Tuple):
            if isinstance(owner, Place):
                dims = sum(not (isinstance(each, ast.Constant) and each.value in (None, ...)) for each in key.elts)
                owner.use("rank_at_least", dims)
                owner.use("tensor", "[]")
            for each in key.elts:
                self.value(each)
            return None
        index = self.value(key)
        constant = index.value if isinstance(index, Known) else None
        if isinstance(owner, Place):
            if isinstance(constant, str):
                owner.use("key", constant)
                return owner.part("key", constant)
            if isinstance(constant, int) and not isinstance(constant, bool):
                owner.use("index", constant)
                return owner.part("item", constant)
            owner.use("item")
            return owner.part("item")
        if isinstance(owner, Shape) and owner.index is None and isinstance(constant, int):
            owner.place.use("rank_at_least", constant + 1 if constant >= 0 else -constant)
            return Shape(owner.place, constant)
        if isinstance(owner, Sequence):
            if isinstance(constant, int) and -len(owner.items) <= constant < len(owner.items):
                return owner.items[constant]
            as_number(index, "int")
            return owner.items[0] if owner.items else None
        if isinstance(owner, Known):
            return self._item_of(owner.value, index)
        return None

    def _item_of(self, owner: Any, index: Any) -> Any:
        import torch

        if isinstance(index, Place):
            if isinstance(owner, dict) and owner:
                index.use("key_of", tuple(owner))
            elif isinstance(owner, (list, tuple, torch.nn.ModuleList)):
                index.use("int")
            return None
        plain_container = isinstance(
            owner, (list, tuple, dict, torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.Sequential)
        )
        if plain_container:
            try:
                if isinstance(index, Known):
                    return Known(owner[index.value])
                first = list(owner.values()) if isinstance(owner, (dict, torch.nn.ModuleDict)) else list(owner)
                return Known(first[0])
            except (KeyError, IndexError, TypeError):
                return None
        return None

    def _call(self, node: ast.Call) -> Any:
        return self._calls.value(node)

    def _binop(self, node: ast.BinOp) -> Any:
        return arithmetic(self.value(node.left), self.value(node.right), node.op, self.body.in_real)

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            truth(value)
            return None
        if isinstance(value, Place):
            value.use("arithmetic" if not isinstance(node.op, ast.Invert) else "invert", "-")
        if isinstance(value, Known) and isinstance(value.value, (int, float)) and isinstance(node.op, ast.USub):
            return Known(-value.value)
        return value if isinstance(value, Place) else None

    def _boolop(self, node: ast.BoolOp) -> Any:
        values = [self.value(each) for each in node.values]
        for each in values[:-1] if isinstance(node.op, ast.Or) else values:
            truth(each)
        return next((each for each in values if isinstance(each, Place)), None) if isinstance(node.op, ast.Or) else None

    def _ifexp(self, node: ast.IfExp) -> Any:
        truth(self.value(node.test))
        body, other = self.value(node.body), self.value(node.orelse)
        for each in (body, other):
            if isinstance(each, Place):
                return each
        return body if body is not None else other

    def _compare(self, node: ast.Compare) -> Any:
        left = self.value(node.left)
        for operator, each in zip(node.ops, node.comparators, strict=True):
            right = self.value(each)
            compared(left, operator, right)
            left = right
        return None

    def _tuple(self, node: ast.Tuple | ast.List | ast.Set) -> Any:
        items = []
        for each in node.elts:
            if isinstance(each, ast.Starred):
                inner = self.value(each.value)
                if isinstance(inner, Place):
                    inner.use("star")
                    items.append(inner.part("item"))
                elif isinstance(inner, Sequence):
                    items.extend(inner.items)
            else:
                items.append(self.value(each))
        known = [each.value for each in items if isinstance(each, Known)]
        if items and len(known) == len(items):
            return Known(known)
        return Sequence(items)

    _list = _tuple

    _set = _tuple

    def _dict(self, node: ast.Dict) -> Any:
        values = [self.value(each) for each in node.values]
        for key, value in zip(node.keys, values, strict=True):
            if key is None and isinstance(value, Place):
                value.use("mapping")
        keys = [each.value for each in node.keys if isinstance(each, ast.Constant)]
        return Known(dict.fromkeys(keys)) if keys else None

    def _joinedstr(self, node: ast.JoinedStr) -> Any:
        for each in node.values:
            inner = self.value(each.value) if isinstance(each, ast.FormattedValue) else None
            if isinstance(inner, Place):
                inner.use("format")
        return None

    def _lambda(self, node: ast.Lambda) -> Any:
        return Local(node, self.body)

    def _listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Any:
        before = dict(self.body.names)
        first, *rest = node.generators
        results = []
        for item in self.body.items(first.iter):
            self.body.store(first.target, item)
            for generator in rest:
                self.body.store(generator.target, self.body.items(generator.iter)[0])
            for test in [test for generator in node.generators for test in generator.ifs]:
                truth(self.value(test))
            results.append(self.value(node.elt))
        self.body.names = before
        return Sequence(results) if any(each is not None for each in results) else None

    _setcomp = _listcomp

    _generatorexp = _listcomp

    def _dictcomp(self, node: ast.DictComp) -> Any:
        before = dict(self.body.names)
        for generator in node.generators:
            self.body.store(generator.target, self.body.items(generator.iter)[0])
        self.value(node.key)
        self.value(node.value)
        self.body.names = before
        return None

    def _namedexpr(self, node: ast.NamedExpr) -> Any:
        value = self.value(node.value)
        self.body.store(node.target, value)
        return value


def _attribute_of(owner: Any, name: str, self_value: Self | None) -> Any:
    """An attribute of an existing object; properties are not run."""
    import torch

    if isinstance(owner, (ModuleType, type)):
        found = getattr(owner, name, NOTHING)
        return Known(found) if found is not NOTHING else None
    if isinstance(owner, torch.nn.Module):
        for where in (owner.__dict__, owner._modules, owner._parameters, owner._buffers):
            if name in where:
                return Known(where[name])
        function = plain(inspect.getattr_static(type(owner), name, None))
        if function is not None:
            return Method(self_value or Self(type(owner), owner), function)
        static = inspect.getattr_static(type(owner), name, None)
        return Known(static) if isinstance(static, (int, float, str, bool, list, tuple, dict)) else None
    values = getattr(owner, "__dict__", None)
    if isinstance(values, dict) and name in values:
        return Known(values[name])
    return None
