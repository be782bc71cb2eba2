"""Capture PyTorch programs as graphs, change the graphs, and get PyTorch programs back.

Three parts: a symbolic tracer that runs a module on proxies and records what happens to them, an intermediate
representation of six kinds of node, and a generator that turns a graph into Python. Example::

    import operator, torch, fxlib

    class Standardize(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.tensor([2.0, 3.0]))
            self.spread = torch.nn.Softplus()

        def forward(self, x, deviation):
            return (x - self.mean) / self.spread(deviation).sqrt()

    traced = fxlib.symbolic_trace(Standardize())   # capture
    print(traced.graph)
    # graph():
    #     %x : [num_users=1] = placeholder[target=x]
    #     %deviation : [num_users=1] = placeholder[target=deviation]
    #     %mean : [num_users=1] = get_attr[target=mean]
    #     %sub : [num_users=1] = call_function[target=operator.sub](args = (%x, %mean), kwargs = {})
    #     %spread : [num_users=1] = call_module[target=spread](args = (%deviation,), kwargs = {})
    #     %sqrt : [num_users=1] = call_method[target=sqrt](args = (%spread,), kwargs = {})
    #     %truediv : [num_users=1] = call_function[target=operator.truediv](args = (%sub, %sqrt), kwargs = {})
    #     return truediv

    [divide] = traced.graph.find_nodes(op="call_function", target=operator.truediv)
    with traced.graph.inserting_after(divide):     # transform
        bounded = traced.graph.call_method("tanh", (divide,))
    divide.replace_all_uses_with(bounded, lambda user: user is not bounded)
    traced.recompile()
    print(traced.code)                             # generate
    # def forward(self, x, deviation):
    #     mean = self.mean
    #     sub = x - mean;  x = mean = None
    #     spread = self.spread(deviation);  deviation = None
    #     sqrt = spread.sqrt();  spread = None
    #     truediv = sub / sqrt;  sub = sqrt = None
    #     tanh = truediv.tanh();  truediv = None
    #     return tanh

The names, signatures and printed forms are those of ``torch.fx``.
"""

from fxlib.capture.proxy import Proxy
from fxlib.capture.proxyable import ProxyableClassMeta
from fxlib.capture.root_arguments import PH
from fxlib.capture.symbolic_trace import symbolic_trace
from fxlib.capture.tracer import Tracer
from fxlib.capture.wrapping import wrap
from fxlib.codegen.function import CodeGen
from fxlib.codegen.graph_module import GraphModule
from fxlib.compat import tensor_type
from fxlib.compat.submodules import submodule
from fxlib.diagnosis import compare, diagnose
from fxlib.ir import collections as immutable_collections
from fxlib.ir.effects import has_side_effect
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node, map_arg
from fxlib.transform.interpreter import Interpreter
from fxlib.transform.rewriter import replace_pattern
from fxlib.transform.transformer import Transformer

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "compare",
    "diagnose",
    "has_side_effect",
    "immutable_collections",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "tensor_type",
    "wrap",
]


def __getattr__(name: str) -> object:
    # Imported on first use: lowering needs packages that tracing does not (onnx_ir, an engine).
    if name == "lower":
        from fxlib.lowering.lowered import lower

        return lower
    return submodule(__name__, name)
