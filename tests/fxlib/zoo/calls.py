"""Models of timm and transformers with typical calls, small and with random weights: a model and an example call.

The list was made before any of its models was lowered: for timm one model of each of 30 families, for transformers
the architectures of `models` in their default settings, and more that many people use.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .models import SMALL, TRANSFORMERS, timm_models


@dataclass(frozen=True)
class Call:
    """A model and its arguments."""

    family: str
    name: str
    build: Callable[[], torch.nn.Module]
    inputs: Callable[[torch.nn.Module], dict[str, Any]]

    def __str__(self) -> str:
        return f"{self.family}:{self.name}"


_TIMM = {
    "resnet18": 64, "resnext50_32x4d": 64, "seresnet50": 64, "densenet121": 64, "efficientnet_b0": 64,
    "mobilenetv2_050": 64, "mobilenetv3_small_050": 64, "mobilenetv4_conv_small": 64, "fbnetv3_b": 64,
    "regnetz_b16": 64, "regnety_004": 64, "vovnet39a": 64, "lcnet_050": 64, "ghostnet_100": 64, "dpn48b": 64,
    "res2net50_26w_4s": 64, "repvgg_a0": 64, "nfnet_f0": 64, "convnext_atto": 64, "vit_tiny_patch16_224": 224,
    "deit_tiny_patch16_224": 224, "swin_tiny_patch4_window7_224": 224, "mixer_s32_224": 224, "levit_128s": 224,
    "efficientformer_l1": 224, "poolformer_s12": 64, "xcit_nano_12_p8_224": 224, "edgenext_xx_small": 96,
    "maxvit_rmlp_pico_rw_256": 256, "lambda_resnet26t": 256,
}  # fmt: skip

_VISION = {**SMALL, "image_size": 32, "patch_size": 8}
_MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2": ("Qwen2", {**SMALL, "num_key_value_heads": 2}),
    "mistral": ("Mistral", {**SMALL, "num_key_value_heads": 2}),
    "gemma2": ("Gemma2", {**SMALL, "num_key_value_heads": 2, "head_dim": 8}),
    "phi": ("Phi", SMALL),
    "gpt_neox": ("GPTNeoX", SMALL),
    "falcon": ("Falcon", {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99}),
    "mixtral": ("Mixtral", {**SMALL, "num_key_value_heads": 2, "num_local_experts": 4}),
    "bart": (
        "Bart",
        {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "vocab_size": 99,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64},
    ),
    "whisper": (
        "Whisper",
        {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "vocab_size": 99,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_mel_bins": 20,
         "max_source_positions": 50, "max_target_positions": 32, "pad_token_id": 0},
    ),
    "clip_text": ("CLIPText", SMALL),
    "deberta_v2": ("DebertaV2", {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "convbert": ("ConvBert", {**SMALL, "embedding_size": 32}),
    "beit": ("Beit", _VISION),
    "convnextv2": ("ConvNextV2", {"hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1]}),
    "mamba": ("Mamba", {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 99, "state_size": 4}),
}  # fmt: skip


def timm_calls() -> Iterator[Call]:
    """One model of each of 30 families."""
    builders = {entry.name: entry.build for entry in timm_models(every=True)}
    for name, size in _TIMM.items():
        image = lambda model, size=size: {"x": torch.randn(1, 3, size, size)}  # noqa: E731
        yield Call("timm", name, functools.partial(_awake, builders[name]), image)


def _awake(build: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """A model with values in the weights that start as zeros, such as those of a head or of a residual branch's last
    norm: without, the branch, or all of the model, would compute nothing, and comparisons would say nothing."""
    model = build()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.numel() > 1 and not name.endswith("bias") and not weight.any():
                flat = weight.numel() == max(weight.shape)
                weight.uniform_(0.5, 1) if flat else weight.normal_(std=0.02)
    return model


def transformers_calls() -> Iterator[Call]:
    """41 architectures, two narrow layers each."""
    for name, (prefix, settings) in {**TRANSFORMERS, **_MORE}.items():
        yield Call("transformers", name, functools.partial(_build, prefix, settings), _inputs)


def _build(prefix: str, settings: dict[str, Any]) -> torch.nn.Module:
    import transformers

    return getattr(transformers, f"{prefix}Model")(getattr(transformers, f"{prefix}Config")(**settings)).eval()


def _inputs(model: Any) -> dict[str, Any]:
    """A batch of two sentences with a mask, of images, or of sound, as the model's main input asks."""
    parameters = inspect.signature(model.forward).parameters
    ids = lambda length: torch.randint(4, 90, (2, length))  # noqa: E731
    main, config = model.main_input_name, model.config
    if main == "input_ids":
        given = {"input_ids": ids(12)}
        if "attention_mask" in parameters:
            given["attention_mask"] = torch.ones(2, 12, dtype=torch.int64)
    elif main == "pixel_values":
        size = getattr(config, "image_size", 64)
        given = {"pixel_values": torch.randn(1, getattr(config, "num_channels", 3), size, size)}
    elif main == "input_features":
        given = {"input_features": torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions)}
    else:
        given = {main: torch.randn(1, 4000)}
    if "decoder_input_ids" in parameters:
        given["decoder_input_ids"] = ids(7)[: len(next(iter(given.values())))]
    return given
