"""A breakpoint in the generated code of a module."""

from fxlib.codegen import TransformCodeFunc
from fxlib.graph_module import GraphModule

__all__ = ["set_trace"]


def set_trace(gm: GraphModule) -> GraphModule:
    """Let ``gm``'s generated code stop in pdb where it begins, until it is generated again; returns ``gm``."""

    def transform(current: TransformCodeFunc | None) -> TransformCodeFunc:
        return lambda body: ["import pdb; pdb.set_trace()\n", *(current(body) if current else body)]

    with gm.graph.on_generate_code(transform):
        gm.recompile()
    return gm
