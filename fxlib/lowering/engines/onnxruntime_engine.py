"""ONNX Runtime on the CPU: the default engine, on any machine."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fxlib.lowering.engine import BuildOptions, Engine, EngineError, register
from fxlib.lowering.engines.weights import outside
from fxlib.lowering.onnx.dtypes import TO_ONNX
from fxlib.lowering.onnx.export import Exported

if TYPE_CHECKING:
    from fxlib.lowering.engine import Kernel

_TORCH = {int(v): k for k, v in TO_ONNX.items()}
_BY_ORT_NAME = {
    "tensor(float)": torch.float32,
    "tensor(double)": torch.float64,
    "tensor(float16)": torch.float16,
    "tensor(bfloat16)": torch.bfloat16,
    "tensor(int64)": torch.int64,
    "tensor(int32)": torch.int32,
    "tensor(int16)": torch.int16,
    "tensor(int8)": torch.int8,
    "tensor(uint8)": torch.uint8,
    "tensor(bool)": torch.bool,
}


def unavailable() -> str | None:
    if find_spec("onnxruntime") is None:
        return "the package onnxruntime is not installed; `pip install onnxruntime` adds it"
    return None


class OrtProgram:
    """An ONNX Runtime session with its inputs and outputs bound to torch's memory."""

    def __init__(self, exported: Exported, options: BuildOptions) -> None:
        import onnxruntime as ort

        settings = session_options(options)
        self.exported, self.options = exported, options
        self.session, self._weights = open_session(exported, settings)
        self._inputs = [(i.name, _BY_ORT_NAME[i.type]) for i in self.session.get_inputs()]
        self._outputs = [(o.name, _BY_ORT_NAME[o.type], list(o.shape)) for o in self.session.get_outputs()]
        self._static = [all(isinstance(d, int) for d in shape) for _, _, shape in self._outputs]
        self.info: dict[str, Any] = {
            "engine": "onnxruntime",
            "version": ort.__version__,
            "threads": settings.intra_op_num_threads,
            "onnx_nodes": len(list(exported.model.graph)),
            "weights_bytes": sum(a.nbytes for a in self._weights.values()),
        }

    def profile(self, inputs: Sequence[torch.Tensor], runs: int = 10) -> list[Kernel]:
        """The time of each kernel on these inputs, in a session of its own: this one stays as fast as it is."""
        from fxlib.lowering.engines.onnxruntime_profile import profile

        return profile(self.exported, self.options, inputs, runs)

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        binding = self.session.io_binding()
        held = []
        for (name, dtype), tensor in zip(self._inputs, inputs, strict=True):
            if tensor.dtype != dtype:
                raise TypeError(f"input {name!r} is {tensor.dtype}, but the model was lowered for {dtype}")
            tensor = tensor.detach()
            if tensor.device.type != "cpu":
                tensor = tensor.cpu()
            tensor = tensor.contiguous()
            held.append(tensor)
            binding.bind_input(name, "cpu", 0, int(TO_ONNX[dtype]), list(tensor.shape), tensor.data_ptr())
        results: list[torch.Tensor | None] = []
        for (name, dtype, shape), static in zip(self._outputs, self._static, strict=True):
            if static:
                result = torch.empty(shape, dtype=dtype)
                binding.bind_output(name, "cpu", 0, int(TO_ONNX[dtype]), shape, result.data_ptr())
                results.append(result)
            else:
                binding.bind_output(name, "cpu")
                results.append(None)
        self.session.run_with_iobinding(binding)
        if not all(self._static):
            for index, value in enumerate(binding.get_outputs()):
                if results[index] is None:
                    results[index] = (
                        torch.from_dlpack(value.numpy()) if value.shape() else torch.from_numpy(np.array(value.numpy()))
                    )
        return results  # type: ignore[return-value]


def session_options(options: BuildOptions) -> Any:
    """How sessions of ours run: on the threads that were asked for, one operator at a time."""
    import onnxruntime as ort

    ort.set_default_logger_severity(3)
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    settings.intra_op_num_threads = options.threads or torch.get_num_threads()
    settings.inter_op_num_threads = 1
    # Idle worker threads that spin take the cores from torch, which runs the parts beside this one.
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0" if options.threads != 1 else "1")
    settings.add_session_config_entry("session.set_denormal_as_zero", "1")
    return settings


def open_session(exported: Exported, settings: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """A session, and the weights that it reads without a copy: they must live as long as it does.

    Raises:
        EngineError: ONNX Runtime refuses the model.
    """
    import onnxruntime as ort

    model, kept = _model(exported)
    if kept:
        values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in kept.items()}
        settings.add_external_initializers(list(values), list(values.values()))
    try:
        return ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"]), kept
    except Exception as error:
        raise EngineError(f"ONNX Runtime {ort.__version__} refused the model: {error}") from error


def _model(exported: Exported) -> tuple[bytes, dict[str, np.ndarray]]:
    """The model's bytes without its large weights, and those weights as arrays that share torch's memory."""
    # No array of numpy's has bfloat16.
    proto, weights = outside(exported, lambda weight: ("weights", 0), lambda weight: weight.dtype == torch.bfloat16)
    _read_transposed(proto, exported)
    return proto.SerializeToString(), {name: weight.numpy() for name, weight in weights.items()}


def _read_transposed(proto: Any, exported: Exported) -> None:
    """Let a product read a weight that is stored transposed, as those of `torch.nn.Linear` are.

    ONNX has no operator for it, so that the model transposes the weight first. ONNX Runtime would do that while it
    makes the session, over all the weights of a transformer, and then pack the result; its own operator packs the
    weight as it is. The same run takes as long, and a session is made in half the time.
    """
    graph = proto.graph
    weights = {name for name, tensor in exported.parameters.items() if tensor.dtype == torch.float32}
    turned = {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.op_type == "Transpose"
        and node.input[0] in weights
        and len(exported.parameters[node.input[0]].shape) == 2
        and list(node.attribute[0].ints) == [1, 0]
    }
    products = [node for node in graph.node if node.op_type == "MatMul" and not node.domain and node.input[1] in turned]
    if not products:
        return
    for node in products:
        node.op_type, node.domain = "FusedMatMul", "com.microsoft"
        node.input[1] = turned[node.input[1]]
        node.attribute.add(name="transB", i=1, type=2)  # AttributeProto.INT
    proto.opset_import.add(domain="com.microsoft", version=1)
    read = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    for index in reversed(range(len(graph.node))):
        made = graph.node[index].output[0]
        if made in turned and made not in read:
            del graph.node[index]


register(Engine("onnxruntime", "ONNX Runtime (CPU)", unavailable, OrtProgram))
