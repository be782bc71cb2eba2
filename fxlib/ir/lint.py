"""What makes a graph well-formed, and the words for what does not."""

from typing import TYPE_CHECKING, Any

import torch

from fxlib.ir.node import Node

if TYPE_CHECKING:
    from fxlib.ir.graph import Graph

__all__: list[str] = []

_legal_ops = frozenset(["placeholder", "call_method", "call_module", "call_function", "get_attr", "output"])


def check(graph: "Graph") -> None:
    """See ``Graph.lint``."""
    table = graph._find_nodes_lookup_table
    names: set[str] = set()
    values: set[Node] = set()
    for node in graph.nodes:
        if node._op not in _legal_ops:
            raise RuntimeError(f"Node {node} had unknown opcode {node._op}!")
        if node.graph is not graph:
            raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
        if table is not None and node not in table:
            raise RuntimeError(f"Node '{node}' is not added to the side table")
        for used in node._input_nodes:
            if used not in values:
                _refuse_use(graph, used, node)
        values.add(node)
        if node._name in names:
            raise RuntimeError(f"Node redefined name {node._name}!")
        names.add(node._name)
    if graph.owning_module is not None:
        for node in graph.nodes:
            _check_target(node, graph.owning_module)


def _refuse_use(graph: "Graph", used: Node, node: Node) -> None:
    if used.graph is not graph:
        raise RuntimeError(
            f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was used as an argument! If "
            f"you are copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to remap "
            f"values\n{graph}"
        )
    raise RuntimeError(
        f"Argument '{used}' of Node '{node}' was used before it has been defined! Please check that Nodes in the "
        f"graph are topologically ordered\n{graph}"
    )


def _check_target(node: Node, root: torch.nn.Module) -> None:
    target = node._target
    if node._op == "call_function":
        if not callable(target):
            raise ValueError(
                f"Node {node} target {target} has type {torch.typename(target)} but a Callable is expected"
            )
        return
    if not isinstance(target, str):
        raise ValueError(f"Node {node} target {target} has type {torch.typename(target)} but a str is expected")
    if node._op not in ("get_attr", "call_module"):
        return
    owner: Any = root
    atoms = target.split(".")
    for i, atom in enumerate(atoms):
        found = getattr(owner, atom, None)
        seen = ".".join(atoms[:i])
        if found is None:
            raise RuntimeError(f"Node {node} target {target} references nonexistent attribute {atom} of {seen}")
        if node._op == "call_module" and not isinstance(found, torch.nn.Module):
            raise RuntimeError(f"Node {node} target {target} {atom} of {seen} does not reference an nn.Module")
        owner = found
