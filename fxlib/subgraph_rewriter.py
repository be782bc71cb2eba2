"""The names of ``torch.fx.subgraph_rewriter``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.capture.symbolic_trace import symbolic_trace
from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node
from fxlib.transform.rewriter import (
    Match,
    ReplacedPatterns,
    _replace_attributes,
    _replace_pattern,
    replace_pattern,
    replace_pattern_with_filters,
)

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]
