"""Arguments that constructors of timm took in earlier versions, for workspace files that still give them: ``Block(dim,
heads, drop=0.1, qk_scale=None)``."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

_MODULE = "timm.models.vision_transformer"
_FORMER = {
    "Block": ("dim", "num_heads", "mlp_ratio", "qkv_bias", "qk_scale", "drop", "attn_drop", "drop_path", "act_layer",
              "norm_layer"),
    "Attention": ("dim", "num_heads", "qkv_bias", "qk_scale", "attn_drop", "proj_drop"),
}  # fmt: skip
"""The parameters in their order."""
_TELLING: dict[str, tuple[int, tuple[type, ...]]] = {"Block": (4, (float, type(None))), "Attention": (2, (bool,))}
"""An argument that has another type at its place now: `qk_scale` is a flag, and `qkv_bias` the size of a head."""
_RENAMED = {"drop": "proj_drop"}


def install(asked: Callable[[str, Any], bool]) -> bool:
    """Makes the constructors take these from code for which ``asked(name, frame)`` says so. Returns whether one was
    changed."""
    found: list[tuple[str, Any]] = [(name, getattr(sys.modules.get(_MODULE), name, None)) for name in _FORMER]
    new = [(name, kind) for name, kind in found if _is_new(kind)]
    for name, kind in new:
        setattr(kind, "__init__", _taking(vars(kind)["__init__"], name, _FORMER[name], asked))  # noqa: B010
    return bool(new)


def _is_new(kind: Any) -> bool:
    """Whether it takes other arguments than before, and was not changed yet."""
    if not isinstance(kind, type) or hasattr(vars(kind).get("__init__"), "of_earlier_versions"):
        return False
    return "qk_scale" not in inspect.signature(kind).parameters


def _taking(
    construct: Callable[..., None], kind: str, names: tuple[str, ...], asked: Callable[[str, Any], bool]
) -> Any:
    place, types = _TELLING[kind]

    @functools.wraps(construct)
    def constructing(self: Any, *args: Any, **kwargs: Any) -> None:
        by_name = next((each for each in ("qk_scale", *_RENAMED) if each in kwargs), None)
        by_place = names[place] if len(args) > place and isinstance(args[place], types) else None
        told = by_name or by_place
        if told is None or not asked(f"{_MODULE}.{kind}({told})", sys._getframe(1)):
            return construct(self, *args, **kwargs)
        given = {**dict(zip(names, args, strict=False)), **kwargs} if by_place else kwargs
        own = {_RENAMED.get(name, name): value for name, value in given.items() if name != "qk_scale"}
        construct(self, *(() if by_place else args), **own)
        if hasattr(self, "drop_path1") and not hasattr(self, "drop_path"):
            self.drop_path = self.drop_path1
        if given.get("qk_scale") is not None:
            getattr(self, "attn", self).scale = given["qk_scale"]

    constructing.of_earlier_versions = True  # type: ignore[attr-defined]
    return constructing
