"""Which nodes an accelerator takes, so that only tensors cross between it and the CPU."""

from __future__ import annotations

import os
from collections import deque

from ..graph_module import GraphModule
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


class FxNetAccNodesFinder:
    """Finds the nodes that the accelerator takes.

    Those that ``operator_support`` supports, less those that would hand something other than a tensor to the CPU or get
    it from there; ``allow_non_tensor`` keeps these too. ``tracker`` has the reason for each node.

    Args:
        module: after shape propagation.
    """

    def __init__(self, module: GraphModule, operator_support: OperatorSupportBase, allow_non_tensor: bool) -> None:
        self.module = module
        self.operator_support = operator_support
        self.allow_non_tensor = allow_non_tensor
        self.acc_nodes: NodeSet = set()
        self.tracker = NodeEventTracker(int(TRACKER_MODE), DUMP_PREFIX)

    def reduce_acc_nodes_non_tensor_input_helper(self, cpu_worklist: NodeList) -> None:
        """Takes out the users of nodes on the CPU whose values are no tensors, and the users of what that adds."""
        waiting = deque(cpu_worklist)
        cpu_worklist.clear()
        while waiting:
            node = waiting.popleft()
            for user in node.users:
                if user in self.acc_nodes:
                    self.acc_nodes.remove(user)
                    self.tracker.add(user, "acc_del|user_of_new_cpu_node", node)
                    if not is_node_output_tensor(user):
                        self.tracker.add(user, "new_cpu_node|non_tensor_output")
                        waiting.append(user)

    def reduce_acc_nodes_non_tensor_input(self) -> None:
        """Takes out nodes that get something other than a tensor from a call on the CPU."""
        on_cpu = [
            node
            for node in self.module.graph.nodes
            if node.op in CALLABLE_NODE_OPS and node not in self.acc_nodes and not is_node_output_tensor(node)
        ]
        for node in on_cpu:
            self.tracker.add(node, "new_cpu_node|callable_non_tensor_input")
        self.reduce_acc_nodes_non_tensor_input_helper(on_cpu)

    def reduce_acc_nodes_non_tensor_output(self) -> None:
        """Takes out nodes that hand something other than a tensor to the CPU, until there are none."""
        while True:
            moved: NodeList = []
            for node in self.module.graph.nodes:
                if node in self.acc_nodes and not is_node_output_tensor(node):
                    outside = next((user for user in node.users if user not in self.acc_nodes), None)
                    if outside is not None:
                        moved.append(node)
                        self.tracker.add(node, "acc_del|non_tensor_output_with_cpu_user", outside)
            if not moved:
                return
            self.acc_nodes.difference_update(moved)
            self.reduce_acc_nodes_non_tensor_input_helper(moved)

    def __call__(self) -> NodeSet:
        submodules = dict(self.module.named_modules())
        self.acc_nodes = set()
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                self.tracker.add(node, "init_cpu|not_callable")
            elif not self.operator_support.is_node_supported(submodules, node):
                self.tracker.add(node, "init_cpu|operator_support")
            else:
                self.tracker.add(node, "init_acc|callable_and_operator_supported")
                self.acc_nodes.add(node)
        if not self.allow_non_tensor:
            self.reduce_acc_nodes_non_tensor_input()
            self.reduce_acc_nodes_non_tensor_output()
        self.tracker.dump()
        return self.acc_nodes
