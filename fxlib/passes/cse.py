"""Common subexpression elimination: nodes that compute the same are replaced by the first of them.

Random operators, modules with state and values that the graph changes in place are left alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Hashable

from torch import nn

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.modules import is_altered
from fxlib.ir.node import Node
from fxlib.passes.aliases import Aliases
from fxlib.passes.calls import has_effect, is_library_function
from fxlib.passes.edits import in_order, yield_to

__all__ = ["eliminate_common_subexpressions"]

_STATEFUL = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm)


def eliminate_common_subexpressions(graph_module: GraphModule, leave: Collection[object] = ()) -> GraphModule:
    """Merge equal nodes; changes and returns ``graph_module``. The number removed is in ``meta["cse"]``.

    Args:
        leave: targets whose calls are not merged; an operator stands for all its overloads.
    """
    check_traced(graph_module, "eliminate_common_subexpressions()")
    changed = Aliases(graph_module).changed()
    seen: dict[Hashable, Node] = {}
    before = len(graph_module.graph.nodes)
    for node in list(graph_module.graph.nodes):
        if leave and (node.target in leave or getattr(node.target, "overloadpacket", None) in leave):
            continue
        if node.op in ("placeholder", "output") or not _repeatable(graph_module, node, changed):
            continue
        first = node
        with contextlib.suppress(TypeError):  # an argument that cannot be hashed
            first = seen.setdefault((_target_key(graph_module, node), _key((node.args, node.kwargs))), node)
        if first is not node:
            yield_to(node, first)
    return in_order(graph_module, cse=before - len(graph_module.graph.nodes))


def _repeatable(root: nn.Module, node: Node, changed: set[Node]) -> bool:
    if node.op == "get_attr":
        return True
    if node in changed or any(source in changed for source in node.all_input_nodes):
        return False
    if has_effect(root, node):
        return False
    if node.op == "call_module":
        modules = list(root.get_submodule(str(node.target)).modules())
        if any(map(is_altered, modules)):
            return False
        return all(
            type(m).__module__.startswith("torch.nn.") and not (m.training and isinstance(m, _STATEFUL))
            for m in modules
        )
    return node.op == "call_method" or is_library_function(node.target)


def _target_key(root: nn.Module, node: Node) -> Hashable:
    target = id(root.get_submodule(str(node.target))) if node.op == "call_module" else node.target
    return node.op, target


def _key(value: object) -> Hashable:
    """Arguments as a key in which 1, 1.0 and True differ, and lists and slices are hashable."""
    match value:
        case Node():
            return value
        case list() | tuple():
            return (type(value).__name__, *map(_key, value))
        case dict():
            return ("dict", *value, *map(_key, value.values()))
        case slice(start=start, stop=stop, step=step):
            return ("slice", *map(_key, (start, stop, step)))
        case float():
            return float, repr(value)
    return type(value), value
