"""Neighbouring layers and operators that oneDNN computes, as groups that a caller accepts or refuses."""

from __future__ import annotations

import copy
import operator
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from fxlib.graph import Graph
from fxlib.graph_module import GraphModule
from fxlib.interpreter import Interpreter
from fxlib.node import Node
from fxlib.passes.optimize_for_inference import pack_layers

__all__ = [
    "MklSubgraph",
    "UnionFind",
    "extract_subgraph",
    "gen_mkl_autotuner",
    "groups_of",
    "mkldnn_map",
    "mkldnn_supported",
    "mkldnn_supported_unknown",
    "modules_to_mkldnn",
    "replace_node_module",
    "reset_modules",
    "use_mkl_length",
]

mkldnn_supported: list[Any] = [
    nn.Conv2d,
    nn.Linear,
    nn.BatchNorm2d,
    nn.ReLU,
    nn.MaxPool2d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool2d,
    torch.relu,
    torch.transpose,
    torch.sigmoid,
    F.relu,
    F.avg_pool2d,
    F.adaptive_avg_pool2d,
]
"""What joins a group: classes of modules, functions."""
mkldnn_supported_unknown: list[Any] = [operator.add, operator.mul]
"""What joins the group of an operand."""


def _in_onednn_layout(name: str) -> Callable[..., nn.Module]:
    def make(module: nn.Module, dtype: torch.dtype) -> nn.Module:
        from torch.utils import mkldnn  # compiles TorchScript where it is imported

        made: Any = getattr(mkldnn, name)
        return made(module) if name == "MkldnnBatchNorm" else made(module, dtype)  # type: ignore[no-any-return]

    return make


mkldnn_map: dict[type, Callable[..., nn.Module]] = {
    nn.Conv2d: _in_onednn_layout("MkldnnConv2d"),
    nn.Linear: _in_onednn_layout("MkldnnLinear"),
    nn.BatchNorm2d: _in_onednn_layout("MkldnnBatchNorm"),
}
"""The modules of ``torch.utils.mkldnn``, which take tensors in oneDNN's layout."""


class UnionFind:
    """Disjoint sets of the numbers below ``n``."""

    def __init__(self, n: int) -> None:
        self.parent: list[int | None] = [None] * n
        self.size = [0] * n

    def make_set(self, v: int) -> None:
        """Let ``v`` be a set of its own."""
        self.parent[v], self.size[v] = v, 1

    def find(self, v: int) -> int:
        """The number that stands for the set of ``v``."""
        path = []
        while (above := self.parent[v]) != v:
            if above is None:
                raise AssertionError(f"Parent is None: {v} is in no set; call make_set({v}) first")
            path.append(v)
            v = above
        for each in path:
            self.parent[each] = v
        return v

    def join(self, a: int, b: int) -> int | None:
        """Unite two sets; where they are one already, what stands for it."""
        roots = list(dict.fromkeys(self.find(number) for number in (a, b)))
        if len(roots) == 1:
            return roots[0]
        above = max(roots, key=self.size.__getitem__)
        self.size[above] = sum(self.size[root] for root in roots)
        for root in roots:
            self.parent[root] = above
        return None


class MklSubgraph:
    """A group: its nodes in order, those that it reads, those of its own that others read."""

    def __init__(self, fx_graph: Graph) -> None:
        self.fx_graph = fx_graph
        self.nodes: list[Node] = []
        self.start_nodes: list[Node] = []
        self.end_nodes: list[Node] = []


def use_mkl_length(graph: MklSubgraph) -> bool:
    """Accept groups of three nodes and more."""
    return len(graph.nodes) > 2


def gen_mkl_autotuner(
    example_inputs: list[torch.Tensor], iters: int = 10, warmup: int = 1
) -> Callable[[MklSubgraph], bool]:
    """A judge that runs every group, packed and as it is, and accepts what is faster packed.

    Args:
        example_inputs: what the model is run on, once, to have the inputs of its groups.
        iters: timed runs of each kind; the fastest counts. warmup: runs before them.
    """
    inputs = list(example_inputs)
    values: dict[Graph, dict[Node, Any]] = {}

    def seconds(module: nn.Module, arguments: list[Any]) -> float:
        fastest = float("inf")
        with torch.no_grad():
            for turn in range(warmup + iters):
                start = time.perf_counter()
                module(*arguments)
                if turn >= warmup:
                    fastest = min(fastest, time.perf_counter() - start)
        return fastest

    def faster_packed(graph: MklSubgraph) -> bool:
        module = graph.fx_graph.owning_module
        if module is None:
            raise ValueError(
                "gen_mkl_autotuner's judge runs the model: the group's graph has to belong to a GraphModule"
            )
        if graph.fx_graph not in values:
            values.clear()
            whole = Interpreter(module, garbage_collect_values=False)
            with torch.no_grad():
                whole.run(*inputs)
            values[graph.fx_graph] = whole.env
        arguments = [values[graph.fx_graph][node] for node in graph.start_nodes]
        plain = extract_subgraph(module, graph.nodes, graph.start_nodes, graph.end_nodes)
        packed = pack_layers(copy.deepcopy(plain))
        return seconds(packed, arguments) <= seconds(plain, arguments)

    return faster_packed


def groups_of(graph_module: GraphModule) -> list[MklSubgraph]:
    """The groups of a graph that hold a layer with a weight, in order."""
    modules = dict(graph_module.named_modules())
    nodes = list(graph_module.graph.nodes)
    number = {node: index for index, node in enumerate(nodes)}
    sets = UnionFind(len(nodes))
    inside: set[Node] = set()
    for node in nodes:
        kind = type(modules.get(str(node.target))) if node.op == "call_module" else node.target
        known = node.op in ("call_module", "call_function") and kind in mkldnn_supported
        joins = node.op == "call_function" and kind in mkldnn_supported_unknown
        if not known and not (joins and any(source in inside for source in node.all_input_nodes)):
            continue
        inside.add(node)
        sets.make_set(number[node])
        for source in node.all_input_nodes:
            if source in inside:
                sets.join(number[source], number[node])
    members: dict[int, list[Node]] = {}
    for node in nodes:
        if node in inside:
            members.setdefault(sets.find(number[node]), []).append(node)
    groups = []
    for group in members.values():
        if not any(type(modules.get(str(node.target))) in mkldnn_map for node in group if node.op == "call_module"):
            continue
        found = MklSubgraph(graph_module.graph)
        found.nodes = group
        own = set(group)
        found.start_nodes = list(dict.fromkeys(s for node in group for s in node.all_input_nodes if s not in own))
        found.end_nodes = [node for node in group if any(user not in own for user in node.users)]
        groups.append(found)
    return groups


def modules_to_mkldnn(nodes: list[Node], modules: dict[str, nn.Module]) -> dict[nn.Module, nn.Module]:
    """Put a module for oneDNN's layout in the place of each that has one; returns the module that each replaces."""
    replaced: dict[nn.Module, nn.Module] = {}
    for node in nodes:
        module = modules.get(str(node.target)) if node.op == "call_module" else None
        if type(module) in mkldnn_map:
            made = mkldnn_map[type(module)](module, torch.float)
            assert module is not None
            replaced[made] = module
            replace_node_module(node, modules, made)
    return replaced


def reset_modules(
    nodes: Iterable[Node], modules: dict[str, nn.Module], old_modules: dict[nn.Module, nn.Module]
) -> None:
    """Undo ``modules_to_mkldnn`` for ``nodes``."""
    for node in nodes:
        if node.op == "call_module" and (before := old_modules.get(modules[str(node.target)])) is not None:
            replace_node_module(node, modules, before)


def replace_node_module(node: Node, modules: dict[str, Any], new_module: nn.Module) -> None:
    """Put ``new_module`` where the ``call_module`` node finds its module, in ``modules`` and in the module tree."""
    owner, _, name = str(node.target).rpartition(".")
    modules[str(node.target)] = new_module
    setattr(modules[owner], name, new_module)


def extract_subgraph(orig_module: nn.Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]) -> GraphModule:
    """``nodes``, in order, as a module of their own that takes ``inputs`` and returns the tuple of ``outputs``."""
    graph = Graph()
    made: dict[Node, Node] = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        made[node] = graph.node_copy(node, lambda n: made[n])
    graph.output([made[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)
