"""The converters, by family. Importing this package fills the registry."""

from fxlib.lowering.onnx.converters import (
    activation,
    attention,
    convolution,
    creation,
    elementwise,
    identity,
    indexing,
    linear,
    logic,
    normalization,
    pooling,
    quantized,
    reduction,
    shape,
)

__all__ = [
    "activation",
    "attention",
    "convolution",
    "creation",
    "elementwise",
    "identity",
    "indexing",
    "linear",
    "logic",
    "normalization",
    "pooling",
    "quantized",
    "reduction",
    "shape",
]
