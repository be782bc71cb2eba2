"""Reading a node in any spelling: ``nn.ReLU()``, ``F.relu``, ``torch.relu``, ``x.relu()`` and ``x.relu_()`` are one
operator.

`called` gives the operator's common name, and `argument` one of its arguments by name or position.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from fxlib.ir.arguments import CALLS, Target
from fxlib.ir.leaves import as_sequence
from fxlib.ir.modules import is_altered
from fxlib.ir.node import Node

__all__ = [
    "METADATA",
    "argument",
    "called",
    "has_effect",
    "is_dropout_off",
    "is_library_function",
    "is_random",
    "library_name",
    "may_write",
    "metadata_read",
    "module_of",
    "mutates",
    "updates_statistics",
    "value_users",
    "writes_to",
]

METADATA = frozenset({
    "shape", "dtype", "device", "ndim", "layout", "is_cuda", "itemsize", "nbytes", "size", "dim", "numel",
    "element_size", "ndimension", "nelement", "is_floating_point", "is_complex", "get_device",
})  # fmt: skip
"""Attributes and methods that read shape, dtype or device, but not values."""

_MODULES: dict[type, str] = {
    nn.ReLU: "relu",
    nn.ReLU6: "relu6",
    nn.LeakyReLU: "leaky_relu",
    nn.Hardtanh: "hardtanh",
    nn.Hardswish: "hardswish",
    nn.Hardsigmoid: "hardsigmoid",
    nn.SiLU: "silu",
    nn.Sigmoid: "sigmoid",
    nn.Tanh: "tanh",
    nn.GELU: "gelu",
    nn.SELU: "selu",
    nn.ELU: "elu",
    nn.Conv1d: "conv1d",
    nn.Conv2d: "conv2d",
    nn.Conv3d: "conv3d",
    nn.Linear: "linear",
    nn.MaxPool2d: "max_pool2d",
    nn.AvgPool2d: "avg_pool2d",
    nn.AdaptiveAvgPool2d: "adaptive_avg_pool2d",
    nn.Flatten: "flatten",
    nn.Identity: "identity",
    nn.Dropout: "dropout",
    nn.Dropout1d: "dropout",
    nn.Dropout2d: "dropout",
    nn.Dropout3d: "dropout",
    nn.AlphaDropout: "dropout",
    nn.FeatureAlphaDropout: "dropout",
    nn.BatchNorm1d: "batch_norm",
    nn.BatchNorm2d: "batch_norm",
    nn.BatchNorm3d: "batch_norm",
    nn.LayerNorm: "layer_norm",
    nn.Embedding: "embedding",
    nn.Softmax: "softmax",
}
_FUNCTIONS: dict[Target, str] = {
    F.relu: "relu",
    torch.relu: "relu",
    torch.relu_: "relu",
    F.relu6: "relu6",
    F.leaky_relu: "leaky_relu",
    F.hardtanh: "hardtanh",
    F.hardswish: "hardswish",
    F.hardsigmoid: "hardsigmoid",
    F.silu: "silu",
    torch.sigmoid: "sigmoid",
    F.sigmoid: "sigmoid",
    torch.tanh: "tanh",
    F.tanh: "tanh",
    F.gelu: "gelu",
    F.selu: "selu",
    torch.selu: "selu",
    F.elu: "elu",
    operator.add: "add",
    operator.iadd: "add",
    torch.add: "add",
    operator.mul: "mul",
    operator.imul: "mul",
    torch.mul: "mul",
    F.conv1d: "conv1d",
    F.conv2d: "conv2d",
    F.conv3d: "conv3d",
    torch.conv1d: "conv1d",
    torch.conv2d: "conv2d",
    torch.conv3d: "conv3d",
    F.linear: "linear",
    F.max_pool2d: "max_pool2d",
    torch.max_pool2d: "max_pool2d",
    F.avg_pool2d: "avg_pool2d",
    F.adaptive_avg_pool2d: "adaptive_avg_pool2d",
    torch.flatten: "flatten",
    F.dropout: "dropout",
    torch.dropout: "dropout",
    F.dropout1d: "dropout",
    F.dropout2d: "dropout",
    F.dropout3d: "dropout",
    F.alpha_dropout: "dropout",
    F.feature_alpha_dropout: "dropout",
    torch.reshape: "reshape",
    torch.cat: "cat",
    torch.concat: "cat",
    F.layer_norm: "layer_norm",
    F.softmax: "softmax",
    torch.softmax: "softmax",
    operator.getitem: "getitem",
}
_METHODS = {
    "relu": "relu",
    "relu_": "relu",
    "sigmoid": "sigmoid",
    "sigmoid_": "sigmoid",
    "tanh": "tanh",
    "tanh_": "tanh",
    "add": "add",
    "add_": "add",
    "mul": "mul",
    "mul_": "mul",
    "flatten": "flatten",
    "view": "reshape",
    "reshape": "reshape",
    "contiguous": "contiguous",
    "softmax": "softmax",
}
_IN_PLACE_OPERATORS = {
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
    operator.iand,
    operator.ior,
    operator.ixor,
    operator.ilshift,
    operator.irshift,
    operator.imatmul,
    operator.setitem,
    operator.delitem,
}
_RANDOM_NAMES = frozenset((
    "fractional_max_pool2d", "fractional_max_pool3d", "gumbel_softmax", "multi_head_attention_forward",
))  # fmt: skip
"""Functions in Python that draw; torch marks its operators."""


def module_of(root: nn.Module, node: Node) -> nn.Module | None:
    """The module that a ``call_module`` node calls; None for other nodes."""
    return root.get_submodule(str(node.target)) if node.op == "call_module" else None


NAMES = frozenset((*_MODULES.values(), *_FUNCTIONS.values(), *_METHODS.values()))
"""The common names that `called` gives."""


def called(root: nn.Module, node: Node) -> str | None:
    """The common name of the operator, or None if the table lacks it."""
    if node.op == "call_module":
        module = root.get_submodule(str(node.target))
        return None if is_altered(module) else _MODULES.get(type(module))
    if node.op == "call_function":
        try:
            return _FUNCTIONS.get(node.target)
        except TypeError:
            return None
    return _METHODS.get(str(node.target)) if node.op == "call_method" else None


def argument(node: Node, position: int, name: str, default: Any = None) -> Any:
    """An argument given by position or by name."""
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def metadata_read(node: Node) -> str | None:
    """The name in `METADATA` that a node reads of its first argument, or None."""
    if not node.args or not isinstance(node.args[0], Node):
        return None
    name: Any = None
    if node.op == "call_method":
        name = node.target
    elif node.op == "call_function":
        if node.target is getattr and len(node.args) > 1:
            name = node.args[1]
        elif node.target in (torch.is_floating_point, torch.is_complex, torch.numel):
            name = getattr(node.target, "__name__", None)
        elif node.target is len:
            name = "size"
    return name if isinstance(name, str) and name in METADATA else None


_LIKE_ANOTHER = frozenset({"reshape_as", "view_as", "expand_as", "type_as"})


def value_users(node: Node) -> list[Node]:
    """The users that read a tensor's values, not only its shape, dtype or device."""
    return [user for user in node.users if metadata_read(user) is None and not _takes_form_of(user, node)]


def _takes_form_of(user: Node, node: Node) -> bool:
    return user.op == "call_method" and user.target in _LIKE_ANOTHER and user.args[1:] == (node,) != user.args[:1]


def mutates(root: nn.Module, node: Node) -> Node | None:
    """The node whose value, or whose metadata, this one changes in place, if any."""
    written = writes_to(root, node)
    if written:
        return written[0]
    if node.op == "call_method" and str(node.target) in _METADATA_ONLY:
        first = node.args[0] if node.args else None
        return first if isinstance(first, Node) else None
    return None


def has_effect(root: nn.Module, node: Node) -> bool:
    """Whether running the node has a side effect or a result that varies."""
    return node.is_impure() or mutates(root, node) is not None or is_random(root, node)


def is_library_function(target: Any) -> bool:
    """Whether a function belongs to torch or Python, so that its effects are known."""
    module = getattr(target, "__module__", None) or "torch"
    return module.split(".")[0] in ("torch", "_operator", "math", "builtins")


def library_name(target: Any) -> str:
    """The name of a method, or of a function of torch's or Python's. What others call their functions says nothing."""
    if isinstance(target, str):
        return target
    return getattr(target, "__name__", "") if is_library_function(target) else ""


def may_write(root: nn.Module, node: Node) -> tuple[Node, ...]:
    """The nodes whose memory this one may change without anything that says so: all that a function gets that is not
    torch's or Python's, or a leaf module that is not torch's."""
    if node.op == "call_function":
        target: Any = node.target
        known = is_library_function(target) or hasattr(target, "_schema") or getattr(target, "makes_new_memory", False)
    elif node.op == "call_module":
        module = root.get_submodule(str(node.target))
        known = hasattr(module, "makes_new_memory") or all(
            type(each).__module__.startswith(("torch.nn.", "torch.export.")) and not is_altered(each)
            for each in module.modules()
        )
    else:
        return ()
    return () if known else tuple(each for each in node.all_input_nodes if metadata_read(each) is None)


def writes_to(root: nn.Module, node: Node) -> tuple[Node, ...]:
    """The nodes whose memory this one changes."""
    if node.op not in CALLS:
        return ()
    if (out := node.kwargs.get("out")) is not None:
        return _nodes_of(as_sequence(out))
    target: Any = node.target
    schema = getattr(target, "_schema", None) if node.op == "call_function" else None
    if schema is not None:
        return _written_by_schema(node, schema)
    first = node.args[0] if node.args else next((node.kwargs[k] for k in _FIRST if k in node.kwargs), None)
    if node.op == "call_module":
        module = root.get_submodule(str(target))
        positions = getattr(module, "writes_arguments", None)
        if positions is not None:
            return _nodes_of(node.args[p] for p in positions if p < len(node.args))
        changes = bool(getattr(module, "inplace", False))
    elif node.op == "call_method":
        changes = _named_in_place(str(target)) and str(target) not in _METADATA_ONLY
    elif target in (F.batch_norm, F.instance_norm):
        return _running_statistics(node)
    else:
        changes = (
            target in _IN_PLACE_OPERATORS
            or node.kwargs.get("inplace") is True
            or (getattr(target, "__module__", None) != "_operator" and _named_in_place(getattr(target, "__name__", "")))
            or (getattr(target, "__module__", None) == F.__name__ and _positional_inplace(target, node))
        )
    # Lists: torch._foreach_add_ and its like.
    return _nodes_of(as_sequence(first) if changes else ())


_FIRST = ("input", "self", "tensor")
"""Names of the first argument; the last one is used in torch.nn.init."""


def _nodes_of(values: Iterable[object]) -> tuple[Node, ...]:
    return tuple(value for value in values if isinstance(value, Node))


def updates_statistics(root: nn.Module, node: Node) -> bool:
    """Whether the node calls a normalisation in training mode that keeps running statistics."""
    if node.op != "call_module":
        return False
    return any(
        isinstance(m, nn.modules.batchnorm._NormBase) and m.training and m.track_running_stats
        for m in root.get_submodule(str(node.target)).modules()
    )


_METADATA_ONLY = frozenset(("requires_grad_", "detach_"))
_IN_PLACE_METHODS = frozenset(
    f"__{name}__"
    for name in ("setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor",
                 "ilshift", "irshift", "imatmul")
)  # fmt: skip


def _named_in_place(name: str) -> bool:
    return name in _IN_PLACE_METHODS or (name.endswith("_") and not name.endswith("__"))


def _written_by_schema(node: Node, schema: torch.FunctionSchema) -> tuple[Node, ...]:
    if not schema.is_mutable:
        return ()
    written: list[Node] = []
    for position, declared in enumerate(schema.arguments):
        if declared.alias_info is not None and declared.alias_info.is_write:
            given = argument(node, position, declared.name)
            written += [each for each in as_sequence(given) if isinstance(each, Node)]
    return tuple(written)


def _running_statistics(node: Node) -> tuple[Node, ...]:
    """The running mean and variance that a normalisation in training mode updates."""
    name = "training" if node.target is F.batch_norm else "use_input_stats"
    if argument(node, 5, name, node.target is F.instance_norm) is False:
        return ()
    given = (argument(node, 1, "running_mean"), argument(node, 2, "running_var"))
    return tuple(n for n in given if isinstance(n, Node))


_INPLACE_POSITION = {
    F.relu: 1,
    F.relu6: 1,
    F.silu: 1,
    F.hardswish: 1,
    F.hardsigmoid: 1,
    F.selu: 1,
    F.mish: 1,
    F.celu: 2,
    F.elu: 2,
    F.leaky_relu: 2,
    F.hardtanh: 3,
    F.threshold: 3,
    F.dropout: 3,
}


def _positional_inplace(target: Callable[..., object], node: Node) -> bool:
    position = _INPLACE_POSITION.get(target)
    return position is not None and len(node.args) > position and node.args[position] is True


def is_dropout_off(root: nn.Module, node: Node) -> bool:
    """Whether the node is a dropout that passes its input through."""
    if called(root, node) != "dropout":
        return False
    module = module_of(root, node)
    if module is not None:
        return not module.training or getattr(module, "p", 1) == 0
    name = "train" if node.target is torch.dropout else "training"
    default = None if node.target is torch.dropout else node.target not in (F.alpha_dropout, F.feature_alpha_dropout)
    return argument(node, 2, name, default) is False


def is_random(root: nn.Module, node: Node) -> bool:
    """Whether two runs of the node on the same input may differ."""
    if called(root, node) == "dropout":
        return not is_dropout_off(root, node)
    if node.op == "call_module":
        return any(m.training and _draws(m) for m in root.get_submodule(str(node.target)).modules())
    if node.op not in ("call_function", "call_method"):
        return False
    name = library_name(node.target).split(".")[0]
    if "dropout" in name:
        return argument(node, 2, "train", True) is not False
    return name in _RANDOM_NAMES or _is_seeded(name)


@lru_cache(maxsize=1024)
def _is_seeded(name: str) -> bool:
    """Whether an overload of torch's operator of that name draws."""
    packet = getattr(torch.ops.aten, name, None)
    return packet is not None and any(
        torch.Tag.nondeterministic_seeded in getattr(packet, overload).tags for overload in packet.overloads()
    )


def _draws(module: nn.Module) -> bool:
    return (
        "Dropout" in type(module).__name__
        or getattr(module, "dropout", 0) not in (0, None)
        or isinstance(module, nn.RReLU)
    )
