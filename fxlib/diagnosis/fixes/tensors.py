"""Which expressions are surely tensors, sizes or tuples, by the text of their function alone: the example passes a
tensor where another caller may pass a list.

An expression is one where it can be nothing else: a parameter is annotated so, a name gets nothing else, or the
function asks for its shape or calls a method of tensors on it on every way. Attributes of the module, its layers and
its methods say nothing: a child, or anybody who has the module, may replace them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import lru_cache

from fxlib.diagnosis.fixes.evaluated import always, evaluated
from fxlib.diagnosis.fixes.fix import Site
from fxlib.diagnosis.fixes.given import is_inner, taken_away, to_name
from fxlib.diagnosis.fixes.members import self_name
from fxlib.diagnosis.fixes.names import local_names
from fxlib.diagnosis.fixes.source import FunctionNode
from fxlib.diagnosis.fixes.torch_names import (
    ANNOTATION,
    FLAG,
    KEPT,
    MAKERS,
    METHODS,
    NOT_OF_TENSORS,
    PLAIN,
    SEVERAL,
    SHAPED,
)

__all__ = ["is_size", "is_tensor", "is_tuple"]


def is_tensor(site: Site, node: ast.AST, by_shape: bool = True) -> bool:
    """Whether an expression of a function is a tensor, or raises, whatever the model is made of and called with.
    ``by_shape``: one that is asked for its shape is."""
    return _Asked(site, by_shape).holds(node, site.function)


def is_size(site: Site, node: ast.AST) -> bool:
    """Whether it is an int that is not negative: a size of a tensor, a literal, or computed from nothing else."""
    return _Asked(site).size(node, site.function)


def is_tuple(site: Site, node: ast.AST) -> bool:
    """Whether it is a tuple: a shape, a part or a sum of such, or the tensors that `chunk` and the like give."""
    return _Asked(site).several(node, site.function)


class _Asked:
    """One question about an expression, and what its names get their values from."""

    def __init__(self, site: Site, by_shape: bool = True) -> None:
        self.site, self.source, self.by_shape = site, site.source, by_shape
        self.known: dict[tuple[object, ...], bool] = {}

    def _once(self, key: tuple[object, ...], ask: Callable[[], bool]) -> bool:
        """An answer, kept. While it is looked for it is yes: what else a name gets decides."""
        if key not in self.known:
            before = len(self.known)
            self.known[key] = True
            if not (answer := ask()):
                # Others may have counted on it.
                self.known = {k: v for i, (k, v) in enumerate(self.known.items()) if i < before or not v}
            self.known[key] = answer
        return self.known[key]

    def holds(self, node: ast.AST | None, function: FunctionNode | None) -> bool:
        """Whether it is a tensor, of an expression in a function, or at the level of the class or the module."""
        if isinstance(node, ast.arg):
            return _is_annotated(node.annotation)
        if isinstance(node, ast.IfExp):
            return self.holds(node.body, function) and self.holds(node.orelse, function)
        if isinstance(node, ast.NamedExpr):
            return self.holds(node.value, function)
        if isinstance(node, ast.UnaryOp):
            return not isinstance(node.op, ast.Not) and self.holds(node.operand, function)
        if isinstance(node, ast.BinOp):
            # What is joined with a tensor by an operator gives one, or raises; a text on the left takes anything.
            sides = [node.left] if isinstance(node.op, ast.Mod) else [node.left, node.right]
            return any(self.holds(each, function) for each in sides)
        if isinstance(node, ast.Compare):
            plain = any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops)
            return not plain and any(self.holds(each, function) for each in (node.left, *node.comparators))
        if isinstance(node, ast.Name):
            return self._of_all(node, function)
        if isinstance(node, ast.Subscript):
            items = isinstance(node.slice, ast.Constant) and self.of_tensors(node.value, function)
            return items or self.holds(node.value, function)
        if isinstance(node, ast.Attribute):
            return node.attr in KEPT and self.holds(node.value, function)
        return isinstance(node, ast.Call) and self._called(node, function)

    def size(self, node: ast.AST | None, function: FunctionNode | None) -> bool:
        """Whether it is an int that is not negative."""
        if isinstance(node, ast.Constant):
            return type(node.value) is int and node.value >= 0
        if isinstance(node, ast.BinOp):
            kept = isinstance(node.op, ast.Add | ast.Mult | ast.FloorDiv | ast.Mod)
            return kept and all(self.size(each, function) for each in (node.left, node.right))
        if isinstance(node, ast.Subscript):
            value = node.value
            while isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice):
                value = value.value
            return not isinstance(node.slice, ast.Slice) and self._is_shape(value, function)
        if isinstance(node, ast.Call):
            asked = isinstance(node.func, ast.Attribute) and not node.keywords
            sized = asked and (node.func.attr, len(node.args)) in (("size", 1), ("dim", 0), ("numel", 0))  # type: ignore[attr-defined]
            own = sized and self._is_own(node.func.attr)  # type: ignore[attr-defined]
            return sized and not own and self._has_shape(node.func.value, function)  # type: ignore[attr-defined]
        if isinstance(node, ast.Attribute):
            return node.attr == "ndim" and self._has_shape(node.value, function)
        return isinstance(node, ast.Name) and self._all_given("size", node, function, self.size)

    def several(self, node: ast.AST | None, function: FunctionNode | None) -> bool:
        """Whether it is a tuple: of tensors, of sizes, or of anything."""
        if isinstance(node, ast.Tuple) or self._is_shape(node, function):
            return True
        if isinstance(node, ast.Subscript):
            return isinstance(node.slice, ast.Slice) and self.several(node.value, function)
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.Add) and all(self.several(e, function) for e in (node.left, node.right))
        if isinstance(node, ast.Call):
            return self.site.call_name(node) == "tuple" or self.of_tensors(node, function)
        return isinstance(node, ast.Name) and self._all_given("several", node, function, self.several)

    def of_tensors(self, node: ast.AST | None, function: FunctionNode | None) -> bool:
        """Whether it is a tuple of nothing but tensors."""
        if isinstance(node, ast.Tuple):
            return bool(node.elts) and all(self.holds(each, function) for each in node.elts)
        if isinstance(node, ast.Name):
            return self._all_given("of tensors", node, function, self.of_tensors)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in SEVERAL:
            return False
        method, of_torch = node.func.attr, self.site.call_name(node) == f"torch.{node.func.attr}"
        count = len(node.args) + len(node.keywords) - of_torch
        if method in ("max", "min", "median", "where") and not count:
            return False
        return of_torch or self.holds(node.func.value, function)

    def _is_shape(self, node: ast.AST | None, function: FunctionNode | None) -> bool:
        """Whether it is the shape of a tensor: that of anything else may be a list."""
        if isinstance(node, ast.Call) and not node.args and not node.keywords:
            node = node.func if getattr(node.func, "attr", "") == "size" else None
        elif getattr(node, "attr", "") != "shape":
            return False
        return isinstance(node, ast.Attribute) and self._has_shape(node.value, function)

    def _has_shape(self, base: ast.AST, function: FunctionNode | None) -> bool:
        """Whether its shape is that of a tensor: of a local value it is, not of the module, whose may be a list."""
        return (self._is_local(base, function) and not self._is_own("shape")) or self.holds(base, function)

    def _is_local(self, node: ast.AST, function: FunctionNode | None) -> bool:
        """Whether it is a name of the function that assignments alone give a value, and not the module's."""
        if not isinstance(node, ast.Name) or function is None or node.id in taken_away(function):
            return False
        return node.id in local_names(function) and node.id != self_name(self.source, function)

    def _all_given(self, what: str, node: ast.Name, function: FunctionNode | None, ask: Callable[..., bool]) -> bool:
        """Whether all that a name gets is so."""
        if function is not None and node.id in taken_away(function):
            return False
        given = list(to_name(self.source, node, function))
        inner = node if is_inner(self.source, node) else None
        return bool(given) and self._once(
            (what, node.id, function, inner), lambda: all(ask(value, where) for value, where in given)
        )

    def _of_all(self, node: ast.Name, function: FunctionNode | None) -> bool:
        """Whether all that a name gets is a tensor, or what is done with it where it is read says so."""
        if self._all_given("tensor", node, function, self.holds):
            return True
        at = self.source.statement_of(node) if node in self.source.parents else None
        return at is not None and function is not None and self._is_called_at(node, at, function)

    def _called(self, call: ast.Call, function: FunctionNode | None) -> bool:
        name = self.site.call_name(call) or ""
        package, _, last = name.rpartition(".")
        flags = [each for each in call.keywords if each.arg is None or FLAG.match(each.arg)]
        if not all(isinstance(each.value, ast.Constant) and not each.value.value for each in flags):
            return False  # asked for something else, too, perhaps
        if package in ("torch.nn.functional", "torch.special"):
            return last not in SEVERAL
        if package == "torch":
            if MAKERS.match(last):
                return True
            one = last in ("max", "min", "median") and len(call.args) + len(call.keywords) == 1
            three = last == "where" and len(call.args) == 3
            return one or three or not (last in SEVERAL or last in PLAIN or NOT_OF_TENSORS.match(last))
        if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
            return True
        if not isinstance(call.func, ast.Attribute):
            return False
        method, base = call.func.attr, call.func.value
        one = method in ("max", "min", "median") and not call.args and not call.keywords
        plain = method in PLAIN or method.startswith(("is_", "register_", "_"))
        return (one or not (plain or method in SEVERAL)) and self.holds(base, function)

    def _is_called_at(self, node: ast.Name, at: ast.stmt, function: FunctionNode) -> bool:
        """Whether a method of tensors is called, on every way, on the value that a name has at a statement."""
        name = node.id
        if not self._is_local(node, function) or is_inner(self.source, node):
            return False
        stores, leaves = _stores(function).get(name, []), _leaves(function)
        loop: ast.AST | None = None
        child: ast.AST = at
        while (parent := self.source.parents.get(child)) is not None and not isinstance(parent, ast.Try):
            block = next((b for b in _blocks(parent) if child in b), [])
            for statement in always(block):
                here, there = (at.lineno, at.col_offset), (statement.lineno, statement.col_offset)
                first, last = sorted((here, there))
                between = [place for place in stores if first <= place < last]
                if there > here and any(here <= place < there for place in leaves):
                    continue
                if between or (loop is not None and any(loop.lineno <= s <= loop.end_lineno for s, _ in stores)):  # type: ignore[attr-defined]
                    continue
                if any(self._says(name, each) for each in evaluated(statement)):
                    return True
            if parent is function:
                break
            if isinstance(parent, ast.For | ast.While):
                loop = parent
            child = parent
        return False

    def _says(self, name: str, node: ast.AST) -> bool:
        """Whether it asks a name for its shape, calls a method on it that little else than tensors has, and no class of
        the file, or computes with it and a number, which lists, texts and sets cannot."""
        if isinstance(node, ast.BinOp):
            sides = [node.left, node.right]
            named = [getattr(each, "id", None) == name for each in sides]
            plain = isinstance(node.op, ast.Add | ast.Sub | ast.Div | ast.FloorDiv | ast.Pow)
            return plain and any(named) and _is_number(sides[named.index(True) - 1])
        called = node.func if isinstance(node, ast.Call) else node
        asked = METHODS if isinstance(node, ast.Call) else {"shape"} if self.by_shape else set()
        if not isinstance(called, ast.Attribute) or called.attr not in asked:
            return False
        return getattr(called.value, "id", None) == name and not self._is_own(called.attr)

    def _is_own(self, name: str) -> bool:
        """Whether a class of the file has an attribute of this name."""
        stored = (isinstance(each.ctx, ast.Store) for each in self.source.attributes.get(name, ()))
        return name in self.source.defined or any(stored)


def _is_number(node: ast.expr) -> bool:
    counts = isinstance(node, ast.Call) and getattr(node.func, "id", None) == "len"
    return counts or (isinstance(node, ast.Constant) and isinstance(node.value, int | float))


_LEAVING = (ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Assert, ast.Yield, ast.YieldFrom, ast.Await)


@lru_cache(maxsize=256)
def _stores(function: FunctionNode) -> dict[str, list[tuple[int, int]]]:
    """Where each name gets a value in a function, or in one inside of it."""
    found: dict[str, list[tuple[int, int]]] = {}
    for each in ast.walk(function):
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
            found.setdefault(each.id, []).append((each.lineno, each.col_offset))
    return found


@lru_cache(maxsize=256)
def _leaves(function: FunctionNode) -> list[tuple[int, int]]:
    """Where a function may end, or a loop in it, before its last statement."""
    return [(each.lineno, each.col_offset) for each in _own(function) if isinstance(each, _LEAVING)]


def _is_annotated(annotation: ast.expr | None) -> bool:
    text = annotation.value if isinstance(annotation, ast.Constant) else annotation and ast.unparse(annotation)
    return isinstance(text, str) and bool(ANNOTATION.match(text) or SHAPED.match(text))


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """What stands in a function, and not in one inside of it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, FunctionNode | ast.Lambda | ast.ClassDef):
            yield from _own(child)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for part in ("body", "orelse", "finalbody"):
        block = getattr(node, part, None)
        if isinstance(block, list):
            yield block
    for case in getattr(node, "cases", ()):
        yield case.body
