"""The names of ``torch.fx.interpreter``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.capture.proxy import Proxy
from fxlib.capture.tracer import Tracer
from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.arguments import Argument, Target, map_aggregate
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node, map_arg
from fxlib.transform.interpreter import Interpreter
from fxlib.transform.transformer import Transformer

__all__ = ["Interpreter", "Transformer"]
