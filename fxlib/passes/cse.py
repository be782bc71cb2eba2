"""Common subexpression elimination: of several nodes that compute the same, the first serves all.

Random operators, modules with state and values that the graph changes in place are left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from torch import nn

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.node import Node
from fxlib.passes.aliases import Aliases
from fxlib.passes.calls import is_random, mutates

__all__ = ["eliminate_common_subexpressions"]

_STATEFUL = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm)


def eliminate_common_subexpressions(graph_module: GraphModule, leave: Collection[object] = ()) -> GraphModule:
    """Merge equal nodes; changes and returns ``graph_module``. The number removed is in ``meta["cse"]``.

    Args:
        leave: targets whose calls are not merged; an operator stands for all its overloads.
    """
    check_traced(graph_module, "eliminate_common_subexpressions()")
    graph = graph_module.graph
    changed = Aliases(graph_module).changed()
    seen: dict[Hashable, Node] = {}
    removed = 0
    for node in list(graph.nodes):
        if leave and (node.target in leave or getattr(node.target, "overloadpacket", None) in leave):
            continue
        if node.op in ("placeholder", "output") or not _repeatable(graph_module, node, changed):
            continue
        key = (node.op, _target_key(graph_module, node), _key(node.args), _key(node.kwargs))
        try:
            first = seen.setdefault(key, node)
        except TypeError:
            continue
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)
            removed += 1
    graph_module.delete_all_unused_submodules()
    graph.lint()
    graph_module.recompile()
    graph_module.meta["cse"] = removed
    return graph_module


def _repeatable(root: nn.Module, node: Node, changed: set[Node]) -> bool:
    if node.op == "get_attr":
        return True
    if node in changed or any(source in changed for source in node.all_input_nodes):
        return False
    if node.is_impure() or mutates(root, node) is not None or is_random(root, node):
        return False
    if node.op == "call_module":
        modules = list(root.get_submodule(str(node.target)).modules())
        if any(m._forward_hooks or m._forward_pre_hooks for m in modules):
            return False
        return all(
            type(m).__module__.startswith("torch.nn.") and not (m.training and isinstance(m, _STATEFUL))
            for m in modules
        )
    if node.op == "call_function":
        module = getattr(node.target, "__module__", None) or "torch"
        return module.split(".")[0] in ("torch", "_operator", "math", "builtins")
    return True


def _target_key(root: nn.Module, node: Node) -> Hashable:
    return id(root.get_submodule(str(node.target))) if node.op == "call_module" else node.target


def _key(value: object) -> Hashable:
    """Arguments as a key in which 1, 1.0 and True differ, and lists and slices are hashable."""
    if isinstance(value, Node):
        return value
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *[_key(v) for v in value])
    if isinstance(value, dict):
        return ("dict", *[(k, _key(v)) for k, v in value.items()])
    if isinstance(value, slice):
        return ("slice", _key(value.start), _key(value.stop), _key(value.step))
    return (type(value), repr(value) if isinstance(value, float) else value)
