"""OpenVINO on the CPU: bf16 on CPUs with matrix units, and fast builds."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch

from fxlib.lowering.engine import BuildOptions, Engine, EngineError, Kernel, NotTaken, Program
from fxlib.lowering.kernels import FIRST, described, longest_beginning, producers, read_by, take_in

if TYPE_CHECKING:
    import onnx_ir as ir

    from fxlib.lowering.onnx.export import Exported

_BY_NAME = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "boolean": torch.bool,
}
_IN_MEMORY = "*/_ORT_MEM_ADDR_/*"
"""Stands for a weight's file: its offset is an address in this process. A convention of ONNX Runtime's that OpenVINO's
ONNX reader also supports."""

_WRAPPING = {"Add", "Sub", "Mul", "Pow", "Neg", "Abs", "MatMul", "Gemm", "Einsum", "CumSum", "ReduceSum", "ReduceProd"}
_NOT_RUN = {"Const", "Input", "Output"}
_TAKEN_IN = {*FIRST, "BatchNormalization"}
_KINDS = {
    "Convolution": ("Conv",),
    "Deconvolution": ("ConvTranspose",),
    "FullyConnected": ("Gemm", "MatMul"),
    "MatMul": ("Gemm", "MatMul"),
    "MVN": ("LayerNormalization", "InstanceNormalization", "GroupNormalization"),
}
"""Kind of kernel -> the ONNX operators that it can be, if its name does not tell."""


def unavailable() -> str | None:
    if find_spec("openvino") is None:
        return "the package openvino is not installed; `pip install openvino` adds it"
    return None


@cache
def library() -> Any:
    """The module `openvino`, imported without its telemetry package.

    pip installs that package along with it; openvino also works without it.
    """
    reporter = "openvino_telemetry"
    hidden = reporter not in sys.modules
    if hidden:
        sys.modules[reporter] = None  # type: ignore[assignment]
    try:
        return import_module("openvino")
    finally:
        if hidden:
            del sys.modules[reporter]


@cache
def core() -> Any:
    """The one of this process: it loads the plugin for the CPU once."""
    return library().Core()


def settings(options: BuildOptions) -> dict[str, Any]:
    """The settings for compiling programs.

    Raises:
        EngineError: this CPU does not support that precision.
    """
    precision = "f32"
    if options.precision == "bf16":
        if "BF16" not in core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            raise EngineError(
                'this CPU has no bf16 arithmetic (AVX512_BF16 or AMX), so OpenVINO cannot run precision="bf16" on it; '
                'use precision="fp32"'
            )
        precision = "bf16"
    return {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": "1",
        "INFERENCE_NUM_THREADS": options.threads or torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": precision,
        # A thread that is bound to a core would wait while torch, which runs the other parts, uses that core.
        "ENABLE_CPU_PINNING": False,
    }


def compiled(exported: Exported, config: dict[str, Any]) -> tuple[Any, dict[str, torch.Tensor]]:
    """The compiled model, and the weights that it may read in place: they must live as long as it does.

    Raises:
        EngineError: OpenVINO rejects the model.
    """
    from fxlib.lowering.weights import outside

    _refuse_differing(exported)
    proto, weights = outside(exported, lambda weight: (_IN_MEMORY, weight.data_ptr()), lambda weight: False)
    try:
        model = core().read_model(proto.SerializeToString())
        try:
            return core().compile_model(model, "CPU", config), weights
        except RuntimeError as error:
            if "/snippets/" not in str(error):
                raise
            # Its generator of kernels fails at some graphs that its ready ones can compute.
            return core().compile_model(model, "CPU", {**config, "SNIPPETS_MODE": "DISABLE"}), weights
    except RuntimeError as error:
        text = f'OpenVINO {version()} refused the model: {_reason(str(error))}; engine="onnxruntime" may accept it'
        if found := _refused(str(error), exported):
            raise NotTaken(text, found) from error
        raise EngineError(text) from error


def _refused(text: str, exported: Exported) -> str | None:
    """The last of our nodes that an error names: an operator that failed only because of an earlier one comes first."""
    names = {str(node.name) for node in exported.model.graph}
    return next((each for each in reversed(re.findall(r"[\w.]+/[\w.]+", text)) if each in names), None)


def _refuse_differing(exported: Exported) -> None:
    """OpenVINO 2026 stops at the largest number of 8 bits where torch wraps around, its sorting is not stable, and it
    corrupts its memory on empty tensors.

    Raises:
        NotTaken: there is such a node.
    """
    from fxlib.lowering.onnx.context import STABLE

    for node in exported.model.graph:
        values = [value for value in (*node.inputs, *node.outputs) if value is not None and value.const_value is None]
        if any(value.shape is not None and 0 in list(value.shape) for value in values):
            raise NotTaken("OpenVINO cannot compute empty tensors", str(node.name))
        if STABLE in node.metadata_props:
            raise NotTaken("OpenVINO does not keep the order of equal elements", str(node.name))
        dtype = node.outputs[0].dtype
        if node.op_type in _WRAPPING and dtype is not None and dtype.name in ("INT8", "UINT8"):
            raise NotTaken(
                f"OpenVINO's {node.op_type} of {dtype.name.lower()} saturates where torch wraps around", str(node.name)
            )


def version() -> str:
    return library().__version__.split("-")[0]


def _reason(text: str) -> str:
    """OpenVINO's reason for rejecting a model, with the operator if it names one. An operator that failed only because
    of an earlier one comes first."""
    refused = re.findall(r"ONNX node '<Node\((\w+)\): ([^>]*)>':(.*?)(?=\n\n|\Z)", text, re.DOTALL)
    if refused:
        operator, name, why = refused[-1]
        return f"{operator} of node {name.split('/')[0]!r}: {why.strip().splitlines()[-1].rstrip('.')}"
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Exception from ")]
    return " ".join(lines)[:300].rstrip(".") or "it gave no reason"


class OpenvinoProgram(Program):
    """A compiled model whose inputs and outputs are in torch's memory."""

    def __init__(self, exported: Exported, options: BuildOptions, counting: bool = False) -> None:
        self.exported, self.options, self._library = exported, options, library()
        self._config = config = settings(options)
        if counting:
            config["PERF_COUNT"] = True
        self._compile()
        graph = exported.model.graph
        # OpenVINO has its own order of outputs, and merges outputs with the same value.
        self._inputs = [(str(v.name), *_port(self.compiled.inputs, str(v.name))) for v in graph.inputs]
        self._outputs = [_port(self.compiled.outputs, str(v.name)) for v in graph.outputs]
        ports = (*self._inputs, *self._outputs)
        self._fixed = all(shape is not None for *_, shape in ports)
        """Whether no size may change. Otherwise an operator may fail, and with one thread `infer` of OpenVINO 2026 then
        returns silently, with the results of its last call."""
        self.info = {
            "version": version(),
            "threads": config["INFERENCE_NUM_THREADS"],
            "arithmetic": config["INFERENCE_PRECISION_HINT"],
            "onnx_nodes": len(graph),
            "weights_bytes": sum(weight.nbytes for weight in self._weights.values()),
        }

    def _compile(self) -> None:
        self.compiled, self._weights = compiled(self.exported, self._config)
        self._idle: list[Any] = []
        self._failed = False

    def kernels(self) -> list[Kernel]:
        return _kernels(self.exported, self.compiled)

    def timed(self, inputs: Sequence[torch.Tensor], runs: int) -> list[tuple[Kernel, list[float]]]:
        program = OpenvinoProgram(self.exported, self.options, counting=True)
        times: dict[str, list[float]] = {}
        for _ in range(runs):
            program(*inputs)
            for each in program._idle[-1].get_profiling_info():
                if each.real_time.total_seconds() > 0 or each.status == each.Status.EXECUTED:
                    times.setdefault(each.node_name, []).append(each.real_time.total_seconds() * 1e3)
        return [(kernel, times[kernel.name]) for kernel in program.kernels() if kernel.name in times]

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        if self._failed:  # the operator may fail in all later calls, too
            self._compile()
        # A request serves one call at a time, so each thread has its own.
        idle = self._idle
        try:
            request = idle.pop()
        except IndexError:
            request = self.compiled.create_infer_request()
        held = []
        for (name, index, dtype, _), tensor in zip(self._inputs, inputs, strict=True):
            if index is None:
                continue  # unused
            if tensor.dtype != dtype:
                raise TypeError(f"input {name!r} is {tensor.dtype}, but the model was lowered for {dtype}")
            tensor = tensor.detach().cpu().contiguous()
            held.append(tensor)
            request.set_input_tensor(index, self._shared(tensor))
        # Each call gets new memory for its results: the next call must not write into them.
        results: dict[int, torch.Tensor] = {}
        for index, dtype, shape in self._outputs:
            if shape is not None and index not in results:
                results[index] = torch.empty(shape, dtype=dtype)
                request.set_output_tensor(index, self._shared(results[index]))
        try:
            if self._fixed:
                request.infer()
            else:
                request.start_async()
                request.wait()
        except RuntimeError:
            self._failed = True
            raise
        given: list[torch.Tensor] = []
        for index, dtype, _ in self._outputs:
            result = results.pop(index, None)  # outputs that were merged get separate tensors
            given.append(_copied(request.get_output_tensor(index), dtype) if result is None else result)
        idle.append(request)
        return given

    def _shared(self, tensor: torch.Tensor) -> Any:
        if tensor.dtype == torch.bfloat16:  # numpy has none
            bits = tensor.view(torch.int16).numpy()
            return self._library.Tensor(bits, self._library.Shape(list(tensor.shape)), self._library.Type.bf16)
        return self._library.Tensor(tensor.numpy(), shared_memory=True)


def _port(ports: Sequence[Any], name: str) -> tuple[Any, Any, list[int] | None]:
    """The compiled model's input or output of that name, its dtype, and its shape if fixed; None for an unused
    input."""
    for index, port in enumerate(ports):
        if name in port.names:
            shape = list(port.shape) if port.partial_shape.is_static else None
            return index, _BY_NAME[port.element_type.to_string()], shape
    return None, None, None


def _copied(tensor: Any, dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bfloat16:
        bits = torch.from_numpy(tensor.data.view("int16").copy())
        return bits.view(torch.bfloat16).reshape(list(tensor.shape))
    return torch.from_numpy(tensor.data.copy())


def _kernels(exported: Exported, compiled: Any) -> list[Kernel]:
    """The kernels of a compiled model, in the order in which they run.

    The compiled model can be read as a graph whose nodes are kernels. Each lists its original operators, which have the
    names of our ONNX nodes and so lead to FX nodes and source lines.
    """
    graph = compiled.get_runtime_model()
    facts = {op.get_friendly_name(): {k: _text(v) for k, v in op.get_rt_info().items()} for op in graph.get_ops()}
    run = [op for op in graph.get_ordered_ops() if facts[op.get_friendly_name()].get("layerType") not in _NOT_RUN]
    owners = _owners(exported, run, facts)
    nodes = list(exported.model.graph)
    # Operators that were fused into another one, or computed from constants, are not listed.
    joined = read_by(nodes, owners, [op.get_friendly_name() for op in run])
    named, unnamed = _by_kernel(nodes, owners), _by_kernel(nodes, joined)
    rows = []
    for op in run:
        name = op.get_friendly_name()
        known = facts[name]
        types = dict.fromkeys([known.get("runtimePrecision", ""), *known.get("outputPrecisions", "").split(",")])
        rows.append(
            described(
                exported, name, known.get("layerType", ""), named.get(name, []),
                joined=unnamed.get(name, []), bytes=_bytes(op),
                tactic=known.get("primitiveType", ""), types=tuple(each for each in types if each),
            )
        )  # fmt: skip
    return rows


def _by_kernel(nodes: Sequence[ir.Node], owners: dict[Any, str]) -> dict[str, list[ir.Node]]:
    found: dict[str, list[ir.Node]] = {}
    for node in nodes:
        if node.name in owners:
            found.setdefault(owners[node.name], []).append(node)
    return found


def _owners(exported: Exported, kernels: list[Any], facts: dict[str, dict[str, str]]) -> dict[Any, str]:
    """Our node -> the kernel that computes it, if one does."""
    ours = {str(node.name): node for node in exported.model.graph}
    owners: dict[Any, str] = {}
    for op in kernels:
        kernel = op.get_friendly_name()
        for name in facts[kernel].get("originalLayersNames", "").split(","):
            if found := longest_beginning(name, ours, "_/."):
                owners.setdefault(found, kernel)
    for node in ours.values():  # a batch norm that was folded into its convolution
        first = next((owners[each.name] for each in producers(node) if each.name in owners), None)
        if node.op_type == "BatchNormalization" and first is not None:
            owners.setdefault(node.name, first)
    # A convolution that absorbed later operators may have lost its name and have that of its ReLU.
    for name, kernel in list(owners.items()):
        take_in(owners, ours[name], kernel, lambda node, each: node.op_type not in FIRST and each.op_type in _TAKEN_IN)
    # A kernel with none of our names is matched by kind and by the kernels whose results it reads.
    for op in kernels:
        kernel, kinds = op.get_friendly_name(), _KINDS.get(facts[op.get_friendly_name()].get("layerType", ""), ())
        if not kinds or kernel in owners.values():
            continue
        before = _before(op, set(owners.values()))
        for node in ours.values():
            made = [owners.get(each.name) for each in producers(node)]
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


def _bytes(op: Any) -> int:
    ports = [*op.outputs(), *(each.get_source_output() for each in op.inputs())]
    if any(port.get_partial_shape().is_dynamic for port in ports):
        return 0
    return sum(port.get_element_type().size * math.prod(port.get_shape()) for port in ports)


def _text(value: Any) -> str:
    return str(value.astype(str)) if hasattr(value, "astype") else str(value)


ENGINE = Engine(
    name="openvino",
    label="OpenVINO",
    runs_on="CPU",
    about=(
        "Builds faster than ONNX Runtime. On a CPU with matrix units (AMX), bf16 runs several times as fast as fp32. "
        "All four example models and a dozen families are compared with eager in the tests, in fp32, bf16, fp16 and "
        "int8, with dynamic sizes and from several threads."
    ),
    packages=("openvino",),
    unavailable=unavailable,
    build=OpenvinoProgram,
    limits=(
        "bf16 needs a CPU with bf16 arithmetic. Its `Pad` has no wrap mode. Integers have 32 bits, arithmetic with 8 "
        "and stable sorting stay in PyTorch, and float64 and float16 are computed in fp32, so that `x.half().float()` "
        "is `x`."
    ),
    precisions=("fp32", "bf16"),
    computes=frozenset({"bf16"}),
    options=("threads",),
)
