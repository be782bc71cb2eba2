"""Requirements of torch's layers on their input."""

from __future__ import annotations

import re
from typing import Any

from .tensors import BATCH, LENGTH, Spec

SPATIAL = {1: (64, 16, 128, 1000), 2: (64, 32, 28, 224, 96, 128, 256, 299, 512), 3: (16, 32, 8, 64)}
"""Sizes to try, by number of spatial dimensions; a classifier after a flatten accepts only one."""


class Need:
    """``channels`` at dimension ``at`` of a tensor of one of these ranks, the usual one first."""

    __slots__ = ("at", "channels", "high", "ranks")

    def __init__(self, channels: int | None, at: int, ranks: tuple[int, ...], high: int = 0) -> None:
        self.channels = channels
        self.at = at
        self.ranks = ranks
        self.high = high

    def spec(self, rank: int | None = None, image: int = 64) -> Spec:
        """A tensor that fits."""
        rank = rank if rank is not None and rank in self.ranks else self.ranks[0]
        if self.high:
            return Spec((BATCH, LENGTH)[:rank], "long", self.high)
        if self.at == 1:
            size = SPATIAL[max(1, min(3, rank - 2))][0] if rank != 4 else image
            shape = [BATCH, self.channels or 3, *([size] * (rank - 2))]
        else:
            shape = [BATCH, *([LENGTH] if rank == 3 else [image] * (rank - 2)), self.channels or 64][-rank:]
        return Spec(tuple(shape))


def need(layer: Any, index: Any = 0) -> Need | None:
    """The need of a layer of torch for its argument, by position or name; None if it accepts anything."""
    from torch import nn

    if isinstance(layer, nn.modules.conv._ConvNd):
        rank = len(layer.kernel_size) + 2
        return Need(layer.in_channels, 1, (rank,))
    if isinstance(layer, nn.Linear):
        return Need(layer.in_features, -1, (3, 2, 4))
    if isinstance(layer, (nn.Embedding, nn.EmbeddingBag)):
        return Need(None, -1, (2, 1), layer.num_embeddings)
    if isinstance(layer, nn.RNNBase):
        if index in (0, "input"):
            return Need(layer.input_size, -1, (3,))
        return None
    if isinstance(layer, nn.RNNCellBase):
        return Need(layer.input_size if index in (0, "input") else layer.hidden_size, -1, (2,))
    if isinstance(layer, nn.MultiheadAttention):
        return Need(layer.embed_dim, -1, (3,)) if index in (0, 1, 2, "query", "key", "value") else None
    if isinstance(
        layer, (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.TransformerDecoder, nn.TransformerDecoderLayer)
    ):
        inner: Any = layer.layers[0] if isinstance(layer, (nn.TransformerEncoder, nn.TransformerDecoder)) else layer
        return Need(inner.self_attn.embed_dim, -1, (3,))
    if isinstance(layer, nn.LayerNorm):
        return Need(layer.normalized_shape[-1], -1, (2 + len(layer.normalized_shape), 2, 4))
    if isinstance(layer, nn.GroupNorm):
        return Need(layer.num_channels, 1, (4, 3, 2, 5))
    match = re.fullmatch(r"(?:Sync)?(?:Lazy)?(?:BatchNorm|InstanceNorm)([123])?d?", type(layer).__name__)
    if match:
        count = int(match[1] or 2)
        return Need(layer.num_features, 1, (2, 3) if count == 1 else (count + 2,))
    match = re.fullmatch(
        r"(?:Adaptive)?(?:Max|Avg|LP)Pool([123])d|(?:Reflection|Replication|Zero|Constant)Pad([123])d",
        type(layer).__name__,
    )
    if match:
        return Need(None, 1, (int(match[1] or match[2]) + 2,))
    if isinstance(layer, (nn.PixelShuffle, nn.PixelUnshuffle)):
        square = layer.upscale_factor**2 if isinstance(layer, nn.PixelShuffle) else 3
        return Need(square * 4, 1, (4,))
    return None


def of_weight(function: str, shape: tuple[int, ...]) -> Need | None:
    """The need of a torch function with this weight."""
    if function in ("conv1d", "conv2d", "conv3d") and len(shape) == int(function[4]) + 2:
        return Need(shape[1], 1, (len(shape),))
    if function == "linear" and len(shape) == 2:
        return Need(shape[1], -1, (3, 2))
    if function == "embedding" and len(shape) == 2:
        return Need(None, -1, (2, 1), shape[0])
    return None
