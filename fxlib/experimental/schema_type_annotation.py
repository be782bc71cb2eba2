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
        super().__init__(module)
        self.annotate_functionals = annotate_functionals
        self.annotate_modules = annotate_modules
        self.annotate_get_attrs = annotate_get_attrs

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Records the call; one of ``torch.nn.functional`` gets the type that its annotation names."""
        result = super().call_function(target, args, kwargs)
        if self.annotate_functionals and getattr(target, "__module__", None) == "torch.nn.functional":
            _annotate(result, target)
        return result

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Records the call; one of a module of ``torch.nn`` gets the type that its ``forward`` names."""
        result = super().call_module(target, args, kwargs)
        if self.annotate_modules and isinstance(target, str):
            submodule = self.fetch_attr(target)
            if getattr(torch.nn, type(submodule).__name__, None) is type(submodule):
                _annotate(result, submodule.forward)
        return result

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Records the attribute; with the class of a Parameter, Tensor or other value found there."""
        result = super().get_attr(target, args, kwargs)
        if self.annotate_get_attrs and isinstance(target, str):
            result.node.type = type(self.fetch_attr(target))
        return result


def _annotate(result: Proxy, function: Any) -> None:
    if result.node.type is None:
        annotation = inspect.signature(function).return_annotation
        result.node.type = None if annotation is inspect.Signature.empty else annotation
