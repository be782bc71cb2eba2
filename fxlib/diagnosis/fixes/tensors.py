"""Which expressions are surely tensors, by the text of their function alone: the example passes a tensor where another
caller may pass a list, and another construction of the model a number.

An expression is one where it can be nothing else: a parameter is annotated so, a name gets nothing else, or what else
the function does with the value on every way raises for anything but a tensor. Attributes of the module, its layers and
its methods say nothing: a child, or anybody who has the module, may replace them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from fxlib.diagnosis.fixes.evaluated import always, evaluated
from fxlib.diagnosis.fixes.fix import Site
from fxlib.diagnosis.fixes.given import AN_INT, is_inner, to_name
from fxlib.diagnosis.fixes.integers import is_size
from fxlib.diagnosis.fixes.names import self_name
from fxlib.diagnosis.fixes.source import FunctionNode
from fxlib.diagnosis.fixes.torch_names import (
    ANNOTATION,
    FLAG,
    KEPT,
    MAKERS,
    NOT_OF_TENSORS,
    NUMBERS,
    OF_NUMBERS,
    OF_TENSORS,
    PLAIN,
    SEVERAL,
    SHAPED,
)

__all__ = ["assumed", "is_number", "is_tensor", "is_tuple", "is_value"]


def is_tensor(site: Site, node: ast.AST) -> bool:
    """Whether an expression of a function is a tensor, or raises, whatever the model is made of and called with."""
    return _Asked(site, uses=False).holds(node, site.function)


def is_value(site: Site, node: ast.AST) -> bool:
    """Whether it is a tensor or a plain number."""
    return _Asked(site, numbers=True).holds(node, site.function)


def is_number(site: Site, node: ast.AST) -> bool:
    """Whether it is a plain number."""
    return _Asked(site, numbers=True, tensors=False).holds(node, site.function)


def is_tuple(site: Site, node: ast.AST) -> bool:
    """Whether it is a tuple: a shape, a part or a sum of such, or the tensors that `chunk` and the like give."""
    return _Asked(site).several(node, site.function)


def assumed(
    site: Site,
    *,
    tensors: Iterable[ast.AST] = (),
    sized: Iterable[ast.AST] = (),
    values: Iterable[ast.AST] = (),
    tuples: Iterable[ast.AST] = (),
    numbers: Iterable[ast.AST] = (),
) -> str | None:
    """What a fix takes for granted and the text does not say, in a few words: that these are tensors, tensors if they
    are no plain numbers, tensors or plain numbers, tuples, plain numbers. None where all of it is sure."""
    asked = (
        (tensors, is_tensor, "a tensor"),
        (sized, is_value, "a tensor"),
        (values, is_value, "a tensor or a number"),
        (tuples, is_tuple, "a tuple"),
        (numbers, is_number, "a number"),
    )
    unsure = (
        f"`{ast.unparse(node)}` is {kind}" for nodes, is_so, kind in asked for node in nodes if not is_so(site, node)
    )
    words = " and ".join(dict.fromkeys(unsure))
    return f"right only if {words}" if words else None


class _Asked:
    """One question about an expression, and what its names get their values from."""

    def __init__(self, site: Site, numbers: bool = False, tensors: bool = True, uses: bool = True) -> None:
        """``uses``: what is done with a value may say so, though the same may be done with arrays of NumPy."""
        self.site, self.source = site, site.source
        self.numbers, self.tensors, self.uses = numbers, tensors, uses
        self.known: dict[tuple[object, ...], bool] = {}
        self.asked: set[tuple[str, ast.stmt]] = set()

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
        """Whether it is so of an expression in a function, or at the level of the class or the module."""
        if node is AN_INT or (node is not None and is_size(node)):
            return self.numbers
        if isinstance(node, ast.Constant):
            return self.numbers and isinstance(node.value, int | float)
        if isinstance(node, ast.arg):
            return self._is_annotated(node.annotation) or (self.tensors and self.uses and self._is_used(node, function))
        if isinstance(node, ast.IfExp):
            return self.holds(node.body, function) and self.holds(node.orelse, function)
        if isinstance(node, ast.NamedExpr):
            return self.holds(node.value, function)
        if isinstance(node, ast.UnaryOp):
            # Anything else than a tensor or a number has no sign.
            return not isinstance(node.op, ast.Not) and (
                (self.numbers and self.tensors) or self.holds(node.operand, function)
            )
        if isinstance(node, ast.BinOp):
            # What is joined with a tensor by an operator gives one, or raises; a list times a number does not.
            asked = [self.holds(each, function) for each in (node.left, node.right)]
            one = self.tensors and not (self.numbers and isinstance(node.op, ast.Mult | ast.Mod))
            return any(asked) if one else all(asked)
        if isinstance(node, ast.Compare):
            plain = any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops)
            asked = [self.holds(each, function) for each in (node.left, *node.comparators)]
            return not plain and (all(asked) if self.numbers else any(asked))
        if isinstance(node, ast.Name):
            return self._of_all(node, function)
        if self.numbers and isinstance(node, ast.Call) and self.site.call_name(node) in OF_NUMBERS:
            return True
        if not self.tensors:
            return False
        if isinstance(node, ast.Subscript):
            items = isinstance(node.slice, ast.Constant) and self.of_tensors(node.value, function)
            return items or self.holds(node.value, function)
        if isinstance(node, ast.Attribute):
            return node.attr in KEPT and self.holds(node.value, function)
        return isinstance(node, ast.Call) and self._called(node, function)

    def several(self, node: ast.AST | None, function: FunctionNode | None) -> bool:
        """Whether it is a tuple: of tensors, of sizes, or of anything."""
        if isinstance(node, ast.Tuple) or self._is_shape(node, function):
            return True
        if isinstance(node, ast.Subscript):
            return isinstance(node.slice, ast.Slice) and self.several(node.value, function)
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.Add) and all(self.several(e, function) for e in (node.left, node.right))
        if isinstance(node, ast.Call):
            name = self.site.call_name(node) or ""
            return name == "tuple" or self.of_tensors(node, function)
        if isinstance(node, ast.Name):
            given = list(to_name(self.source, node, function))
            return bool(given) and self._once(
                ("several", node.id, function), lambda: all(self.several(value, where) for value, where in given)
            )
        return False

    def of_tensors(self, node: ast.AST | None, function: FunctionNode | None) -> bool:
        """Whether it is a tuple of nothing but tensors."""
        if isinstance(node, ast.Tuple):
            return bool(node.elts) and all(self.holds(each, function) for each in node.elts)
        if isinstance(node, ast.Name):
            given = list(to_name(self.source, node, function))
            return bool(given) and self._once(
                ("of tensors", node.id, function), lambda: all(self.of_tensors(value, where) for value, where in given)
            )
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in SEVERAL:
            return False
        method, of_torch = node.func.attr, self.site.call_name(node) == f"torch.{node.func.attr}"
        count = len(node.args) + len(node.keywords) - of_torch
        if method in ("max", "min", "median", "where") and not count:
            return False
        return of_torch or self.holds(node.func.value, function)

    def _is_shape(self, node: ast.AST | None, function: FunctionNode | None) -> bool:
        if isinstance(node, ast.Call) and not node.args:
            node = node.func if getattr(node.func, "attr", "") == "size" else None
        elif getattr(node, "attr", "") != "shape":
            return False
        if not isinstance(node, ast.Attribute):
            return False
        # The object's own, or that of its settings, may be a list.
        base, me = node.value, self_name(self.source, function) if function is not None else None
        plain = isinstance(base, ast.Name | ast.Call) and getattr(base, "id", "") != me
        return plain or self.holds(base, function)

    def _is_annotated(self, annotation: ast.expr | None) -> bool:
        text = annotation.value if isinstance(annotation, ast.Constant) else annotation and ast.unparse(annotation)
        if not isinstance(text, str):
            return False
        tensor = bool(ANNOTATION.match(text) or SHAPED.match(text))
        return (self.tensors and tensor) or (self.numbers and text in NUMBERS)

    def _of_all(self, node: ast.Name, function: FunctionNode | None) -> bool:
        """Whether all that a name gets is so, or what is done with it where it is read says so."""
        given = list(to_name(self.source, node, function))
        key = (node.id, function, node if is_inner(self.source, node) else None)
        if given and self._once(key, lambda: all(self.holds(value, where) for value, where in given)):
            return True
        asks = self.tensors and self.uses and node in self.source.parents
        at = self.source.statement_of(node) if asks else None
        return at is not None and function is not None and self._is_tensor_at(node, at, function)

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
        if isinstance(call.func, ast.Attribute):
            method, base = call.func.attr, call.func.value
            one = method in ("max", "min", "median") and not call.args and not call.keywords
            plain = method in PLAIN or method.startswith(("is_", "register_", "_"))
            if (one or not (plain or method in SEVERAL)) and self.holds(base, function):
                return True
        run = self._function(call.func)
        return run is not None and self._gives(run)

    def _function(self, called: ast.expr) -> FunctionNode | None:
        """The function of the file that a name stands for, where it stands for nothing else."""
        return self.source.functions.get(called.id) if isinstance(called, ast.Name) else None

    def _gives(self, run: FunctionNode) -> bool:
        returned = [each.value for each in _own(run) if isinstance(each, ast.Return)]
        return bool(returned) and self._once(
            (run, "gives"), lambda: all(each is not None and self.holds(each, run) for each in returned)
        )

    def _is_used(self, parameter: ast.arg, function: FunctionNode | None) -> bool:
        """Whether a function does with a parameter, before it gets another value, what raises unless it is a tensor."""
        return function is not None and self._is_tensor_at(ast.Name(parameter.arg), function.body[0], function)

    def _is_tensor_at(self, node: ast.Name, at: ast.stmt, function: FunctionNode) -> bool:
        """Whether something is done with the value that a name has at a statement, on every way, that raises unless it
        is a tensor."""
        name = node.id
        if (name, at) in self.asked or name == self_name(self.source, function) or is_inner(self.source, node):
            return False
        self.asked.add((name, at))
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
                if any(self._asks(name, each, function) for each in evaluated(statement)):
                    return True
            if parent is function:
                break
            if isinstance(parent, ast.For | ast.While):
                loop = parent
            child = parent
        return False

    def _asks(self, name: str, expression: ast.AST, function: FunctionNode) -> bool:
        """Whether evaluating a part of an expression raises unless the value of the name is a tensor, or a number if
        that is asked for."""
        if self.numbers and isinstance(expression, ast.BinOp | ast.Compare):
            sides = [expression.left, *getattr(expression, "comparators", [getattr(expression, "right", None)])]
            if any(getattr(each, "id", None) == name for each in sides):
                others = (each for each in sides if getattr(each, "id", None) != name)
                return _computes(expression) or (
                    isinstance(expression, ast.BinOp)
                    and isinstance(expression.op, ast.Add)
                    and any(self.holds(each, function) for each in others)
                )
        if isinstance(expression, ast.Attribute) and _is_of(name, expression.value):
            return expression.attr in OF_TENSORS and isinstance(expression.ctx, ast.Load)
        if isinstance(expression, ast.Subscript) and isinstance(expression.slice, ast.Tuple):
            # `x[:, 0]`
            return _is_of(name, expression.value) and any(isinstance(each, ast.Slice) for each in expression.slice.elts)
        if not isinstance(expression, ast.Call):
            return False
        called = expression.func
        if not expression.args or not _is_of(name, expression.args[0]):
            return False
        package, _, last = (self.site.call_name(expression) or "").rpartition(".")
        if package in ("torch", "torch.linalg", "torch.special"):
            return not (NOT_OF_TENSORS.match(last) or last in ("numel",))
        if package == "torch.nn.functional":
            return True
        run = self._function(called)
        return run is not None and self._takes(run)

    def _takes(self, run: FunctionNode) -> bool:
        arguments = [*run.args.posonlyargs, *run.args.args]
        if self_name(self.source, run) is not None:
            arguments = arguments[1:]
        return bool(arguments) and self._is_used(arguments[0], run)


_LEAVING = (ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Assert)


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


def _is_of(name: str, node: ast.AST) -> bool:
    """Whether it is the value of a name, or computed from it and constants."""
    if isinstance(node, ast.BinOp):
        sides = [node.left, node.right]
    elif isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    elif isinstance(node, ast.UnaryOp):
        sides = [node.operand]
    else:
        return getattr(node, "id", None) == name
    of_it = [_is_of(name, each) for each in sides]
    return any(of_it) and all(so or isinstance(each, ast.Constant) for so, each in zip(of_it, sides, strict=True))


def _computes(node: ast.BinOp | ast.Compare) -> bool:
    """Whether an operator takes neither lists nor texts on any side."""
    if isinstance(node, ast.Compare):
        ordered = all(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops)
        return ordered and any(isinstance(each, ast.Constant) for each in (node.left, *node.comparators))
    if isinstance(node.op, ast.Add):
        return isinstance(node.left, ast.Constant) or isinstance(node.right, ast.Constant)
    return isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Pow | ast.MatMult)


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
