"""Dead code elimination that keeps side effects.

``Graph.eliminate_dead_code`` follows torch.fx and removes an unused ``x.mul_(2)``. Here an operator that changes a
value in place, draws random numbers or is impure by torch.fx's rules stays, with everything it needs; so does a call of
a function of the project's, which may be there for what it writes.
"""

from __future__ import annotations

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.node import Node
from fxlib.passes.calls import is_random, may_write, mutates, updates_statistics
from fxlib.passes.edits import in_order

__all__ = ["eliminate_dead_code"]


def eliminate_dead_code(graph_module: GraphModule, keep_random: bool = False, **report: object) -> GraphModule:
    """Erase every node without users and without effects; changes and returns ``graph_module``.

    Args:
        keep_random: also keep unused random operators, which advance the generator that later ones draw from.
        report: goes into ``meta``, for passes that end with this one.
    """
    check_traced(graph_module, "eliminate_dead_code()")

    def is_needed(node: Node) -> bool:
        if node.is_impure() or mutates(graph_module, node) is not None or updates_statistics(graph_module, node):
            return True
        if node.op == "call_function" and may_write(graph_module, node):
            return True
        return keep_random and is_random(graph_module, node)

    graph_module.graph.eliminate_dead_code(is_needed)
    return in_order(graph_module, **report)
