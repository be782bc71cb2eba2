"""Casts, and operators without effect at inference: copies, devices, dropout."""

from __future__ import annotations

import torch
import torch.nn as nn

from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import aten, module, named, of_module, op, refused


def _cast_method(dtype):
    return lambda ctx, input, memory_format=None: ctx.cast(input, dtype)


for _name, _dtype in {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "int": torch.int32,
    "long": torch.int64,
    "bool": torch.bool,
    "byte": torch.uint8,
    "char": torch.int8,
    "short": torch.int16,
}.items():
    op(_name)(_cast_method(_dtype))


@op("to", "type", "type_as", "_to_copy", "convert_element_type", "to_copy")
def to(ctx, input, *args, dtype=None, **_):
    # Devices and memory formats have no meaning in ONNX; only the element type counts, which the example output has.
    return ctx.cast(input, ctx.fake.dtype)


@op("clone", "contiguous", "detach", "alias", "requires_grad", "lift_fresh_copy", "cpu", "cuda", "data", "positive")
def identity(ctx, input, *args, **kwargs):
    return input


@op("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
def dropout(ctx, input, p=0.5, training=True, inplace=False, train=None):
    if (training if train is None else train) and p:
        raise Unsupported(
            "dropout in training mode is random; pass training=self.training, and call .eval() on the model", "FX405"
        )
    return input


module(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)(
    of_module(dropout, "p", "training")
)


@aten("native_dropout")
def native_dropout(ctx, input, p, train):
    return dropout(ctx, input, p, train), None


@aten("copy")
def copy(ctx, input, src, non_blocking=False):
    return ctx.op("Expand", ctx.cast(src, ctx.dtype(input)), ctx.shape(ctx.sizes(input)))


refused(
    "it computes a gradient, and a lowered model is for inference", "FX405",
    "_adaptive_avg_pool2d_backward", "avg_pool2d_backward", "convolution_backward", "embedding_dense_backward",
    "max_pool2d_with_indices_backward", "native_group_norm_backward", "native_layer_norm_backward",
)  # fmt: skip
refused("ONNX has no complex numbers", "FX499", "_fft_r2c", "_fft_c2r", "_fft_c2c", "view_as_complex", "view_as_real")


@named("torchvision.ops.stochastic_depth.stochastic_depth")
def stochastic_depth(ctx, input, p, mode, training=True):
    return dropout(ctx, input, p, training)


@module(nn.Identity)
def identity_module(ctx, m, input, *args, **kwargs):
    return input
