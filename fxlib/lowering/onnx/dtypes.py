"""Element types: torch dtype <-> ONNX data type, and which of them a converter may compute in."""

from __future__ import annotations

import onnx_ir as ir
import torch

TO_ONNX: dict[torch.dtype, ir.DataType] = {
    torch.float32: ir.DataType.FLOAT,
    torch.float64: ir.DataType.DOUBLE,
    torch.float16: ir.DataType.FLOAT16,
    torch.bfloat16: ir.DataType.BFLOAT16,
    torch.int8: ir.DataType.INT8,
    torch.int16: ir.DataType.INT16,
    torch.int32: ir.DataType.INT32,
    torch.int64: ir.DataType.INT64,
    torch.uint8: ir.DataType.UINT8,
    torch.bool: ir.DataType.BOOL,
}
FROM_ONNX = {kind: dtype for dtype, kind in TO_ONNX.items()}


def onnx_type(dtype: torch.dtype) -> ir.DataType:
    """The ONNX element type of a torch dtype.

    Raises:
        Unsupported: ONNX has no such element type (complex numbers, quantized dtypes).
    """
    try:
        return TO_ONNX[dtype]
    except KeyError:
        raise Unsupported(f"ONNX has no element type for {dtype}", "FX499") from None


def limits(dtype: torch.dtype) -> tuple[float, float]:
    """The smallest and largest value of a dtype, including infinities."""
    if dtype.is_floating_point:
        return -float("inf"), float("inf")
    info = torch.iinfo(dtype)
    return info.min, info.max


class Unsupported(Exception):
    """A node cannot be converted; the text says why, for the user, and `code` is the rule: FX401 (no
    converter, or none for this form of the call) unless another is given."""

    def __init__(self, text: str, code: str = "FX401") -> None:
        super().__init__(text)
        self.code = code
