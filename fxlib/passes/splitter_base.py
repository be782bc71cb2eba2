"""Splitting a module into parts for an accelerator and parts for the CPU, as few as possible.

A backend derives from ``_SplitterBase`` and says how a part is lowered. ``fxlib.lowering`` has its own for ONNX and
TensorRT; this one is for other backends, with the support tables of ``operator_support``.
"""

from __future__ import annotations

import copy
import itertools
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..graph_module import GraphModule
from ..node import Node
from . import _split_previews
from ._acc_nodes import DUMP_PREFIX, TRACKER_MODE, FxNetAccNodesFinder
from ._node_events import (
    ALL_SUFFIX,
    ENV_FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH,
    ENV_FX_NET_ACC_SPLITTER_TRACKER_MODE,
    ENV_FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES,
    NODES_SUFFIX,
    TRACKER_DUMP_PATH,
    NodeEvent,
    NodeEventTracker,
)
from .operator_support import OperatorSupportBase
from .shape_prop import ShapeProp
from .split_utils import move_non_tensor_nodes_on_boundary, split_by_tags
from .tools_common import (
    CALLABLE_NODE_OPS,
    FxNetAccFusionsFinder,
    NodeList,
    NodeSet,
    Tensors,
)

__all__ = [
    "ALL_SUFFIX",
    "DUMP_PREFIX",
    "ENV_FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH",
    "ENV_FX_NET_ACC_SPLITTER_TRACKER_MODE",
    "ENV_FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES",
    "NODES_SUFFIX",
    "TRACKER_DUMP_PATH",
    "TRACKER_MODE",
    "FxNetAccNodesFinder",
    "FxNetSplitterInternalError",
    "NodeEvent",
    "NodeEventTracker",
    "SplitResult",
    "Subgraph",
    "generate_inputs_for_submodules",
]

DEFAULT_MIN_ACC_MODULE_SIZE = 1
DEFAULT_SKIP_FUSION = False
DEFAULT_ALLOW_NON_TENSOR = False


class FxNetSplitterInternalError(Exception):
    """The splitter cannot place the nodes: they were tagged before, or wait for each other."""


@dataclass
class _SplitterSettingBase:
    """What a splitter may do.

    Args:
        min_acc_module_size: accelerated parts with fewer nodes go to the CPU.
        skip_fusion: do not keep nodes together that hand each other something other than tensors.
        allow_non_tensor: other values than tensors may cross between CPU and accelerator.
        max_acc_splits: with more parts than this ``generate_split_results`` refuses; -1 for any number.
        move_non_tensor_nodes_on_boundary: compute other values than tensors in the part that needs them.
    """

    min_acc_module_size: int = DEFAULT_MIN_ACC_MODULE_SIZE
    skip_fusion: bool = DEFAULT_SKIP_FUSION
    allow_non_tensor: bool = DEFAULT_ALLOW_NON_TENSOR
    max_acc_splits: int = -1
    move_non_tensor_nodes_on_boundary: bool = False


@dataclass
class Subgraph:
    """One part: the nodes, and whether they run on the accelerator."""

    is_acc: bool
    nodes: NodeList
    device_ordinal: int | None = None


class SplitResult(NamedTuple):
    """A split module, the inputs of each part by name, and the prefix of the names of parts for the CPU.

    Names of accelerated parts begin with ``_run_on_acc_``.
    """

    split_module: GraphModule
    submodule_inputs: dict[str, Any]
    non_acc_submodule_prefix: str


def generate_inputs_for_submodules(
    model: torch.nn.Module, inputs: Sequence[Any], target_submodules: Iterable[str], deepcopy: bool = False
) -> dict[str, Any]:
    """Runs ``model`` once, without gradients, and collects the positional inputs of submodules.

    Args:
        model, inputs: what is run.
        target_submodules: paths of submodules; a module installed at two paths is found at one of them.
        deepcopy: keep copies, for models that change their inputs.

    Returns:
        the inputs by path; paths that do not exist or are not called are not in it.
    """
    wanted = set(target_submodules)
    found: dict[str, Any] = {}
    hooks = []

    def collect(path: str) -> Any:
        def hook(module: torch.nn.Module, given: tuple[Any, ...]) -> None:
            found[path] = copy.deepcopy(given) if deepcopy else given

        return hook

    try:
        for path, module in model.named_modules():
            if path in wanted:
                hooks.append(module.register_forward_pre_hook(collect(path)))
        with torch.no_grad():
            model(*inputs)
    finally:
        for handle in hooks:
            handle.remove()
    return found


class _SplitterBase:
    """Splits a module into parts for an accelerator (``_run_on_acc_0``) and for the CPU (``_run_on_cpu_1``), numbered
    in the order in which they run.

    Calls that the accelerator takes are gathered for as long as any can run, then those for the CPU, and so on.

    Example::

        class Splitter(_SplitterBase):
            def _lower_model_to_backend(self, mod, inputs):
                return my_backend.compile(mod, inputs)

        support = OperatorSupport({"torch.sin": None, "torch.cos": None})
        split = Splitter(gm, (torch.rand(3),), support, _SplitterSettingBase())()
        for name, part in split.named_children():
            ...

    Args:
        module: the module; its nodes are given shapes and ``tag``, else it stays as it is.
        sample_input: positional inputs.
        operator_support: what the accelerator can run.
        settings: see ``_SplitterSettingBase``.
        non_acc_submodule_name: the prefix of the names of parts for the CPU.
        return_tuple: parts with one result return it as a tuple too.
        nodes_finder: decides which nodes the accelerator takes, in place of ``FxNetAccNodesFinder``.
    """

    #: Bytes a second between host and accelerator, for the previews.
    PCIe_BW = 100 * 2**30

    def __init__(
        self,
        module: GraphModule,
        sample_input: Sequence[Any],
        operator_support: OperatorSupportBase,
        settings: _SplitterSettingBase,
        non_acc_submodule_name: str = "_run_on_cpu_",
        return_tuple: bool = False,
        nodes_finder: FxNetAccNodesFinder | None = None,
    ) -> None:
        if not isinstance(module, GraphModule):
            raise AssertionError(f"Expected GraphModule, got {type(module)}")
        self.module = module
        ShapeProp(module).propagate(*sample_input)
        self.settings = settings
        self.operator_support = operator_support
        self.sample_input = sample_input
        finder = nodes_finder or FxNetAccNodesFinder(module, operator_support, settings.allow_non_tensor)
        self.acc_nodes = finder()
        self.fusions: dict[Node, NodeSet] = {}
        if not settings.skip_fusion:
            self.fusions = FxNetAccFusionsFinder(module, self.acc_nodes)()
            self._merge_overlapping_fusions()
        self.deps = self.find_deps()
        self.update_deps_for_fusions()
        self.non_acc_submodule_name = non_acc_submodule_name
        self.tags: list[str] = []
        self._node_submodule_map: dict[str, str] = {}
        self._return_tuple = return_tuple

    def get_node_submodule_map(self) -> dict[str, str]:
        """The name of the part of each node, by the node's name; after splitting."""
        return self._node_submodule_map

    def find_deps(self) -> dict[Node, NodeSet]:
        """For each call, the calls whose values it uses directly."""
        deps: dict[Node, NodeSet] = defaultdict(set)
        for node in self._calls():
            used = {used for used in node.all_input_nodes if used.op in CALLABLE_NODE_OPS}
            if used:
                deps[node] = used
        return deps

    def update_deps_for_fusions(self) -> None:
        """Makes each group run as one: its nodes wait for what any of them uses, its users for all of it."""
        for group in self._groups():
            used = set().union(*(self.deps[node] for node in group)) - group
            for node in group:
                self.deps[node] = used
                for user in node.users:
                    if user.op in CALLABLE_NODE_OPS and user not in group:
                        self.deps[user].update(group)

    def _merge_overlapping_fusions(self) -> None:
        """Makes one group of those that share nodes: neither could run before the other."""
        whole: dict[Node, NodeSet] = {}
        for group in self._groups():
            joined = set(group).union(*(whole[node] for node in group if node in whole))
            whole.update(dict.fromkeys(joined, joined))
        self.fusions = whole

    def _groups(self) -> list[NodeSet]:
        return list({id(group): group for group in self.fusions.values()}.values())

    def _calls(self) -> NodeList:
        return [node for node in self.module.graph.nodes if node.op in CALLABLE_NODE_OPS]

    # What a backend overrides.

    def _lower_model_to_backend(self, mod: GraphModule, inputs: Tensors) -> torch.nn.Module:
        """The part ``mod`` for the accelerator; by default ``mod`` itself."""
        return mod

    def _find_culprit(self, mod: GraphModule, inputs: Tensors) -> str:
        """A text that names the nodes of ``mod`` that cannot be lowered or run; for ``split_preview``."""
        return "Unable to find a culprit because _find_culprit() function is not implemented."

    def _draw_graph_based_on_node_support(self, mod: GraphModule, supported_nodes: NodeList) -> None:
        """Writes ``node_support.dot``: supported calls green, others red."""
        from .graph_drawer import FxGraphDrawer

        supported = set(supported_nodes)

        class Drawer(FxGraphDrawer):
            def _box(self, module: GraphModule, node: Node) -> dict[str, str]:
                style = super()._box(module, node)
                if node.op in CALLABLE_NODE_OPS:
                    style["fillcolor"] = "green" if node in supported else "red"
                return style

        Drawer(mod, "node_support", ignore_getattr=True, collapse_above=10**9).get_main_dot_graph().write_raw(
            "node_support.dot"
        )

    # Looking before splitting.

    def node_support_preview(self, dump_graph: bool = False) -> str:
        """Prints which node types are supported; ``dump_graph`` also writes ``node_support.dot``."""
        return _split_previews.node_support_preview(self, dump_graph)

    def split_preview(self, dump_graph: bool = False) -> str:
        """Prints the parts, lowers and runs the accelerated ones; ``dump_graph`` also writes ``preview*.dot``."""
        return _split_previews.split_preview(self, dump_graph)

    # Growing one part backwards, for backends that choose parts in another way.

    def find_reverse_deps(self, tag_id: int | None = None) -> dict[Node, NodeSet]:
        """For each call, the calls that use it; with ``tag_id`` only those in parts with a smaller number."""
        users: dict[Node, NodeSet] = defaultdict(set)
        for node in self._calls():
            for user in node.users:
                if user.op in CALLABLE_NODE_OPS and (tag_id is None or _number(user) < tag_id):
                    users[node].add(user)
        return users

    def update_reverse_deps_for_fusions(self, deps: dict[Node, NodeSet]) -> None:
        """Makes each group one in ``deps``: its nodes have the users of all, and who feeds one feeds all."""
        for group in self._groups():
            users = set().union(*(deps[node] for node in group)) - group
            for node in group:
                deps[node] = users
                for used in node.all_input_nodes:
                    if used not in group:
                        deps[used].update(group)

    def find_parent_nodes_of_subgraph(self, tag: str) -> NodeSet:
        """The calls outside the part ``tag`` that feed it."""
        return {
            used
            for node in self._calls()
            if getattr(node, "tag", None) == tag
            for used in node.all_input_nodes
            if used.op in CALLABLE_NODE_OPS and used.tag != tag  # type: ignore[attr-defined]
        }

    def extend_acc_subgraph(self, tag: str) -> None:
        """Moves into the part ``tag`` the accelerated calls before it that only it needs."""
        users = self.find_reverse_deps(tag_id=int(tag.rsplit("_", maxsplit=1)[-1]))
        self.update_reverse_deps_for_fusions(users)
        parents = self.find_parent_nodes_of_subgraph(tag)
        moved: NodeSet = set()
        while True:
            node = next((node for node in parents if node in self.acc_nodes and users[node] <= moved), None)
            if node is None:
                return
            node.tag = tag  # type: ignore[attr-defined]
            moved.add(node)
            parents.update(self.fusions.get(node, ()))
            parents.update(used for used in node.all_input_nodes if used.op in CALLABLE_NODE_OPS)
            parents -= moved

    # Splitting.

    def starter_nodes(self) -> tuple[NodeSet, NodeSet]:
        """The nodes that use inputs or attributes of the module, or no node at all: for the CPU, accelerated."""
        starters: dict[bool, NodeSet] = {False: set(), True: set()}
        for node in self.module.graph.nodes:
            if node.op == "call_function" and not node.all_input_nodes:
                starters[node in self.acc_nodes].add(node)
            elif node.op in ("placeholder", "get_attr"):
                for user in node.users:
                    starters[user in self.acc_nodes].add(user)
        return starters[False], starters[True]

    def put_nodes_into_subgraphs(self) -> list[Subgraph]:
        """The parts in the order in which they run, alternately for CPU and accelerator, each as large as can be.

        Raises:
            FxNetSplitterInternalError: calls wait for each other.
        """
        calls = self._calls()
        missing = {node: len(self.deps[node]) for node in calls}
        waiting: dict[Node, NodeList] = defaultdict(list)
        ready: dict[bool, deque[Node]] = {False: deque(), True: deque()}
        for node in calls:
            for used in self.deps[node]:
                waiting[used].append(node)
            if not missing[node]:
                ready[node in self.acc_nodes].append(node)
        subgraphs: list[Subgraph] = []
        accelerated = not ready[False]
        while ready[False] or ready[True]:
            queue, nodes = ready[accelerated], []
            while queue:
                node = queue.popleft()
                nodes.append(node)
                del missing[node]
                for user in waiting[node]:
                    missing[user] -= 1
                    if not missing[user]:
                        ready[user in self.acc_nodes].append(user)
            subgraphs.append(Subgraph(is_acc=accelerated, nodes=nodes))
            accelerated = not accelerated
        if missing:
            stuck = ", ".join(node.name for node in missing)
            raise FxNetSplitterInternalError(f"Subgraph can't be empty: these nodes wait for each other: {stuck}")
        return subgraphs

    def remove_small_acc_subgraphs(self, subgraphs: list[Subgraph]) -> list[Subgraph]:
        """Gives accelerated parts below the least size to the CPU, and joins what then follows each other there."""
        least = self.settings.min_acc_module_size
        for small in (part for part in subgraphs if part.is_acc and len(part.nodes) < least):
            print(f"Eliminating acc subgraph because it's smaller than the threshold: {len(small.nodes)} < {least}")
            small.is_acc = False
        kept: list[Subgraph] = []
        for is_acc, parts in itertools.groupby(subgraphs, key=lambda part: part.is_acc):
            if is_acc:
                kept.extend(parts)
                continue
            first, *others = parts
            first.nodes.extend(node for part in others for node in part.nodes)
            kept.append(first)
        return kept

    def tag(self, subgraphs: list[Subgraph]) -> None:
        """Writes the name of its part to each node's ``tag``.

        Raises:
            FxNetSplitterInternalError: a node has a tag, from an earlier split.
        """
        for node in itertools.chain.from_iterable(part.nodes for part in subgraphs):
            if hasattr(node, "tag"):  # before any is written: a refused split leaves no half of its tags
                raise FxNetSplitterInternalError(f"Node {node} was already tagged")
        prefixes = {True: "_run_on_acc_", False: self.non_acc_submodule_name}
        self.tags = [f"{prefixes[part.is_acc]}{number}" for number, part in enumerate(subgraphs)]
        for name, part in zip(self.tags, subgraphs, strict=True):
            self._node_submodule_map.update((node.name, name) for node in part.nodes)
            for node in part.nodes:
                node.tag = name  # type: ignore[attr-defined]

    def split(self, remove_tag: bool = False) -> GraphModule:
        """The module split by the tags of its nodes, which ``remove_tag`` then takes off."""
        parts: Any = split_by_tags(self.module, self.tags, return_tuple=self._return_tuple)
        for node in self.module.graph.nodes if remove_tag else ():
            if hasattr(node, "tag"):
                delattr(node, "tag")
        return parts

    def __call__(self) -> GraphModule:
        subgraphs = self.put_nodes_into_subgraphs()
        if self.settings.move_non_tensor_nodes_on_boundary:
            move_non_tensor_nodes_on_boundary(subgraphs)
        subgraphs = self.remove_small_acc_subgraphs(subgraphs)
        accelerated = sum(subgraph.is_acc for subgraph in subgraphs)
        print(f"Got {accelerated} acc subgraphs and {len(subgraphs) - accelerated} non-acc subgraphs")
        self.tag(subgraphs)
        return self.split()

    def generate_split_results(self) -> SplitResult:
        """Splits, and collects the inputs of each part for the sample input.

        Raises:
            ValueError: more parts than ``max_acc_splits``.
        """
        split = self()
        names = [name for name, _ in split.named_children()]
        limit = self.settings.max_acc_splits
        if 0 < limit < len(names):
            raise ValueError(
                "Cannot fulfill max_acc_splits limit. "
                "This may cause split fragmentation and result in performance issues."
            )
        inputs = generate_inputs_for_submodules(split, self.sample_input, names)
        return SplitResult(split, inputs, self.non_acc_submodule_name)


def _number(node: Node) -> int:
    return int(node.tag.split("_")[-1])  # type: ignore[attr-defined]
