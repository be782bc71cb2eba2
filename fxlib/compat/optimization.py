"""Model-in, model-out forms of the inference passes, under the names of ``torch.fx.experimental.optimization``."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, TypeGuard

import torch
from torch import nn

from fxlib.capture.tracer import Tracer
from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.node import Node
from fxlib.passes import dropout as _dropout
from fxlib.passes.fuse_conv_bn import fuse_conv_bn
from fxlib.passes.optimize_for_inference import pack_layers

__all__ = ["fuse", "matches_module_pattern", "optimize_for_inference", "remove_dropout", "replace_node_module"]


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> nn.Module:
    """Fold every batch norm that follows a convolution, for inference.

    Args:
        inplace: allow the model's own modules to be used; otherwise a copy is traced. Parameters are never changed in
            place.
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
    """Remove all dropout, as before inference. Returns a copy in evaluation mode."""
    return _dropout.remove_dropout(_traced(copy.deepcopy(model).eval(), Tracer))


def optimize_for_inference(
    model: nn.Module, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer
) -> nn.Module:
    """Fold batch norms, remove dropout and pack layers for oneDNN; runs on CPU in float32.

    Args:
        pass_config: ``{"conv_bn_fuse": bool, "remove_dropout": bool, "mkldnn_layout_optimize": bool}``, all on by
            default.
        tracer: the class that traces.

    Raises:
        RuntimeError: unknown keys in ``pass_config``, or a model in training mode.
    """
    config: dict[str, Any] = {"conv_bn_fuse": True, "remove_dropout": True, "mkldnn_layout_optimize": True}
    unknown = set(pass_config or {}) - set(config)
    if unknown:
        raise RuntimeError(f"optimize_for_inference() does not know {sorted(unknown)}; known: {sorted(config)}")
    config.update(pass_config or {})
    graph_module = _traced(copy.deepcopy(model), tracer)
    if config["conv_bn_fuse"]:
        fuse_conv_bn(graph_module)
    if config["remove_dropout"]:
        _dropout.remove_dropout(graph_module.eval())
    return pack_layers(graph_module) if config["mkldnn_layout_optimize"] else graph_module


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, nn.Module]) -> bool:
    """Whether ``node`` and the node before it call modules of exactly the two types of ``pattern``."""
    found = [type(modules.get(str(each.target))) for each in (*node.args[:1], node) if _is_module_call(each)]
    return found == list(pattern)


def _is_module_call(value: object) -> TypeGuard[Node]:
    return isinstance(value, Node) and value.op == "call_module"


def replace_node_module(node: Node, modules: dict[str, nn.Module], new_module: nn.Module) -> None:
    """Put ``new_module`` in the place of the ``call_module`` node's module, in ``modules`` and in the module tree."""
    target = str(node.target)
    parent, _, name = target.rpartition(".")
    setattr(modules[parent], name, new_module)
    modules[target] = new_module


def _traced(model: nn.Module, tracer: type[Tracer]) -> GraphModule:
    graph = tracer().trace(model)
    return GraphModule(model if isinstance(model, torch.nn.Module) else nn.Module(), graph)
