"""The layers of a lowered model, one for each node: engine, precision, weights and source line."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from fxlib.ir.leaves import tensors_in
from fxlib.ir.node import Node, arguments_of
from fxlib.ir.spelling import spelling
from fxlib.lowering import profiles
from fxlib.lowering.places import path_of, span_of
from fxlib.passes.flops import flops_of
from fxlib.shapes.kernel import map_values
from fxlib.shapes.tensor_meta import TensorMeta, contiguous_strides

if TYPE_CHECKING:
    from fxlib.codegen.graph_module import GraphModule
    from fxlib.lowering.onnx.export import Exported
    from fxlib.lowering.split import Split

_SHORT = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.bool: "bool"}


@dataclass
class Layer:
    """One node of the graph in its part."""

    node: str
    part: str
    target: str
    engine: bool
    operators: list[str] = field(default_factory=list)
    """ONNX operators that compute it, in order; empty in PyTorch, and for nodes that need no operator."""
    value: str = ""
    """Its result, such as `f32[1, 64, 56, 56]`."""
    precision: str = ""
    weights_bytes: int = 0
    flops: int | None = None
    """Floating-point operations of its products and convolutions on the example inputs; None if unknown without running
    it."""
    code: str | None = None
    reason: str | None = None
    """Why it stays in PyTorch, and the rule."""
    span: tuple | None = None
    call_path: list[tuple] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def layers(
    gm: GraphModule, cut: Split, exports: dict[str, Exported], values: dict[Node, Any], roots: Mapping[Any, Any]
) -> list[Layer]:
    """One layer for each node of `gm` that is in a part, in the order of the graph; `roots` of `profiles.roots_of`."""
    parts = {name: part for part in cut.parts for name in part.nodes}
    computed = {name: _computed(exported) for name, exported in exports.items()}
    rows = []
    for node in gm.graph.nodes:
        part = parts.get(node.name)
        if part is None:
            continue
        value = values.get(node)
        reason = cut.reasons.get(node.name)
        operators, weights = computed.get(part.name, {}).get(node.name, ([], 0)) if part.engine else ([], 0)
        row = Layer(
            node.name, part.name, spelling(node), part.engine, operators, _text(value), _precision(value), weights,
            _flops(gm, node, values, roots),
        )  # fmt: skip
        if reason is not None:
            row.code, row.reason = reason.code, reason.text
        span = span_of(node)
        row.span = tuple(span) if span is not None else None
        row.call_path = [tuple(each) for each in path_of(node)]
        rows.append(row)
    return rows


def _computed(exported: Exported) -> dict[str, tuple[list[str], int]]:
    """FX node -> its ONNX operators and the bytes of the weights that they read; shared weights count for each node."""
    found: dict[str, tuple[list[str], int]] = {}
    for node in exported.model.graph:
        name = node.metadata_props["fx.node"]
        operators, weights = found.get(name, ([], 0))
        read = {v.name for v in node.inputs if v is not None and v.name in exported.parameters}
        weights += sum(exported.parameters[each].nbytes for each in read if each is not None)
        found[name] = ([*operators, node.op_type], weights)
    return found


def _flops(gm: GraphModule, node: Node, values: dict[Node, Any], roots: Mapping[Any, Any]) -> int | None:
    described = functools.partial(_described, roots=roots)
    try:
        args, kwargs = map_values(arguments_of(node, values.__getitem__), described)
        return flops_of(gm, node, args, kwargs, map_values(values[node], described))
    except Exception:  # an argument's value is unknown, or torch cannot compute it without data
        return None


def _described(leaf: Any, roots: Mapping[Any, Any]) -> Any:
    """The description of an example value, with the example's sizes for dynamic ones."""
    if isinstance(leaf, torch.SymInt):
        return profiles.of_example(leaf, roots)
    if not isinstance(leaf, torch.Tensor):
        return leaf
    shape = tuple(_described(size, roots) for size in leaf.shape)
    return TensorMeta(shape, leaf.dtype, torch.device("meta"), contiguous_strides(shape))


def _text(value: Any) -> str:
    shown = list(map(_tensor, tensors_in(value)))
    return shown[0] if len(shown) == 1 else f"({', '.join(shown[:3])}{', …' if len(shown) > 3 else ''})" * bool(shown)


def _tensor(tensor: torch.Tensor) -> str:
    kind = _SHORT.get(tensor.dtype) or str(tensor.dtype).removeprefix("torch.").replace("uint", "u").replace("int", "i")
    return f"{kind}[{', '.join(map(str, tensor.shape))}]"


def _precision(value: Any) -> str:
    tensors = tensors_in(value)
    return _tensor(tensors[0]).partition("[")[0] if tensors else ""
