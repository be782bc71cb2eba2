"""Shapes without data, fast: a table of rules, results remembered, torch's own kernels for the rest.

>>> import operator, torch
>>> from fxlib.shapes import TensorMeta, infer
>>> x = TensorMeta.of(torch.empty(8, 3))
>>> infer("call_function", operator.add, (x, 1.0))
f32[8, 3]
"""

from fxlib.shapes.inference import clear, infer
from fxlib.shapes.kernel import DataDependentError, ShapeError, map_values
from fxlib.shapes.metadata import TensorMetadata, extract_tensor_metadata
from fxlib.shapes.propagation import propagate
from fxlib.shapes.tensor_meta import TensorMeta, channels_last_strides, contiguous_strides

__all__ = [
    "DataDependentError",
    "ShapeError",
    "TensorMeta",
    "TensorMetadata",
    "channels_last_strides",
    "clear",
    "contiguous_strides",
    "extract_tensor_metadata",
    "infer",
    "map_values",
    "propagate",
]
