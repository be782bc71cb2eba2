"""Nodes that compute symbolic integers: the implementation of ``Graph.materialize_symints``.

A symbolic size is an expression over symbols. Each symbol is defined somewhere in the graph: by a placeholder, by one
of its sizes, or by a result whose size depends on data. The expression is computed from there, so it has the symbol's
value at run time, whatever later passes do to strides and layouts.
"""

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import sympy
import torch

from fxlib.ir.bindings import resolve_binding
from fxlib.ir.node import Node

if TYPE_CHECKING:
    from fxlib.ir.graph import Graph

__all__: list[str] = []

_MANY: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Mul": operator.mul,
    "Max": torch.sym_max,
    "Min": torch.sym_min,
    "And": operator.and_,
    "Or": operator.or_,
}
# By class name: torch defines these classes internally, for its symbolic sizes.
_CALLS: dict[str, Callable[..., Any]] = {
    "Pow": operator.pow,
    "PowByNatural": operator.pow,
    "FloatPow": operator.pow,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "BitwiseFn_bitwise_and": operator.and_,
    "BitwiseFn_bitwise_or": operator.or_,
    "BitwiseFn_bitwise_xor": operator.xor,
    "ToFloat": torch.sym_float,
    "TruncToInt": torch.sym_int,
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
    "RoundToInt": round,
    "Abs": operator.abs,
    "OpaqueUnaryFn_sqrt": torch.sym_sqrt,
    "Equality": operator.eq,
    "Unequality": operator.ne,
    "StrictLessThan": operator.lt,
    "LessThan": operator.le,
    "StrictGreaterThan": operator.gt,
    "GreaterThan": operator.ge,
    "Not": torch.sym_not,
    "Where": torch.sym_ite,
}


def materialize(graph: "Graph", values: Sequence[torch.SymInt | int]) -> list[Node | int]:
    """Each of ``values`` as a node at the graph's insertion point, numbers as they are."""
    values = list(values)
    for value in values:
        if not isinstance(value, (int, torch.SymInt)):
            raise TypeError(f"materialize_symints: expected SymInt or int, got {type(value).__name__} ({value!r})")
    return _Writer(graph).write(values)


def _itself(node: Node) -> Node:
    return node


_Make = Callable[[], Node]
_Written = Node | bool | int | float


class _Writer:
    """One call's expressions: each distinct subexpression becomes one node."""

    def __init__(self, graph: "Graph") -> None:
        self.graph = graph
        self.keys = ["val"]
        self.producers = self._find_producers()
        self.written: dict[sympy.Basic, _Written] = {}

    def write(self, values: list[torch.SymInt | int]) -> list[Node | int]:
        symbolic = [value for value in values if isinstance(value, torch.SymInt)]
        for value in symbolic:
            self._check(value.node.expr)
        # In order of dependency.
        written = {id(value): self._node(value.node.expr, value) for value in symbolic}
        return [written.get(id(value), value) for value in values]

    def _check(self, expression: sympy.Basic) -> None:
        # Checked before anything is inserted, so that an error leaves no nodes.
        for symbol in getattr(expression, "free_symbols", ()):
            if symbol not in self.producers:
                raise AssertionError(
                    f"materialize_symints: no producer for {symbol}: no node of the graph has a meta['val'] that is "
                    f"{symbol} or a tensor with a size, a stride or an offset that is. Propagate fake tensors first, "
                    "or pass a value that belongs to this graph"
                )

    def _find_producers(self) -> dict[sympy.Basic, _Make]:
        found: dict[sympy.Basic, _Make] = {}
        # Simplest first: the symbol itself as an input, an operator's declared binding, a size of an input; then sizes
        # that passes may have changed, and sizes that must be solved for the symbol.
        candidates: list[tuple[int, sympy.Basic, _Make]] = []
        for node in self.graph.nodes:
            if node.op == "output":
                continue
            value, key = self.graph._get_tensor_meta_val(node)
            if value is not None and key not in self.keys:
                self.keys.append(key)
            for symbol, path in (node.meta.get("unbacked_bindings") or {}).items():
                candidates.append((1, symbol, self._binding(node, path)))
            is_input = node.op == "placeholder"
            if isinstance(value, torch.SymInt):
                candidates.append((0 if is_input else 3, value.node.expr, partial(_itself, node)))
            elif isinstance(value, torch.Tensor):
                candidates.extend(self._readings(node, value, 2 if is_input else 4))
        for solved in (False, True):
            for _, expression, make in sorted(candidates, key=lambda entry: entry[0]):
                symbol = expression if getattr(expression, "is_Symbol", False) else None
                if solved and symbol is None:
                    symbol, make = self._solve(expression, make)
                if symbol is not None:
                    found.setdefault(symbol, make)
        return found

    def _binding(self, node: Node, path: tuple[Any, ...]) -> _Make:
        return lambda: resolve_binding(self.graph, node, path, lambda value: self._node(value.node.expr, value))

    def _readings(self, node: Node, value: torch.Tensor, rank: int) -> list[tuple[int, sympy.Basic, _Make]]:
        graph = self.graph
        found: list[tuple[int, torch.SymInt | int, _Make]] = []
        if value.layout is not torch.strided:
            return []
        for dim in range(value.ndim):
            found.append((rank, value.shape[dim], partial(graph.create_size_node, node, dim)))
            found.append((rank + 3, value.stride(dim), partial(graph.create_stride_node, node, dim)))
        found.append((rank + 3, value.storage_offset(), partial(graph.create_storage_offset_node, node)))
        return [(order, number.node.expr, make) for order, number, make in found if isinstance(number, torch.SymInt)]

    def _solve(self, expression: sympy.Basic, make: _Make) -> tuple[sympy.Basic | None, _Make]:
        # A size a * s + b gives s.
        if not isinstance(expression, sympy.Expr) or len(expression.free_symbols) != 1:
            return None, make
        offset, rest = expression.as_coeff_Add()
        factor, symbol = rest.as_coeff_Mul()
        if not (symbol.is_Symbol and offset.is_Integer and factor.is_Integer):
            return None, make

        def solved() -> Node:
            node = make()
            if offset != 0:
                node = self._call(operator.sub, node, int(offset))
            return node if factor == 1 else self._call(operator.floordiv, node, int(factor))

        return symbol, solved

    def _node(self, expression: sympy.Basic, value: torch.SymInt | None = None) -> Any:
        if expression not in self.written:
            self.written[expression] = self._write(expression)
            made = self.written[expression]
            if isinstance(made, Node) and isinstance(value, torch.SymInt):
                for key in self.keys:
                    made.meta.setdefault(key, value)
        return self.written[expression]

    def _write(self, expression: sympy.Basic) -> _Written:
        if expression.is_Symbol:
            return self.producers[expression]()
        if expression in (sympy.true, sympy.false):
            return bool(expression)
        if expression.is_number:
            return int(expression) if expression.is_integer else float(expression)
        kind = type(expression).__name__
        if kind == "Piecewise":
            return self._cases(expression.args)
        parts = [self._node(part) for part in expression.args]
        if kind == "Identity":
            return parts[0]
        if kind == "ModularIndexing":
            return self._call(operator.mod, self._call(operator.floordiv, *parts[:2]), parts[2])
        if kind in _MANY:
            return reduce(lambda left, right: self._call(_MANY[kind], left, right), parts)
        if kind in _CALLS:
            return self._call(_CALLS[kind], *parts)
        raise NotImplementedError(f"materialize_symints: no function of torch or Python computes {kind}: {expression}")

    def _cases(self, cases: Sequence[tuple[sympy.Basic, sympy.Basic]]) -> _Written:
        (value, condition), *others = cases
        if condition == sympy.true or not others:
            return self._node(value)
        return self._call(torch.sym_ite, self._node(condition), self._node(value), self._cases(others))

    def _call(self, function: Callable[..., Any], *args: Any) -> Node:
        node = self.graph.call_function(function, args)
        known = [arg.meta.get(self.keys[-1], arg.meta.get("val")) if isinstance(arg, Node) else arg for arg in args]
        if all(value is not None for value in known):
            result = function(*known)
            for key in self.keys:
                node.meta[key] = result
        return node
