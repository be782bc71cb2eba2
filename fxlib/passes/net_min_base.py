"""Finding the nodes of a module that two ways of running it disagree about.

A backend derives from ``_MinimizerBase`` and says how each of the two runs a module: ``run_a`` as it should be,
``run_b`` as the backend does it. `_MinimizerBase.minimize` cuts parts out of the module, runs each both ways and
compares.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch

from ..graph_module import GraphModule
from ..node import map_arg
from .shape_prop import ShapeProp
from .split_utils import split_by_tags
from .splitter_base import generate_inputs_for_submodules
from .tools_common import (
    CALLABLE_NODE_OPS,
    FxNetAccFusionsFinder,
    Names,
    NodeList,
    NodeSet,
    TensorOrTensors,
    Tensors,
)

__all__ = ["FxNetMinimizerBadModuleError", "FxNetMinimizerResultMismatchError", "FxNetMinimizerRunFuncError"]

_LOGGER = logging.getLogger(__name__)


class FxNetMinimizerBadModuleError(Exception):
    """The nodes cannot be cut out as one part: what lies between them is not among them."""


class FxNetMinimizerRunFuncError(Exception):
    """``run_a`` or ``run_b`` raised."""


class FxNetMinimizerResultMismatchError(Exception):
    """The results differ, says the comparing function."""


@dataclass
class _MinimizerSettingBase:
    """How to search.

    Args:
        accumulate_error: run ``b`` on what it gave for the nodes before, where that was stored, not on ``a``'s values.
        traverse_method: "sequential" (node by node), "binary" (halves of what differs), "accumulate" (from the first
            node on, one more each time), "skip" (the blocks between given nodes), "block" (the shortest block that
            differs), "defined" (exactly the given nodes).
        find_all: go on after the first culprit.
        return_intermediate: compare the results of all nodes of a part.
        all_outputs: compare all outputs of a part, not only that of its last node.
    """

    accumulate_error: bool = False
    traverse_method: str = "sequential"
    find_all: bool = False
    return_intermediate: bool = False
    all_outputs: bool = False

    def __str__(self) -> str:
        lines = [f"\t{field.name}: {getattr(self, field.name)}\n" for field in fields(self)]
        return "FX Minimizer Settings:\n" + "".join(lines)


class _MinimizerBase:
    """Searches a module for the nodes at which ``run_a`` and ``run_b`` disagree.

    Example::

        class Minimizer(_MinimizerBase):
            def run_a(self, mod, inputs, report_idx=-1):
                return mod(*inputs)

            def run_b(self, mod, inputs, report_idx=-1):
                return my_backend.compile(mod, inputs)(*inputs)

        def compare(a, b, names):
            error = (a - b).abs().max().item()
            return error, error < 1e-3

        settings = _MinimizerSettingBase(traverse_method="binary")
        culprits = Minimizer(gm, (torch.rand(3),), compare, settings).minimize()

    Args:
        module: the module; its nodes are given shapes.
        sample_input: its inputs.
        compare_fn: takes both results and the names of the nodes that gave them; returns a number for the report, and
            whether they agree.
        settings: see ``_MinimizerSettingBase``.
        module_exporter: called with inputs, part and a name for each part that differs.
        exclusion_fn: called with the nodes of each part before it is run, a list that it may take nodes out of, and the
            part's first and last index (-1 where there are none).
    """

    def __init__(
        self,
        module: GraphModule,
        sample_input: Tensors,
        compare_fn: Callable[[TensorOrTensors, TensorOrTensors, Names], tuple[float, bool]],
        settings: _MinimizerSettingBase,
        module_exporter: Callable[[Tensors, GraphModule, str], None] | None = None,
        exclusion_fn: Callable[[NodeList, int, int], None] | None = None,
    ) -> None:
        if not isinstance(module, GraphModule):
            raise AssertionError(f"Expected GraphModule, got {type(module)}")
        self.module = module
        self.sample_input = sample_input
        self.compare_fn = compare_fn
        self.module_exporter = module_exporter
        self.settings = settings
        self.exclusion_fn = exclusion_fn
        self.a_outputs: dict[str, Any] = {}
        self.b_outputs: dict[str, Any] = {}
        self.results: dict[Any, Any] = {}
        self.reports: list[list[str]] = []
        self.iteration = 0
        self.run_shape_prop()
        calls = {node for node in module.graph.nodes if node.op in CALLABLE_NODE_OPS}
        self.fusions = FxNetAccFusionsFinder(module, calls)()

    # What a backend overrides.

    def run_shape_prop(self) -> None:
        """Writes the types of values into the nodes."""
        ShapeProp(self.module).propagate(*self.sample_input)

    def run_a(self, mod: GraphModule, inputs: Tensors, report_idx: int = -1) -> TensorOrTensors:
        """Runs a part as it should be; ``self.reports[report_idx]`` is what is written about it."""
        raise RuntimeError("run_a() is not implemented.")

    def run_b(self, mod: GraphModule, inputs: Tensors, report_idx: int = -1) -> TensorOrTensors:
        """Runs a part in the way that is in question."""
        raise RuntimeError("run_b() is not implemented.")

    # Cutting out a part and running it.

    def _store_outputs(self, a_result: TensorOrTensors, b_result: TensorOrTensors, submodule: GraphModule) -> None:
        """Keeps the results by the names of their nodes, for the parts that use them."""
        for result, stored in ((a_result, self.a_outputs), (b_result, self.b_outputs)):
            values = (result,) if isinstance(result, torch.Tensor) else result
            stored.update(zip(_output_names(submodule), values, strict=False))

    def _get_submod_inputs(self, main_module: GraphModule, submod_path: str) -> tuple[Tensors, Tensors]:
        """The inputs of a part for ``a`` and for ``b``: what was stored, else what the module computes."""
        submodule = main_module.get_submodule(submod_path)
        names = [str(node.target) for node in submodule.graph.find_nodes(op="placeholder")]  # type: ignore[union-attr]
        computed: Any = generate_inputs_for_submodules(main_module, self.sample_input, [submod_path])[submod_path]
        if not self.settings.accumulate_error:
            return computed, computed
        unknown = [name for name in names if name not in self.a_outputs or name not in self.b_outputs]
        if unknown:
            print(f"Can't find previous stored outputs named {unknown}!")
        pairs = list(zip(names, computed, strict=True))
        a_input = tuple(self.a_outputs.get(name, value) for name, value in pairs)
        return a_input, tuple(self.b_outputs.get(name, value) for name, value in pairs)  # type: ignore[return-value]

    def _tag_nodes(self, selected_nodes: NodeSet) -> None:
        """Tags the selected nodes "minimize", what uses them "main_1" and all else "main_0".

        Raises:
            FxNetMinimizerBadModuleError: a selected node uses a value that another one leads to from outside.
        """
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            tags = {getattr(used, "tag", "main_0") for used in node.all_input_nodes if used.op in CALLABLE_NODE_OPS}
            if node in selected_nodes:
                if "main_1" in tags:
                    raise FxNetMinimizerBadModuleError(f"{node} also uses what follows the other selected nodes")
                node.tag = "minimize"  # type: ignore[attr-defined]
            else:
                node.tag = "main_1" if tags & {"minimize", "main_1"} else "main_0"  # type: ignore[attr-defined]

    def _build_submodule(self, nodes: NodeSet) -> tuple[GraphModule, str]:
        """The module split such that one submodule has exactly ``nodes``, and that submodule's name.

        Raises:
            FxNetMinimizerBadModuleError: that cannot be.
        """
        self._tag_nodes(nodes)
        split: Any = split_by_tags(self.module, ["main_0", "minimize", "main_1"])
        for name, _ in split.named_children():
            if "minimize" in name:
                return split, name
        raise FxNetMinimizerBadModuleError(f"Minimize submodule was not found with nodes {nodes}")

    def _run_and_compare(
        self, split_module: GraphModule, submod_name: str, output_names: Names, report_idx: int = -1
    ) -> None:
        """Runs a part both ways, and compares the results of the named nodes, or its outputs.

        Raises:
            FxNetMinimizerRunFuncError: a run raised.
            FxNetMinimizerResultMismatchError: the results differ.
        """
        part: Any = split_module.get_submodule(submod_name)
        a_input, b_input = self._get_submod_inputs(split_module, submod_name)
        report = self.reports[report_idx]
        report.append("Run and compare ...")
        names = list(output_names)
        if self.settings.return_intermediate:
            names = [node.name for node in part.graph.nodes if node.op in CALLABLE_NODE_OPS]
        elif self.settings.all_outputs:
            names = []
        if names:
            wanted = [node for node in part.graph.nodes if node.name in names]
            output = next(iter(part.graph.find_nodes(op="output")))
            output.args = (wanted[0] if len(wanted) == 1 else tuple(wanted),)
            part.recompile()
        try:
            a_result = self.run_a(part, a_input, report_idx)
            b_result = self.run_b(part, b_input, report_idx)
        except Exception as error:
            report.append(f"Exception raised when running {submod_name}: {error}")
            raise FxNetMinimizerRunFuncError(f"Exception raised when running {submod_name}: {error}") from error
        self._store_outputs(a_result, b_result, part)
        numeric, same = self.compare_fn(a_result, b_result, names)
        key = tuple(_output_names(part))
        self.results[key] = numeric
        report.append(f"Numerical accuracy = {numeric}")
        if not same:
            report.append(f"Result mismatch for {key}")
            if self.module_exporter is not None:
                self.module_exporter(a_input, part, f"{key[0]}_cpu")
                self.module_exporter(b_input, part, f"{key[0]}_acc")
            raise FxNetMinimizerResultMismatchError(f"Result mismatch for {key}")

    def _differs(self, nodes: NodeList, names: Names, found: str, nothing: str = "") -> bool | None:
        """Whether a part of ``nodes`` fails, which is written down; ``None`` if all were excluded."""
        whole = list(dict.fromkeys(other for node in nodes for other in self.fusions.get(node, {node})))
        if not whole:
            return None
        report = self.reports[-1]
        try:
            split, name = self._build_submodule(set(whole))
            self._run_and_compare(split, name, names)
        except FxNetMinimizerRunFuncError:
            if found:
                report.append(f"Found culprit from run error: {found}")
            return True
        except FxNetMinimizerResultMismatchError:
            if found:
                report.append(f"Found culprit from numeric error: {found}")
            return True
        if nothing:
            report.append(nothing)
        return False

    def _exclude(self, nodes: NodeList, start: int = -1, end: int = -1) -> NodeList:
        left = list(nodes)
        if self.exclusion_fn is not None:
            self.exclusion_fn(left, start, end)
        return left

    def _begin(self, *lines: str) -> None:
        self.iteration += 1
        self.reports.append(list(lines))

    # Ways to search. Each gives the culprits one after another.

    def _sequential_traverse(self, nodes: NodeList) -> Iterator[NodeSet]:
        for number, node in enumerate(nodes, 1):
            part = self._exclude([node])
            if part:
                self._begin(f"Sequential traverse iteration {number}.", f"Visit node: {node.name}")
                if self._differs(part, [node.name], str(node)):
                    yield {node}

    def _binary_traverse(self, nodes: NodeList) -> Iterator[NodeSet]:
        waiting = [(0, len(nodes))]
        while waiting:
            start, end = waiting.pop()
            part = self._exclude(nodes[start:end], start, end)
            if not part:
                continue
            first, last = part[0], part[-1]
            self._begin(
                f"Binary search iteration {self.iteration + 1}",
                f"From node index {start}:{first.name} to {end - 1}:{last.name}. "
                f"Size of the interested node list is {len(part)}",
            )
            if not self._differs(part, [last.name], "", "No discrepancy found."):
                continue
            if len(part) == 1:
                self.reports[-1].append(
                    "This is the last node in the sub-module. "
                    f"Search in the current branch is successful with culprit = {{{first}}}."
                )
                yield {first}
            else:
                self.reports[-1].append("Proceed to split and lower the halves of the current sub-module individually.")
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]

    def _accumulate_traverse(self, nodes: NodeList) -> Iterator[NodeSet]:
        taken: NodeList = []
        for number, node in enumerate(nodes, 1):
            taken += self._exclude([node])
            if node in taken:
                self._begin(f"Accumulate traverse iteration {number}.", f"Add node: {node.name}")
                if self._differs(taken, [node.name], ""):
                    self.reports[-1].append(f"Found culprit {node}")
                    yield {node}
                    taken.clear()  # what follows is judged from here on

    def _skip_traverse(self, nodes: NodeList, skip_nodes: list[str]) -> Iterator[NodeSet]:
        block: NodeList = []
        number = 0
        for index, node in enumerate([*nodes, None]):
            if node is not None and node.name not in skip_nodes:
                block.append(node)
                continue
            if block:
                number += 1
                start = index - len(block)
                part = self._exclude(block, start, index)
                self._begin(
                    f"Nodes block {number}.",
                    f"From node index {start} to {index - 1}. Size of the interested node list is {len(part)}",
                )
                if self._differs(part, [], str(set(part)), "No discrepancy found."):
                    yield set(part)
            block = []

    def _block_traverse(self, nodes: NodeList, find_last_node: bool | None) -> Iterator[NodeSet]:
        start, end = 0, len(nodes)
        if find_last_node is not False:
            end = self._bisect(nodes, 1, len(nodes), lambda end: (0, end), "last")
        if find_last_node is not True and end:
            # The largest start with which it still differs, counted from the end.
            start = end - self._bisect(nodes, 1, end, lambda size: (end - size, end), "first")
        if end and start < end:
            self.reports[-1].append(f"Found minimum block ({nodes[start].name},{nodes[end - 1].name})")
            yield set(nodes[start:end])

    def _bisect(
        self, nodes: NodeList, low: int, high: int, part_of: Callable[[int], tuple[int, int]], which: str
    ) -> int:
        """The least size from ``low`` to ``high`` of a part that differs; 0 if not even the largest does."""
        found = 0
        while low <= high:
            size = (low + high) // 2 if found or low < high else high
            start, end = part_of(size)
            part = self._exclude(nodes[start:end], start, end)
            self._begin(
                f"Block search iteration {self.iteration + 1}",
                f"Search for {which} node in culprits",
                f"Subgraph constructed by {nodes[start].name} to {nodes[end - 1].name}",
            )
            if self._differs(part, [nodes[end - 1].name], "", "Culprits not found."):
                self.reports[-1].append("Culprits found.")
                found, high = size, size - 1
            else:
                low = size + 1
        return found

    def _defined_traverse(self, nodes: NodeList) -> Iterator[NodeSet]:
        part = self._exclude(nodes)
        if part:
            first, last = part[0].name, part[-1].name
            self._begin(f"Defined graph from {first} to {last}")
            if self._differs(part, [last], ""):
                self.reports[-1].append(f"Found culprit {set(part)}")
                yield set(part)

    # Using it.

    def _collect_nodes(self, start: str | None, end: str | None) -> NodeList:
        """The calls from the node named ``start`` to the one named ``end``, both included.

        Raises:
            ValueError: there is no such node, or ``end`` comes before ``start``.
        """
        names = [node.name for node in self.module.graph.nodes]
        for name in (start, end):
            if name is not None and name not in names:
                raise ValueError(f"the module has no node named {name!r}")
        first = 0 if start is None else names.index(start)
        last = len(names) - 1 if end is None else names.index(end)
        if last < first:
            raise ValueError(f"node {end!r} comes before node {start!r}")
        nodes = list(self.module.graph.nodes)[first : last + 1]
        return [node for node in nodes if node.op in CALLABLE_NODE_OPS]

    def run_nodes(self, start: str | None = None, end: str | None = None) -> None:
        """Runs the part from the node named ``start`` to the one named ``end`` both ways, and prints what differs."""
        nodes = self._collect_nodes(start, end)
        self._begin()
        try:
            split, name = self._build_submodule(set(nodes))
            self._run_and_compare(split, name, [])
        except (FxNetMinimizerRunFuncError, FxNetMinimizerResultMismatchError) as error:
            print(error)

    def print_report(self, report: list[str]) -> None:
        """Prints what one step found."""
        for index, line in enumerate(report):
            print(line if index == 0 else f" . {line}")

    def print_reports(self) -> None:
        """Prints what all steps found."""
        for report in self.reports:
            self.print_report(report)

    def minimize(
        self,
        start: str | None = None,
        end: str | None = None,
        skip_nodes: list[str] | None = None,
        find_last_node: bool | None = None,
    ) -> NodeSet:
        """Searches from the node named ``start`` to the one named ``end``, and prints the steps.

        Args:
            start, end: names; by default the whole module.
            skip_nodes: for "skip", the names of the nodes between the blocks.
            find_last_node: for "block", true to cut off only what follows the culprits, false only what precedes them.

        Returns:
            the culprits: nodes whose results differ, or that cannot be run. With "skip", "block" and "defined" all
            nodes of a part.

        Raises:
            RuntimeError: an unknown ``traverse_method``, or "skip" without ``skip_nodes``.
            ValueError: no node has a name that was given.
        """
        method = self.settings.traverse_method
        print(self.settings)
        print(self.module.graph)
        nodes = self._collect_nodes(start, end)
        if method == "skip" and skip_nodes is None:
            raise RuntimeError("'skip_nodes' can't be None when 'traverse_method' is 'skip'.")
        searches: dict[str, Callable[[], Iterator[NodeSet]]] = {
            "sequential": lambda: self._sequential_traverse(nodes),
            "binary": lambda: self._binary_traverse(nodes),
            "accumulate": lambda: self._accumulate_traverse(nodes),
            "skip": lambda: self._skip_traverse(nodes, skip_nodes or []),
            "block": lambda: self._block_traverse(nodes, find_last_node),
            "defined": lambda: self._defined_traverse(nodes),
        }
        if method not in searches:
            raise RuntimeError(f"Unknown traverse method {method}!")
        culprits: NodeSet = set()
        for found in searches[method]():
            culprits |= found
            # Blocks and whole parts are few: all of them are always looked at.
            if not self.settings.find_all and method in ("sequential", "binary", "accumulate"):
                break
        self.print_reports()
        return culprits


def _output_names(part: GraphModule) -> Names:
    """The names of the nodes that a part returns."""
    names: dict[str, None] = {}
    for output in part.graph.find_nodes(op="output"):
        map_arg(output.args, lambda node: names.setdefault(node.name))
    return list(names)
