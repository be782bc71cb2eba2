"""The example value of every node of a graph: what a converter must know of shapes, dtypes and Python numbers.

Values are tensors on the meta device (no data), so a model of any size costs no memory; with dynamic dimensions they
are torch's fake tensors, whose sizes are symbolic integers. Where an operator has no rule and cannot run without
data, the graph is run once on the real example inputs and only the metadata is kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher

from fxlib import shapes
from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.torch_side import symbolic_tensors
from fxlib.ir.leaves import copied, tensors_in
from fxlib.ir.modules import data_kept
from fxlib.ir.node import Node, arguments_of
from fxlib.ir.paths import read
from fxlib.passes.aliases import Aliases
from fxlib.shapes.kernel import map_values, refusals_unlogged
from fxlib.shapes.tensor_meta import TensorMeta

_DATA = "it depends on the values of tensors"


class Unknown:
    """The value of a node that could not be computed without running it; `reason` says why. `cause` is the name of
    the earlier node whose value is not known, where that is the reason, `what` what is not known of it."""

    def __init__(self, reason: str, cause: str | None = None, what: str = "shape") -> None:
        self.reason = reason
        self.cause = cause
        self.what = what


def propagate(gm: GraphModule, inputs: Sequence[Any], dims: Sequence[Sequence[int]] | None = None) -> dict[Node, Any]:
    """Compute the example value of every node.

    Args:
        gm: a GraphModule.
        inputs: one example per placeholder; tensors may be on the meta device.
        dims: per input, the dimensions that may change between calls.

    Returns:
        node -> meta or fake tensor, Python value, or nested tuples and dicts of them; `Unknown` where it depends on
        data.
    """
    if dims is not None and any(dims):
        return _symbolic(gm, inputs, dims)
    values: dict[Node, Any] = {}
    placeholders = gm.graph.find_nodes(op="placeholder")
    values.update((n, map_values(v, _meta)) for n, v in zip(placeholders, inputs, strict=True))
    for node in gm.graph.nodes:
        if node.op not in ("placeholder", "output"):
            values[node] = _found(node, values, lambda node: _infer(gm, node, values))
    if any(isinstance(v, Unknown) for v in values.values()):
        _measure(gm, inputs, values)
    return values


def _symbolic(gm: GraphModule, inputs: Sequence[Any], dims: Sequence[Sequence[int]]) -> dict[Node, Any]:
    """With symbolic sizes. A node that torch computes for one size only, as a GRU for one length, is left unknown."""
    fixing: dict[Node, Unknown] = {}
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    while True:
        mode, fakes = symbolic_tensors(inputs, dims)
        values: dict[Node, Any] = dict(zip(placeholders, fakes, strict=True))
        sizes = [fake.shape[dim] for fake, some in zip(fakes, dims, strict=True) for dim in some]
        step = functools.partial(_run_fake, gm, values=values, mode=mode)
        for node in gm.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            with refusals_unlogged():
                values[node] = fixing.get(node) or _found(node, values, step)
            if node not in fixing and any(is_fixed(size) for size in sizes):
                fixing[node] = Unknown("torch computes it for one size of a dynamic dimension only")
                break
        else:
            return values


def is_fixed(size: Any) -> bool:
    """Whether a size that was symbolic is known to be one number."""
    return not isinstance(size, torch.SymInt) or size.node.expr.is_number


def _found(node: Node, values: dict[Node, Any], step: Callable[[Node], Any]) -> Any:
    source = next((a for a in node.all_input_nodes if isinstance(values[a], Unknown)), None)
    if source is not None:
        first = values[source].cause or source.name
        return Unknown(f"it uses {first!r}, whose shape is not known", first)
    try:
        return step(node)
    except Exception as error:
        text = str(error).strip().splitlines()
        return Unknown(f"{type(error).__name__}: {text[0] if text else 'no text'}"[:300])


def recorded(gm: GraphModule) -> dict[Node, Any]:
    """The example value of every node as torch.export recorded it, with symbolic sizes where a dimension may change."""
    values: dict[Node, Any] = {}
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            values[node] = map_values(read(gm, node.target), _meta)
        elif node.op != "output":
            values[node] = map_values(node.meta["val"], _meta) if "val" in node.meta else None
    return values


def _meta(leaf: Any) -> Any:
    """A tensor on the meta device for a tensor, and for the `TensorMeta` that a shape rule gives in place of one."""
    if isinstance(leaf, TensorMeta):
        return leaf.empty()
    if not torch.is_tensor(leaf) or leaf.is_meta or not all(isinstance(size, int) for size in leaf.shape):
        return leaf
    return TensorMeta.of(leaf).blank("meta")


def _infer(gm: torch.nn.Module, node: Node, values: dict[Node, Any]) -> Any:
    return map_values(shapes.infer(node.op, node.target, *arguments_of(node, values.__getitem__), gm), _meta)


def _call(gm: torch.nn.Module, node: Node, values: dict[Node, Any]) -> Any:
    args, kwargs = arguments_of(node, values.__getitem__)
    if node.op == "call_method":
        return getattr(args[0], node.target)(*args[1:], **kwargs)
    function = node.target if node.op == "call_function" else read(gm, node.target)
    return function if node.op == "get_attr" else function(*args, **kwargs)


def _run_fake(gm: torch.nn.Module, node: Node, values: dict[Node, Any], mode: Any) -> Any:
    # torch's composite kernels in C++ fix symbolic sizes; its Python dispatcher has versions that keep them.
    with enable_python_dispatcher(), mode, torch.no_grad():
        result = _call(gm, node, values)
        return mode.from_tensor(result) if node.op == "get_attr" and torch.is_tensor(result) else result


def _measure(gm: GraphModule, given: Sequence[Any], values: dict[Node, Any]) -> None:
    """Run the graph on real inputs and keep the metadata of what had none."""
    if any(tensor.is_meta for tensor in [*filter(torch.is_tensor, given), *gm.parameters(), *gm.buffers()]):
        return
    # In-place nodes must not write to the caller's examples.
    real = _run(gm, [*map(copied, given)])
    other = _run(gm, [torch.zeros_like(each) if torch.is_tensor(each) else copied(each) for each in given])
    for node, found in real.items():
        if not isinstance(values.get(node), Unknown):
            continue
        if not tensors_in(found):
            # A number that only a run shows is another one in the next run.
            values[node] = Unknown(_DATA, node.name, "value")
        elif _sizes(found) != _sizes(other.get(node, found)):
            values[node] = Unknown(_DATA, node.name)
        else:
            values[node] = map_values(found, _meta)


def _run(gm: GraphModule, given: Sequence[Any]) -> dict[Node, Any]:
    """The value of every node as far as a run comes; the module is left as it was."""
    real = dict(zip(gm.graph.find_nodes(op="placeholder"), given, strict=False))
    with torch.no_grad(), data_kept(gm, Aliases(gm).changes_state()):
        for node in gm.graph.nodes:
            if node.op not in ("placeholder", "output"):
                try:
                    real[node] = _call(gm, node, real)
                except Exception:
                    break
    return real


def _sizes(value: Any) -> list[torch.Size]:
    return [each.shape for each in tensors_in(value)]
