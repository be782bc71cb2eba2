"""What a model is compared with. A new variant is one entry of the table."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch


@dataclass(frozen=True)
class Variant:
    """One way to run a model."""

    name: str
    title: str
    prepare: Callable[[torch.nn.Module, Sequence[Any]], Callable[..., Any]]
    """`prepare(model, inputs)` gives what is called with the inputs. The model is in evaluation mode and must not be
    changed."""
    missing: Callable[[str], str | None] = lambda device: None
    """`missing("cpu" or "cuda")`: one sentence that says what is not there, or None."""
    default: bool = True


def _trace(model: torch.nn.Module) -> torch.nn.Module:
    from fxlib.capture.tracer import symbolic_trace
    from fxlib.codegen.graph_module import GraphModule

    return model if isinstance(model, GraphModule) else symbolic_trace(model)


def _eager(model, inputs):
    return model


def _generated(model, inputs):
    return _trace(model)


def _fused(model, inputs):
    from fxlib.passes.fuse_conv_bn import fuse_conv_bn

    return fuse_conv_bn(_trace(copy.deepcopy(model)))


def _optimized(model, inputs):
    from fxlib.passes.optimize_for_inference import optimize_for_inference

    return optimize_for_inference(_trace(copy.deepcopy(model)), *inputs)


def _quantized(model, inputs):
    from fxlib.passes.quantize import quantize_static

    return quantize_static(_trace(copy.deepcopy(model)), [tuple(inputs)])


def _compiled(model, inputs):
    # What was compiled for another batch size would make it compile for sizes that change, which is slower.
    torch._dynamo.reset()
    return torch.compile(copy.deepcopy(model))


def _lowered(engine: str, precision: str = "fp32"):
    def prepare(model, inputs):
        from fxlib.lowering import BuildOptions, lower

        device = next((v.device.type for v in inputs if isinstance(v, torch.Tensor)), "cpu")
        return lower(
            model,
            tuple(inputs),
            engine=engine,
            precision=precision,
            options=BuildOptions(threads=torch.get_num_threads(), device=device),
        )

    return prepare


def _cast(dtype: torch.dtype):
    def prepare(model, inputs):
        small = copy.deepcopy(model).to(dtype)

        def call(*args):
            return small(*(a.to(dtype) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args))

        return call

    return prepare


def _cuda_graph(wrap: Callable[[torch.nn.Module, Sequence[Any]], Callable[..., Any]]):
    def prepare(model, inputs):
        call = wrap(model, inputs)
        static = [a.clone() if isinstance(a, torch.Tensor) else a for a in inputs]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(3):
                call(*static)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), torch.no_grad():
            result = call(*static)

        def replay(*args):
            for place, value in zip(static, args, strict=True):
                if isinstance(value, torch.Tensor):
                    place.copy_(value)
            graph.replay()
            return result

        return replay

    return prepare


def _need_cuda(device: str) -> str | None:
    return None if device == "cuda" else "needs a GPU"


def _need_cpu(device: str) -> str | None:
    return None if device == "cpu" else "runs on the CPU only"


def _need_bf16(device: str) -> str | None:
    if device == "cuda" or torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported():
        return None
    return "this CPU has no bf16 arithmetic"


def _engine(name: str, precision: str = "fp32"):
    on_cpu = name in ("onnxruntime", "openvino")

    def missing(device: str) -> str | None:
        from fxlib.lowering import get

        if find_spec("onnx_ir") is None:
            return "the package onnx_ir is not installed; `pip install 'fxlens[lower]'` adds it"
        if on_cpu and device != "cpu":
            return "runs on the CPU only"
        told = get(name).unavailable()
        if told:
            return told
        if not on_cpu and device != "cuda":
            return "needs a GPU"
        return _need_bf16(device) if precision == "bf16" else None

    return missing


VARIANTS: dict[str, Variant] = {
    v.name: v
    for v in (
        Variant("eager", "eager", _eager),
        Variant("generated", "generated forward", _generated),
        Variant("fused", "conv-bn fused", _fused),
        Variant("optimized", "optimized for inference", _optimized, _need_cpu),
        Variant("quantized", "quantized int8", _quantized, _need_cpu, default=False),
        Variant("compile", "torch.compile", _compiled),
        Variant("onnxruntime", "ONNX Runtime", _lowered("onnxruntime"), _engine("onnxruntime")),
        Variant("openvino", "OpenVINO", _lowered("openvino"), _engine("openvino")),
        Variant("fp16", "eager fp16", _cast(torch.float16), _need_cuda),
        Variant("bf16", "eager bf16", _cast(torch.bfloat16), _need_bf16),
        Variant("openvino_bf16", "OpenVINO bf16", _lowered("openvino", "bf16"), _engine("openvino", "bf16")),
        Variant("cudagraph", "CUDA graph", _cuda_graph(_eager), _need_cuda),
        Variant("cudagraph_fp16", "CUDA graph fp16", _cuda_graph(_cast(torch.float16)), _need_cuda),
        Variant("tensorrt", "TensorRT", _lowered("tensorrt"), _engine("tensorrt")),
        Variant("tensorrt_fp16", "TensorRT fp16", _lowered("tensorrt", "fp16"), _engine("tensorrt")),
        Variant("tensorrt_rtx", "TensorRT-RTX", _lowered("tensorrt_rtx"), _engine("tensorrt_rtx")),
    )
}
