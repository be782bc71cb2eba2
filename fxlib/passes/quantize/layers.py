"""Linear and convolution layers on 8-bit integers, through oneDNN's kernels for plain uint8 and int8 tensors.

A packed copy of the weight is made at the first call and dropped by ``copy`` and ``pickle``. CPU only, inference only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from fxlib.passes.packed_layers import NONE, PostOp
from fxlib.passes.quantize.functions import dequantize, quantize
from fxlib.passes.quantize.large_results import LargeResult
from fxlib.passes.quantize.observers import QParams, weight_scales

__all__ = ["DynamicQuantizedLinear", "QuantizedConv2d", "QuantizedLinear", "weight_limit"]


_BLOCK = 1 << 15
"""Output features of a wide layer per block."""
_ROWS = 64
"""Rows per block: with ``_BLOCK`` 8 MB, which the C library's allocator keeps for the next block."""


def weight_limit() -> int:
    """The largest weight integer that is safe on this CPU.

    Without VNNI the kernels add pairs of 8-bit products in 16 bits, which overflows beyond 7-bit weights.
    """
    return 127 if torch.cpu._is_vnni_supported() else 63


class _Quantized(nn.Module):
    """An int8 weight with its scales, and the packed copy."""

    weight: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, layer: Any, per_channel: bool) -> None:
        super().__init__()
        scales = weight_scales(layer.weight, per_channel, weight_limit())
        steps = layer.weight.detach().float() / scales.view(-1, *[1] * (layer.weight.dim() - 1))
        self.register_buffer("weight", steps.round().clamp(-127, 127).to(torch.int8))
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", torch.zeros(scales.shape, dtype=torch.int64))
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach().float())
        self._packed: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": None}

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._packed = None
        super()._load_from_state_dict(*args, **kwargs)

    def extra_repr(self) -> str:
        return f"weight={list(self.weight.shape)}"


class _Static(_Quantized):
    """Known ranges of input and result; the result is uint8, or float32 where ``out`` is None."""

    def __init__(
        self, layer: Any, source: QParams, out: QParams | None, post: PostOp = NONE, per_channel: bool = True
    ) -> None:
        super().__init__(layer, per_channel)
        self.source, self.out, self.post = source, out, post

    def get_extra_state(self) -> torch.Tensor:
        """The ranges, which the code of the model holds as well."""
        known = (self.source, self.out, getattr(self, "other", None))
        ranges = [[-1.0, 0.0] if each is None else [each.scale, float(each.zero_point)] for each in known]
        return torch.tensor(ranges, dtype=torch.float64)

    def set_extra_state(self, state: torch.Tensor) -> None:
        if not torch.equal(state, self.get_extra_state()):
            raise RuntimeError(
                "the state is of a model that was calibrated with other data, and the ranges of this one are part of "
                "its code; quantize with the same data, or pickle the whole model"
            )

    def _result(self) -> tuple[Any, ...]:
        dtype = torch.float32 if self.out is None else torch.uint8
        scale, zero_point = (1.0, 0) if self.out is None else (self.out.scale, self.out.zero_point)
        return (scale, zero_point, dtype, self.post.name, list(self.post.scalars), self.post.algorithm)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, in={self.source}, out={self.out or 'float32'}, post={self.post.name}"


class QuantizedLinear(_Static):
    """``post(linear(x))``: uint8 ``[..., in]`` to uint8 or float32 ``[..., out]``.

    A very wide layer with a float result works block by block, so that the fused ELU or SELU (``elu`` holds its
    parameters) reads each block from the cache.
    """

    elu: tuple[float, float, float] | None = None
    """Alpha, scale and input scale of a fused ELU; for wide layers only."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._memory = LargeResult()

    @property
    def wide(self) -> bool:
        """Whether the layer works block by block."""
        return self.out is None and self.post.name == "none" and self.weight.shape[0] >= 2 * _BLOCK

    def _blocks(self, rows: torch.Tensor) -> torch.Tensor:
        features = self.weight.shape[0]
        if self._packed is None:
            parts = self.weight.split(_BLOCK)
            self._packed = [torch.ops.onednn.qlinear_prepack(part.contiguous(), None) for part in parts]
        out = self._memory.take(rows.shape[0], features)
        s = self.source
        for index, packed in enumerate(self._packed):
            here = slice(index * _BLOCK, min((index + 1) * _BLOCK, features))
            bias = None if self.bias is None else self.bias[here]
            scales, zeros = (
                (self.scales, self.zeros) if self.scales.numel() == 1 else (self.scales[here], self.zeros[here])
            )
            for start in range(0, rows.shape[0], _ROWS):
                some = slice(start, start + _ROWS)
                y = torch.ops.onednn.qlinear_pointwise(
                    rows[some], s.scale, s.zero_point, packed, scales, zeros, bias, *self._result()
                )
                if self.elu is None:
                    out[some, here].copy_(y)
                else:
                    torch.ops.aten.elu.out(y, *self.elu, out=out[some, here])
        return out

    def forward(self, q: torch.Tensor) -> torch.Tensor:
        rows = q.reshape(-1, q.shape[-1])
        if self.wide:
            return self._blocks(rows).view(*q.shape[:-1], self.weight.shape[0])
        if self._packed is None:
            self._packed = torch.ops.onednn.qlinear_prepack(self.weight, None)
        s = self.source
        y = torch.ops.onednn.qlinear_pointwise(
            rows, s.scale, s.zero_point, self._packed, self.scales, self.zeros, self.bias, *self._result()
        )
        return y.view(*q.shape[:-1], self.weight.shape[0])


class QuantizedConv2d(_Static):
    """``post(conv2d(x) [+ other])``: uint8 ``[N, C, H, W]`` to uint8 (or, without ``other``, float32),
    channels-last.
    """

    def __init__(
        self,
        layer: nn.Conv2d,
        source: QParams,
        out: QParams | None,
        post: PostOp = NONE,
        per_channel: bool = True,
        other: QParams | None = None,
    ) -> None:
        super().__init__(layer, source, out, post, per_channel)
        self.other = other
        self.stride, self.padding, self.dilation, self.groups = (
            layer.stride,
            layer.padding,
            layer.dilation,
            layer.groups,
        )

    def forward(self, q: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        s = self.source
        where = (self.stride, self.padding, self.dilation, self.groups)
        if self._packed is None:
            self._packed = torch.ops.onednn.qconv_prepack(
                self.weight, self.scales, s.scale, s.zero_point, *where, list(q.shape)
            )
        q = q.contiguous(memory_format=torch.channels_last)
        head = (q, s.scale, s.zero_point, self._packed, self.scales, self.zeros)
        if other is None or self.other is None or self.out is None:
            return torch.ops.onednn.qconv2d_pointwise(*head, self.bias, *where, *self._result())
        sizes = self._sizes(q)
        whole = torch.broadcast_shapes(sizes, other.shape)  # in calibration both had the same
        if whole != sizes:
            y = torch.ops.onednn.qconv2d_pointwise(*head, self.bias, *where, 1.0, 0, torch.float32, "none", [], "")
            y = y + dequantize(other, self.other.scale, self.other.zero_point)
            return quantize(y.relu_() if self.post.name == "relu" else y, self.out.scale, self.out.zero_point)
        # The kernel may overwrite this operand with its result.
        sink = other.expand(whole).clone(memory_format=torch.channels_last)
        return torch.ops.onednn.qconv2d_pointwise.binary(
            *head,
            sink,
            self.bias,
            *where,
            self.out.scale,
            self.out.zero_point,
            torch.uint8,
            self.other.scale,
            self.other.zero_point,
            "sum",
            1.0,
            self.post.name,
            list(self.post.scalars),
            self.post.algorithm,
        )

    def _sizes(self, q: torch.Tensor) -> torch.Size:
        """The shape of the convolution's result."""
        geometry: Any = (self.stride, self.padding, self.dilation)
        each = zip(q.shape[2:], self.weight.shape[2:], *geometry, strict=True)
        slid = ((size + 2 * pad - step * (kernel - 1) - 1) // stride + 1 for size, kernel, stride, pad, step in each)
        return torch.Size((q.shape[0], self.weight.shape[0], *slid))


class DynamicQuantizedLinear(_Quantized):
    """A linear layer with an int8 weight that computes the range of each input at run time; float32 in and out."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._packed is None:
            self._packed = torch.ops.onednn.qlinear_prepack(self.weight, None)
        rows = x.reshape(-1, x.shape[-1])
        if not rows.numel():
            return x.new_empty(*x.shape[:-1], self.weight.shape[0])
        low, high = torch.aminmax(rows)
        if not (low.isfinite() and high.isfinite()):
            return self._with_infinities(rows).view(*x.shape[:-1], self.weight.shape[0])
        s = QParams.of_range(low.item(), high.item())
        y = torch.ops.onednn.qlinear_pointwise(
            quantize(rows, s.scale, s.zero_point),
            s.scale,
            s.zero_point,
            self._packed,
            self.scales,
            self.zeros,
            self.bias,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return y.view(*x.shape[:-1], self.weight.shape[0])

    def _with_infinities(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows that hold NaN or an infinity have no range: they are computed in float."""
        whole = rows.isfinite().all(1)
        result = rows.new_empty(len(rows), self.weight.shape[0])
        result[whole] = self(rows[whole])
        weight = self.weight.float() * self.scales.view(-1, 1)
        result[~whole] = torch.nn.functional.linear(rows[~whole], weight, self.bias)
        return result
