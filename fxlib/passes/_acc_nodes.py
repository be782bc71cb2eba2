"""Which nodes an accelerator takes, so that only tensors cross between it and the CPU."""

from __future__ import annotations

import os

from ..graph_module import GraphModule
from ..node import Node
from ._node_events import (
    ENV_FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH,
    ENV_FX_NET_ACC_SPLITTER_TRACKER_MODE,
    TRACKER_DUMP_PATH,
    NodeEventTracker,
)
from .operator_support import OperatorSupportBase
from .tools_common import CALLABLE_NODE_OPS, NodeList, NodeSet, is_node_output_tensor

__all__ = ["DUMP_PREFIX", "TRACKER_MODE", "FxNetAccNodesFinder"]

DUMP_PREFIX = os.environ.get(ENV_FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH, TRACKER_DUMP_PATH)
TRACKER_MODE = os.environ.get(ENV_FX_NET_ACC_SPLITTER_TRACKER_MODE, "0")

_TAKEN = "init_acc|callable_and_operator_supported"


class FxNetAccNodesFinder:
    """Finds the nodes that the accelerator takes.

    Those that ``operator_support`` supports, less those that would hand something other than a tensor to the CPU or get
    it from there; ``allow_non_tensor`` keeps these too. ``tracker`` has the reason for each node.

    Args:
        module: after shape propagation.
    """

    def __init__(self, module: GraphModule, operator_support: OperatorSupportBase, allow_non_tensor: bool) -> None:
        self.tracker = NodeEventTracker(int(TRACKER_MODE), DUMP_PREFIX)
        self.module, self.operator_support, self.allow_non_tensor = module, operator_support, allow_non_tensor
        self.acc_nodes: NodeSet = set()
        self._submodules = dict(module.named_modules())

    def reduce_acc_nodes_non_tensor_input_helper(self, cpu_worklist: NodeList) -> None:
        """Takes out the users of nodes on the CPU whose values are no tensors, and the users of what that adds."""
        for cause in cpu_worklist:
            # In the order of the graph, so that the log is the same each time.
            for user in sorted(self.acc_nodes.intersection(cause.users)):
                self._to_cpu(user, "user_of_new_cpu_node", cause)
                if not is_node_output_tensor(user):
                    self.tracker.add(user, "new_cpu_node|non_tensor_output")
                    cpu_worklist.append(user)  # its turn comes in this same loop

    def reduce_acc_nodes_non_tensor_input(self) -> None:
        """Takes out nodes that get something other than a tensor from a call on the CPU."""
        sources = [
            node for node in self.module.graph.nodes if self._hands_over_no_tensor(node) and node not in self.acc_nodes
        ]
        for node in sources:
            self.tracker.add(node, "new_cpu_node|callable_non_tensor_input")
        self.reduce_acc_nodes_non_tensor_input_helper(sources)

    def reduce_acc_nodes_non_tensor_output(self) -> None:
        """Takes out nodes that hand something other than a tensor to the CPU, until there are none."""
        while True:
            found = [
                (node, user)
                for node in sorted(self.acc_nodes)
                if self._hands_over_no_tensor(node) and (user := self._first_user_on_cpu(node)) is not None
            ]
            if not found:
                return
            for node, user in found:
                self._to_cpu(node, "non_tensor_output_with_cpu_user", user)
            self.reduce_acc_nodes_non_tensor_input_helper([node for node, _ in found])

    def __call__(self) -> NodeSet:
        verdicts = {node: self._first_verdict(node) for node in self.module.graph.nodes}
        self.acc_nodes = {node for node, verdict in verdicts.items() if verdict == _TAKEN}
        for node, verdict in verdicts.items():
            self.tracker.add(node, verdict)
        if not self.allow_non_tensor:
            self.reduce_acc_nodes_non_tensor_input()
            self.reduce_acc_nodes_non_tensor_output()
        self.tracker.dump()
        return self.acc_nodes

    def _first_verdict(self, node: Node) -> str:
        if node.op not in CALLABLE_NODE_OPS:
            return "init_cpu|not_callable"
        return (
            _TAKEN if self.operator_support.is_node_supported(self._submodules, node) else "init_cpu|operator_support"
        )

    def _to_cpu(self, node: Node, reason: str, cause: Node) -> None:
        self.acc_nodes.remove(node)
        self.tracker.add(node, f"acc_del|{reason}", cause)

    def _first_user_on_cpu(self, node: Node) -> Node | None:
        return next((user for user in node.users if user not in self.acc_nodes), None)

    @staticmethod
    def _hands_over_no_tensor(node: Node) -> bool:
        return node.op in CALLABLE_NODE_OPS and not is_node_output_tensor(node)
