"""The plan for splitting a module by a function: the partitions, the values passed between them, and their order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.torch_side import free_symbols
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node
from fxlib.passes.utils.ordering import in_dependency_order

__all__ = ["EXIT_AUTOCAST", "Partition", "Plan"]

_NOT_SPLIT = frozenset({"placeholder", "get_attr", "output"})
_ENTER_AUTOCAST = torch.amp.autocast_mode._enter_autocast
EXIT_AUTOCAST = torch.amp.autocast_mode._exit_autocast
_SET_GRAD = torch._C._set_grad_enabled


@dataclass(eq=False, repr=False)
class Partition:
    """A part of the graph: its inputs, in the order of first use, and its graph."""

    name: str
    submod_name: str = ""
    node_names: list[str] = field(default_factory=list)
    inputs: dict[str, None] = field(default_factory=dict)
    outputs: dict[str, None] = field(default_factory=dict)
    dependencies: dict[str, None] = field(default_factory=dict)
    dependents: dict[str, None] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    environment: dict[Node, Node] = field(default_factory=dict)
    targets: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.submod_name = self.submod_name or f"submod_{self.name}"

    def __repr__(self) -> str:
        facts = {
            "name": self.name,
            " nodes": self.node_names,
            " inputs": self.inputs,
            " outputs": self.outputs,
            " partitions depended on": self.dependencies,
            " partition dependents": self.dependents,
        }
        return ",\n".join(f"{fact}: {value}" for fact, value in facts.items())


class _Regions:
    """Regions of autocast, or of a grad mode, that span several partitions. The node that enters one identifies it.

    Attributes:
        entered: partition -> the regions that began before it.
        left: partition -> the regions that continue after it, of those that end with a call.
    """

    def __init__(self) -> None:
        self.entered: dict[Partition, list[Node]] = {}
        self.left: dict[Partition, list[Node]] = {}
        self._covered: dict[Node, list[Partition]] = {}
        self._grad_mode: Node | None = None

    def note(self, node: Node, partition: Partition) -> None:
        """Process the next node of the graph."""
        target = node.target if node.op == "call_function" else None
        if target is _SET_GRAD:
            if self._grad_mode is not None:
                self._covered.pop(self._grad_mode, None)
            self._grad_mode = node
        self.entered.setdefault(partition, list(self._covered))
        for covered in self._covered.values():
            if partition not in covered:
                covered.append(partition)
        if target in (_ENTER_AUTOCAST, _SET_GRAD):
            self._covered[node] = [partition]
        elif target is EXIT_AUTOCAST and isinstance(node.args[0], Node):
            for crossed in self._covered.pop(node.args[0])[:-1]:
                self.left.setdefault(crossed, []).append(node.args[0])


class Plan:
    """The partition of each call, and the inputs and outputs of each partition.

    Args:
        module: what is to be split.
        callback: the number of a call's partition.
        affix: put into the names of the submodules.
    """

    def __init__(self, module: GraphModule, callback: Callable[[Node], int], affix: str | None) -> None:
        self.nodes: dict[str, Node] = {node.name: node for node in module.graph.nodes}
        self.partitions: dict[str, Partition] = {}
        self.home: dict[Node, Partition] = {}
        self.regions = _Regions()
        prefix = "submod_" if affix is None else f"submod_{affix}_"
        for node in self._calls():
            name = str(callback(node))
            if name not in self.partitions:
                self.partitions[name] = Partition(name, prefix + name)
            partition = self.home[node] = self.partitions[name]
            partition.node_names.append(node.name)
            self.regions.note(node, partition)
        self._makers = dict(self._symbols())
        for user in self.nodes.values():
            for used in user.all_input_nodes:
                self._use(used, self.home.get(used), self.home.get(user))

    def _calls(self) -> Iterator[Node]:
        return (node for node in self.nodes.values() if node.op not in _NOT_SPLIT)

    def _symbols(self) -> Iterator[tuple[Hashable, Node]]:
        """Each symbol with the first node whose value it is, in reverse order.

        That may be an input, or a call for a data-dependent size.
        """
        for node in reversed(self.nodes.values()):
            for symbol in free_symbols(value_of(node), single=True):
                if node.op == "placeholder" or (node in self.home and str(symbol).startswith("u")):
                    yield symbol, node

    def _use(self, used: Node, source: Partition | None, target: Partition | None) -> None:
        if source is target or (target is not None and used in self.regions.entered[target]):
            return
        self._pass(used, source, target)
        symbols = () if target is None else sorted(free_symbols(value_of(used)), key=str)
        for node in filter(None, map(self._makers.get, symbols)):
            if node is not used and self.home.get(node) is not target:
                self._pass(node, self.home.get(node), target)

    def _pass(self, node: Node, source: Partition | None, target: Partition | None) -> None:
        """Pass a value from one partition to another; None is the enclosing module."""
        if source is not None:
            source.outputs[node.name] = None
        if target is not None:
            target.inputs[node.name] = None
        if source is not None and target is not None:
            source.dependents[target.name] = target.dependencies[source.name] = None

    def in_order(self) -> list[Partition]:
        """The partitions, each after those that it takes values from.

        Raises:
            RuntimeError: they depend on each other in a cycle.
        """
        names = in_dependency_order(
            self.partitions,
            lambda name: self.partitions[name].dependencies,
            lambda name: self.partitions[name].dependents,
            lambda name, arrival: -arrival,
        )
        if len(names) < len(self.partitions):
            raise RuntimeError("cycle exists between partitions!")
        return [self.partitions[name] for name in names]


def value_of(node: Node) -> Any:
    """The node's value in ``meta``."""
    return node.meta.get("example_value", node.meta.get("val"))
