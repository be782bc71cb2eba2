"""Moving nodes into a separate graph, and calling that in their place."""

from __future__ import annotations

import operator
from collections.abc import Container, Iterable

from fxlib.ir.graph import Graph
from fxlib.ir.node import Node

__all__ = ["Extraction", "ExtractionWithAttributes", "results_of"]


def placeholder_for(node: Node, graph: Graph, name: str) -> Node:
    """A placeholder in a graph for a node of another graph, with its type, ``meta`` and span."""
    made = graph.placeholder(name, type_expr=node.type)
    made._copy_origin(node)
    return made


class Extraction:
    """A graph of copies of some nodes of another graph; nodes from elsewhere that they use become inputs.

    Args:
        members: the nodes to be copied, each after those that it uses.

    Attributes:
        graph: the graph under construction.
        copies: a node -> its copy.
        inputs: a node from elsewhere -> its placeholder.
    """

    def __init__(self, members: Container[Node]) -> None:
        self.graph = Graph()
        self.copies: dict[Node, Node] = {}
        self.inputs: dict[Node, Node] = {}
        self._members = members

    def add(self, node: Node) -> None:
        """Copy a node.

        Raises:
            KeyError: it uses a member that was not copied yet.
        """
        self.copies[node] = self.graph.node_copy(node, self.stand_in)

    def stand_in(self, used: Node) -> Node:
        """The counterpart of a node that a member uses."""
        if used in self._members:
            return self.copies[used]
        known = self.inputs.get(used)
        return self.take(used) if known is None else known

    def take(self, node: Node) -> Node:
        """Make an input of a node from elsewhere."""
        return self.inputs.setdefault(node, placeholder_for(node, self.graph, node.name))

    def give(self, nodes: Iterable[Node], always_tuple: bool) -> bool:
        """Make the counterparts of ``nodes`` the output; a single one is not wrapped in a tuple unless
        ``always_tuple``. Returns whether the output is a tuple."""
        results = tuple(map(self.stand_in, nodes))
        as_tuple = always_tuple or len(results) != 1
        self.graph.output(results if as_tuple else results[0])
        return as_tuple


class ExtractionWithAttributes(Extraction):
    """An extraction that copies the attributes that its members use, instead of taking them as inputs."""

    def stand_in(self, used: Node) -> Node:
        """The counterpart of a node that a member uses."""
        if used.op == "get_attr" and used not in self.copies:
            self.copies[used] = self.graph.node_copy(used)
        return self.copies[used] if used in self.copies else super().stand_in(used)


def results_of(called: Node, count: int, as_tuple: bool) -> list[Node]:
    """The values of a call that returns ``count`` of them, at the graph's point of insertion."""
    if not as_tuple:
        return [called]
    return [called.graph.call_function(operator.getitem, (called, position)) for position in range(count)]
