"""Running a graph on proxies, so that it writes a new one."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from fxlib.capture import metadata as fx_traceback
from fxlib.capture.proxy import Proxy
from fxlib.capture.tracer import Tracer
from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.convert import adopted
from fxlib.ir.arguments import Argument, Target, map_aggregate
from fxlib.ir.graph import Graph
from fxlib.transform.interpreter import Interpreter, as_path

__all__ = ["Transformer"]


class Transformer(Interpreter):
    """Writes a new GraphModule by running a graph on proxies.

    Override the methods of Interpreter: what they do to the proxies is recorded in the result.

    Example::

        class InHalfPrecision(fxlib.Transformer):
            def call_module(self, target, args, kwargs):
                narrow = [value.to(torch.bfloat16) for value in args]
                return super().call_module(target, tuple(narrow), kwargs).to(torch.float32)

        halved = InHalfPrecision(gm.bfloat16()).transform()
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(adopted(module))
        self.new_graph = Graph()
        self.new_graph.set_codegen(self.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph, self.module)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """A proxy for a placeholder of the new graph. Override to add, rename or annotate inputs."""
        return Proxy(self.new_graph.placeholder(as_path(target), default_value=_default(args)), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """A proxy for an attribute of the module."""
        return self.tracer.create_proxy("get_attr", as_path(target), args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the submodule on proxies: a leaf is recorded, any other module is traced into."""
        submodule = self.fetch_attr(as_path(target))
        return self.tracer.call_module(submodule, submodule.forward, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Records the call."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Runs the graph on proxies and returns the module made of what was recorded."""
        with fx_traceback.preserve_node_meta():
            value = self.run(enable_io_processing=False)
        if value is not None:
            self._return(value)
        return GraphModule(self.module, self.new_graph)

    def _return(self, value: Any) -> None:
        *_, former = self.graph.find_nodes(op="output")
        self.new_graph.output(map_aggregate(value, _recorded)).meta = {**former.meta}


def _default(args: tuple[Argument, ...]) -> Any:
    return args[0] if args else inspect.Signature.empty


def _recorded(value: Any) -> Any:
    return value.node if isinstance(value, Proxy) else value


class _TransformerTracer(Tracer):
    """Records into the graph it is given and calls every submodule as a leaf, since the old graph is already flat."""

    def __init__(self, graph: Graph, root: torch.nn.Module) -> None:
        super().__init__()
        self.graph, self.root = graph, root
        self.tensor_attrs: dict[torch.Tensor, str] = {}

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return True
