"""Model-in, model-out forms of the inference passes, under the names of ``torch.fx.experimental.optimization``."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from fxlib.experimental._onednn_groups import (
    MklSubgraph,
    UnionFind,
    extract_subgraph,
    gen_mkl_autotuner,
    groups_of,
    mkldnn_map,
    mkldnn_supported,
    mkldnn_supported_unknown,
    modules_to_mkldnn,
    replace_node_module,
    reset_modules,
    use_mkl_length,
)
from fxlib.graph_module import GraphModule
from fxlib.node import Node
from fxlib.passes import dropout as _dropout
from fxlib.passes.fuse_conv_bn import fuse_conv_bn
from fxlib.passes.optimize_for_inference import pack_layers
from fxlib.tracer import Tracer

__all__ = [
    "MklSubgraph",
    "UnionFind",
    "extract_subgraph",
    "fuse",
    "gen_mkl_autotuner",
    "matches_module_pattern",
    "mkldnn_map",
    "mkldnn_supported",
    "mkldnn_supported_unknown",
    "modules_to_mkldnn",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
    "reset_modules",
    "use_mkl_length",
]


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> nn.Module:
    """Fold every batch norm that follows a convolution, for inference.

    Args:
        inplace: allow the model's own modules to be used; else a copy is traced. Parameters are never changed in place.
        no_trace: ``model`` is a GraphModule already.

    Returns:
        A GraphModule; what was left and why is in its ``meta["fuse_conv_bn"]``.
    """
    if not inplace:
        model = copy.deepcopy(model)
    if no_trace and isinstance(model, GraphModule):
        return fuse_conv_bn(model)
    return fuse_conv_bn(_traced(model, Tracer))


def remove_dropout(model: nn.Module) -> nn.Module:
    """Remove all dropout, as one does before inference; ``model`` is put into evaluation mode in the copy that is
    returned.
    """
    return _dropout.remove_dropout(_traced(copy.deepcopy(model).eval(), Tracer))


def optimize_for_inference(
    model: nn.Module, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer
) -> nn.Module:
    """Fold batch norms, remove dropout and pack layers for oneDNN; runs on CPU in float32.

    Args:
        pass_config: ``{"conv_bn_fuse": bool, "remove_dropout": bool, "mkldnn_layout_optimize": bool}``, all on by
            default. Instead of the last, ``{"heuristic": judge}`` packs the layers of the groups for which ``judge``, a
            function of an ``MklSubgraph``, says true: ``use_mkl_length``, ``gen_mkl_autotuner(...)`` or your own.
        tracer: the class that traces.

    Raises:
        RuntimeError: unknown keys in ``pass_config``, or a model in training mode.
    """
    config: dict[str, Any] = {"conv_bn_fuse": True, "remove_dropout": True, "mkldnn_layout_optimize": True}
    unknown = set(pass_config or {}) - set(config)
    if unknown:
        raise RuntimeError(f"optimize_for_inference() does not know {sorted(unknown)}; known: {sorted(config)}")
    config.update(pass_config or {})
    packing = config["mkldnn_layout_optimize"]
    if isinstance(packing, dict) and "heuristic" not in packing:
        raise RuntimeError(
            "Heuristic not found in mkldnn_layout_optimize config: give a function of an MklSubgraph, such as "
            '{"heuristic": use_mkl_length}, or True or False'
        )
    graph_module = _traced(copy.deepcopy(model), tracer)
    if config["conv_bn_fuse"]:
        fuse_conv_bn(graph_module)
    if config["remove_dropout"]:
        _dropout.remove_dropout(graph_module.eval())
    if isinstance(packing, dict):
        refused = [group for group in groups_of(graph_module) if not packing["heuristic"](group)]
        return pack_layers(graph_module, keep={node for group in refused for node in group.nodes})
    return pack_layers(graph_module) if packing else graph_module


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Whether ``node`` and the node before it call modules of exactly the two types of ``pattern``."""
    first, second = tuple(pattern)
    previous = node.args[0] if node.args else None
    for each, wanted in ((previous, first), (node, second)):
        if not isinstance(each, Node) or each.op != "call_module" or not isinstance(each.target, str):
            return False
        if type(modules.get(each.target)) is not wanted:
            return False
    return True


def _traced(model: nn.Module, tracer: type[Tracer]) -> GraphModule:
    graph = tracer().trace(model)
    return GraphModule(model if isinstance(model, torch.nn.Module) else nn.Module(), graph)
