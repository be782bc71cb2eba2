"""What a pass did to a graph: the nodes that it made and erased, and pictures from before and after."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import ClassVar, TypeVar

from fxlib.graph import Graph
from fxlib.graph_module import GraphModule
from fxlib.node import Node
from fxlib.passes.graph_drawer import DotGraph, FxGraphDrawer
from fxlib.traceback import NodeSource, NodeSourceAction

__all__ = ["GraphTransformObserver"]

T = TypeVar("T")


class GraphTransformObserver:
    """Watches one pass; a context manager.

    Example::

        with GraphTransformObserver(gm, "relu_to_gelu", log_url="/tmp/passes") as observer:
            relu_to_gelu(gm)
        observer.created_nodes, observer.erased_nodes  # names

    Args:
        gm: what the pass changes.
        passname: names the pictures.
        subsystem: where it is given, torch's compiler bisector may say that the pass is not to run.
        log_url: a folder for the pictures: ``pass_<number>_<passname>_input_graph.dot`` and ``…_output_graph.dot``,
            new nodes in green, erased ones in yellow. By default that of torch's
            ``_inductor.config.trace.log_url_for_graph_xform``; without one, none are drawn.
    """

    _pass_count: ClassVar[int] = 0

    def __init__(
        self, gm: GraphModule, passname: str, subsystem: str | None = None, log_url: str | None = None
    ) -> None:
        self.gm = gm
        self.passname = passname
        self.subsystem = subsystem
        self.log_url = _log_url() if log_url is None else log_url
        self.created_nodes: set[str] = set()
        self.erased_nodes: set[str] = set()
        self.name_to_node: dict[str, Node] = {}
        self.copied_gms: list[GraphModule] = []
        self._before: DotGraph | None = None
        self._hooks = (self.get_node_creation_hook(), self.get_node_erase_hook(), self.get_node_replace_hook())
        self._deepcopy_hook = self.get_deepcopy_hook()

    @classmethod
    def get_current_pass_count(cls) -> int:
        """How many passes have been watched and drawn."""
        return GraphTransformObserver._pass_count

    def apply_gm_pass(self, pass_fn: Callable[[GraphModule], T]) -> T | None:
        """Run and watch a pass over the module; gives ``None`` where the bisector has disabled it."""
        with self:
            return None if self._check_disable_pass() else pass_fn(self.gm)

    def apply_graph_pass(self, pass_fn: Callable[[Graph], T]) -> T | None:
        """Run and watch a pass over the graph."""
        with self:
            return None if self._check_disable_pass() else pass_fn(self.gm.graph)

    def _check_disable_pass(self) -> bool:
        if self.subsystem is None:
            return False
        from torch._inductor.compiler_bisector import CompilerBisector

        return bool(CompilerBisector.disable_subsystem("inductor", self.subsystem, lambda: self.passname))

    def __enter__(self) -> GraphTransformObserver:
        self.gm._register_create_node_hook(self._hooks[0])
        self.gm._register_erase_node_hook(self._hooks[1])
        self.gm._register_replace_node_hook(self._hooks[2])
        self.gm._register_deepcopy_hook(self._deepcopy_hook)
        self.name_to_node = {node.name: node for node in self.gm.graph.nodes}
        if self.log_url is not None:
            GraphTransformObserver._pass_count += 1
            self._before = self._picture()
        return self

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        for gm in (self.gm, *self.copied_gms):
            gm._unregister_create_node_hook(self._hooks[0])
            gm._unregister_erase_node_hook(self._hooks[1])
            gm._unregister_replace_node_hook(self._hooks[2])
            gm._unregister_deepcopy_hook(self._deepcopy_hook)
        if self._before is not None and (self.created_nodes or self.erased_nodes):
            self._write(self._before, "input", self.erased_nodes, "yellow")
            self._write(self._picture(), "output", self.created_nodes, "green")

    def get_node_creation_hook(self) -> Callable[[Node], None]:
        """Notes each new node, and in its ``meta["from_node"]`` that the pass made it."""

        def created(node: Node) -> None:
            self.created_nodes.add(node.name)
            self.name_to_node[node.name] = node
            node.meta.setdefault("from_node", [NodeSource(None, self.passname, NodeSourceAction.CREATE)])

        return created

    def get_node_erase_hook(self) -> Callable[[Node], None]:
        """Notes each erased node."""

        def erased(node: Node) -> None:
            self.erased_nodes.add(node.name)
            self.name_to_node.pop(node.name, None)

        return erased

    def get_node_replace_hook(self) -> Callable[[Node, str, Node], None]:
        """Notes in the ``meta["from_node"]`` of a node that comes in the place of another which one that was."""

        def replaced(old: Node, new: str, user: Node) -> None:
            node = self.name_to_node.get(new)
            if node is not None:
                made = [NodeSourceAction.CREATE] if new in self.created_nodes else []
                node.meta["from_node"] = [NodeSource(old, self.passname, [NodeSourceAction.REPLACE, *made])]

        return replaced

    def get_deepcopy_hook(self) -> Callable[[GraphModule], None]:
        """Notes the copies that the pass makes of the module. They have its hooks, and so are watched as well."""

        def copied(gm: GraphModule) -> None:
            self.copied_gms.append(gm)

        return copied

    def _picture(self) -> DotGraph:
        drawer = FxGraphDrawer(self.gm, self.passname, ignore_getattr=True, ignore_parameters_and_buffers=True)
        return drawer.get_dot_graph()

    def _write(self, dot: DotGraph, which: str, marked: set[str], color: str) -> None:
        for name in sorted(marked):
            dot.node(name, fillcolor=color)
        assert self.log_url is not None
        os.makedirs(self.log_url, exist_ok=True)
        number = GraphTransformObserver._pass_count
        dot.write_raw(os.path.join(self.log_url, f"pass_{number}_{self.passname}_{which}_graph.dot"))


def _log_url() -> str | None:
    from torch._inductor import config

    return config.trace.log_url_for_graph_xform
