"""Conversion of graphs between torch.fx and fxlib."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, cast

import torch
import torch.fx

from fxlib.codegen.function import CodeGen, _PyTreeCodeGen, _PyTreeInfo
from fxlib.interop import torch_side  # noqa: F401  (registers torch.fx's nodes as nodes)
from fxlib.ir import node as _node
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node, _map_nodes

__all__ = ["OURS", "TORCH_FX", "Library", "converted", "from_torch_graph", "to_torch_graph"]


class Library(NamedTuple):
    """The classes of one of the two libraries."""

    Graph: Any
    Node: type
    CodeGen: Any
    PyTreeCodeGen: Any
    PyTreeInfo: Any


OURS = Library(Graph, Node, CodeGen, _PyTreeCodeGen, _PyTreeInfo)
TORCH_FX = Library(
    torch.fx.Graph,
    torch.fx.Node,
    torch.fx.graph.CodeGen,
    torch.fx.graph._PyTreeCodeGen,
    torch.fx.graph._PyTreeInfo,
)


def from_torch_graph(graph: Any) -> Graph:
    """A copy of a graph of torch.fx as an ``fxlib.Graph``.

    Raises:
        TypeError: ``graph`` is neither a ``torch.fx.Graph`` nor one of a vendored copy of torch.fx, as in Brevitas.
    """
    library = TORCH_FX if isinstance(graph, torch.fx.Graph) else _copied_library(type(graph))
    if library is None:
        raise TypeError(f"expected a torch.fx.Graph, got {torch.typename(graph)}")
    made = cast(Graph, converted(graph, library, OURS))
    for node in made.nodes if library is not TORCH_FX else ():
        if stack := node.meta.get("nn_module_stack"):  # older versions stored the class alone
            pairs = {key: each if isinstance(each, tuple) else (key, each) for key, each in stack.items()}
            node.meta["nn_module_stack"] = pairs
    return made


def _copied_library(kind: type) -> Library | None:
    """The classes of a vendored copy of torch.fx, found beside the class of its graph; registers their nodes as
    nodes."""
    home = sys.modules[kind.__module__]
    names = (kind.__name__, "Node", "CodeGen", "_PyTreeCodeGen", "_PyTreeInfo")
    if kind.__name__ != "Graph" or not all(isinstance(getattr(home, name, None), type) for name in names):
        return None
    library = Library(*(getattr(home, name) for name in names))
    if library.Node not in _node._node_types:
        _node._node_types += (library.Node,)
    return library


def to_torch_graph(graph: Graph) -> torch.fx.Graph:
    """A copy of a graph of ours as a ``torch.fx.Graph``."""
    return cast(torch.fx.Graph, converted(graph, OURS, TORCH_FX))


def converted(graph: Any, source: Library, result: Library) -> Any:
    """A copy of a graph of one library as a graph of the other."""
    made = result.Graph(tracer_extras=graph._tracer_extras)
    made._codegen = _codegen(graph._codegen, source, result)
    copies: dict[Any, Any] = {}
    for node in graph.nodes:
        args, kwargs = _map_nodes((node.args, node.kwargs), copies.__getitem__)
        copied = made.create_node(node.op, node.target, args, dict(kwargs), name=node.name, type_expr=node.type)
        if copied.name != node.name:
            copied.name = node.name
        copied.meta = {
            key: copies.get(value, value) if isinstance(value, source.Node) else value
            for key, value in node.meta.items()
        }
        copies[node] = copied
    for node, copied in copies.items():
        # Users are listed in order of creation, so nodes inserted later are listed last.
        in_order = {copies[user]: None for user in node.users}
        copied.users.clear()
        copied.users.update(in_order)
    return made


class _ForeignCodeGen:
    """Mixed into a CodeGen: lets a code generator of the other library write the signature and the output."""

    foreign: Any

    def __init__(self, foreign: Any) -> None:
        super().__init__()
        self.foreign = foreign

    def gen_fn_def(self, *args: Any, **kwargs: Any) -> str:
        return self.foreign.gen_fn_def(*args, **kwargs)

    def generate_output(self, *args: Any, **kwargs: Any) -> str:
        return self.foreign.generate_output(*args, **kwargs)

    def process_inputs(self, *args: Any) -> Any:
        return self.foreign.process_inputs(*args)

    def process_outputs(self, outputs: Any) -> Any:
        return self.foreign.process_outputs(outputs)

    def additional_globals(self) -> Any:
        return self.foreign.additional_globals()


def _codegen(codegen: Any, source: Library, result: Library) -> Any:
    kind = type(codegen)
    if isinstance(codegen, _ForeignCodeGen):
        return codegen.foreign
    if kind is source.CodeGen:
        made = result.CodeGen()
    elif kind is source.PyTreeCodeGen:
        made = result.PyTreeCodeGen(result.PyTreeInfo(*codegen.pytree_info))
    else:
        made = type(kind.__name__, (_ForeignCodeGen, result.CodeGen), {})(codegen)
    made._body_transformer = codegen._body_transformer
    made._func_name = getattr(codegen, "_func_name", made._func_name)  # absent in copies of an older torch.fx
    return made
