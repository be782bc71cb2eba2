"""The example value of every node of a graph: what a converter must know of shapes, dtypes and Python numbers.

Values are tensors on the meta device (no data), so a model of any size costs no memory; with dynamic dimensions they
are torch's fake tensors, whose sizes are symbolic integers. Where an operator has no rule and cannot run without
data, the graph is run once on the real example inputs and only the metadata is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher

from fxlib import shapes
from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.torch_side import symbolic_tensors
from fxlib.ir.node import Node, arguments_of
from fxlib.ir.paths import read
from fxlib.lowering.difference import copied
from fxlib.shapes.kernel import map_values
from fxlib.shapes.tensor_meta import TensorMeta

Dynamic = Mapping[str, Sequence[int]] | bool | None
"""Which dimensions may change: input name -> dimensions; True means dimension 0 of every tensor; None means none."""


class Unknown:
    """The value of a node that could not be computed without running it; `reason` says why. `cause` is the name of
    the earlier node whose value is not known, where that is the reason."""

    def __init__(self, reason: str, cause: str | None = None) -> None:
        self.reason = reason
        self.cause = cause


def propagate(gm: GraphModule, inputs: Sequence[Any], dynamic: Dynamic = None) -> dict[Node, Any]:
    """Compute the example value of every node.

    Args:
        gm: a GraphModule.
        inputs: one example per placeholder; tensors may be on the meta device. Placeholders with a default may be
        left out.
        dynamic: dimensions that may change between calls.

    Returns:
        node -> meta or fake tensor, Python value, or nested tuples and dicts of them; `Unknown` where it depends on
        data.

    Raises:
        TypeError: fewer examples than required placeholders.
    """
    placeholders = gm.graph.find_nodes(op="placeholder")
    if len(inputs) < sum(1 for n in placeholders if not n.args):
        raise TypeError(
            f"{type(gm).__name__} takes {len(placeholders)} inputs, but {len(inputs)} example inputs were given: "
            f"one is needed for each of {', '.join(n.name for n in placeholders)}"
        )
    given = list(inputs) + [n.args[0] for n in placeholders[len(inputs) :]]
    values: dict[Node, Any] = {}
    if dynamic:
        dims = [_dims(n, v, dynamic) for n, v in zip(placeholders, given, strict=False)]
        mode, fakes = symbolic_tensors(given, dims)
        values.update(zip(placeholders, fakes, strict=False))
        step = lambda node: _run_fake(gm, node, values, mode)  # noqa: E731
    else:
        values.update((n, map_values(v, _meta)) for n, v in zip(placeholders, given, strict=False))
        step = lambda node: _infer(gm, node, values)  # noqa: E731
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        source = next((a for a in node.all_input_nodes if isinstance(values[a], Unknown)), None)
        if source is not None:
            first = values[source].cause or source.name
            values[node] = Unknown(f"it uses {first!r}, whose shape is not known", first)
            continue
        try:
            values[node] = step(node)
        except Exception as error:
            text = str(error).strip().splitlines()
            values[node] = Unknown(f"{type(error).__name__}: {text[0] if text else 'no text'}"[:300])
    if not dynamic and any(isinstance(v, Unknown) for v in values.values()):
        _measure(gm, given, values)
    return values


def _dims(node: Node, value: Any, dynamic: Any) -> list[int]:
    if not isinstance(value, torch.Tensor) or value.dim() == 0:
        return []
    return [0] if dynamic is True else list(dynamic.get(node.name, dynamic.get(str(node.target), ())))


def _meta(leaf: Any) -> Any:
    """A tensor on the meta device for a tensor, and for the `TensorMeta` that a shape rule gives in place of one."""
    if isinstance(leaf, TensorMeta):
        return leaf.empty()
    return TensorMeta.of(leaf).blank("meta") if torch.is_tensor(leaf) and not leaf.is_meta else leaf


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
    real = dict(zip(gm.graph.find_nodes(op="placeholder"), map(copied, given), strict=False))
    with torch.no_grad():
        for node in gm.graph.nodes:
            if node.op not in ("placeholder", "output"):
                try:
                    real[node] = _call(gm, node, real)
                except Exception:
                    return
            if isinstance(values.get(node), Unknown):
                values[node] = map_values(real[node], _meta)
