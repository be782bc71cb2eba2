"""Types of nodes from the annotations of what they call."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from fxlib.graph_module import GraphModule
from fxlib.interpreter import Transformer
from fxlib.node import Argument, Target
from fxlib.proxy import Proxy

__all__ = ["AnnotateTypesWithSchema"]


class AnnotateTypesWithSchema(Transformer):
    """Writes ``node.type`` where the called function or module says what it returns, or an attribute what it is.

    Example::

        typed = AnnotateTypesWithSchema(fxlib.symbolic_trace(model)).transform()

    Args:
        module: the module to copy with types.
        annotate_functionals: calls of ``torch.nn.functional``.
        annotate_modules: calls of modules of ``torch.nn``.
        annotate_get_attrs: attributes: the class of the value found on the module.
    """

    def __init__(
        self,
        module: GraphModule,
        annotate_functionals: bool = True,
        annotate_modules: bool = True,
        annotate_get_attrs: bool = True,
    ) -> None:
        self.annotate_get_attrs = annotate_get_attrs
        self.annotate_modules, self.annotate_functionals = annotate_modules, annotate_functionals
        super().__init__(module)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Records the call; one of ``torch.nn.functional`` gets the type that its annotation names."""
        made = super().call_function(target, args, kwargs)
        if getattr(target, "__module__", None) == torch.nn.functional.__name__ and self.annotate_functionals:
            _annotate(made, target)
        return made

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Records the call; one of a module of ``torch.nn`` gets the type that its ``forward`` names."""
        made = super().call_module(target, args, kwargs)
        kind = type(self.module.get_submodule(str(target)))
        if kind.__module__.startswith("torch.nn.") and self.annotate_modules:
            _annotate(made, kind.forward)
        return made

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Records the attribute; with the class of a Parameter, Tensor or other value found there."""
        made = super().get_attr(target, args, kwargs)
        if self.annotate_get_attrs:
            made.node.type = type(self.fetch_attr(str(target)))
        return made


def _annotate(result: Proxy, function: Any) -> None:
    # A module that is no leaf gives whatever its forward gave.
    if isinstance(result, Proxy) and (promised := inspect.signature(function).return_annotation) is not inspect._empty:
        result.node.type = promised
