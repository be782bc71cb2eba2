"""Splitting a module into submodules by a function that numbers the nodes.

Each partition becomes a GraphModule ``submod_<number>``; the module that is returned calls them in an order that their
dependencies allow.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.torch_side import free_symbols
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node, map_arg

__all__ = ["Partition", "split_module", "split_module_simple"]

_NOT_SPLIT = frozenset({"placeholder", "get_attr", "output"})
_ENTER_AUTOCAST = torch.amp.autocast_mode._enter_autocast
_EXIT_AUTOCAST = torch.amp.autocast_mode._exit_autocast
_SET_GRAD = torch._C._set_grad_enabled


class Partition:
    """A part of the graph: what goes into it, in the order of first use, and its graph."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n"
            f" nodes: {self.node_names},\n"
            f" inputs: {self.inputs},\n"
            f" outputs: {self.outputs},\n"
            f" partitions depended on: {self.dependencies},\n"
            f" partition dependents: {self.dependents}"
        )


def _get_attr_from_qualname(mod: torch.nn.Module, qualname: str) -> Any:
    value: Any = mod
    for name in qualname.split("."):
        if not hasattr(value, name):
            raise AttributeError(f"Node target {qualname} not found!")
        value = getattr(value, name)
    return value


def split_module(
    m: GraphModule,
    root_m: torch.nn.Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """A module of submodules, one for each number that ``split_callback`` gives.

    Args:
        m: the module to split; it is not changed.
        root_m: not used; kept for callers that pass it.
        split_callback: the number of the partition that a call goes to.
        qualname_map: is filled with, for each target of a submodule, the target in ``m``.
        keep_original_order: call the partitions in the order in which they begin in ``m``, else in topological order.
        keep_original_node_name: let nodes keep their names.
        keep_original_input_name: name the submodules' inputs after the nodes, else ``arg_0``, ``arg_1``, ….
        partition_affix: put into the names, ``submod_<affix>_<number>``.
        tuple_return: let submodules return a tuple also when they return one value.

    Raises:
        RuntimeError: partitions depend on each other in a circle.

    Example::

        count = itertools.count()
        parts = split_module(gm, gm, lambda node: next(count) // 10)
        parts.submod_0
    """
    return _Splitter(
        m,
        split_callback,
        qualname_map,
        bool(keep_original_order),
        bool(keep_original_node_name),
        keep_original_input_name,
        partition_affix,
        tuple_return,
    ).split()


class _Splitter:
    """One run of ``split_module``."""

    def __init__(
        self,
        module: GraphModule,
        callback: Callable[[Node], int],
        qualname_map: dict[str, str] | None,
        keep_order: bool,
        keep_node_names: bool,
        keep_input_names: bool,
        affix: str | None,
        tuple_return: bool,
    ) -> None:
        self.module = module
        self.callback = callback
        self.qualname_map = qualname_map
        self.keep_order = keep_order
        self.keep_node_names = keep_node_names
        self.keep_input_names = keep_input_names
        self.affix = affix
        self.tuple_return = tuple_return
        self.nodes = {node.name: node for node in module.graph.nodes}
        self.partitions: dict[str, Partition] = {}
        self.home: dict[Node, Partition] = {}
        self.symbol_nodes: dict[Any, Node] = {}
        self.base_graph = Graph()
        self.base_env: dict[str, Node] = {}
        self.base_attrs: dict[str, Any] = {}
        #: Per partition, the regions (autocast, grad mode) that began in an earlier one: their entering nodes.
        self.entering: dict[Partition, list[Node]] = {}
        self.leaving: dict[Partition, list[Node]] = {}

    def split(self) -> GraphModule:
        self._assign()
        for node in self.module.graph.nodes:
            for used in node.all_input_nodes:
                self._record_use(used, node)
        begun = list(self.partitions.values())
        ordered = self._topological(begun)
        for partition in ordered:
            self._add_inputs(partition)
            self._enter_regions(partition)
        for node in self.module.graph.nodes:
            if node in self.home:
                self._move(node, self.home[node])
        for partition in ordered:
            self._leave_regions(partition)
        for node in self.module.graph.nodes:
            if node.op == "placeholder" or (node.op == "get_attr" and not self.keep_order):
                self._add_to_base(node)
        for partition in begun if self.keep_order else ordered:
            self._call(partition)
        if not self.partitions:
            for node in self.module.graph.nodes:
                if node.name not in self.base_env and node.op in ("placeholder", "get_attr"):
                    self._add_to_base(node)
        for node in self.module.graph.nodes:
            if node.op == "output":
                output = self.base_graph.output(map_arg(node.args[0], lambda used: self._in_base(used)))
                output.meta.update(node.meta)
        return GraphModule(self.base_attrs, self.base_graph)

    def _in_base(self, node: Node) -> Node:
        if node.name not in self.base_env and node.op == "get_attr":
            self._add_to_base(node)
        return self.base_env[node.name]

    def _assign(self) -> None:
        active: dict[Node, list[Partition]] = {}
        grad: Node | None = None
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                for symbol in free_symbols(_value_of(node), single=True):
                    self.symbol_nodes.setdefault(symbol, node)
            if node.op in _NOT_SPLIT:
                continue
            name = str(self.callback(node))
            partition = self.partitions.get(name)
            if partition is None:
                partition = self.partitions[name] = Partition(name)
                if self.affix is not None:
                    partition.submod_name = f"submod_{self.affix}_{name}"
                for enter in active:
                    self.entering.setdefault(partition, []).append(enter)
            partition.node_names.append(node.name)
            self.home[node] = partition
            for symbol in free_symbols(_value_of(node), single=True):
                if str(symbol).startswith("u"):
                    # A size that only the data decides: it is bound where it comes up, not by an input.
                    self.symbol_nodes.setdefault(symbol, node)
            for seen in active.values():
                if partition not in seen:
                    seen.append(partition)
            if node.op != "call_function":
                continue
            if node.target is _ENTER_AUTOCAST:
                active[node] = [partition]
            elif node.target is _EXIT_AUTOCAST:
                enter = node.args[0]
                for crossed in active.pop(enter)[:-1]:  # type: ignore[arg-type]
                    self.leaving.setdefault(crossed, []).append(enter)  # type: ignore[arg-type]
            elif node.target is _SET_GRAD:
                if grad is not None:
                    active.pop(grad, None)
                grad = node
                active[node] = [partition]

    def _enter_regions(self, partition: Partition) -> None:
        for enter in self.entering.get(partition, ()):
            copied = partition.graph.call_function(enter.target, enter.args, enter.kwargs)  # type: ignore[arg-type]
            copied.meta = enter.meta.copy()
            partition.environment[enter] = copied

    def _leave_regions(self, partition: Partition) -> None:
        for enter in reversed(self.leaving.get(partition, [])):
            partition.graph.call_function(_EXIT_AUTOCAST, (partition.environment[enter],))

    def _record_use(self, used: Node, user: Node) -> None:
        defined_in, used_in = self.home.get(used), self.home.get(user)
        if defined_in is used_in:
            return
        if used_in is not None and used in self.entering.get(used_in, ()):
            return
        if defined_in is not None:
            defined_in.outputs.setdefault(used.name)
            if used_in is not None:
                defined_in.dependents.setdefault(used_in.name)
        if used_in is None:
            return
        used_in.inputs.setdefault(used.name)
        if defined_in is not None:
            used_in.dependencies.setdefault(defined_in.name)
        for symbol in sorted(free_symbols(_value_of(used)), key=str):
            node = self.symbol_nodes.get(symbol)
            if node is None or node is used:
                continue
            used_in.inputs.setdefault(node.name)
            source = self.home.get(node)
            if source is not None and source is not used_in:
                source.outputs.setdefault(node.name)
                source.dependents.setdefault(used_in.name)
                used_in.dependencies.setdefault(source.name)

    def _topological(self, partitions: list[Partition]) -> list[Partition]:
        ready = [partition for partition in partitions if not partition.dependencies]
        missing = {partition.name: dict(partition.dependencies) for partition in partitions}
        ordered = []
        while ready:
            partition = ready.pop()
            ordered.append(partition)
            for name in partition.dependents:
                missing[name].pop(partition.name)
                if not missing[name]:
                    ready.append(self.partitions[name])
        if len(ordered) != len(partitions):
            raise RuntimeError("cycle exists between partitions!")
        return ordered

    def _add_inputs(self, partition: Partition) -> None:
        inputs: dict[str, None] = {}
        for name in partition.inputs:
            node = self.nodes[name]
            if node.op == "get_attr":
                value = _get_attr_from_qualname(self.module, str(node.target))
                if isinstance(value, torch.nn.Module):
                    # A module, unlike a tensor, cannot be an argument: the partition gets an attribute of its own.
                    partition.environment[node] = partition.graph.get_attr(self._add_target(partition, node, value))
                    continue
            chosen = name if self.keep_input_names else f"arg_{len(inputs)}"
            placeholder = partition.graph.placeholder(chosen, type_expr=node.type)
            placeholder._copy_origin(node)
            partition.environment[node] = placeholder
            inputs[name] = None
        partition.inputs = inputs

    def _add_target(self, partition: Partition, node: Node, value: Any) -> str:
        target = str(node.target).replace(".", "_")
        partition.targets[target] = value
        if self.qualname_map is not None:
            self.qualname_map[f"{partition.submod_name}.{target}"] = str(node.target)
        return target

    def _move(self, node: Node, partition: Partition) -> None:
        environment = partition.environment
        target = node.target
        if node.op == "call_module":
            target = self._add_target(partition, node, _get_attr_from_qualname(self.module, str(target)))
        copied = partition.graph.create_node(
            node.op,
            target,
            map_arg(node.args, environment.__getitem__),
            map_arg(node.kwargs, environment.__getitem__),
            type_expr=node.type,
            name=node.name if self.keep_node_names else None,
        )
        copied._copy_origin(node)
        environment[node] = copied

    def _add_to_base(self, node: Node) -> None:
        if node.op == "placeholder":
            default = node.args[0] if node.args else inspect.Signature.empty
            if self.keep_node_names:
                args = () if default is inspect.Signature.empty else (default,)
                added = self.base_graph.create_node(
                    "placeholder", node.name, args=args, type_expr=node.type, name=node.name
                )
            else:
                added = self.base_graph.placeholder(str(node.target), type_expr=node.type, default_value=default)
        else:
            target = str(node.target)
            self.base_attrs[target] = _get_attr_from_qualname(self.module, target)
            added = self.base_graph.get_attr(target)
        added._copy_origin(node)
        self.base_env[node.name] = added

    def _call(self, partition: Partition) -> None:
        results = tuple(partition.environment[self.nodes[name]] for name in partition.outputs)
        partition.graph.output(results[0] if len(results) == 1 and not self.tuple_return else results)
        if self.keep_order:
            for name in partition.inputs:
                if self.nodes[name].op == "get_attr" and name not in self.base_env:
                    self._add_to_base(self.nodes[name])
        self.base_attrs[partition.submod_name] = GraphModule(partition.targets, partition.graph)
        called = self.base_graph.call_module(
            partition.submod_name, tuple(self.base_env[name] for name in partition.inputs)
        )
        names = list(partition.outputs)
        if len(names) == 1 and not self.tuple_return:
            self.base_env[names[0]] = called
            return
        for position, name in enumerate(names):
            self.base_env[name] = self.base_graph.call_function(operator.getitem, (called, position))


def _value_of(node: Node) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))


def split_module_simple(
    m: GraphModule, node_to_partition: dict[Node, int], *, partition_affix: str | None = None
) -> GraphModule:
    """``split_module`` for graphs whose partitions follow one another and use no attributes.

    Args:
        m: the module to split.
        node_to_partition: the number of each call's partition.
        partition_affix: put into the names, ``submod_<affix>_<number>``.
    """
    return split_module(
        m,
        m,
        node_to_partition.__getitem__,
        keep_original_order=True,
        keep_original_node_name=True,
        partition_affix=partition_affix,
        tuple_return=True,
    )
