"""Convolution and linear layers whose weights are laid out once for oneDNN, with the next operators as post-operations.

For inference on CPU in float32; on other devices or dtypes they compute the same by ordinary operators. The packed copy
of a weight is made at the first call for a given input shape and number of threads (oneDNN chooses the layout by both,
and would convert any other layout in every call), is not part of the state, and is dropped by ``copy`` and ``pickle``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["POST_OPS", "PackedConv2d", "PackedConv2dInto", "PackedLinear", "PostOp"]

_SHAPES_KEPT = 4


@dataclass(frozen=True)
class PostOp:
    """An elementwise operator in oneDNN's terms: its name, its scalars, its algorithm."""

    name: str
    scalars: tuple[float, ...] = ()
    algorithm: str = ""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return POST_OPS[self.name](x, *self.scalars, *((self.algorithm,) if self.algorithm else ()))


POST_OPS: dict[str, Callable[..., torch.Tensor]] = {
    "none": lambda x: x,
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "hardtanh": F.hardtanh,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "swish": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": lambda x, approximate: F.gelu(x, approximate=approximate),
}
NONE = PostOp("none")


class _Packed(nn.Module):
    """A weight, a bias, a post-operation, and the packed copies by input shape and number of threads."""

    weight: torch.Tensor
    bias: torch.Tensor | None
    makes_new_memory = True
    """For `fxlib.passes.aliases`: the result is not a view of an input."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, post: PostOp) -> None:
        super().__init__()
        self.register_buffer("weight", weight.detach())
        self.register_buffer("bias", None if bias is None else bias.detach())
        self.post = post
        self._packed: dict[Hashable, torch.Tensor] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": {}}

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self._packed = {}
        return super()._apply(fn, recurse)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._packed = {}
        super()._load_from_state_dict(*args, **kwargs)

    def _weight_for(self, x: torch.Tensor) -> torch.Tensor:
        key = (x.shape, torch.get_num_threads())
        packed = self._packed.get(key)
        if packed is None:
            if len(self._packed) >= _SHAPES_KEPT:
                self._packed = {}
            with torch.no_grad():
                packed = self._packed[key] = self.pack(x)
        return packed

    def pack(self, x: torch.Tensor) -> torch.Tensor:
        """The weight laid out for inputs like ``x``."""
        raise RuntimeError(f"{type(self).__name__} does not say how to pack its weight")

    def suits(self, x: torch.Tensor) -> bool:
        """Whether the packed kernel takes this input: float32 on CPU, and no gradient is wanted."""
        return (
            x.dtype is torch.float32
            and x.device.type == "cpu"
            and self.weight.dtype is torch.float32
            and not (x.requires_grad and torch.is_grad_enabled())
            and x.numel() > 0
        )


class PackedConv2d(_Packed):
    """``post(conv2d(x) [+ other])`` with channels-last results.

    Shapes: ``x [N, C, H, W]``, ``other`` as the result ``[N, C', H', W']``.
    """

    def __init__(self, conv: nn.Conv2d, post: PostOp = NONE) -> None:
        super().__init__(conv.weight, conv.bias, post)
        self.stride, self.dilation, self.groups = conv.stride, conv.dilation, conv.groups
        self.padding: Any = conv.padding
        self._where = (self.padding, self.stride, self.dilation, self.groups)
        self._post = (post.name, list(post.scalars), post.algorithm)

    def pack(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.mkldnn._reorder_convolution_weight(
            self.weight, self.padding, self.stride, self.dilation, self.groups, x.shape
        )

    def forward(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        if not self.suits(x) or x.dim() != 4 or (other is not None and other.shape != self.result_shape(x)):
            return self.plain(x, other)
        x = x.contiguous(memory_format=torch.channels_last)
        if other is None:
            return torch.ops.mkldnn._convolution_pointwise.default(
                x, self._weight_for(x), self.bias, *self._where, *self._post
            )
        name, scalars, algorithm = self._post
        after = None if name == "none" else name
        return torch.ops.mkldnn._convolution_pointwise.binary(
            x,
            other.contiguous(memory_format=torch.channels_last),
            self._weight_for(x),
            self.bias,
            *self._where,
            "add",
            None,
            after,
            scalars,
            algorithm,
        )

    def into(self) -> PackedConv2dInto:
        """The same layer, summing in place; it shares the weight and its packed copies."""
        made = PackedConv2dInto.__new__(PackedConv2dInto)
        made.__dict__ = {**self.__dict__, "_buffers": dict(self._buffers)}
        return made

    def plain(self, x: torch.Tensor, other: torch.Tensor | None) -> torch.Tensor:
        """The same by ordinary operators."""
        y = F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
        return self.post(y if other is None else y + other)

    def result_shape(self, x: torch.Tensor) -> tuple[int, ...]:
        """The shape of the result for an input like ``x``."""
        sizes = (
            (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, pad, stride, dilation in zip(
                x.shape[2:], self.weight.shape[2:], self.padding, self.stride, self.dilation, strict=True
            )
        )
        return (x.shape[0], self.weight.shape[0], *sizes)

    def extra_repr(self) -> str:
        out, inner, *kernel = self.weight.shape
        return f"{inner * self.groups}, {out}, kernel_size={tuple(kernel)}, stride={self.stride}, post={self.post.name}"


class PackedConv2dInto(PackedConv2d):
    """The same, computed into ``other``, whose value is lost: for a value that is not read any more.

    The sum then needs no memory of its own, and reads and writes the same cache lines.
    """

    writes_arguments = (1,)
    """For `fxlib.passes.calls.writes_to`."""

    def forward(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        if other is None or not self.suits(x) or x.dim() != 4 or other.shape != self.result_shape(x):
            return self.plain(x, other)
        name, scalars, algorithm = self._post
        x = x.contiguous(memory_format=torch.channels_last)
        return torch.ops.mkldnn._convolution_pointwise_.binary(
            other.contiguous(memory_format=torch.channels_last),
            x,
            self._weight_for(x),
            self.bias,
            *self._where,
            "add",
            None,
            None if name == "none" else name,
            scalars,
            algorithm,
        )


class PackedLinear(_Packed):
    """``post(linear(x))``. Shapes: ``x [..., in]``, result ``[..., out]``."""

    def __init__(self, linear: nn.Linear, post: PostOp = NONE) -> None:
        super().__init__(linear.weight, linear.bias, post)

    def pack(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.mkldnn._reorder_linear_weight(self.weight, x.numel() // x.shape[-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.suits(x) or x.dim() < 2:
            return self.post(F.linear(x, self.weight, self.bias))
        return torch.ops.mkldnn._linear_pointwise(
            x, self._weight_for(x), self.bias, self.post.name, list(self.post.scalars), self.post.algorithm
        )

    def extra_repr(self) -> str:
        return f"{self.weight.shape[1]}, {self.weight.shape[0]}, post={self.post.name}"
