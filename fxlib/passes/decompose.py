"""Decomposition by retracing: a rule is written with ordinary operators and run on proxies in place of the node it
replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.arguments import Target
from fxlib.transform.transformer import Transformer

__all__ = ["decompose"]


def decompose(graph_module: GraphModule, rules: Mapping[Target, Callable[..., Any]]) -> GraphModule:
    """A new GraphModule in which every operator with a rule is replaced by what the rule records.

    Args:
        rules: by function, by method name, or by module type. A rule has the operator's parameters; one for a module
            type also takes the module, first.

    Raises:
        TypeError: `rules` is not a mapping to functions.

    Example::

        decompose(gm, {F.relu: lambda x, inplace=False: (x > 0) * x, nn.Linear: lambda m, x: x @ m.weight.t() + m.bias})
    """
    check_traced(graph_module, "decompose()")
    if not isinstance(rules, Mapping):
        raise TypeError(f"decompose(): rules must be a mapping of operators to functions, not {type(rules).__name__}")
    for target, rule in rules.items():
        if not callable(rule):
            name = getattr(target, "__name__", target)
            raise TypeError(f"decompose(): the rule of {name} must be a function, not {type(rule).__name__}")
    return _Decomposer(graph_module, rules).transform()


class _Decomposer(Transformer):
    def __init__(self, module: GraphModule, rules: Mapping[Target, Callable[..., Any]]) -> None:
        super().__init__(module)
        self.rules = rules

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        rule = self.rules.get(target)
        return super().call_function(target, args, kwargs) if rule is None else rule(*args, **kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        rule = self.rules.get(target)
        return super().call_method(target, args, kwargs) if rule is None else rule(*args, **kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        module = self.fetch_attr(target)
        rule = self.rules.get(type(module))
        if rule is None:
            return super().call_module(target, args, kwargs)
        return rule(_Parameters(self, target, module), *args, **kwargs)


class _Parameters:
    """A module whose parameters and buffers, when read, become ``get_attr`` nodes of the new graph."""

    def __init__(self, owner: _Decomposer, path: str, module: nn.Module) -> None:
        self._owner, self._path, self._module = owner, path, module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if (name in self._module._parameters and value is not None) or (
            name in self._module._buffers and value is not None
        ):
            return self._owner.get_attr(f"{self._path}.{name}", (), {})
        if isinstance(value, nn.Module):
            return _Parameters(self._owner, f"{self._path}.{name}", value)
        return value
