"""Constant folding: what a graph computes from its parameters, buffers and constants alone is computed once.

Preconditions: inference, since folded parameters get no gradients any more.
"""

from __future__ import annotations

from typing import Any

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.arguments import CALLS
from fxlib.ir.node import Node
from fxlib.passes.aliases import Aliases
from fxlib.passes.calls import is_random, mutates
from fxlib.passes.dead_code import eliminate_dead_code
from fxlib.transform.interpreter import Interpreter

__all__ = ["fold_constants"]


def fold_constants(graph_module: GraphModule, max_growth: int = 1 << 20) -> GraphModule:
    """Replace constant subgraphs by buffers that hold their result; changes and returns ``graph_module``.

    Args:
        max_growth: a result is not kept where it takes this many bytes more than what it was computed from
            (``expand`` and ``repeat`` of a small parameter).

    The number of folded results is in ``meta["fold_constants"]``.
    """
    check_traced(graph_module, "fold_constants()")
    graph = graph_module.graph
    changed = Aliases(graph_module).changed()
    constant = [n for n in graph.nodes if n.op == "get_attr" and n not in changed]
    known = set(constant)
    for node in graph.nodes:
        if node.op in CALLS and _foldable(graph_module, node, known, changed):
            known.add(node)
    interpreter = Interpreter(graph_module, garbage_collect_values=False)
    folded = 0
    for node in list(graph.nodes):
        if node not in known:
            continue
        with torch.no_grad():
            value = interpreter.env[node] = interpreter.run_node(node)
        border = node.op != "get_attr" and any(user not in known for user in node.users)
        if (
            border
            and isinstance(value, torch.Tensor)
            and value.nbytes - _input_bytes(node, interpreter.env) <= max_growth
        ):
            _install(graph_module, node, value)
            folded += 1
    eliminate_dead_code(graph_module)
    graph_module.meta["fold_constants"] = folded
    return graph_module


def _foldable(root: GraphModule, node: Node, known: set[Node], changed: set[Node]) -> bool:
    inputs = node.all_input_nodes
    if node in changed or not inputs or any(source not in known for source in inputs):
        return False
    if node.is_impure() or mutates(root, node) is not None or is_random(root, node):
        return False
    if node.op == "call_module":
        return not any(m.training or m._forward_hooks for m in root.get_submodule(str(node.target)).modules())
    module = getattr(node.target, "__module__", None) or "torch"
    return node.op == "call_method" or module.split(".")[0] in ("torch", "_operator", "math", "builtins")


def _input_bytes(node: Node, env: dict[Node, Any]) -> int:
    return sum(v.nbytes for n in node.all_input_nodes if isinstance(v := env.get(n), torch.Tensor))


def _install(root: GraphModule, node: Node, value: torch.Tensor) -> None:
    name, index = f"{node.name}_constant", 1
    while hasattr(root, name):
        name, index = f"{node.name}_constant_{index}", index + 1
    root.register_buffer(name, value.detach().clone())
    with root.graph.inserting_before(node):
        constant = root.graph.get_attr(name)
    constant.meta = dict(node.meta)
    node.replace_all_uses_with(constant)
