"""Example tensors: shape and dtype, source text, and sizes for dimensions by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

BATCH, LENGTH, IMAGE = 2, 16, 64
_BATCH = {"b", "bs", "bsz", "batch", "batch_size", "bz", "batchsize", "nb"}
_CHANNEL = {
    "c", "d", "e", "dim", "embed_dim", "channels", "c_in", "in_channels", "feat", "hidden", "d_model", "emb", "ch",
    "channel",
    "features", "hidden_size", "embedding", "n_state", "dims", "cin", "d_in", "hidden_dim", "f", "embed", "embed_dims",
    "feature", "feature_dim", "n_embd", "emb_dim", "num_feat", "in_dim", "input_dim", "in_features", "n_feat", "chan",
}  # fmt: skip
_SPATIAL = {"h", "w", "height", "width", "hh", "ww", "hi", "wi", "img_size", "in_h", "in_w"}
_LENGTH = {"t", "l", "s", "n", "seq", "len", "length", "time", "seq_len", "seqlen", "tokens", "frames"}
_SIZE_ATTRIBUTES = (
    "img_size", "image_size", "input_resolution", "input_size", "patches_resolution", "resolution", "img_dim",
    "image_resolution",
)  # fmt: skip
_LENGTH_ATTRIBUTES = ("seq_len", "seq_length", "input_len", "input_length", "sequence_length", "lookback")
_FEATURE_ATTRIBUTES = (
    "in_channels", "in_dim", "in_features", "input_dim", "in_planes", "in_chans", "enc_in", "dim_in", "c_in", "dim",
    "embed_dim",
    "d_model", "n_embd", "hidden_size", "channels", "num_features", "hidden_dim", "embed_dims", "n_state", "width",
    "num_feat",
    "input_size",
)  # fmt: skip


@dataclass(frozen=True)
class Spec:
    """A tensor: ``kind`` is float, long, bool, or full for whole numbers that are all ``high``.

    ``high`` bounds the numbers of a long one.
    """

    shape: tuple[int, ...]
    kind: str = "float"
    high: int = 10

    @property
    def text(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        if self.kind == "long":
            return f"torch.randint(0, {self.high}, ({sizes}{',' if len(self.shape) == 1 else ''}))"
        if self.kind == "full":
            return f"torch.full(({sizes}{',' if len(self.shape) == 1 else ''}), {self.high})"
        if self.kind == "bool":
            return f"torch.ones({sizes}, dtype=torch.bool)" if self.shape else "torch.tensor(True)"
        return f"torch.randn({sizes})" if self.shape else "torch.tensor(0.5)"

    def resized(self, index: int, size: int) -> Spec:
        shape = list(self.shape)
        shape[index] = size
        return replace(self, shape=tuple(shape))


class Sizes:
    """Sizes for names of dimensions, consistent within one forward."""

    def __init__(self, module: Any, given: Mapping[str, int] | None = None) -> None:
        self.module = module
        self.given = dict(given or {})
        own = {name: value for name, value in getattr(module, "__dict__", {}).items() if not name.startswith("_")}
        self.numbers = {**self.given, **own}
        self.feature = _number(self.numbers, _FEATURE_ATTRIBUTES) or _first_width(module)
        spatial = _number(self.numbers, _SIZE_ATTRIBUTES)
        self.image = spatial if spatial and spatial >= 4 else IMAGE
        self.length = _number(self.numbers, _LENGTH_ATTRIBUTES) or LENGTH

    def named(self, name: str) -> int | None:
        """The number of this name in the module, or in the expression that made it."""
        return _number(self.numbers, (name,))

    def shape(
        self, dims: Iterable[str], features: int | None = None, given: Mapping[str, int] | None = None
    ) -> tuple[int, ...]:
        """Sizes of dimensions that are written as names, numbers or products of them."""
        names = [str(each) for each in dims]
        has_batch = any(each.lower() in _BATCH for each in names)
        return tuple(self._size(each, index, has_batch, features, given or {}) for index, each in enumerate(names))

    def _size(self, text: str, index: int, has_batch: bool, features: int | None, given: Mapping[str, int]) -> int:
        text = text.strip()
        if text in given:
            return given[text]
        if text.isdigit():
            return int(text)
        parts = re.findall(r"[A-Za-z_]\w*", text)
        if len(parts) != 1 or parts[0] != text:
            values = {each: self._size(each, index + 1, True, features, given) for each in parts}
            return _computed(text, values) or LENGTH
        key = text.lower()
        if key in _BATCH or (index == 0 and not has_batch and key in ("n", "_")):
            return BATCH
        if key == "_":
            return LENGTH
        if features is not None and key in _CHANNEL:
            return features
        own = self.named(text)
        if own is not None and len(text) > 1:
            return own
        if key in _SPATIAL:
            return self.image
        if key in _CHANNEL and self.feature:
            return self.feature
        return self.length if key in ("l", "t", "s", "seq", "time", "seq_len", "length", "len") else LENGTH


def named_dims(text: str, name: str) -> list[str] | None:
    """The dimensions of a parameter from a comment or docstring: ``x: (B, C, H, W)``."""
    shape = r"[\(\[\{]\s*([A-Za-z0-9_'*+\-/ ]+(?:\s*[,x×]\s*[A-Za-z0-9_'*+\-/ ]+)*?)\s*,?\s*[\)\]\}]"
    spread = re.search(rf"(?<![\w.]){re.escape(name)}\s*:\s*((?:\w+ x )+\w+)", text)
    if spread:
        return [each.strip() for each in spread[1].split(" x ")]
    for pattern in (
        rf"(?<![\w.]){re.escape(name)}`?\s*(?:\([^()]*\))?\s*[:\-=]?[^\n()\[\]]{{0,60}}?{shape}",
        rf"(?<![\w.]){re.escape(name)}\b[^\n]{{0,80}}?shape[^\n(\[]{{0,20}}{shape}",
    ):
        for match in re.finditer(pattern, text):
            dims = _dims(match[1])
            if dims:
                return dims
    return None


def _dims(text: str) -> list[str] | None:
    parts = [each.strip().strip("'") for each in re.split(r"[,×]|(?<=\w)\s+x\s+(?=\w)", text)]
    if not 1 < len(parts) <= 6 or not all(parts):
        return None
    if not all(re.fullmatch(r"[A-Za-z0-9_]+(\s*[*+\-/]+\s*[A-Za-z0-9_]+)*", each) for each in parts):
        return None
    short = [
        each
        for each in parts
        if len(each) <= 3 or "_" in each or each.lower() in _BATCH | _CHANNEL | _SPATIAL | _LENGTH
    ]
    return parts if len(short) * 2 > len(parts) or parts[0].lower() in _BATCH else None


def pattern_dims(pattern: str) -> list[tuple[str, ...]] | None:
    """The dimensions on the left of an einops pattern, each with its names; None with an ellipsis."""
    if "..." in pattern:
        return None
    found = []
    for group, single in re.findall(r"\(([^)]*)\)|(\S+)", pattern):
        found.append(tuple(group.split()) if group or not single else (single,))
    return found


def _computed(text: str, values: dict[str, int]) -> int | None:
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return None
    allowed = (
        ast.Expression,
        ast.BinOp,
        ast.Name,
        ast.Constant,
        ast.Load,
        ast.Mult,
        ast.Add,
        ast.Sub,
        ast.Div,
        ast.FloorDiv,
        ast.Pow,
    )
    if not all(isinstance(node, allowed) for node in ast.walk(tree)):
        return None
    try:
        size = int(eval(compile(tree, "<size>", "eval"), {"__builtins__": {}}, values))
    except Exception:
        return None
    return size if 0 < size < 100_000 else None


def _number(numbers: Mapping[str, Any], names: Iterable[str]) -> int | None:
    for name in names:
        value = numbers.get(name)
        if isinstance(value, (tuple, list)) and value:
            value = value[-1]
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 5000:
            return value
    return None


def _first_width(module: Any) -> int | None:
    for child in module.modules():
        for name in (
            "in_channels",
            "in_features",
            "num_features",
            "embed_dim",
            "num_channels",
            "input_size",
            "embedding_dim",
        ):
            value = getattr(child, "__dict__", {}).get(name)
            if isinstance(value, int) and value > 0:
                return value
        shape = getattr(child, "__dict__", {}).get("normalized_shape")
        if shape:
            return int(shape[-1])
    return None
