"""Attributes of leaf modules on their nodes, for backends that lower a module as one operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..graph_module import GraphModule

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]


def default_matching(name: str, target_version: int) -> str:
    """The attribute's name as it is, for whatever version."""
    return name


_CONVOLUTION = ["weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"]
_BATCH_NORM = ["weight", "bias", "running_mean", "running_var", "eps"]

#: Per type of module: its state's version, the names to fetch, how a name is matched.
module_fetch_book: dict[type, tuple[int, list[str], Callable[[str, int], str]]] = {
    nn.modules.linear.Linear: (1, ["weight", "bias"], default_matching),
    nn.modules.conv.Conv2d: (1, _CONVOLUTION, default_matching),
    nn.modules.batchnorm.BatchNorm2d: (2, _BATCH_NORM, default_matching),
    nn.modules.pooling.AdaptiveAvgPool2d: (1, [], default_matching),
    nn.modules.pooling.MaxPool2d: (
        1,
        ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"],
        default_matching,
    ),
    nn.modules.activation.ReLU: (1, ["inplace"], default_matching),
}


def extract_attrs_for_lowering(mod: nn.Module) -> dict[str, Any]:
    """The name of a module's type and the attributes that the book lists for it.

    Raises:
        RuntimeError: the module is newer than the book knows, or of a type that it does not have.
    """
    kind = type(mod)
    if kind not in module_fetch_book:
        raise RuntimeError(
            f"{torch.typename(mod)} is not in the module_fetch_book yet, please add it to the module_fetch_book"
        )
    version, names, matching = module_fetch_book[kind]
    if version < mod._version:
        raise RuntimeError(
            f"Fetcher version {version} try to fetch {torch.typename(mod)} version {mod._version}, please upgrade the "
            "module_fetch_book"
        )
    return {"name": torch.typename(mod), **{name: getattr(mod, matching(name, mod._version)) for name in names}}


def lift_lowering_attrs_to_nodes(fx_module: GraphModule) -> None:
    """Sets ``attrs_for_lowering`` on every call of a leaf module, in nested GraphModules too."""
    submodules = dict(fx_module.named_modules())
    for node in fx_module.graph.nodes:
        if node.op != "call_module":
            continue
        module = submodules[str(node.target)]
        if isinstance(module, GraphModule):
            lift_lowering_attrs_to_nodes(module)
        else:
            node.attrs_for_lowering = extract_attrs_for_lowering(module)  # type: ignore[attr-defined]
