"""The kind of a node's operator, and its settings as a short text for a box."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fxlens.record import Node

_KINDS = (
    ("convolution", r"conv(olution)?(transpose)?[123]?d?|lazyconv.*|deformconv2d|fold|unfold|pixel(un)?shuffle"),
    ("norm", r".*norm([123]?d)?_?|normalize|frozenbatchnorm2d"),
    ("pooling", r".*pool[123]?d?|(up)?sample.*|upsampling.*|interpolate|gridsample"),
    ("activation", r".*(relu6?|gelu|silu|selu|elu|sigmoid|tanh|swish|mish|softmax|softplus|softsign|glu)_?"),
    ("product", r"linear|bilinear|b?addmm|mm|bmm|matmul|einsum|outer|dot|inner|embedding(bag)?|"
                r"(multihead)?attention|scaleddotproductattention|lstm|gru|rnn|tensordot"),
    ("shape", r"size|shape|getattr|view(as)?|reshape(as)?|flatten|unflatten|permute|transpose_?|t|squeeze_?|"
              r"unsqueeze_?|expand(as)?|repeat|contiguous|cat|concat|stack|split|chunk|getitem|movedim|swapaxes|pad|"
              r"roll|dim|numel|len|narrow|select|gather|indexselect|rearrange|flip|tile|unbind"),
    ("arithmetic", r"i?(add|sub|mul|truediv|floordiv|mod|pow|neg|matmul)_?|div_?|exp|log|sqrt|rsqrt|abs|mean|sum|max|"
                   r"min|clamp_?|where|eq|ne|lt|le|gt|ge|and|or|maskedfill_?|cumsum|var|std|sin|cos|square|prod|norm"),
)  # fmt: skip
_TABLE = tuple((kind, re.compile(pattern)) for kind, pattern in _KINDS)
_LONGEST = 40


HOLE = "fxlib.diagnosis.engine.holes.hole"
"""What a node calls that stands for an expression that cannot be recorded."""


def called(node: Node) -> str:
    """``Conv2d``, ``relu``, ``.view()``: a node's callee, without its path; its own name if it calls nothing."""
    if node["target"] == HOLE:
        return "not recorded"
    if node["op"] == "call_module":
        return node["module_type"]
    if node["op"] == "call_method":
        return f".{node['target']}()"
    return node["target"].rpartition(".")[2] if node["op"] == "call_function" else node["name"]


def kind(node: Node) -> str:
    """The kind of operator, for colours; empty for all others."""
    if node["op"] not in ("call_module", "call_method", "call_function"):
        return ""
    name = called(node).strip(".()").lower().replace("_", "")
    return next((kind for kind, pattern in _TABLE if pattern.fullmatch(name)), "")


def of_sizes(nodes: Iterable[Node]) -> set[str]:
    """The names of the nodes that compute on sizes of tensors and do not return a tensor."""
    found: set[str] = set()
    for node in nodes:
        if node["op"] not in ("call_method", "call_function") or node["shape"] is not None:
            continue
        first = called(node).strip(".()") in ("size", "shape", "dim", "numel", "len", "getattr")
        if first or (node["inputs"] and found.issuperset(node["inputs"])):
            found.add(node["name"])
    return found


def settings(node: Node) -> str:
    """``64 → 128, 3×3, stride 2``: the settings that distinguish layers of one type."""
    given, named = _arguments(node["settings"])
    pair = given[:2] if kind(node) in ("convolution", "product") else []
    pair = [named[name] for name in ("in_features", "out_features") if name in named] or pair
    shown = [" → ".join(pair) if len(pair) == 2 else ", ".join(given)]
    for name, text in named.items():
        sizes = _sizes(text)
        if name == "kernel_size":
            shown.append(sizes if "×" in sizes or not text.startswith("(") else f"{sizes}×{sizes}")
        elif name in ("stride", "dilation") and sizes != "1":
            shown.append(f"{name} {sizes}")
        elif name in ("groups", "p", "output_size", "scale_factor", "num_heads"):
            shown.append(f"{name.replace('_', ' ')} {sizes}")
    text = ", ".join(each for each in shown if each)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _arguments(text: str) -> tuple[list[str], dict[str, str]]:
    """Positional and named settings of a module's ``repr``."""
    given, named = [], {}
    for part in _parts(text):
        name, equals, value = part.partition("=")
        if equals and name.strip().isidentifier():
            named[name.strip()] = value.strip()
        elif part.strip():
            given.append(part.strip())
    return given, named


def _parts(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _sizes(text: str) -> str:
    """``(3, 1)`` as ``3×1``, ``(2, 2)`` as ``2``."""
    sizes = [part.strip() for part in text.strip("()").split(",") if part.strip()]
    return sizes[0] if len(set(sizes)) == 1 else "×".join(sizes)
