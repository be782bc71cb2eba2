"""Floating-point operations of one node, equal to ``torch.utils.flop_counter``.

Matrix products and convolutions are counted, two operations per multiply-add; elementwise work is not. A table covers
the common operators; others run on meta tensors under torch's own counter, once per signature.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fxlib.ir.arguments import Target
from fxlib.ir.modules import is_altered
from fxlib.ir.node import Node
from fxlib.ir.paths import submodule
from fxlib.passes.calls import called, library_name
from fxlib.shapes.kernel import map_values, single
from fxlib.shapes.likeness import likeness
from fxlib.shapes.table import FUNCTIONS, METHODS, MODULES
from fxlib.shapes.tensor_meta import TensorMeta

__all__ = ["flops_of", "kind_of"]

_remembered: dict[Hashable, int] = {}


def flops_of(root: nn.Module, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
    """Operations of one node, from the metadata of its arguments and its result (`TensorMeta`)."""
    name = kind_of(root, node)
    rule = _RULES.get(name)
    if rule is not None:
        return rule(root, node, args, kwargs, out)
    if name == "elementwise":
        return 0
    return _measured(root, node, args, kwargs)


def kind_of(root: nn.Module, node: Node) -> str:
    """``conv``, ``conv_transpose``, ``linear``, ``matmul``, ``attention``, ``elementwise`` (no products) or
    ``other``.
    """
    if node.op in ("placeholder", "output", "get_attr"):
        return "elementwise"
    if node.op == "call_module":
        module = submodule(root, str(node.target))
        if not is_altered(module):
            kind = _MODULE_KINDS.get(type(module))
            if kind is not None:
                return kind
            if type(module) in MODULES and type(module) not in _MODULE_KINDS:
                return "elementwise"
        return "other"
    if node.op == "call_method":
        target = str(node.target)
        return (
            "matmul"
            if target in ("matmul", "bmm", "mm", "__matmul__")
            else "elementwise"
            if _plain(METHODS, target)
            else "other"
        )
    if called(root, node) in ("conv1d", "conv2d", "conv3d"):
        return "conv"
    try:
        return _FUNCTION_KINDS.get(node.target) or ("elementwise" if _plain(FUNCTIONS, node.target) else "other")
    except TypeError:
        return "other"


def _plain(table: Container[object], target: Target) -> bool:
    """Whether a shape rule exists for an operator that holds no products."""
    name = library_name(target)
    if name in ("getattr", "size", "dim", "numel", "stride") or getattr(target, "__module__", None) in (
        "builtins",
        "math",
    ):
        return True
    return target in table and name not in ("baddbmm", "addmm", "linear", "matmul", "bmm", "mm")


def _conv(root: nn.Module, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], out: TensorMeta) -> int:
    weight = _weight(root, node, args, kwargs)
    return 2 * out.shape[0] * prod(out.shape[2:]) * prod(weight) if out.ndim == len(weight) else _unbatched(out, weight)


def _unbatched(out: TensorMeta, weight: tuple[int, ...]) -> int:
    return 2 * prod(out.shape[1:]) * prod(weight)


def _conv_transpose(root: nn.Module, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], out: TensorMeta) -> int:
    weight = _weight(root, node, args, kwargs)
    x = args[0] if args else kwargs["input"]
    return 2 * x.shape[0] * prod(x.shape[2:]) * prod(weight) if x.ndim == len(weight) else _unbatched(x, weight)


def _linear(root: nn.Module, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], out: TensorMeta) -> int:
    weight = _weight(root, node, args, kwargs)
    return 2 * out.numel() * weight[1] if len(weight) == 2 else 0  # a weight of one dimension is a vector, as below


def _weight(root: nn.Module, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    if node.op == "call_module":
        module: Any = submodule(root, str(node.target))
        return tuple(module.weight.shape)
    return tuple((args[1] if len(args) > 1 else kwargs["weight"]).shape)


def _matmul(root: nn.Module, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], out: TensorMeta) -> int:
    first = args[0] if args else kwargs["input"]
    second: Any = args[1] if len(args) > 1 else kwargs.get("other", kwargs.get("mat2"))
    return 0 if second.ndim == 1 else 2 * out.numel() * first.shape[-1]  # torch's counter has no products by a vector


def _attention(root: nn.Module, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], out: TensorMeta) -> int:
    query, key = (args[i] if len(args) > i else kwargs[n] for i, n in enumerate(("query", "key")))
    scores = prod(out.shape[:-1]) * key.shape[-2]
    return 2 * scores * query.shape[-1] + 2 * scores * out.shape[-1]


_RULES: dict[str, Callable[..., int]] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "linear": _linear,
    "matmul": _matmul,
    "attention": _attention,
}
_MODULE_KINDS: dict[type, str] = {
    nn.Conv1d: "conv",
    nn.Conv2d: "conv",
    nn.Conv3d: "conv",
    nn.ConvTranspose1d: "conv_transpose",
    nn.ConvTranspose2d: "conv_transpose",
    nn.ConvTranspose3d: "conv_transpose",
    nn.Linear: "linear",
}
_FUNCTION_KINDS: dict[Target, str] = {
    F.linear: "linear",
    F.scaled_dot_product_attention: "attention",
    F.conv_transpose1d: "conv_transpose",
    F.conv_transpose2d: "conv_transpose",
    F.conv_transpose3d: "conv_transpose",
    torch.matmul: "matmul",
    torch.bmm: "matmul",
    torch.mm: "matmul",
    **{f: "matmul" for f in FUNCTIONS if getattr(f, "__name__", "") == "matmul"},
}


def _measured(root: nn.Module, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    module = submodule(root, str(node.target)) if node.op == "call_module" else None
    head = likeness(module) if module is not None else (node.op, node.target)
    try:
        key = (head, repr(args), repr(kwargs))
        if key in _remembered:
            return _remembered[key]
        count = _counted(module, node, args, kwargs)
        _remembered[key] = count
        return count
    except TypeError:
        return _counted(module, node, args, kwargs)


def _counted(module: nn.Module | None, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    def to_meta(value: Any) -> Any:
        return value.empty("meta") if isinstance(value, TensorMeta) else value

    args, kwargs = map_values(args, to_meta), map_values(kwargs, to_meta)
    with FlopCounterMode(display=False) as counter, torch.enable_grad():
        try:
            if module is not None:
                module = single(module)
                state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
                metas = {
                    k: torch.empty_like(v, device="meta").requires_grad_(v.requires_grad) for k, v in state.items()
                }
                torch.func.functional_call(module, metas, args, kwargs)
            elif node.op == "call_method":
                getattr(args[0], str(node.target))(*args[1:], **kwargs)
            else:
                node.target(*args, **kwargs)  # type: ignore[operator]
        except Exception:
            return int(
                counter.get_total_flops()
            )  # operators that cannot run on meta, such as data-dependent indexing, has no products
    return int(counter.get_total_flops())
