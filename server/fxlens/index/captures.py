"""Functions that capture a model as a graph: a class passed to one of them is meant to be captured."""

from __future__ import annotations

import re

# Pattern of the dotted name -> display name. The first match counts.
_KINDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"(^|\.)(symbolic_trace|symbolic_trace_fx)$", "symbolic_trace"),
        (r"(^|\.)(fx|fxlib)\..*Tracer\.trace$|Tracer\.trace$", "Tracer().trace"),
        (r"(^|\.)prepare_(qat_)?(fx|pt2e)$|(^|\.)convert_(to_reference_)?(fx|pt2e)$|(^|\.)fuse_fx$", "quantization"),
        (r"(^|\.)create_feature_extractor$|(^|\.)get_graph_node_names$", "create_feature_extractor"),
        (r"^torch\.(_?export)\.(export|export_for_training|export_for_inference|aot_compile|draft_export)$",
         "torch.export"),
        (r"(^|\.)(capture_pre_autograd_graph|aot_compile|aoti_compile_and_package|aoti_load_package)$", "AOTInductor"),
        (r"(^|\.)onnx\.(export|dynamo_export|_export|export_to_pretty_string)$", "torch.onnx"),
        (r"^torch\.(compile|_dynamo\.\w+|nn\.Module\.compile)$", "torch.compile"),
        (r"^torch\.jit\.(script|trace|trace_module|optimize_for_inference|freeze)$", "torch.jit"),
        (r"(^|\.)(torch_tensorrt|trtorch)\.(compile|ts\.compile|dynamo\.\w+|convert_\w+)$|(^|\.)torch2trt$"
         r"|(^|\.)(acc_tracer\.trace|lower_to_trt|TRTInterpreter)$", "TensorRT"),
        (r"^(openvino|ov)(\.\w+)*\.convert_model$|(^|\.)mo\.convert_model$|(^|\.)nncf\.(quantize|compress_\w+)$",
         "OpenVINO"),
        (r"^(coremltools|ct)(\.\w+)*\.convert$", "Core ML"),
        (r"(^|\.)(to_edge|to_edge_transform_and_lower|exir\.capture)$", "ExecuTorch"),
        (r"(^|\.)(make_fx|aot_module|aot_function|functorch\.compile\.\w+|hf_symbolic_trace)$", "make_fx"),
        (r"(^|\.)(transform_and_trace|gm_transform|replace_all_batch_norm_modules_|split_module)$", "torch.fx"),
    )
)  # fmt: skip
_GIVES_MODEL = ("torch.compile", "torch.jit", "TensorRT", "quantization")
NAMES = frozenset(
    [
        "symbolic_trace",
        "trace",
        "prepare_fx",
        "prepare_qat_fx",
        "convert_fx",
        "prepare_pt2e",
        "prepare_qat_pt2e",
        "convert_pt2e",
        "fuse_fx",
        "create_feature_extractor",
        "export",
        "dynamo_export",
        "compile",
        "script",
        "trace_module",
        "torch2trt",
        "convert_model",
        "convert",
        "aoti_compile_and_package",
        "aot_compile",
        "to_edge",
        "to_edge_transform_and_lower",
        "make_fx",
        "capture_pre_autograd_graph",
        "quantize",
        "optimize_for_inference",
        "freeze",
        "get_graph_node_names",
        "draft_export",
        "export_for_training",
    ]
)
"""The last components of all names, to find the files that may contain one."""


def kind_of(name: str) -> str | None:
    """The capture of a function with this dotted name; None if it captures nothing."""
    if name.rpartition(".")[2] not in NAMES and "_dynamo" not in name and "trt" not in name.lower():
        return None
    return next((kind for pattern, kind in _KINDS if pattern.search(name)), None)


def gives_model(name: str) -> bool:
    """Whether its result is called like the model."""
    return kind_of(name) in _GIVES_MODEL
