"""Models that were not written for these tests: torchvision's, timm's, and transformers' with small configurations.

Each is a name and a function that builds it, on the meta device, without weights, where that is possible.
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

#: Tests take one model of each kind of architecture, and with ``FXLENS_ZOO=all`` all that they list.
WHOLE = os.environ.get("FXLENS_ZOO") == "all"


@dataclass(frozen=True)
class Entry:
    """A model of the zoo; ``concrete_args`` as for ``symbolic_trace``."""

    family: str
    name: str
    build: Callable[[], torch.nn.Module]
    concrete_args: Callable[[torch.nn.Module], dict[str, Any] | None] = lambda model: None

    def __str__(self) -> str:
        return f"{self.family}:{self.name}"


@functools.cache
def _torchvision() -> Any:
    """torchvision; where its compiled part does not load, with operators declared that its Python part refers to."""
    try:
        import torchvision
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        import torchvision

        torchvision._declared_operators = library
    return torchvision


def on_meta(build: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """What ``build`` gives, in evaluation mode, on the meta device, or on the CPU where its constructor computes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with torch.device("meta"):
                return build().eval()
        except (NotImplementedError, RuntimeError, ValueError):
            return build().eval()


def torchvision_models() -> Iterator[Entry]:
    """Every model of torchvision's registry: classification, detection, segmentation, video, quantizable."""
    torchvision = _torchvision()
    for name in torchvision.models.list_models():
        builder = torchvision.models.get_model_builder(name)
        kwargs: dict[str, Any] = {"weights": None}
        parameters = inspect.signature(builder).parameters
        if "weights_backbone" in parameters:
            kwargs["weights_backbone"] = None
        if name in ("googlenet", "inception_v3"):
            kwargs["init_weights"] = False
        yield Entry("torchvision", name, functools.partial(torchvision.models.get_model, name, **kwargs))


def timm_models(every: bool = False) -> Iterator[Entry]:
    """One model of each module of timm, the one with the shortest name among the small; or every model."""
    _torchvision()
    import timm

    for module in timm.list_modules():
        names = timm.list_models(module=module)
        if not names:
            continue
        small = [name for name in names if any(word in name for word in ("tiny", "nano", "small", "atto", "_xs", "s0"))]
        for name in names if every else [min(small or names, key=lambda name: (len(name), name))]:
            yield Entry("timm", name, functools.partial(timm.create_model, name, pretrained=False))


# What a configuration needs to be small, and classes of transformers by architecture.
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 99,
    "max_position_embeddings": 64,
}
TRANSFORMERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", SMALL),
    "distilbert": ("DistilBert", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 99}),
    "roberta": ("Roberta", SMALL),
    "electra": ("Electra", {**SMALL, "embedding_size": 32}),
    "albert": ("Albert", {**SMALL, "embedding_size": 32}),
    "mobilebert": ("MobileBert", {**SMALL, "embedding_size": 32, "intra_bottleneck_size": 32}),
    "megatron_bert": ("MegatronBert", SMALL),
    "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "n_positions": 64}),
    "gpt_neo": (
        "GPTNeo",
        {
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "vocab_size": 99,
            "attention_types": [[["global", "local"], 1]],
            "max_position_embeddings": 64,
        },
    ),
    "opt": ("OPT", {**SMALL, "ffn_dim": 64, "word_embed_proj_dim": 32}),
    "t5": ("T5", {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 99}),
    "llama": ("Llama", {**SMALL, "num_key_value_heads": 4}),
    "vit": ("ViT", {**SMALL, "image_size": 32, "patch_size": 8}),
    "swin": (
        "Swin",
        {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4},
    ),
    "segformer": ("Segformer", {"hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1]}),
    "resnet": ("ResNet", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}),
    "convnext": ("ConvNext", {"hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1]}),
    "regnet": ("RegNet", {"embedding_size": 8, "hidden_sizes": [8, 8], "depths": [1, 1], "groups_width": 4}),
    "mobilenet_v2": ("MobileNetV2", {}),
    "poolformer": ("PoolFormer", {"hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1]}),
    "mpnet": ("MPNet", SMALL),
    "xglm": ("XGLM", {"d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 64, "vocab_size": 99}),
    "bloom": ("Bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99}),
    "wav2vec2": ("Wav2Vec2", {**SMALL, "conv_dim": [8, 8], "conv_stride": [2, 2], "conv_kernel": [3, 3]}),
    "deit": ("DeiT", {**SMALL, "image_size": 32, "patch_size": 8}),
    "dinov2": ("Dinov2", {**SMALL, "image_size": 32, "patch_size": 8}),
}


def transformers_models() -> Iterator[Entry]:
    """The base model of architectures of transformers, two narrow layers each."""
    _torchvision()
    import transformers

    def build(prefix: str, settings: dict[str, Any]) -> torch.nn.Module:
        config = getattr(transformers, f"{prefix}Config")(**settings)
        config.return_dict = False
        config._attn_implementation = "eager"
        if hasattr(config, "use_cache"):
            config.use_cache = False
        return getattr(transformers, f"{prefix}Model")(config)

    def only_first(model: torch.nn.Module) -> dict[str, Any]:
        parameters = list(inspect.signature(model.forward).parameters.values())
        return {
            p.name: p.default
            for p in parameters[1:]
            if p.default is not inspect.Parameter.empty and p.kind is not inspect.Parameter.VAR_KEYWORD
        }

    for name, (prefix, settings) in TRANSFORMERS.items():
        yield Entry("transformers", name, functools.partial(build, prefix, settings), only_first)


def transformers_parts() -> Iterator[Entry]:
    """Of each of these models one module of each class: layers, embeddings, attention, heads."""
    for entry in transformers_models():
        try:
            model = on_meta(entry.build)
        except (ImportError, OSError):
            continue
        seen = set()
        for path, module in model.named_modules():
            if path and type(module) not in seen and type(module).__module__.startswith("transformers."):
                seen.add(type(module))
                yield Entry(entry.family, f"{entry.name}.{path}", functools.partial(_part, model, path))


def _part(model: torch.nn.Module, path: str) -> torch.nn.Module:
    """As untouched as the model is, of which nothing else is used."""
    return copy.deepcopy(model.get_submodule(path))
