"""Capture PyTorch programs as graphs, change the graphs, and get PyTorch programs back.

Three parts: a symbolic tracer that runs a module on proxies and records what happens to them, an intermediate
representation of six kinds of node, and a generator that turns a graph into Python. Example::

    import torch, fxlib

    class MyModule(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.param = torch.nn.Parameter(torch.rand(3, 4))
            self.linear = torch.nn.Linear(4, 5)

        def forward(self, x):
            return self.linear(x + self.param).clamp(min=0.0, max=1.0)

    traced = fxlib.symbolic_trace(MyModule())     # capture
    print(traced.graph)
    # graph():
    #     %x : [num_users=1] = placeholder[target=x]
    #     %param : [num_users=1] = get_attr[target=param]
    #     %add : [num_users=1] = call_function[target=operator.add](args = (%x, %param), kwargs = {})
    #     %linear : [num_users=1] = call_module[target=linear](args = (%add,), kwargs = {})
    #     %clamp : [num_users=1] = call_method[target=clamp](args = (%linear,), kwargs = {min: 0.0, max: 1.0})
    #     return clamp
    print(traced.code)                             # generate
    # def forward(self, x):
    #     param = self.param
    #     add = x + param;  x = param = None
    #     linear = self.linear(add);  add = None
    #     clamp = linear.clamp(min = 0.0, max = 1.0);  linear = None
    #     return clamp

    for node in traced.graph.nodes:                # transform
        if node.target == "clamp":
            with traced.graph.inserting_after(node):
                node.replace_all_uses_with(traced.graph.call_function(torch.relu, (node.args[0],)))
            traced.graph.erase_node(node)
    traced.recompile()

The names, signatures and printed forms are those of ``torch.fx``.
"""

from fxlib.capture.proxy import Proxy
from fxlib.capture.proxyable import ProxyableClassMeta
from fxlib.capture.root_arguments import PH
from fxlib.capture.tracer import Tracer, symbolic_trace
from fxlib.capture.wrapping import wrap
from fxlib.codegen.function import CodeGen
from fxlib.codegen.graph_module import GraphModule
from fxlib.compat import tensor_type
from fxlib.compat.submodules import submodule
from fxlib.diagnosis import diagnose
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
    # Lowering needs packages that tracing does not (onnx_ir, an engine), so it is imported when it is asked for.
    if name == "lower":
        from fxlib.lowering import lower

        return lower
    return submodule(__name__, name)
