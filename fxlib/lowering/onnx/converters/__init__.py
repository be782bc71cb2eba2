"""The converters, by family. Importing this package fills the registry."""

from fxlib.lowering.onnx.converters import (
    activation,
    attention,
    convolution,
    creation,
    elementwise,
    embedding,
    identity,
    indexing,
    linear,
    logic,
    normalization,
    pooling,
    quantized,
    reduction,
    shape,
    writing,
)

__all__ = [
    "activation",
    "attention",
    "convolution",
    "creation",
    "elementwise",
    "embedding",
    "identity",
    "indexing",
    "linear",
    "logic",
    "normalization",
    "pooling",
    "quantized",
    "reduction",
    "shape",
    "writing",
]
