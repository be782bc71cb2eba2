"""Example inputs for a model without any: from annotations, and from the first layers that use an argument.

A guess is the text of an expression, as the user would write it after ``<-``, so that it can be shown, edited and
saved. It counts only if forward runs with it on the meta device, or up to an operation that needs data. Runs in the
user's interpreter: torch and fxlib.
"""

from __future__ import annotations

import inspect
import itertools
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from . import alone
from .assume import layers
from .errors import text_of
from .stand_ins import NotInstalled

SECONDS = 1.5
_ANY_SHAPE = "torch.ones(1)"
_LITERALS = {"int": "4", "float": "1.0", "bool": "True"}
_TYPED = re.compile(r"(?P<kind>Float|Int|Long|Bool|Shaped|Num|UInt)\w*\[.*?,\s*[\"'](?P<dims>[^\"']+)[\"']")
_BATCH = {"b", "n", "batch", "bs", "batch_size", "bsz"}
_LENGTH = {"t", "l", "s", "seq", "length", "len", "time", "seq_len", "tokens"}
_PASSING = {
    "relu", "dropout", "float", "contiguous", "detach", "clone", "to", "gelu", "silu", "tanh", "sigmoid", "add", "sub",
    "mul", "truediv", "div", "normalize", "type_as", "half", "requires_grad_", "flatten", "view", "reshape",
}  # fmt: skip


@dataclass(frozen=True)
class Need:
    """A layer's requirement on its input: ``shapes`` in the order to try, ``dtype``, an exclusive bound for ids."""

    shapes: tuple[tuple[int, ...], ...]
    ids: int = 0

    def texts(self) -> list[str]:
        if self.ids:
            return [f"torch.randint(0, {self.ids}, {shape})" for shape in self.shapes]
        return [f"torch.randn({', '.join(map(str, shape))})" for shape in self.shapes]


def guess(module: Any, graph: Any, constant: Mapping[str, Any] = MappingProxyType({})) -> str | None:
    """Arguments of forward as text, or None if nothing fits.

    ``graph`` is the part that could be traced without inputs, or None. ``constant`` are the arguments that the trace
    fixes; they need no example.
    """
    names = [each for each in _required(module) if each.name not in constant]
    if not names:
        return None
    choices = _choices(module, names, graph)
    if choices is None:
        return None
    partly, began = None, time.process_time()
    for index, combination in enumerate(_combinations(choices)):
        if index >= 12 and time.process_time() - began > SECONDS:
            break
        text = ", ".join(combination)
        verdict = _fits(module, text, [each.name for each in names], constant)
        if verdict == "fits":
            return text
        if verdict == "data" and partly is None:
            partly = text
    return partly


def _required(module: Any) -> list[inspect.Parameter]:
    """Forward's required parameters; none if it takes ``*args``."""
    try:
        parameters = list(inspect.signature(module.forward).parameters.values())
    except (TypeError, ValueError):
        return []
    odd = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_ONLY)
    if any(each.kind in odd and each.default is each.empty for each in parameters):
        return []
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [each for each in parameters if each.kind is plain and each.default is each.empty]


def _combinations(choices: list[list[str]]) -> Iterator[tuple[str, ...]]:
    """All first choices, all second ones, …: arguments of one model tend to have the same size; then the rest."""
    longest = max(len(each) for each in choices)
    for index in range(longest):
        yield tuple(each[min(index, len(each) - 1)] for each in choices)
    yield from itertools.islice(itertools.product(*choices), 24)


def _choices(module: Any, names: list[inspect.Parameter], graph: Any) -> list[list[str]] | None:
    nodes = graph.nodes if graph is not None else ()
    users = {str(node.target): node for node in nodes if node.op == "placeholder"}
    found: dict[str, list[str]] = {}
    for each in names:
        texts = _annotated(each.annotation)
        if not texts and each.name in users:
            need = _need(module, users[each.name])
            texts = need.texts() if need else []
        found[each.name] = texts
    if not any(found.values()):
        return None
    # An argument that only occurs in arithmetic with another one has that one's shape, or one that broadcasts with
    # every shape.
    known = next((texts for texts in found.values() if texts and texts[0].startswith("torch.randn(")), [])
    return [texts or [*known, _ANY_SHAPE] for texts in found.values()]


def _annotated(annotation: Any) -> list[str]:
    if annotation is inspect.Parameter.empty:
        return []
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "") or str(annotation)
    if text in _LITERALS:
        return [_LITERALS[text]]
    dims = getattr(annotation, "dim_str", None)
    kind = getattr(annotation, "__name__", "") if dims else ""
    if dims is None and (match := _TYPED.search(text)):
        kind, dims = match["kind"], match["dims"]
    if not dims or "..." in dims or "*" in dims:
        return []
    sizes = [_size(name) for name in dims.split()]
    if kind.startswith(("Int", "Long", "UInt")):
        return [f"torch.zeros({', '.join(map(str, sizes))}, dtype=torch.long)"]
    if kind.startswith("Bool"):
        return [f"torch.ones({', '.join(map(str, sizes))}, dtype=torch.bool)"]
    return [f"torch.randn({', '.join(map(str, sizes))})"]


def _size(name: str) -> int:
    name = name.split("=")[-1].lower()
    if name.isdigit():
        return int(name)
    return 2 if name in _BATCH else 16 if name in _LENGTH else 3 if name in ("c", "channels", "ch") else 64


def _need(module: Any, start: Any) -> Need | None:
    """The need of the first layer that the value reaches through operators that preserve the relevant shape."""
    seen, front = {start}, [start]
    while front:
        node = front.pop(0)
        for user in node.users:
            need = _of_node(module, user, node)
            if need is not None:
                return need
            if user not in seen and _passes(module, user):
                seen.add(user)
                front.append(user)
    return None


def _passes(module: Any, node: Any) -> bool:
    from torch import nn

    if node.op == "call_module":
        keeps = (nn.ReLU, nn.Dropout, nn.Identity, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Flatten)
        return isinstance(_module(module, node.target), keeps)
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return name in _PASSING


def _module(root: Any, path: str) -> Any:
    try:
        return root.get_submodule(path)
    except AttributeError:
        return None


def _of_node(root: Any, node: Any, source: Any) -> Need | None:
    if node.op == "call_module":
        return _of_layer(_module(root, node.target)) if node.args and node.args[0] is source else None
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if node.op == "call_function" and name in ("conv1d", "conv2d", "conv3d", "linear", "embedding"):
        weight = _attribute(root, node.args[1]) if len(node.args) > 1 else None
        if weight is None or node.args[0] is not source:
            return None
        return Need(_rows(weight.shape[1])) if name == "linear" else _shapes(layers.of_weight(name, weight.shape))
    return None


def _attribute(root: Any, node: Any) -> Any:
    if getattr(node, "op", "") != "get_attr":
        return None
    for name in node.target.split("."):
        root = getattr(root, name, None)
    return root


def _rows(features: int) -> tuple[tuple[int, ...], ...]:
    return ((2, features), (2, 16, features), (features,))


def _images(channels: int, n: int) -> tuple[tuple[int, ...], ...]:
    return tuple((1, channels, *([size] * n)) for size in layers.SPATIAL[n])


def _of_layer(layer: Any) -> Need | None:
    from torch import nn

    if isinstance(layer, nn.Linear):
        return Need(_rows(layer.in_features))
    if isinstance(layer, nn.LayerNorm):
        return Need(((2, 16, *layer.normalized_shape), (2, *layer.normalized_shape)))
    return _shapes(layers.need(layer))


def _shapes(need: layers.Need | None) -> Need | None:
    if need is None:
        return None
    if need.high:
        return Need(((2, 16), (16,)), ids=need.high)
    width = need.channels
    if width is None:
        return None
    if need.at == 1:
        found = [((2, width),) if rank == 2 else _images(width, rank - 2) for rank in need.ranks]
        return Need(tuple(shape for shapes in found for shape in shapes))
    return Need(tuple((2, *[16] * (rank - 2), width) for rank in need.ranks))


def _fits(module: Any, text: str, names: list[str], constant: Mapping[str, Any]) -> str:
    """``fits``; ``data``: it ran until something needed data, which meta tensors lack, or a package that is not
    installed; ``no``."""
    import torch

    try:
        trial = shadow(module)
        with torch.device("meta"), torch.no_grad():
            args = eval(f"({text},)", {"torch": torch})
            alone.run(module, lambda: trial(**dict(zip(names, args, strict=True)), **constant))
    except Exception as error:
        text = text_of(error).lower()
        return "data" if "meta" in text or isinstance(error, (NotImplementedError, NotInstalled)) else "no"
    return "fits"


def shadow(module: Any) -> Any:
    """A copy of the module on the meta device, so that a run does not change the user's module."""
    import torch
    from torch.nn.parameter import is_lazy

    from fxlib.ir.modules import copy_with

    memo: dict[int, Any] = {}
    for tensor in itertools.chain(module.parameters(), module.buffers()):
        if is_lazy(tensor):
            continue  # its copy has no data either
        hollow = torch.empty_like(tensor, device="meta")
        memo[id(tensor)] = torch.nn.Parameter(hollow, False) if isinstance(tensor, torch.nn.Parameter) else hollow
    return copy_with(memo, module)
