"""A pass as an object."""

from __future__ import annotations

import abc
from collections import namedtuple

from torch.nn import Module

from fxlib.codegen.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(namedtuple("PassResult", ["graph_module", "modified"])):
    """The result of a pass: the module, and whether it was changed."""

    __slots__ = ()

    def __new__(cls, graph_module: Module, modified: bool) -> PassResult:
        return super().__new__(cls, graph_module, modified)


class PassBase(abc.ABC):
    """A pass: override ``call``, and ``requires`` and ``ensures`` to check its input and result."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """The pass itself."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raises if the module is not suitable for the pass."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raises if the result of the pass is not valid."""
