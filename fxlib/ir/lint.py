"""The rules for a well-formed graph, and the error texts."""

from typing import TYPE_CHECKING

from torch import nn

from fxlib.ir.arguments import _legal_ops, wrong_target
from fxlib.ir.node import Node
from fxlib.ir.paths import follow

if TYPE_CHECKING:
    from fxlib.ir.graph import Graph

__all__: list[str] = []

_OPS_OF_A_GRAPH = frozenset(_legal_ops) - {"root"}


def check(graph: "Graph") -> None:
    """See ``Graph.lint``."""
    table = graph._find_nodes_lookup_table
    names: set[str] = set()
    values: set[Node] = set()
    for node in graph.nodes:
        if node._op not in _OPS_OF_A_GRAPH:
            raise RuntimeError(f"Node {node} had unknown opcode {node._op}!")
        if node.graph is not graph:
            raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
        if table is not None and node not in table:
            raise RuntimeError(f"Node '{node}' is not added to the side table")
        if not values.issuperset(node._input_nodes):
            _refuse_use(graph, next(used for used in node._input_nodes if used not in values), node)
        values.add(node)
        if node._name in names:
            raise RuntimeError(f"Node redefined name {node._name}!")
        names.add(node._name)
    root = graph.owning_module
    if root is not None:
        for node in graph.nodes:
            _check_target(node, root)


def _refuse_use(graph: "Graph", used: Node, node: Node) -> None:
    if used.graph is graph:
        what = "was used before it has been defined! Please check that Nodes in the graph are topologically ordered"
    else:
        what = (
            "does not belong to this Graph, but was used as an argument! If you are copying nodes from another graph, "
            "make sure to use ``arg_transform`` on node_copy() to remap values"
        )
    raise RuntimeError(f"Argument '{used}' of Node '{node}' {what}\n{graph}")


def _check_target(node: Node, root: nn.Module) -> None:
    op, target = node._op, node._target
    if not (callable(target) if op == "call_function" else isinstance(target, str)):
        raise ValueError(f"Node {node} {wrong_target(op, target)}")
    if op == "get_attr" or op == "call_module":
        _check_path(node, root)


def _check_path(node: Node, root: nn.Module) -> None:
    """Check that the target of a node exists; that of ``call_module`` must be a module reached through modules only."""
    wanted = nn.Module if node._op == "call_module" else object
    objects, missing = follow(root, node._target)
    sound = 0
    for found in objects:
        if found is None or not isinstance(found, wanted):
            break
        sound += 1
    else:
        if not missing:
            return
    names = node._target.split(".")
    name, owner = names[sound - 1], ".".join(names[: sound - 1])
    if sound == len(objects) or objects[sound] is None:
        raise RuntimeError(f"Node {node} target {node._target} references nonexistent attribute {name} of {owner}")
    raise RuntimeError(f"Node {node} target {node._target} {name} of {owner} does not reference an nn.Module")
