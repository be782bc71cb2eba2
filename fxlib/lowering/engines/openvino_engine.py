"""OpenVINO on the CPU: bf16 on the matrix units of the CPUs that have them, and programs that are ready soon."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch

from fxlib.lowering.engine import BuildOptions, Engine, EngineError, register
from fxlib.lowering.engines.weights import outside
from fxlib.lowering.onnx.export import Exported

if TYPE_CHECKING:
    from fxlib.lowering.engine import Kernel

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
"""In place of a weight's file: its offset is an address of this process. A convention of ONNX Runtime's, which
OpenVINO's reader of ONNX knows too."""


def unavailable() -> str | None:
    if find_spec("openvino") is None:
        return "the package openvino is not installed; `pip install openvino` adds it"
    return None


@cache
def library() -> Any:
    """The module `openvino`, imported without the package that reports each import of it to its makers.

    pip installs that package along with it; where it is missing, openvino goes without.
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
    """How programs of ours are compiled.

    Raises:
        EngineError: this CPU has no arithmetic of that precision.
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
        # A thread that is bound to a core waits for it while torch, which runs the parts beside this one, has it.
        "ENABLE_CPU_PINNING": False,
    }


def compiled(exported: Exported, config: dict[str, Any]) -> tuple[Any, dict[str, torch.Tensor]]:
    """The compiled model, and the weights that it may read where they are: they must live as long as it does.

    Raises:
        EngineError: OpenVINO refuses the model.
    """
    proto, weights = outside(exported, lambda weight: (_IN_MEMORY, weight.data_ptr()), lambda weight: False)
    try:
        model = core().read_model(proto.SerializeToString())
        return core().compile_model(model, "CPU", config), weights
    except RuntimeError as error:
        raise EngineError(
            f'OpenVINO {version()} refused the model: {_reason(str(error))}; engine="onnxruntime" may take it'
        ) from error


def version() -> str:
    return library().__version__.split("-")[0]


def _reason(text: str) -> str:
    """What OpenVINO says against a model: the operator and the reason, where it names them. What could not be converted
    for want of something before it comes first."""
    told = re.findall(r"ONNX node '<Node\((\w+)\): ([^>]*)>':(.*?)(?=\n\n|\Z)", text, re.DOTALL)
    if told:
        operator, name, why = told[-1]
        return f"{operator} of node {name.split('/')[0]!r}: {why.strip().splitlines()[-1].rstrip('.')}"
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Exception from ")]
    return " ".join(lines)[:300].rstrip(".") or "it gave no reason"


class OpenvinoProgram:
    """A compiled model whose inputs and outputs are in torch's memory."""

    def __init__(self, exported: Exported, options: BuildOptions, counting: bool = False) -> None:
        self.exported, self.options, self._library = exported, options, library()
        config = settings(options)
        if counting:
            config["PERF_COUNT"] = True
        self.compiled, self._weights = compiled(exported, config)
        graph = exported.model.graph
        # OpenVINO has an order of its own for them, and gives one output for values that turn out to be the same.
        self._inputs = [(str(v.name), *_port(self.compiled.inputs, str(v.name))) for v in graph.inputs]
        self._outputs = [_port(self.compiled.outputs, str(v.name)) for v in graph.outputs]
        self._idle: list[Any] = []
        self.info: dict[str, Any] = {
            "engine": "openvino",
            "version": version(),
            "threads": config["INFERENCE_NUM_THREADS"],
            "arithmetic": config["INFERENCE_PRECISION_HINT"],
            "onnx_nodes": len(list(graph)),
            "weights_bytes": sum(weight.nbytes for weight in self._weights.values()),
        }

    def kernels(self) -> list[dict[str, Any]]:
        """What OpenVINO made of the model, kernel by kernel."""
        from fxlib.lowering.engines.openvino_layers import layers

        return [layer.as_dict() for layer in layers(self.exported, self.compiled)]

    def counted(self) -> list[Any]:
        """The times of the last call, kernel by kernel, of a program that counts."""
        return self._idle[-1].get_profiling_info()

    def profile(self, inputs: Sequence[torch.Tensor], runs: int = 10) -> list[Kernel]:
        """The time of each kernel on these inputs, in a program of its own: this one stays as fast as it is."""
        from fxlib.lowering.engines.openvino_layers import profile

        return profile(self.exported, self.options, inputs, runs)

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        # A request serves one call at a time; calls of several threads each have one.
        try:
            request = self._idle.pop()
        except IndexError:
            request = self.compiled.create_infer_request()
        held = []
        for (name, index, dtype, _), tensor in zip(self._inputs, inputs, strict=True):
            if index is None:
                continue  # nothing reads it
            if tensor.dtype != dtype:
                raise TypeError(f"input {name!r} is {tensor.dtype}, but the model was lowered for {dtype}")
            tensor = tensor.detach().cpu().contiguous()
            held.append(tensor)
            request.set_input_tensor(index, self._shared(tensor))
        # The memory of a result is its own, call by call: the next call must not write into what the caller holds.
        results: dict[int, torch.Tensor] = {}
        for index, dtype, shape in self._outputs:
            if shape is not None and index not in results:
                results[index] = torch.empty(shape, dtype=dtype)
                request.set_output_tensor(index, self._shared(results[index]))
        request.infer()
        given: list[torch.Tensor] = []
        for index, dtype, _ in self._outputs:
            result = results.pop(index, None)  # values that turned out to be the same are tensors of their own
            given.append(_copied(request.get_output_tensor(index), dtype) if result is None else result)
        self._idle.append(request)
        return given

    def _shared(self, tensor: torch.Tensor) -> Any:
        if tensor.dtype == torch.bfloat16:  # numpy has none
            bits = tensor.view(torch.int16).numpy()
            return self._library.Tensor(bits, self._library.Shape(list(tensor.shape)), self._library.Type.bf16)
        return self._library.Tensor(tensor.numpy(), shared_memory=True)


def _port(ports: Sequence[Any], name: str) -> tuple[Any, Any, list[int] | None]:
    """Which of the compiled model's inputs or outputs has that name, its dtype, and its shape where that is fixed; None
    for an input that nothing reads."""
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


register(Engine("openvino", "OpenVINO (CPU)", unavailable, OpenvinoProgram, frozenset({"bf16"})))
