"""What a model is compared with: one entry of a table each, and the engines of `fxlib.lowering` in their precisions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from fxlib.capture.symbolic_trace import symbolic_trace
from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.leaves import cast, copied
from fxlib.lowering.engine import BuildOptions, Engine
from fxlib.lowering.engines import table
from fxlib.passes.fuse_conv_bn import fuse_conv_bn
from fxlib.passes.optimize_for_inference import optimize_for_inference
from fxlib.passes.quantize import quantize_static

if TYPE_CHECKING:
    from fxlib.lowering.profile import LayerTime

Model = torch.nn.Module
Inputs = Sequence[Any]
Call = Callable[..., Any]


@dataclass(frozen=True)
class Variant:
    """One way to run a model."""

    name: str
    title: str
    prepare: Callable[[Model, Inputs], Call]
    """`prepare(model, inputs)` returns a callable for the inputs. The model is in evaluation mode and must not be
    changed."""
    missing: Callable[[str], str | None] = lambda device: None
    """`missing("cpu" or "cuda")`: one sentence that says what is missing, or None."""
    default: bool = True
    """Whether it is measured when no variants are named."""
    of_trace: bool = False
    """Whether it starts from a trace of the model, and so accepts a traced model as well."""
    layers: Callable[[Call, Inputs], list[LayerTime]] | None = None
    """Times by layer of a prepared call; None for a variant without them."""


def _trace(model: Model) -> GraphModule:
    return model if isinstance(model, GraphModule) else symbolic_trace(model)


def _eager(model: Model, inputs: Inputs) -> Call:
    return model


def _generated(model: Model, inputs: Inputs) -> Call:
    return _trace(model)


def _fused(model: Model, inputs: Inputs) -> Call:
    return fuse_conv_bn(_trace(copy.deepcopy(model)))


def _optimized(model: Model, inputs: Inputs) -> Call:
    return optimize_for_inference(_trace(copy.deepcopy(model)), *inputs)


def _quantized(model: Model, inputs: Inputs) -> Call:
    return quantize_static(_trace(copy.deepcopy(model)), [tuple(inputs)])


def _compiled(model: Model, inputs: Inputs) -> Call:
    # Without a reset it would compile for dynamic sizes after another batch size, which is slower.
    torch._dynamo.reset()
    return torch.compile(copy.deepcopy(model))


def _lowered(engine: Engine, precision: str) -> Variant:
    def prepare(model: Model, inputs: Inputs) -> Call:
        from fxlib.lowering.lowered import lower

        options = BuildOptions(threads=torch.get_num_threads(), device=engine.device)
        return lower(model, tuple(inputs), engine=engine.name, precision=precision, options=options)

    def missing(device: str) -> str | None:
        if engine.device == "cpu" and device != "cpu":
            return "runs on the CPU only"
        if problem := engine.missing():
            return problem
        if engine.device != device:
            return "needs a GPU"
        return _need_bf16(device) if precision == "bf16" else None

    title = engine.label if precision == engine.precisions[0] else f"{engine.label} {precision}"
    layers = lambda call, inputs: call.profile(*inputs)  # noqa: E731
    return Variant(engine.variant(precision), title, prepare, missing, engine.benchmarked, True, layers)


def _in_dtype(dtype: torch.dtype) -> Callable[[Model, Inputs], Call]:
    def prepare(model: Model, inputs: Inputs) -> Call:
        small = copy.deepcopy(model).to(dtype)

        def call(*args: Any) -> Any:
            return small(*cast(args, dtype))

        return call

    return prepare


def _cuda_graph(wrap: Callable[[Model, Inputs], Call]) -> Callable[[Model, Inputs], Call]:
    def prepare(model: Model, inputs: Inputs) -> Call:
        call = wrap(model, inputs)
        static = copied(list(inputs))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(3):
                call(*static)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), torch.no_grad():
            result = call(*static)

        def replay(*args: Any) -> Any:
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


VARIANTS: dict[str, Variant] = {
    v.name: v
    for v in (
        Variant("eager", "eager", _eager),
        Variant("generated", "generated forward", _generated, of_trace=True),
        Variant("fused", "conv-bn fused", _fused, of_trace=True),
        Variant("optimized", "optimized for inference", _optimized, _need_cpu, of_trace=True),
        Variant("quantized", "quantized int8", _quantized, _need_cpu, default=False, of_trace=True),
        Variant("compile", "torch.compile", _compiled),
        Variant("fp16", "eager fp16", _in_dtype(torch.float16), _need_cuda),
        Variant("bf16", "eager bf16", _in_dtype(torch.bfloat16), _need_bf16),
        Variant("cudagraph", "CUDA graph", _cuda_graph(_eager), _need_cuda),
        Variant("cudagraph_fp16", "CUDA graph fp16", _cuda_graph(_in_dtype(torch.float16)), _need_cuda),
        *(_lowered(engine, precision) for engine in table().values() for precision in engine.precisions),
    )
}
