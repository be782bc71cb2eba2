"""Inlines library functions that the trace recorded as one call, so that their operators can be converted.

Libraries register functions with `wrap` because they read shapes, which a trace does not know. Once shapes are known
they can be recorded as ATen operators. Only functions of torch and of well-known model libraries are inlined: functions
that the user wrapped may have effects that a graph does not show.
"""

from __future__ import annotations

import operator
import types
from typing import Any

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.convert import aten_graph
from fxlib.ir.leaves import tensors_in
from fxlib.ir.node import Node, arguments_of, map_arg
from fxlib.ir.paths import read
from fxlib.lowering.onnx.registry import find
from fxlib.lowering.values import Unknown
from fxlib.passes.calls import writes_to

LIBRARIES = ("torch", "torchvision", "timm")


def inline(gm: GraphModule, values: dict[Node, Any]) -> bool:
    """Inline every library function without a converter, in place. Returns whether there was one.

    Args:
        gm: a GraphModule.
        values: example values of its nodes. A function with dynamic sizes stays.
    """
    changed = False
    for node in list(gm.graph.nodes):
        known = (values.get(each) for each in (node, *node.all_input_nodes))
        if _opaque(node) and not any(isinstance(each, Unknown) or _may_change(each) for each in known):
            changed = _open(gm, node, values) or changed
    if changed:
        gm.graph.lint()
        gm.recompile()
    return changed


def _may_change(value: Any) -> bool:
    return any(isinstance(size, torch.SymInt) for tensor in tensors_in(value) for size in tensor.shape)


def _opaque(node: Node) -> bool:
    target = node.target
    if node.op != "call_function" or not isinstance(target, types.FunctionType):
        return False
    package = (target.__module__ or "").partition(".")[0]
    return package in LIBRARIES and find(node.op, target, None) is None


def _open(gm: GraphModule, node: Node, values: dict[Node, Any]) -> bool:
    try:
        inner, _ = aten_graph(node.target, *arguments_of(node, values.__getitem__))  # type: ignore[arg-type]
    except Exception:
        return False  # it reads data; the node stays, and the report says that it has no converter
    if not any(step.op == "call_function" and find(step.op, step.target, None) for step in inner.graph.nodes):
        return False  # no gain, and the user knows the function by its own name
    sources = _tensor_sources(node, values)
    constants = _fold(inner)
    if sources is None or constants is None:
        return False
    copies: dict[Node, Any] = dict(zip(inner.graph.find_nodes(op="placeholder"), sources, strict=False))
    with gm.graph.inserting_before(node):
        for step in inner.graph.nodes:
            if step.op in ("placeholder", "output"):
                continue
            if step in constants:
                if any(user not in constants for user in step.users):
                    name = f"{node.name}_{step.name}"
                    gm.register_buffer(name, constants[step], persistent=False)
                    copies[step] = gm.graph.get_attr(name)
            else:
                copies[step] = gm.graph.node_copy(step, copies.__getitem__)
                copies[step]._site = node._site
    result = map_arg(inner.graph.output_node().args[0], copies.__getitem__)
    return _replace(gm, node, result, values)


def _fold(inner: GraphModule) -> dict[Node, Any] | None:
    """The values of the nodes that depend on no input, such as masks; None if one of them is changed after it was
    read."""
    constants: dict[Node, Any] = {}
    was_read = False
    for node in inner.graph.nodes:
        if _shape_only(node):
            constants[node] = _from_shape(node)
            continue
        if node.op in ("placeholder", "output") or any(source not in constants for source in node.all_input_nodes):
            was_read = was_read or any(source in constants for source in node.all_input_nodes)
            continue
        if node.op == "get_attr":
            constants[node] = read(inner, node.target).detach()
            continue
        if was_read and writes_to(inner, node):
            return None
        with torch.no_grad():
            args, kwargs = arguments_of(node, constants.__getitem__)
            constants[node] = node.target(*args, **kwargs)
    return constants


_SHAPE_ONLY = {"new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like"}


def _shape_only(node: Node) -> bool:
    """Whether a node uses only the shape and dtype of its input, so that its value is known."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target._schema.name.split("::")[1] in _SHAPE_ONLY


def _from_shape(node: Node) -> torch.Tensor:
    example = node.args[0].meta["val"]
    kwargs = {k: v for k, v in node.kwargs.items() if k != "device"}
    return node.target(torch.empty(tuple(example.shape), dtype=example.dtype), *node.args[1:], **kwargs)


def _tensor_sources(node: Node, values: dict[Node, Any]) -> list[Node] | None:
    """The node of each tensor among the arguments, in `aten_graph`'s order; None if one is inside a node's value."""
    used: list[Node] = []
    arguments_of(node, used.append)
    nested = any(tensors_in(values[source]) and not torch.is_tensor(values[source]) for source in used)
    return None if nested else [source for source in used if torch.is_tensor(values[source])]


def _replace(gm: GraphModule, node: Node, result: Any, values: dict[Node, Any]) -> bool:
    if isinstance(result, Node):
        values[result] = values[node]
        node.replace_all_uses_with(result)
        gm.graph.erase_node(node)
        return True
    for user in list(node.users):
        taken = result[user.args[1]] if user.target is operator.getitem and user.args[0] is node else None
        if isinstance(taken, Node):
            _replace(gm, user, taken, values)
        else:
            put = lambda each: tuple(result) if each is node else each  # noqa: E731
            user.args, user.kwargs = map_arg(user.args, put), map_arg(user.kwargs, put)
    gm.graph.erase_node(node)
    return True
