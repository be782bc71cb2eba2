"""Shape propagation without data through a whole graph: the fast counterpart of ``FakeTensorProp``.

Leaves ``meta["tensor_meta"]`` (`TensorMetadata`, nested where the node yields several tensors) and ``meta["type"]`` on
every node, and returns what the graph would. Only the metadata of the module's parameters is used, so they may be real,
fake or on the meta device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.node import Node
from fxlib.ir.spelling import target_name
from fxlib.shapes.inference import infer
from fxlib.shapes.kernel import ShapeError, map_values
from fxlib.shapes.metadata import TensorMetadata, extract_tensor_metadata
from fxlib.shapes.tensor_meta import TensorMeta

__all__ = ["propagate"]

_RESHAPES_IN_PLACE = {
    "resize_",
    "resize_as_",
    "squeeze_",
    "unsqueeze_",
    "t_",
    "transpose_",
    "swapaxes_",
    "swapdims_",
    "as_strided_",
    "set_",
}
_MISSING = object()


def propagate(module: GraphModule, *args: Any, metadata: bool = True) -> Any:
    """Give every node of ``module.graph`` its shape, dtype, strides and device, from the inputs' metadata alone.

    Args:
        module: a GraphModule (its graph's owner gives parameters and submodules).
        args: one per placeholder; tensors of any kind, `TensorMeta`, or plain values. Missing ones take the
            placeholder's default.
        metadata: also write ``meta["tensor_meta"]`` and ``meta["type"]``; else only the result is computed.

    Raises:
        ShapeError: an operator refuses its inputs; the node and its source line are named.
        DataDependentError: a node's result depends on data (a subclass of ShapeError).
        TypeError: there are more inputs than placeholders, or one is an array of NumPy.
        ValueError: an input has symbolic sizes, for which there are `ShapeProp` and `FakeTensorProp`.
    """
    check_traced(module, "propagate()")
    env: dict[Node, Any] = {}
    given = iter(map_values(list(args), _describe))
    result = None
    for node in module.graph.nodes:
        op = node.op
        if op == "placeholder":
            value = _placeholder(node, given)
        elif op == "output":
            value = result = _load(node.args[0], env)
        else:
            try:
                value = infer(op, node.target, _load(node.args, env), _load(node.kwargs, env), module)
            except ShapeError as error:
                raise type(error)(f"{error}\n{where(node)}") from error
            called = getattr(node.target, "__name__", node.target)
            if op != "get_attr" and called in _RESHAPES_IN_PLACE and node.args and node.args[0] in env:
                env[node.args[0]] = value
        env[node] = value
        if metadata:
            annotate(node, value)
    if (more := len(list(given))) > 0:
        raise TypeError(f"propagate() got {len(args)} inputs, but the graph takes {len(args) - more}")
    return result


def check_count(module: GraphModule, inputs: Sequence[Any], caller: str) -> None:
    """
    Raises:
        TypeError: there are more inputs than placeholders, or fewer than those without a default.
    """
    takes = module.graph.find_nodes(op="placeholder")
    if any(str(node.target).startswith("*") for node in takes):
        return
    if not sum(not node.args for node in takes) <= len(inputs) <= len(takes):
        names = ", ".join(str(node.target) for node in takes)
        raise TypeError(f"{caller} got {len(inputs)} inputs, but the graph takes {len(takes)}: {names}")


def annotate(node: Node, value: Any) -> None:
    """Write a node's result into its meta as shape propagation does."""
    found = False

    def extract(each: Any) -> Any:
        nonlocal found
        if isinstance(each, TensorMeta):
            found = True
            return extract_tensor_metadata(each)
        return each

    if type(value) is TensorMeta:
        strides = value.strides
        form = torch.contiguous_format if value.contiguous else value.memory_format
        node.meta["tensor_meta"] = TensorMetadata(
            value.shape, value.dtype, value.requires_grad, strides, form, False, {}
        )
        node.meta["type"] = torch.Tensor
        return
    tree = map_values(value, extract)
    if found:
        node.meta["tensor_meta"] = tree
    else:
        node.meta.pop("tensor_meta", None)
    node.meta["type"] = type(value)


def where(node: Node) -> str:
    """One line that names a node and, if known, its source line."""
    text = f"While computing the shape of node {node.name!r} ({node.op} {target_name(node.target)})"
    span = getattr(node, "span", None)  # a node of torch.fx has none
    return text if span is None else f"{text}, from {span.place}"


def _describe(value: Any) -> Any:
    if (type(value).__module__, type(value).__name__) == ("numpy", "ndarray"):
        raise TypeError("an example input is a numpy.ndarray; torch.from_numpy(array) makes a tensor of it")
    if not isinstance(value, torch.Tensor):
        return value
    if not all(type(size) is int for size in value.shape):
        raise ValueError(
            f"propagate() takes concrete sizes, and an input has {list(value.shape)}; symbolic ones are for "
            "fxlib.passes.shape_prop.ShapeProp and fxlib.passes.fake_tensor_prop.FakeTensorProp"
        )
    return TensorMeta.of(value)


def _placeholder(node: Node, given: Iterator[Any]) -> Any:
    if isinstance(node.target, str) and node.target.startswith("**"):
        return next(given, {})
    if isinstance(node.target, str) and node.target.startswith("*"):
        return tuple(given)
    value = next(given, _MISSING)
    if value is not _MISSING:
        return value
    if node.args:
        return node.args[0]
    raise ShapeError(f"propagate() was given no value for the placeholder {node.target!r}, which has no default")


def _load(value: Any, env: dict[Node, Any]) -> Any:
    """Arguments with nodes replaced by what they yielded; plain tuples, lists and dicts come back."""
    if isinstance(value, tuple):
        items = [_load(v, env) for v in value]
        if type(value) is tuple:
            return tuple(items)
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, list):
        return [_load(v, env) for v in value]
    if isinstance(value, dict):
        return {k: _load(v, env) for k, v in value.items()}
    if type(value) is slice:
        return slice(_load(value.start, env), _load(value.stop, env), _load(value.step, env))
    if hasattr(value, "op") and hasattr(value, "users"):
        return env[value]
    return value
