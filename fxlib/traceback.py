"""The names of ``torch.fx.traceback``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.capture.metadata import (
    _FX_METADATA_REGISTRY,
    _P,
    _R,
    GRADIENT_ACC_SPECIAL_STACK,
    MEMORY_BUDGET_ANNOTATION_KEY,
    NodeSource,
    NodeSourceAction,
    __getattr__,
    _get_custom_metadata,
    _get_memory_budget_annotation,
    _get_ordered_seq_nr_groups,
    _get_regional_inductor_subgraph_name,
    _is_preserving_node_seq_nr,
    _mark_autograd_backward,
    _preserve_node_seq_nr,
    _register_fx_metadata,
    _reset_autograd_backward,
    _set_autograd_backward,
    _set_regional_inductor_subgraph_name,
    annotate,
    annotate_fn,
    format_stack,
    get_current_meta,
    get_current_replay_node,
    get_graph_provenance_json,
    has_preserved_node_meta,
    preserve_node_meta,
    reset_grad_fn_seq_nr,
    set_current_meta,
    set_current_replay_node,
    set_grad_fn_seq_nr,
    set_stack_trace,
)
from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node

__all__ = [
    "NodeSource",
    "NodeSourceAction",
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "get_current_replay_node",
    "get_graph_provenance_json",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "reset_grad_fn_seq_nr",
    "set_current_meta",
    "set_current_replay_node",
    "set_grad_fn_seq_nr",
    "set_stack_trace",
]
