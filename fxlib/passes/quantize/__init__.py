"""Post-training quantization to 8-bit integers on CPU.

>>> from fxlib.passes.quantize import quantize_static
>>> int8 = quantize_static(fxlib.symbolic_trace(model.eval()), [batch_1, batch_2], progress=True)  # doctest: +SKIP
>>> print(int8.meta["quantize"])  # doctest: +SKIP
"""

from fxlib.passes.quantize.functions import dequantize, dequantize_weight, quantize, quantized_add, quantized_relu
from fxlib.passes.quantize.layers import DynamicQuantizedLinear, QuantizedConv2d, QuantizedLinear
from fxlib.passes.quantize.observers import OBSERVERS, Histogram, MinMax, MovingAverage, QParams
from fxlib.passes.quantize.report import LayerError, QuantizationReport
from fxlib.passes.quantize.static import quantize_dynamic, quantize_static

__all__ = [
    "OBSERVERS",
    "DynamicQuantizedLinear",
    "Histogram",
    "LayerError",
    "MinMax",
    "MovingAverage",
    "QParams",
    "QuantizationReport",
    "QuantizedConv2d",
    "QuantizedLinear",
    "dequantize",
    "dequantize_weight",
    "quantize",
    "quantize_dynamic",
    "quantize_static",
    "quantized_add",
    "quantized_relu",
]
