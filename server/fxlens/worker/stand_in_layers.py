"""Stand-ins for common layers and helpers of timm, mmcv and mmengine, if these are not installed: drop path, patch
embedding, builders of layers by their configuration, initializers, registries."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

_TUPLE = re.compile(r"_?to_(\d)tuple|_(single|pair|triple|quadruple)")
_COUNTS = {"single": 1, "pair": 2, "triple": 3, "quadruple": 4}
_KINDS = "normal|uniform|constant|zeros|ones|xavier|kaiming|orthogonal|lecun|variance_scaling"
_TABLE = re.compile(
    r"([A-Z]+_)*(LAYERS|MODELS|BACKBONES|HEADS|NECKS|LOSSES|DETECTORS|SEGMENTORS|CLASSIFIERS|(EN|DE)?CODERS|EXTRACTORS)"
)
_OF_INITIALIZERS = re.compile(r"\.(weight_)?init(s|ializers?|ialization)?\.[a-z_]+$")
"""Functions of modules with only initializers, ``torch_geometric.nn.inits.glorot``."""
_INITIALIZER = re.compile(
    rf"(\w+_)?({_KINDS})(_normal|_uniform|_tf)*(_|_init)|c2_(msra|xavier)_fill|"
    r"(\w+_)?init(iali[sz]e)?_(\w+_)?(weights?|bias(es)?|param(eter)?s?)|(\w+_)?(weights?|bias|params?)_init(iali[sz]er)?"
)
_OF_TIMM = ("PatchEmbed", "Mlp", "Attention")  # those of other packages have other signatures
_NORMS = {
    "BN": "BatchNorm2d", "BN1d": "BatchNorm1d", "BN2d": "BatchNorm2d", "BN3d": "BatchNorm3d", "SyncBN": "SyncBatchNorm",
    "GN": "GroupNorm", "LN": "LayerNorm", "IN": "InstanceNorm2d",
}  # fmt: skip
_SHORT = {"SyncBN": "bn", "LN": "ln", "GN": "gn", "IN": "in"}


def function(name: str) -> Callable[..., Any] | None:
    """The implementation of a function or class of this dotted name; None if unknown.

    Unsupported options raise TypeError, AttributeError or KeyError.
    """
    last = name.rpartition(".")[2]
    of_tuple = _TUPLE.fullmatch(last)
    if of_tuple is not None:
        count = int(of_tuple[1]) if of_tuple[1] else _COUNTS[of_tuple[2]]
        return lambda value: tuple(value) if _is_row(value) else (value,) * count
    if _INITIALIZER.fullmatch(last) or _OF_INITIALIZERS.search(name):
        return lambda given=None, *_, **__: given  # graphs do not depend on the values of weights
    package = name.partition(".")[0]
    own = last in _OF_TIMM if package == "timm" else package.startswith("mm") and last not in _OF_TIMM
    return _known().get(last) if own or last in ("DropPath", "drop_path") else None


def registry(name: str) -> Any:
    """The stand-in for the registry class of mmcv, mmengine, fvcore and detectron2, or for one registry
    (``UPSAMPLE_LAYERS``), by dotted name; None for other names."""
    last = name.rpartition(".")[2]
    if not name.startswith("mm"):
        return _Registry if name.endswith(".registry.Registry") else None
    return _Registry if last == "Registry" else _table(last) if _TABLE.fullmatch(last) else None


class _Registry:
    """Classes by name, built from configurations with a ``type``."""

    def __init__(self, name: str = "", build_func: Any = None, parent: _Registry | None = None, **_: Any) -> None:
        self.name, self.parent = name, parent
        self.module_dict: dict[str, Any] = {}

    def register_module(self, name: Any = None, force: bool = False, module: Any = None) -> Any:
        """Decorator, with or without arguments."""
        if isinstance(name, type):
            name, module = None, name
        if module is None:
            return functools.partial(self._register, name)
        return self._register(name, module)

    def register(self, module: Any = None) -> Any:
        """Decorator, as in fvcore."""
        return self.register_module if module is None else self.register_module(module=module)

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def _register(self, name: Any, module: Any) -> Any:
        for each in [name] if isinstance(name, str) else name or [module.__name__]:
            self.module_dict[each] = module
        return module

    def get(self, key: str) -> Any:
        """The class of this name, here or in a parent registry; a layer of torch if none is registered."""
        from torch import nn

        found = self.module_dict.get(key) or (self.parent.get(key) if isinstance(self.parent, _Registry) else None)
        return found or getattr(nn, key, None)

    def build(self, cfg: Mapping[str, Any], *args: Any, default_args: Any = None, **more: Any) -> Any:
        """An instance. Raises KeyError for an unregistered ``type``."""
        given = {**(default_args or {}), **cfg, **more}
        kind = given.pop("type")
        made = self.get(kind) if isinstance(kind, str) else kind
        if made is None:
            raise KeyError(f"{kind} is not in the {self.name} registry")
        return made(*args, **given)


@functools.cache
def _table(name: str) -> _Registry:
    return _Registry(name)


def _is_row(value: Any) -> bool:
    return isinstance(value, (tuple, list))


@functools.cache
def _known() -> dict[str, Callable[..., Any]]:
    import torch

    plain = (drop_path, build_from_cfg, is_seq_of, is_list_of, is_tuple_of)
    made: list[Any] = [*_vision_layers(), *_configured_layers(), *plain]
    for each in made:
        each.__module__ = torch.nn.__name__ if isinstance(each, type) else __name__
    return {each.__name__: each for each in made}


def _vision_layers() -> tuple[Callable[..., Any], ...]:
    from torch import nn

    class DropPath(nn.Module):
        """Drops whole samples in training."""

        def __init__(self, drop_prob: float | None = 0.0, scale_by_keep: bool = True) -> None:
            super().__init__()
            self.drop_prob, self.scale_by_keep = drop_prob or 0.0, scale_by_keep

        def forward(self, x: Any) -> Any:
            if not self.drop_prob or not self.training:
                return x
            kept = 1 - self.drop_prob
            sizes = (x.shape[0],) + (1,) * (x.ndim - 1)
            return x * x.new_empty(sizes).bernoulli_(kept) / (kept if self.scale_by_keep and kept else 1.0)

    class PatchEmbed(nn.Module):
        """An image as a sequence of patches, (B, C, H, W) to (B, N, D)."""

        def __init__(
            self, img_size: Any = 224, patch_size: Any = 16, in_chans: int = 3, embed_dim: int = 768,
            norm_layer: Any = None, flatten: bool = True, bias: bool = True,
        ) -> None:  # fmt: skip
            super().__init__()
            self.img_size, self.patch_size = [v if _is_row(v) else (v, v) for v in (img_size, patch_size)]
            self.grid_size = tuple(a // b for a, b in zip(self.img_size, self.patch_size, strict=True))
            self.num_patches = self.grid_size[0] * self.grid_size[1]
            self.flatten = flatten
            self.proj = nn.Conv2d(in_chans, embed_dim, self.patch_size, self.patch_size, bias=bias)
            self.norm = norm_layer(embed_dim) if norm_layer else nn.Identity()

        def forward(self, x: Any) -> Any:
            x = self.proj(x)
            return self.norm(x.flatten(2).transpose(1, 2) if self.flatten else x)

    class Mlp(nn.Module):
        """Two linear layers."""

        def __init__(
            self, in_features: int, hidden_features: int | None = None, out_features: int | None = None,
            act_layer: Any = nn.GELU, norm_layer: Any = None, bias: bool = True, drop: float = 0.0,
        ) -> None:  # fmt: skip
            super().__init__()
            hidden = hidden_features or in_features
            self.fc1 = nn.Linear(in_features, hidden, bias)
            self.act, self.drop1 = act_layer(), nn.Dropout(drop)
            self.norm = norm_layer(hidden) if norm_layer else nn.Identity()
            self.fc2 = nn.Linear(hidden, out_features or in_features, bias)
            self.drop2 = nn.Dropout(drop)

        def forward(self, x: Any) -> Any:
            return self.drop2(self.fc2(self.norm(self.drop1(self.act(self.fc1(x))))))

    class Attention(nn.Module):
        """Self-attention with several heads, (B, N, D) to (B, N, D)."""

        def __init__(
            self, dim: int, num_heads: int = 8, qkv_bias: bool = False, attn_drop: float = 0.0, proj_drop: float = 0.0,
        ) -> None:  # fmt: skip
            super().__init__()
            self.num_heads, self.scale = num_heads, (dim // num_heads) ** -0.5
            self.qkv, self.proj = nn.Linear(dim, 3 * dim, qkv_bias), nn.Linear(dim, dim)
            self.attn_drop, self.proj_drop = nn.Dropout(attn_drop), nn.Dropout(proj_drop)

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
            weights = self.attn_drop((q * self.scale @ k.transpose(-2, -1)).softmax(-1))
            return self.proj_drop(self.proj((weights @ v).transpose(1, 2).flatten(2)))

    return DropPath, PatchEmbed, Mlp, Attention


def _configured_layers() -> tuple[Callable[..., Any], ...]:
    from torch import nn

    def build_norm_layer(cfg: Any, num_features: int, postfix: Any = "") -> Any:
        given = {key: value for key, value in cfg.items() if key not in ("type", "requires_grad")}
        kind = cfg["type"]
        layer: Any = _table("NORM_LAYERS").get(_NORMS.get(kind, kind))
        made = layer(num_channels=num_features, **given) if kind == "GN" else layer(num_features, **given)
        return f"{_SHORT.get(kind, 'bn')}{postfix}", made

    def build_conv_layer(cfg: Any, *args: Any, **kwargs: Any) -> Any:
        kind = (cfg or {}).get("type") or "Conv2d"
        given = {key: value for key, value in (cfg or {}).items() if key != "type"}
        return _table("CONV_LAYERS").build({"type": {"Conv": "Conv2d"}.get(kind, kind)}, *args, **kwargs, **given)

    def build_upsample_layer(cfg: Any, *args: Any, **kwargs: Any) -> Any:
        kind = cfg["type"]
        given = {**cfg, **kwargs, "type": {"deconv": "ConvTranspose2d"}.get(kind, kind)}
        if kind in ("nearest", "bilinear"):
            given |= {"type": "Upsample", "mode": kind}
        return _table("UPSAMPLE_LAYERS").build(given, *args)

    def build_activation_layer(cfg: Any) -> Any:
        layer: Any = {"Swish": nn.SiLU, "HSwish": nn.Hardswish, "HSigmoid": nn.Hardsigmoid}.get(cfg["type"])
        layer = layer or _table("ACTIVATION_LAYERS").get(cfg["type"])
        takes = inspect.signature(layer).parameters
        return layer(**{key: value for key, value in cfg.items() if key in takes})

    class ConvModule(nn.Module):
        """A convolution, its norm and its activation."""

        def __init__(
            self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
            dilation: Any = 1, groups: int = 1, bias: Any = "auto", conv_cfg: Any = None, norm_cfg: Any = None,
            act_cfg: Any = {"type": "ReLU"}, inplace: bool = True,  # noqa: B006
        ) -> None:  # fmt: skip
            super().__init__()
            bias = norm_cfg is None if bias == "auto" else bias
            self.conv = build_conv_layer(
                conv_cfg, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias
            )
            self.norm = build_norm_layer(norm_cfg, out_channels)[1] if norm_cfg else None
            self.activate = build_activation_layer({"inplace": inplace, **act_cfg}) if act_cfg else None

        def forward(self, x: Any) -> Any:
            for layer in filter(None, (self.conv, self.norm, self.activate)):
                x = layer(x)
            return x

    return build_norm_layer, build_conv_layer, build_activation_layer, ConvModule, build_upsample_layer


def drop_path(x: Any, *_: Any, **__: Any) -> Any:
    return x


def build_from_cfg(cfg: Any, registry: Any, default_args: Any = None) -> Any:
    return registry.build(cfg, default_args=default_args)


def is_seq_of(value: Any, kind: Any, seq_type: Any = (list, tuple)) -> bool:
    return isinstance(value, seq_type) and all(isinstance(each, kind) for each in value)


def is_list_of(value: Any, kind: Any) -> bool:
    return is_seq_of(value, kind, list)


def is_tuple_of(value: Any, kind: Any) -> bool:
    return is_seq_of(value, kind, tuple)
