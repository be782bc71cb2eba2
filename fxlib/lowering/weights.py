"""An exported model in the form for CPU engines: large weights are external, batch norms folded into convolutions.

Weights stay in torch's memory, so that they need not be copied into the model. Both engines would fold a batch norm
into the convolution before it; if it is folded here, the convolution keeps its name, which leads from its time to a
source line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from fxlib.lowering.onnx.dtypes import TO_ONNX
from fxlib.lowering.onnx.export import Exported

SMALL = 1024
"""Weights up to this many bytes stay inside the model; constant folding needs them there."""


def outside(
    exported: Exported, place: Callable[[torch.Tensor], tuple[str, int]], keep: Callable[[torch.Tensor], bool]
) -> tuple[Any, dict[str, torch.Tensor]]:
    """The model as a protobuf message without its large weights, and those weights, most in the parameters' memory.

    Args:
        exported: a model; it is left as it is.
        place: the file name and offset at which the engine finds a weight.
        keep: whether a large weight must stay inside.
    """
    graph = exported.model.graph
    folded = _folded(exported)
    weights: dict[str, torch.Tensor] = {}
    swapped: list[tuple[ir.Value, Any]] = []
    for name, tensor in exported.parameters.items():
        weight = folded[name].weight if name in folded else tensor.detach().contiguous()
        if (tensor.nbytes <= SMALL or keep(tensor)) and name not in folded:
            continue
        weights[name] = weight
        value = graph.initializers[name]
        swapped.append((value, value.const_value))
        file, offset = place(weight)
        value.const_value = ir.ExternalTensor(
            file, offset, weight.nbytes, TO_ONNX[weight.dtype], shape=ir.Shape(weight.shape), name=name
        )
    try:
        proto = ir.to_proto(exported.model)
    finally:
        for value, held in swapped:
            value.const_value = held
    _without_norms(proto, folded)
    left = {each.name for each in proto.graph.initializer}
    return proto, {name: weight for name, weight in weights.items() if name in left}


class _Fold:
    """A convolution, the batch norm after it, and their combined weights."""

    def __init__(self, conv: str, norm: str, weight: torch.Tensor, bias: torch.Tensor) -> None:
        self.conv, self.norm, self.weight, self.bias = conv, norm, weight, bias


def _folded(exported: Exported) -> dict[str, _Fold]:
    """Weight of a convolution -> its fold, if a batch norm is the only user of the convolution."""
    graph = exported.model.graph
    reads = Counter(value.name for node in graph for value in node.inputs if value is not None)
    given = {value.name for value in graph.outputs}
    found = {}
    for norm in graph:
        if norm.op_type != "BatchNormalization" or norm.domain or len(norm.outputs) != 1:
            continue
        made = norm.inputs[0]
        conv = made.producer() if made is not None else None
        if conv is None or conv.op_type != "Conv" or made is None or reads[made.name] != 1 or made.name in given:
            continue
        name = str(conv.inputs[1].name) if conv.inputs[1] is not None else ""
        weight = exported.parameters.get(name)
        if weight is None or weight.dtype not in (torch.float32, torch.float16) or reads[name] != 1:
            continue
        held = [_value(exported, value) for value in (*norm.inputs[1:5], *conv.inputs[2:3])]
        if any(each is None or each.dtype != weight.dtype for each in held):
            continue
        epsilon = norm.attributes["epsilon"].as_float() if "epsilon" in norm.attributes else 1e-5
        vectors = [each.numpy() for each in held if each is not None]
        found[name] = _Fold(str(conv.name), str(norm.name), *_joined(weight.detach().numpy(), vectors, epsilon))
    return found


def _joined(weight: np.ndarray, vectors: list[np.ndarray], epsilon: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias of the combined convolution. Each filter is multiplied as one row.

    NumPy is used because it has no threads: on a busy machine torch's threads waited for each other at each operator,
    longer than all the rest of a lowering.
    """
    # In double precision: the vectors are short, and a rounding error of a scale affects its whole channel.
    scale, shift, mean, variance, *bias = [each.astype(np.float64) for each in vectors]
    factor = scale / np.sqrt(variance + epsilon)
    added = ((bias[0] if bias else 0.0) - mean) * factor + shift
    rows = weight.reshape(weight.shape[0], -1) * factor.astype(np.float32).reshape(-1, 1)
    rows = rows.astype(weight.dtype, copy=False).reshape(weight.shape)
    return torch.from_numpy(rows), torch.from_numpy(added.astype(weight.dtype))


def _value(exported: Exported, value: ir.Value | None) -> torch.Tensor | None:
    if value is None:
        return None
    if value.name in exported.parameters:
        return exported.parameters[str(value.name)].detach()
    return torch.from_numpy(value.const_value.numpy().copy()) if value.const_value is not None else None


def _without_norms(proto: Any, folded: dict[str, _Fold]) -> None:
    if not folded:
        return
    graph = proto.graph
    nodes = {node.name: node for node in graph.node}
    gone = set()
    for fold in folded.values():
        conv, norm = nodes[fold.conv], nodes[fold.norm]
        name = f"{fold.conv}/folded"
        kind = int(TO_ONNX[fold.bias.dtype])
        graph.initializer.add(
            name=name, data_type=kind, dims=list(fold.bias.shape), raw_data=fold.bias.numpy().tobytes()
        )
        del conv.input[2:]
        conv.input.append(name)
        conv.output[0] = norm.output[0]
        gone.add(fold.norm)
    for index in reversed(range(len(graph.node))):
        if graph.node[index].name in gone:
            del graph.node[index]
    read = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    for index in reversed(range(len(graph.initializer))):
        if graph.initializer[index].name not in read:
            del graph.initializer[index]
