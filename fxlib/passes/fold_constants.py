"""Constant folding: values that depend on parameters, buffers and constants alone are computed once.

Preconditions: inference, since folded parameters get no gradients any more.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.arguments import CALLS
from fxlib.ir.modules import is_altered
from fxlib.ir.node import Node
from fxlib.passes.aliases import Aliases
from fxlib.passes.calls import has_effect, is_library_function
from fxlib.passes.dead_code import eliminate_dead_code
from fxlib.passes.edits import free_path, insert_like
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
    if type(max_growth) is not int:
        raise TypeError(f"fold_constants(): max_growth must be a number of bytes, not {type(max_growth).__name__}")
    known = _constants(graph_module)
    interpreter = Interpreter(graph_module, garbage_collect_values=False)
    folded = 0
    for node in known:
        with torch.no_grad():
            value = interpreter.env[node] = interpreter.run_node(node)
        if node.op == "get_attr" or known.keys() >= node.users.keys() or not torch.is_tensor(value):
            continue
        if value.nbytes - _input_bytes(node, interpreter.env) <= max_growth:
            _install(graph_module, node, value)
            folded += 1
    return eliminate_dead_code(graph_module, fold_constants=folded)


def _constants(root: GraphModule) -> dict[Node, None]:
    """The nodes whose values depend on attributes alone, in the order of the graph."""
    changed = Aliases(root).changed()
    known: dict[Node, None] = {}
    for node in root.graph.nodes:
        if node not in changed and (node.op == "get_attr" or _foldable(root, node, known)):
            known[node] = None
    return known


def _foldable(root: GraphModule, node: Node, known: Container[Node]) -> bool:
    inputs = node.all_input_nodes
    if node.op not in CALLS or not inputs or not all(map(known.__contains__, inputs)) or has_effect(root, node):
        return False
    if node.op == "call_module":
        return not any(m.training or is_altered(m) for m in root.get_submodule(str(node.target)).modules())
    return node.op == "call_method" or is_library_function(node.target)


def _input_bytes(node: Node, env: dict[Node, Any]) -> int:
    return sum(v.nbytes for n in node.all_input_nodes if isinstance(v := env.get(n), torch.Tensor))


def _install(root: GraphModule, node: Node, value: torch.Tensor) -> None:
    name = free_path(root, f"{node.name}_constant")
    root.register_buffer(name, value.detach().clone())
    node.replace_all_uses_with(insert_like(node, node, "get_attr", name))
