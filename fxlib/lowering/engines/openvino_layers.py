"""What OpenVINO made of an ONNX model, kernel by kernel, and the time of each.

The compiled model can be read as a graph whose nodes are kernels. Each names the operators that it was made of, and
those have the names of our ONNX nodes, which lead to FX nodes and source lines.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from fxlib.lowering.engine import BuildOptions, Kernel
from fxlib.lowering.onnx.export import Exported

_NOT_RUN = {"Const", "Input", "Output"}
_FIRST = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
"""Operators that a kernel begins with."""
_TAKEN_IN = {*_FIRST, "BatchNormalization"}
_KINDS = {
    "Convolution": ("Conv",),
    "Deconvolution": ("ConvTranspose",),
    "FullyConnected": ("Gemm", "MatMul"),
    "MatMul": ("Gemm", "MatMul"),
    "MVN": ("LayerNormalization", "InstanceNormalization", "GroupNormalization"),
}
"""Kind of kernel -> the operators of ONNX that it can be, where it does not tell."""


@dataclass(frozen=True)
class Layer:
    """One kernel of a compiled model."""

    name: str
    kind: str
    """As OpenVINO calls it: `Convolution`, `FullyConnected`, `Reorder`."""
    tactic: str
    """The implementation that it chose, as `brgconv_avx512_amx_bf16`."""
    types: tuple[str, ...]
    """The precision that it computes in, and others that it gives."""
    bytes: int
    """Read and written by one run; 0 where a size is dynamic. Weights are not among them."""
    onnx: tuple[str, ...]
    nodes: tuple[str, ...]
    """Names of the FX nodes that it computes; none for a kernel that OpenVINO added, such as a change of layout."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def layers(exported: Exported, compiled: Any) -> list[Layer]:
    """The kernels of a compiled model, in the order in which they run."""
    graph = compiled.get_runtime_model()
    told = {op.get_friendly_name(): {k: _text(v) for k, v in op.get_rt_info().items()} for op in graph.get_ops()}
    kernels = [op for op in graph.get_ordered_ops() if told[op.get_friendly_name()].get("layerType") not in _NOT_RUN]
    owners = _owners(exported, kernels, told)
    computed: dict[str, list[Any]] = {}
    for node in exported.model.graph:
        if node.name in owners:
            computed.setdefault(owners[node.name], []).append(node)
    rows = []
    for op in kernels:
        name = op.get_friendly_name()
        facts, nodes = told[name], computed.get(name, [])
        types = dict.fromkeys([facts.get("runtimePrecision", ""), *facts.get("outputPrecisions", "").split(",")])
        rows.append(
            Layer(
                name, facts.get("layerType", ""), facts.get("primitiveType", ""), tuple(each for each in types if each),
                _bytes(op), tuple(str(node.name) for node in nodes),
                tuple(dict.fromkeys(node.metadata_props["fx.node"] for node in nodes)),
            )
        )  # fmt: skip
    return rows


def _owners(exported: Exported, kernels: list[Any], told: dict[str, dict[str, str]]) -> dict[Any, str]:
    """Our node -> the kernel that computes it, for those that one computes."""
    ours = {str(node.name): node for node in exported.model.graph}
    owners: dict[Any, str] = {}
    for op in kernels:
        kernel = op.get_friendly_name()
        for name in told[kernel].get("originalLayersNames", "").split(","):
            if found := _ours(name, ours):
                owners.setdefault(found, kernel)
    for node in ours.values():  # a batch norm that is in its convolution
        first = next((owners[each.name] for each in _producers(node) if each.name in owners), None)
        if node.op_type == "BatchNormalization" and first is not None:
            owners.setdefault(node.name, first)
    # A convolution that took in what came behind it can have lost its name, and goes by that of its ReLU.
    for name, kernel in list(owners.items()):
        waiting = [ours[name]]
        while waiting:
            node = waiting.pop()
            for each in _producers(node) if node.op_type not in _FIRST else ():
                if each.name not in owners and each.op_type in _TAKEN_IN:
                    owners[each.name] = kernel
                    waiting.append(each)
    # A kernel with no name of ours at all is what reads the results of the kernels before it, and is of its kind.
    for op in kernels:
        kernel, kinds = op.get_friendly_name(), _KINDS.get(told[op.get_friendly_name()].get("layerType", ""), ())
        if not kinds or kernel in owners.values():
            continue
        before = _before(op, set(owners.values()))
        for node in ours.values():
            made = [owners.get(each.name) for each in _producers(node)]
            if node.op_type in kinds and node.name not in owners and (before & set(made) or not before):
                owners[node.name] = kernel
                break
    return owners


def _before(op: Any, named: set[str]) -> set[str]:
    """The kernels whose results a kernel reads, looking through changes of layout and type."""
    found, waiting = set(), [each.get_source_output().get_node() for each in op.inputs()]
    while waiting:
        source = waiting.pop()
        if source.get_friendly_name() in named:
            found.add(source.get_friendly_name())
        else:
            waiting += [each.get_source_output().get_node() for each in source.inputs()]
    return found


def _producers(node: Any) -> list[Any]:
    return [made for value in node.inputs if value is not None and (made := value.producer()) is not None]


def profile(exported: Exported, options: BuildOptions, inputs: Sequence[torch.Tensor], runs: int = 10) -> list[Kernel]:
    """Time every kernel of a model, in the order in which they run.

    Args:
        exported: the ONNX model.
        options: as the program was built with.
        inputs: its tensor inputs.
        runs: timed runs; two more come before them.
    """
    from fxlib.lowering.engines.openvino_engine import OpenvinoProgram

    program = OpenvinoProgram(exported, options, counting=True)
    for _ in range(2):
        program(*inputs)
    times: dict[str, list[float]] = {}
    for _ in range(runs):
        program(*inputs)
        for each in program.counted():
            if each.real_time.total_seconds() > 0 or each.status == each.Status.EXECUTED:
                times.setdefault(each.node_name, []).append(each.real_time.total_seconds() * 1e3)
    kernels = []
    for layer in layers(exported, program.compiled):
        if layer.name in times:
            ms = statistics.median(times[layer.name])
            kernels.append(Kernel(layer.name, layer.kind, ms, layer.onnx, layer.nodes, _main(exported, layer)))
    return kernels


def _main(exported: Exported, layer: Layer) -> str:
    """The node that a kernel's time is told at: the one with weights, else the last."""
    nodes = {str(node.name): node for node in exported.model.graph}
    for name in layer.onnx:
        if nodes[name].op_type != "BatchNormalization" and any(
            value is not None and value.name in exported.parameters for value in nodes[name].inputs
        ):
            return nodes[name].metadata_props["fx.node"]
    return layer.nodes[-1] if layer.nodes else ""


def _ours(name: str, ours: dict[str, Any]) -> str:
    """The longest of our names that an operator's name begins with, up to a mark that OpenVINO adds at."""
    for stop in range(len(name), 0, -1):
        if (stop == len(name) or name[stop] in "_/.") and name[:stop] in ours:
            return name[:stop]
    return ""


def _bytes(op: Any) -> int:
    ports = [*op.outputs(), *(each.get_source_output() for each in op.inputs())]
    if any(port.get_partial_shape().is_dynamic for port in ports):
        return 0
    return sum(port.get_element_type().size * _count(port.get_shape()) for port in ports)


def _count(shape: Any) -> int:
    size = 1
    for dimension in shape:
        size *= dimension
    return size


def _text(value: Any) -> str:
    return str(value.astype(str)) if hasattr(value, "astype") else str(value)
