"""ONNX Runtime on the CPU: the default engine, on any machine."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fxlib.lowering.engine import BuildOptions, Engine, EngineError, Kernel, NotTaken, Program
from fxlib.lowering.kernels import FIRST, described, longest_beginning, producers, take_in

if TYPE_CHECKING:
    import onnx_ir as ir

    from fxlib.lowering.onnx.export import Exported

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
_REFUSED = re.compile(r"[Nn]ode \(([^)]+)\)|node with name '([^']*)'")
"""The pattern of its error for a node without a kernel."""
_KIND = re.compile(r"implementation for (\w+)\(")
_SUFFIX = "_kernel_time"
_BLOCKED = "com.microsoft.nchwc"
"""The domain of the kernels on blocks of channels."""
_WRONG_OPTIMIZERS = ["GatherToSliceFusion"]
"""Those of ONNX Runtime 1.31 that change results: the end -1 of a range down to 0 is the last element to a slice."""
_LAYOUTS = ("ReorderInput", "ReorderOutput")


def unavailable() -> str | None:
    if find_spec("onnxruntime") is None:
        return "the package onnxruntime is not installed; `pip install onnxruntime` adds it"
    return None


class OrtProgram(Program):
    """An ONNX Runtime session with its inputs and outputs bound to torch's memory."""

    def __init__(self, exported: Exported, options: BuildOptions) -> None:
        import onnxruntime as ort

        from fxlib.lowering.onnx.dtypes import TO_ONNX

        settings = session_options(options)
        self.exported, self.options = exported, options
        self.session, self._weights = open_session(exported, settings)
        self._types = {dtype: int(kind) for dtype, kind in TO_ONNX.items()}
        self._inputs = [(i.name, _BY_ORT_NAME[i.type]) for i in self.session.get_inputs()]
        self._outputs = [(o.name, _BY_ORT_NAME[o.type], list(o.shape)) for o in self.session.get_outputs()]
        # Empty tensors have no address that could be bound.
        self._static = [all(isinstance(d, int) and d for d in shape) for _, _, shape in self._outputs]
        self.info = {
            "version": ort.__version__,
            "threads": settings.intra_op_num_threads,
            "onnx_nodes": len(exported.model.graph),
            "weights_bytes": sum(a.nbytes for a in self._weights.values()),
        }

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        binding = self.session.io_binding()
        held = []
        for (name, dtype), tensor in zip(self._inputs, inputs, strict=True):
            if tensor.dtype != dtype:
                raise TypeError(f"input {name!r} is {tensor.dtype}, but the model was lowered for {dtype}")
            tensor = tensor.detach().cpu().contiguous()
            held.append(tensor)
            binding.bind_input(name, "cpu", 0, self._types[dtype], list(tensor.shape), tensor.data_ptr())
        results: list[torch.Tensor | None] = []
        for (name, dtype, shape), static in zip(self._outputs, self._static, strict=True):
            if static:
                result = torch.empty(shape, dtype=dtype)
                binding.bind_output(name, "cpu", 0, self._types[dtype], shape, result.data_ptr())
                results.append(result)
            else:
                binding.bind_output(name, "cpu")
                results.append(None)
        self.session.run_with_iobinding(binding)
        values = [] if all(self._static) else binding.get_outputs()
        return [_tensor(values[index]) if result is None else result for index, result in enumerate(results)]

    def kernels(self) -> list[Kernel]:
        with tempfile.TemporaryDirectory(prefix="fxlib-kernels-") as folder:
            settings = session_options(self.options)
            path = _optimized(settings, folder)
            open_session(self.exported, settings)
            return _Optimized(self.exported, path).kernels()

    def values(self, inputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        """Runs the optimized graph unchanged, with the results of all kernels as outputs. Results in the blocked layout
        are converted back to the usual one."""
        import onnxruntime as ort

        with tempfile.TemporaryDirectory(prefix="fxlib-values-") as folder:
            settings = session_options(self.options)
            path = _optimized(settings, folder)
            open_session(self.exported, settings)
            optimized = _Optimized(self.exported, path)
            shown = optimized.show_values()
            settings = session_options(self.options)
            settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            session = ort.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
            found = session.run(list(shown.values()), self._feed(inputs))
        return {name: torch.from_numpy(np.array(value)) for name, value in zip(shown, found, strict=True)}

    def timed(self, inputs: Sequence[torch.Tensor], runs: int) -> list[tuple[Kernel, list[float]]]:
        with tempfile.TemporaryDirectory(prefix="fxlib-profile-") as folder:
            settings = session_options(self.options)
            settings.enable_profiling = True
            settings.profile_file_prefix = str(Path(folder) / "profile")
            path = _optimized(settings, folder)
            session, weights = open_session(self.exported, settings)
            feed = self._feed(inputs)
            for _ in range(runs):
                session.run(None, feed)
            events = json.loads(Path(session.end_profiling()).read_text())
            kernels = {kernel.name: kernel for kernel in _Optimized(self.exported, path).kernels()}
            del session, weights
        times: dict[str, list[float]] = {}
        for event in events:
            name = event.get("name", "")
            if event.get("cat") == "Node" and name.endswith(_SUFFIX):
                name = name.removesuffix(_SUFFIX)
                times.setdefault(name, []).append(event["dur"] / 1e3)
                kernels.setdefault(name, Kernel(name, event["args"].get("op_name", "")))
        return [(kernels[name], spent) for name, spent in times.items()]

    def _feed(self, inputs: Sequence[torch.Tensor]) -> dict[str, np.ndarray]:
        pairs = zip(self._inputs, inputs, strict=True)
        return {name: tensor.detach().cpu().contiguous().numpy() for (name, _), tensor in pairs}


def _tensor(value: Any) -> torch.Tensor:
    # A tensor without dimensions arrives as a NumPy scalar.
    return torch.from_dlpack(value.numpy()) if value.shape() else torch.from_numpy(np.array(value.numpy()))


def session_options(options: BuildOptions) -> Any:
    """Options of our sessions: the given number of threads, one operator at a time."""
    import onnxruntime as ort

    ort.set_default_logger_severity(3)
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    settings.intra_op_num_threads = options.threads or torch.get_num_threads()
    settings.inter_op_num_threads = 1
    # Idle worker threads that spin would take cores from torch, which runs the other parts.
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0" if options.threads != 1 else "1")
    return settings


def open_session(exported: Exported, settings: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """A session, and the weights that it reads without a copy: they must live as long as it does.

    Raises:
        EngineError: ONNX Runtime rejects the model.
    """
    import onnxruntime as ort

    model, kept = _model(exported)
    if kept:
        values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in kept.items()}
        settings.add_external_initializers(list(values), list(values.values()))
    try:
        return ort.InferenceSession(
            model, settings, providers=["CPUExecutionProvider"], disabled_optimizers=_WRONG_OPTIMIZERS
        ), kept
    except Exception as error:
        text = f"ONNX Runtime {ort.__version__} refused the model: {error}"
        if found := _REFUSED.search(text):
            raise NotTaken(text, found[1] or found[2] or _first_function(exported, text)) from error
        raise EngineError(text) from error


def _not_single(node: ir.Node) -> bool:
    dtype = node.outputs[0].dtype
    return dtype is not None and dtype.name != "FLOAT"


def _first_function(exported: Exported, text: str) -> str:
    """The first node that ONNX Runtime writes out as others, which have no names, if it has no kernel for one of them,
    as for a softmax in bfloat16 and a GELU in double."""
    import onnx

    kind = _KIND.search(text)

    def written_out(node: ir.Node) -> bool:
        schema: Any = onnx.defs.get_schema(node.op_type, exported.model.opset_imports[""], node.domain)
        parts = {each.op_type for each in schema.function_body.node} if schema.has_function else set()
        return schema.has_context_dependent_function or (kind is not None and kind[1] in parts)

    found = (node for node in exported.model.graph if _not_single(node) and written_out(node))
    return next((str(node.name) for node in found), "")


def _model(exported: Exported) -> tuple[bytes, dict[str, np.ndarray]]:
    """The model's bytes without its large weights, and those weights as arrays that share torch's memory."""
    from fxlib.lowering.weights import outside

    # NumPy has no bfloat16.
    proto, weights = outside(exported, lambda weight: ("weights", 0), lambda weight: weight.dtype == torch.bfloat16)
    _read_transposed(proto, exported)
    return proto.SerializeToString(), {name: weight.numpy() for name, weight in weights.items()}


def _read_transposed(proto: Any, exported: Exported) -> None:
    """Let a product read a transposed weight, as in `torch.nn.Linear`, directly.

    ONNX has no operator for it, so the model transposes the weight first. ONNX Runtime would do that while creating the
    session, for all the weights of a transformer, and then pack the result; its own operator packs the weight directly.
    Runs take equally long, but creating a session takes half the time.
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


def _optimized(settings: Any, folder: str) -> Path:
    """The optimized graph that a session with these settings writes."""
    path = Path(folder) / "optimized.onnx"
    settings.optimized_model_filepath = str(path)
    # In a file beside the model, since a protobuf message is limited to 2 GiB and weights can exceed that.
    settings.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights")
    settings.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "128")
    return path


class _Optimized:
    """The graph as optimized by ONNX Runtime: several nodes can be one kernel (a convolution, its batch norm and its
    ReLU), and some kernels are its own (changes of layout)."""

    def __init__(self, exported: Exported, path: Path) -> None:
        import onnx

        self.exported, self.path = exported, path
        self.proto = onnx.load(str(path), load_external_data=False)
        self.nodes = {str(node.name): node for node in exported.model.graph}
        for kernel in self.proto.graph.node:
            kernel.name = kernel.name or f"{kernel.op_type} of {kernel.output[0]}"
        self.ends = self._ends()
        """Kernel -> the last of our nodes in it."""
        self.members = self._members()

    def kernels(self) -> list[Kernel]:
        return [
            described(self.exported, kernel.name, kernel.op_type, self.members.get(end, []), end)
            for kernel in self.proto.graph.node
            for end in [self.ends.get(kernel.name, "")]
        ]

    def show_values(self) -> dict[str, str]:
        """Make the results of all kernels outputs, and write the model. Returns our node -> the output with its
        value."""
        import onnx

        graph, found = self.proto.graph, dict[str, str]()
        blocked: set[str] = set()
        added = []
        for kernel in graph.node:
            result, end = kernel.output[0], self.ends.get(kernel.name)
            # Blocked operators return the blocked layout; once converted back, it is an ordinary value.
            if kernel.op_type != "ReorderOutput" and (kernel.domain == _BLOCKED or blocked.intersection(kernel.input)):
                blocked.add(result)
            if end is None:
                continue
            if result not in blocked and self._value(result) != end:
                continue  # it has the node's name, but its value may have another form, such as 8 bits
            if result in blocked:
                channels = self.nodes[end].outputs[0].shape[1]  # type: ignore[index]
                result = f"{result}/usual"
                added.append(
                    onnx.helper.make_node(
                        "ReorderOutput", [kernel.output[0]], [result], domain=_BLOCKED, channels=channels
                    )
                )
            found[end] = result
        graph.node.extend(added)
        known = {value.name for value in graph.output}
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in found.values() if name not in known)
        self.path.write_bytes(self.proto.SerializeToString())
        return found

    def _ends(self) -> dict[str, str]:
        kernels = [kernel for kernel in self.proto.graph.node if kernel.op_type not in _LAYOUTS]
        usual = {
            kernel.input[0]: kernel.output[0] for kernel in self.proto.graph.node if kernel.op_type == "ReorderOutput"
        }
        found = {}
        for kernel in kernels:
            given = (self._value(usual.get(name, name)) for name in kernel.output)
            end = next(filter(None, given), "")
            if not end:
                end = longest_beginning(kernel.name.removeprefix("fused "), self.nodes, "_/")
                # It can have absorbed a sum and an activation since it was named.
                for later in ("Add" if len(kernel.input) > 3 else "", _text(kernel, "activation")):
                    users = [] if not end else self.nodes[end].outputs[0].consumers()
                    if later and end and self.nodes[end].op_type != later:
                        end = next((str(user.name) for user in users if user.op_type == later), end)
            if end:
                found[kernel.name] = end
        return found

    def _value(self, name: str) -> str:
        """The node of ours that produces the value of that name, since values are named after nodes."""
        return next((each for each in (name, name.rpartition(":")[0]) if each in self.nodes), "")

    def _members(self) -> dict[str, list[ir.Node]]:
        """Last node -> the nodes that its kernels compute, in the order of the graph."""
        order = {end: place for place, end in enumerate(dict.fromkeys(self.ends.values()))}
        owner = {end: end for end in order}
        for end in order:
            take_in(owner, self.nodes[end], end, _taken_in)
        for node in self.nodes.values():  # the others do nothing, or are in the kernel before them
            if node.name not in owner:
                before = [owner[name] for each in producers(node) if (name := str(each.name)) in owner]
                if before:
                    owner[str(node.name)] = max(before, key=lambda end: order.get(end, -1))
        found: dict[str, list[ir.Node]] = {}
        for node in self.nodes.values():
            if node.name in owner:
                found.setdefault(owner[str(node.name)], []).append(node)
        return found


def _text(kernel: Any, attribute: str) -> str:
    return next((each.s.decode() for each in kernel.attribute if each.name == attribute), "")


def _taken_in(node: ir.Node, before: ir.Node) -> bool:
    return node.op_type not in FIRST or (node.op_type == "MatMul" and before.op_type == "Transpose")


ENGINE = Engine(
    name="onnxruntime",
    label="ONNX Runtime",
    runs_on="CPU",
    about=(
        "The default. Every converter is compared with eager through it; so are the example models and families of "
        "torchvision and timm."
    ),
    packages=("onnxruntime",),
    unavailable=unavailable,
    build=OrtProgram,
    options=("threads",),
    lists_kernels=False,
    shows_values=True,
)
