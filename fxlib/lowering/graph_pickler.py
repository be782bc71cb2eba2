"""Graphs pickled as their nodes.

A graph module is usually pickled as its code, which is traced again where it is read. A trace computes what takes no
tensors, such as random numbers, once for all calls.
"""

from __future__ import annotations

import pickle
import pkgutil
import types
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.roots import _CodeOnlyModule
from fxlib.ir.format import _get_qualified_name
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node

ELSEWHERE: ContextVar[Mapping[Any, Any]] = ContextVar("ELSEWHERE", default=types.MappingProxyType({}))
"""The tensors that are saved elsewhere: while pickling, `place` of each -> its key; while reading, that key -> it."""
_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
_CALLED = (types.FunctionType, types.BuiltinFunctionType, *_OPERATORS)


class Pickler(pickle.Pickler):
    """Pickles graph modules as their attributes and nodes, without the nodes' `meta`."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, GraphModule):
            body = {name: value for name, value in vars(obj).items() if name != "_graph"}
            return _graph_module, (body, _bare(obj.graph), type(obj).__name__)
        if isinstance(obj, torch.Tensor) and (key := ELSEWHERE.get().get(place(obj))) is not None:
            return _held_elsewhere, (key, isinstance(obj, torch.nn.Parameter))
        if isinstance(obj, _CALLED) and (path := _path(obj)) is not None:
            return pkgutil.resolve_name, (path,)
        return NotImplemented


def place(tensor: torch.Tensor) -> tuple[Any, ...]:
    """The memory of a tensor, and how it is laid out there."""
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


def _held_elsewhere(key: Any, parameter: bool) -> torch.Tensor:
    found: torch.Tensor = ELSEWHERE.get()[key]
    return torch.nn.Parameter(found, requires_grad=False) if parameter else found


def _bare(graph: Graph) -> Graph:
    made = Graph(tracer_cls=graph._tracer_cls)
    nodes: dict[Node, Node] = {}
    for node in graph.nodes:
        nodes[node] = made.node_copy(node, nodes.__getitem__)
        nodes[node].meta = {}
    made._codegen = graph._codegen
    return made


def _path(called: Any) -> str | None:
    """The path under which generated code calls it, if it is found there: not all functions are where they say."""
    try:
        path = _get_qualified_name(called)
        return path if pkgutil.resolve_name(path) is called else None
    except Exception:
        return None


def _graph_module(body: dict[str, Any], graph: Graph, name: str) -> GraphModule:
    made = GraphModule(_CodeOnlyModule(body), graph, name)
    for key in body.keys() - vars(made).keys():
        setattr(made, key, body[key])
    return made
