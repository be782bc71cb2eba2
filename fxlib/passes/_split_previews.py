"""The texts in which a splitter says what it would do: supported nodes, and the parts with their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..graph_module import GraphModule
from ..node import Node, map_arg
from .graph_manipulation import get_size_of_node
from .shape_prop import ShapeProp
from .tools_common import CALLABLE_NODE_OPS, get_node_target, is_node_output_tensor

if TYPE_CHECKING:
    from .splitter_base import Subgraph, _SplitterBase


def node_support_preview(splitter: _SplitterBase, dump_graph: bool) -> str:
    """The node types that are supported and not, each with the types of its tensor arguments."""
    submodules = dict(splitter.module.named_modules())
    seen: dict[bool, dict[str, dict[str, None]]] = {True: {}, False: {}}
    supported = []
    for node in splitter.module.graph.nodes:
        if node.op not in CALLABLE_NODE_OPS:
            continue
        is_supported = bool(splitter.operator_support.is_node_supported(submodules, node))
        if is_supported:
            supported.append(node)
        target = get_node_target(submodules, node)
        seen[is_supported].setdefault(target, {})[f"{target}: {_argument_dtypes(node)}\n"] = None
    if dump_graph:
        splitter._draw_graph_based_on_node_support(splitter.module, supported)
    report = ""
    for title, is_supported in (("Supported", True), ("Unsupported", False)):
        report += f"\n{title} node types in the model:\n" + "".join(map("".join, seen[is_supported].values()))
    print(report)
    return report


def _argument_dtypes(node: Node) -> tuple[Any, Any]:
    by_position = tuple(dtype for arg in node.args if (dtype := _dtype(arg)) is not None)
    return by_position, {name: dtype for name, arg in node.kwargs.items() if (dtype := _dtype(arg)) is not None}


def _dtype(arg: Any) -> Any:
    return getattr(arg.meta.get("tensor_meta"), "dtype", None) if isinstance(arg, Node) else None


def split_preview(splitter: _SplitterBase, dump_graph: bool) -> str:
    """The parts that splitting gives; of each accelerated one, whether its inputs and outputs are tensors, their size,
    and whether it can be lowered and run.
    """
    subgraphs = splitter.put_nodes_into_subgraphs()
    report = _count("Before", subgraphs)
    subgraphs = splitter.remove_small_acc_subgraphs(subgraphs)
    report += _count("After", subgraphs)
    for index, subgraph in enumerate(subgraphs):
        name = f"_run_on_acc_{index}" if subgraph.is_acc else f"{splitter.non_acc_submodule_name}{index}"
        report += f"{name}: {len(subgraph.nodes)} node(s)\n"
    splitter.tag(subgraphs)
    split = splitter.split(remove_tag=True)
    split.eval()
    if dump_graph:
        from .graph_drawer import FxGraphDrawer

        for name, dot in FxGraphDrawer(split, "preview", ignore_getattr=True).get_all_dot_graphs().items():
            dot.write_raw(f"{name}.dot")
    most: float = splitter.PCIe_BW
    bottleneck = ""
    for node in split.graph.nodes:
        # By the prefix, not by "acc" anywhere in the path: the other parts' name is the caller's choice.
        if node.op == "call_module" and str(node.target).startswith("_run_on_acc_"):
            text, rate = _part_report(splitter, split, str(node.target))
            report += text
            if rate < most:
                most, bottleneck = rate, str(node.target)
    report += f"\nTheoretical max qps (bounds by PCIe bandwidth) for this model is {most},"
    report += f" bottleneck is submodule {bottleneck}."
    print(report)
    return report


def _count(when: str, subgraphs: Sequence[Subgraph]) -> str:
    accelerated = sum(subgraph.is_acc for subgraph in subgraphs)
    return (
        f"{when} removing small acc subgraphs, total {len(subgraphs)} subgraphs are created: "
        f"{accelerated} acc subgraphs and {len(subgraphs) - accelerated} cpu subgraphs.\n"
    )


def _part_report(splitter: _SplitterBase, split: GraphModule, name: str) -> tuple[str, float]:
    """The text about one accelerated part, and how often a second its inputs or outputs cross the bus."""
    from .splitter_base import generate_inputs_for_submodules

    part: Any = getattr(split, name)
    inputs = generate_inputs_for_submodules(split, splitter.sample_input, [name])[name]
    ShapeProp(part).propagate(*inputs)
    report = f"\nProcessing acc submodule {name}\nChecking inputs...\n"
    sizes = {"Input": 0, "Output": 0}

    def check(kind: str, node: Node) -> None:
        nonlocal report
        if is_node_output_tensor(node):
            sizes[kind] += get_size_of_node(part, node)[0]
        else:
            report += f"{kind} {node.name} is not a tensor, this might cause problems during lowering!\n"

    for node in part.graph.find_nodes(op="placeholder"):
        check("Input", node)
    report += "Checking outputs...\n"
    for output in part.graph.find_nodes(op="output"):
        map_arg(output.args, lambda node: check("Output", node))
    most = max(sizes.values())
    rate = splitter.PCIe_BW / most if most else float("inf")
    report += (
        f"Total input size in bytes is {sizes['Input']}, total output size in bytes is {sizes['Output']},"
        f" theoretical max qps (bounds by PCIe bandwidth) for this submodule is {rate}.\n"
    )
    try:
        lowered = splitter._lower_model_to_backend(part, inputs)
    except RuntimeError:
        return report + "Run into an error during lowering!\n" + splitter._find_culprit(part, inputs), rate
    try:
        lowered(*inputs)
    except RuntimeError:
        return report + "Run into an error during inference!\n" + splitter._find_culprit(part, inputs), rate
    return report + "Lowering and running succeed!\n", rate
