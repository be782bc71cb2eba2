"""Transformers that normalise calls: arguments by keyword, ``torch.add(a, b)`` as ``a + b``.

``operator_schemas`` matches arguments to parameters; here it is applied to whole graphs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from copy import copy
from typing import Any, ClassVar

import torch

from fxlib.capture.proxy import Proxy
from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.arguments import Argument, Target, map_aggregate
from fxlib.ir.node import Node
from fxlib.ir.normalize import normalize_function, normalize_module
from fxlib.ir.type_matching import create_type_hint
from fxlib.transform.transformer import Transformer

__all__ = ["NormalizeArgs", "NormalizeOperators"]


class NormalizeArgs(Transformer):
    """Gives every call the parameter names and defaults of its callee.

    The types in ``node.meta["type"]`` decide between overloads. A call whose signature is not known, or has
    positional-only or variadic parameters, stays as it is.

    Example::

        normalized = NormalizeArgs(fxlib.symbolic_trace(model)).transform()

    Args:
        module: the module to copy in this form.
        normalize_to_only_use_kwargs: pass everything by keyword; otherwise positional arguments stay positional.
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs
        super().__init__(module)

    def run_node(self, n: Node) -> Any:
        """Records the call in its new form; metadata and type are those of the old node."""
        if n.op != "call_function":
            made = super().run_node(n)
        else:
            with self._set_current_node(n):
                values, named = self.fetch_args_kwargs_from_env(n)
                types = tuple(map(_type_of, n.args))
                named_types = {name: _type_of(argument) for name, argument in n.kwargs.items()}
                made = self.call_function(n.target, values, named, types, named_types)
        # An output returns a value, not a node, or a node that has its own metadata.
        if isinstance(made, Proxy) and n.op != "output":
            made.node.meta, made.node.type = copy(n.meta), n.type
        return made

    def call_function(  # type: ignore[override]
        self,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
    ) -> Proxy:
        """Records the call of a function with its arguments matched to the parameters."""
        assert callable(target)
        types = arg_types, kwarg_types
        matched = normalize_function(target, args, kwargs, *types, self.normalize_to_only_use_kwargs)  # type: ignore[arg-type]
        return self.tracer.create_proxy("call_function", target, *(matched or (args, kwargs)))

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Records the call of a module of ``torch.nn`` with its arguments matched to those of ``forward``."""
        matched = normalize_module(self.module, str(target), args, kwargs, self.normalize_to_only_use_kwargs)  # type: ignore[arg-type]
        return super().call_module(target, *(matched or (args, kwargs)))


def _type_of(value: Argument) -> Any:
    leaves: list[Any] = []

    def of_leaf(leaf: Any) -> Any:
        leaves.append(leaf.meta.get("type") if isinstance(leaf, Node) else type(leaf))
        return leaves[-1]

    found = map_aggregate(value, of_leaf)
    return None if None in leaves else create_type_hint(found)


class NormalizeOperators(Transformer):
    """Replaces two-argument functions of torch by the equivalent Python operator.

    A call with further arguments, ``torch.sub(a, b, alpha=2)``, has no such operator and stays as it is.

    Example::

        normalized = NormalizeOperators(fxlib.symbolic_trace(model)).transform()
    """

    binary_magic_method_remap: ClassVar[dict[Callable[..., Any], Callable[..., Any]]] = {
        torch.add: operator.add,
        torch.mul: operator.mul,
        torch.sub: operator.sub,
        torch.div: operator.truediv,
        torch.floor_divide: operator.floordiv,
        torch.remainder: operator.mod,
        torch.eq: operator.eq,
        torch.ne: operator.ne,
        torch.lt: operator.lt,
        torch.le: operator.le,
        torch.gt: operator.gt,
        torch.ge: operator.ge,
    }

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Records the call, as an operator if there is one."""
        spelling = self.binary_magic_method_remap.get(target) if len(args) == 2 and not kwargs else None  # type: ignore[arg-type]
        return super().call_function(spelling or target, args, kwargs)
