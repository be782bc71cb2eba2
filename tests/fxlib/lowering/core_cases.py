"""Calls of the ATen operators of torch.export's core set: each overload with arguments, or why it is left out.

`CORE` has the calls, `LEFT` the overloads that no engine takes, by the rule that says so, and `NO_TENSOR` those that
give no tensor, so that there is nothing to convert.
"""

from __future__ import annotations

from typing import Any

import torch

from .cases import Case, t

_FIRST = ("native_dropout", "_native_batch_norm_legit_no_training", "_native_batch_norm_legit", "native_group_norm",
          "native_layer_norm", "_embedding_bag")  # fmt: skip
_I = torch.int64
_B = torch.bool
CORE: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {}


def core(names: str, *args: Any, **kwargs: Any) -> None:
    """A call of each of these overloads; where no overload is named it is ``default``.

    Of those in `_FIRST` the first result is compared; an engine does not give the others, which gradients need.
    """
    for name in names.split():
        CORE.setdefault(name if "." in name else f"{name}.default", []).append((args, kwargs))


x, y, p, i, j, b = t(2, 5), t(2, 5), t(2, 5, positive=True), t(2, 5, dtype=_I), t(2, 5, dtype=_I), t(2, 5, dtype=_B)
image, volume = t(2, 4, 8, 8), t(1, 2, 4, 4, 4)
small = t(2, 5).tanh() * 0.9

# element by element
core(
    "abs asinh atan ceil cos erf exp expm1 floor neg reciprocal relu round sigmoid sign sin sinh cosh tan tanh trunc", x
)
core("log log10 log1p log2 rsqrt sqrt", p)
core("acos asin atanh", small)
core("acosh", p + 1)
core("abs neg sign", i)
core("bitwise_not logical_not", b)
core("bitwise_not", i)
core("isinf isnan", torch.tensor([1.0, float("inf"), float("nan"), -float("inf")]))
core("atan2", t(4, 5), t(4, 5))
core("atan2", torch.tensor([0.0, 0.0, 1.0, -1.0, 0.0]), torch.tensor([0.0, -1.0, 0.0, 0.0, 2.0]))
core("gelu", x)
core("gelu", x, approximate="tanh")
core("elu", x, 0.7)
core("hardtanh", x, -0.3, 0.4)
core("leaky_relu", x, 0.2)
core("clamp", x, -0.5, 0.5)
core("clamp", x, None, 0.1)
core("clamp.Tensor", x, y - 1, y)
core("_softmax _log_softmax", x, -1, False)
core("native_dropout", x, 0.5, False)

# two operands
core("add.Tensor sub.Tensor", x, y)
core("add.Tensor sub.Tensor", x, y, alpha=2)
core("add.Scalar sub.Scalar", x, 2)
core("add.Scalar", i, 2)
core("mul.Tensor maximum minimum", x, y)
core("mul.Tensor", i, x)
core("mul.Scalar", x, 0.5)
core("div.Tensor fmod.Tensor remainder.Tensor", x, p)
core("div.Tensor", i, t(2, 5, dtype=_I, positive=True))
core("div.Scalar", x, 3)
core("div.Tensor_mode", x, p, rounding_mode="floor")
core("div.Tensor_mode", i, t(2, 5, dtype=_I, positive=True), rounding_mode="trunc")
core("div.Scalar_mode", x, 0.3, rounding_mode="trunc")
core("fmod.Scalar remainder.Scalar", x, 0.7)
core("remainder.Scalar", i, 3)
core("pow.Tensor_Tensor", p, x)
core("pow.Tensor_Scalar", x, 2)
core("pow.Tensor_Scalar", p, 1.7)
core("pow.Scalar", 2, x)
core("eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor", i, j)
core("eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar", x, 0.1)
core("bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor", i, j)
core("bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor logical_and logical_or logical_xor", b, t(5, dtype=_B))
core("bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar", i, 3)
core("where.self", b, x, y)
core("masked_scatter", x, b, t(3, 5))
core("copy", x, t(5))
core("fill.Scalar", x, 2.5)

# products
core("mm", t(2, 4), t(4, 5))
core("bmm", t(2, 3, 4), t(2, 4, 5))
core("addmm", t(5), t(2, 4), t(4, 5), beta=0.5, alpha=2)
core("convolution", image, t(6, 4, 3, 3), t(6), [2, 1], [1, 0], [1, 2], False, [0, 0], 1)
core("convolution", image, t(4, 3, 2, 2), None, [2, 2], [0, 0], [1, 1], True, [1, 1], 2)
core("convolution", t(2, 4, 9), t(6, 2, 3), t(6), [1], [1], [1], False, [0], 2)
core("convolution", volume, t(3, 2, 2, 2, 2), t(3), [1, 1, 1], [0, 0, 0], [1, 1, 1], False, [0, 0, 0], 1)
core("_cdist_forward", t(2, 3, 4), t(2, 5, 4), 2.0, None)
core("_cdist_forward", t(3, 4), t(5, 4), 3.0, None)
core("_pdist_forward", t(4, 3), 1.0)

# normalization
mean, var = t(4), t(4, positive=True)
core("_native_batch_norm_legit_no_training", image, t(4), t(4), mean, var, 0.1, 1e-5)
core("_native_batch_norm_legit", image, t(4), t(4), mean, var, False, 0.1, 1e-5)
core("_native_batch_norm_legit.no_stats", image, t(4), t(4), True, 0.1, 1e-5)
core("native_group_norm", image, t(4), t(4), 2, 4, 64, 2, 1e-5)
core("native_layer_norm", x, [5], t(5), t(5), 1e-5)

# pooling and resizing
core("_adaptive_avg_pool2d", image, [4, 2])
core("_adaptive_avg_pool3d", volume, [2, 2, 2])
core("adaptive_avg_pool1d", t(2, 4, 8), [4])
core("avg_pool1d", t(2, 4, 9), [3], [2])
core("avg_pool2d", image, [3, 3], [2, 2], [1, 1])
core("avg_pool2d", image, [3, 3], [2, 2], [1, 1], True)
core("avg_pool2d", image, [2, 2], [2, 2], [0, 0], False, True, 3)
core("avg_pool3d", volume, [2, 2, 2])
core("max_pool2d_with_indices", image, [3, 3], [2, 2], [1, 1])
core("max_pool3d_with_indices", volume, [2, 2, 2])
core("upsample_bilinear2d.vec", image, [5, 11], False, None)
core("upsample_bilinear2d.vec", image, None, True, [2.0, 2.0])
core("upsample_bilinear2d.vec", image, None, False, [0.45, 1.3])
core("upsample_nearest2d.vec", image, None, [2.0, 3.0])
core("upsample_nearest2d.vec", image, None, [0.45, 1.3])
core("grid_sampler_2d", image, t(2, 5, 6, 2).tanh(), 0, 0, False)
core("grid_sampler_2d", image, t(2, 5, 6, 2).tanh(), 1, 1, True)
core("constant_pad_nd", image, [1, 2, 0, 1], 0.5)
core("reflection_pad1d", t(2, 4, 9), [2, 1])
core("reflection_pad2d replication_pad2d", image, [2, 1, 0, 3])
core("reflection_pad3d replication_pad3d", volume, [1, 1, 0, 1, 2, 0])
core("col2im", t(2, 12, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1])

# reductions
core("amax amin", x, [-1], True)
core("any", b)
core("any.dim", b, -1)
core("any.dims", b, [0, 1], True)
core("argmax argmin", x, 1)
core("max.dim min.dim", x, 1, True)
core("mean", x)
core("mean.dim", image, [2, 3], True)
core("prod", x)
core("prod.dim_int", x, 1)
core("sum.dim_IntList", i, [1])
core("sum.dim_IntList", x, None)
core("var.correction", x, [1], correction=1, keepdim=True)
core("var.dim", x, [1], False)
core("cumsum", x, 1)
core("sort", x, 1, True)
core("topk", x, 3)

# shapes
core("alias clone", x)
core("_to_copy", x, dtype=_I)
core("cat", [x, y], 1)
core("expand", t(2, 1), [2, 4])
core("flip", image, [2, 3])
core("permute", image, [0, 2, 3, 1])
core("repeat", x, [1, 2])
core("slice.Tensor", x, 1, 1, 4, 2)
core("slice_scatter", x, t(2, 2), 1, 1, 3)
core("slice_scatter", x, t(2, 2), 1, 0, 4, 2)
core("split_with_sizes", x, [2, 3], 1)
core("squeeze.dim", t(2, 1, 3), 1)
core("squeeze.dims", t(2, 1, 3, 1), [1, 3])
core("unsqueeze", x, 1)
core("view", image, [2, 4, 64])
core("diagonal", t(2, 3, 4), 1, 1, 2)
core("diagonal", t(4, 3), -1)
core("as_strided", t(4, 5), [2, 3], [10, 2], 1)

# selection
core("embedding", t(10, 4), t(2, 3, dtype=_I, low=0, high=10))
core("_embedding_bag", t(10, 4), t(7, dtype=_I, low=0, high=10), torch.tensor([0, 3, 3]), False, 0)
core("_embedding_bag", t(10, 4), t(7, dtype=_I, low=0, high=10), torch.tensor([0, 3, 5]), False, 1)
core("gather", x, 1, t(2, 3, dtype=_I, low=0, high=5))
core("index.Tensor", image, [None, torch.tensor([0, 2]), torch.tensor([1, 3])])
core("index_put", t(4, 5), [torch.tensor([0, 2])], t(2, 5))
core("index_put", t(4, 5), [torch.tensor([0, 2, 0])], t(3, 5), True)
core("index_put", t(4, 5, 3), [None, torch.tensor([[0, 2]]), torch.tensor([[1], [2]])], t(4, 2, 2))
core("index_put", x, [b], torch.tensor(1.5))
core("index_put", t(2, 5, 3), [b], t(3))
core("index_select", image, 1, torch.tensor([0, 3]))
core("scatter.src", x, 1, torch.tensor([[0, 2], [1, 4]]), t(2, 2))
core("scatter.value", x, 1, torch.tensor([[0, 2], [1, 4]]), 7.0)
core("scatter_add", x, 1, torch.tensor([[0, 0], [1, 4]]), t(2, 2))
for _how in ("sum", "prod", "mean", "amax", "amin"):
    core("scatter_reduce.two", x, 1, torch.tensor([[0, 0, 2], [1, 4, 1]]), t(2, 3), _how)
    core("scatter_reduce.two", x, 1, torch.tensor([[0, 0, 2], [1, 4, 1]]), t(2, 3), _how, include_self=False)
core("select.int", x, 1, 2)
core("select_scatter", x, t(2), 1, 2)

# creation
core("arange.start_step", 1, 9, 2)
core("full", [2, 3], 2.5)
core("full_like", x, 2)
core("scalar_tensor", 2.5)

LEFT = {
    "FX405": "_adaptive_avg_pool2d_backward avg_pool2d_backward convolution_backward embedding_dense_backward "
    "max_pool2d_with_indices_backward native_group_norm_backward native_layer_norm_backward",
    "FX499": "_fft_c2r _fft_r2c",
    "FX402": "nonzero",
    "FX406": "rand randn randperm",
}
"""Rule -> the overloads that stay in PyTorch for it."""
UNSEEN = {
    "empty.memory_format": "its result is not determined", "empty_strided.default": "its result is not determined",
    "atan2.out": "torch.export gives no operator that writes to `out`",
}  # fmt: skip
NO_TENSOR = (
    "resize_",
    "_local_scalar_dense",
    "sym_is_contiguous",
    "sym_numel",
    "sym_size",
    "sym_storage_offset",
    "sym_stride",
)


def _case(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Case:
    packet, _, overload = name.rpartition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload)
    places = [place for place, value in enumerate(args) if isinstance(value, torch.Tensor)]

    def call(*tensors: torch.Tensor) -> Any:
        given = list(args)
        for place, value in zip(places, tensors, strict=True):
            given[place] = value
        result = operator(*given, **kwargs)
        return result[0] if packet in _FIRST else result

    shown = ", ".join([*(_shown(value) for value in args), *(f"{k}={_shown(v)}" for k, v in kwargs.items())])
    return Case(packet, f"aten.{name}({shown})", call, tuple(args[place] for place in places), False)


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)


CORE_CASES = [_case(name, args, kwargs) for name, calls in CORE.items() for args, kwargs in calls]
