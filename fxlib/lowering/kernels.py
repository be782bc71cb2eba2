"""Maps the kernels of a program back to the nodes of the model; shared by several engines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fxlib.lowering.engine import Kernel

if TYPE_CHECKING:
    import onnx_ir as ir

    from fxlib.lowering.onnx.export import Exported

FIRST = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Operators that start a kernel: an engine fuses at most a transposition that comes before one."""


def described(
    exported: Exported,
    name: str,
    kind: str,
    computed: Sequence[ir.Node],
    end: str = "",
    joined: Sequence[ir.Node] = (),
    **facts: Any,
) -> Kernel:
    """A kernel that computes these ONNX nodes.

    Its time is reported at the node whose name it has, otherwise at the first one with weights, the first of its kind,
    or the last.

    Args:
        exported: the ONNX model.
        name: the kernel's name.
        kind: the engine's name for kernels of this kind.
        computed: the ONNX nodes, in the order of the graph.
        end: the name of the ONNX node that its result comes from, if the engine tells.
        joined: further nodes that were fused into it or computed at build time; its time is not reported at these.
        facts: further fields of `Kernel`.
    """
    owners = [node.metadata_props["fx.node"] for node in computed]
    # `SkipLayerNormalization` is first of all a normalization, although the addition in it comes first.
    named = [node.name == end and node.op_type in kind for node in computed]
    weighed = [
        any(value is not None and value.name in exported.parameters for value in node.inputs) for node in computed
    ]
    alike = [node.op_type in kind for node in computed]
    main = next((i for marks in (named, weighed, alike) for i, marked in enumerate(marks) if marked), -1)
    nodes = [*joined, *computed]  # fused nodes come first
    return Kernel(
        name, kind, tuple(str(node.name) for node in nodes),
        tuple(dict.fromkeys(node.metadata_props["fx.node"] for node in nodes)), owners[main] if owners else "", **facts,
    )  # fmt: skip


def producers(node: ir.Node) -> list[ir.Node]:
    """The nodes whose results a node reads."""
    return [made for value in node.inputs if value is not None and (made := value.producer()) is not None]


def take_in(owners: dict[str, str], node: ir.Node, owner: str, taken: Callable[[ir.Node, ir.Node], bool]) -> None:
    """Assign to ``owner`` the unassigned nodes before ``node``, as far back as ``taken(node, producer)`` says that a
    kernel absorbs the producer."""
    waiting = [node]
    for each in waiting:  # grows meanwhile
        for before in producers(each):
            if str(before.name) not in owners and taken(each, before):
                owners[str(before.name)] = owner
                waiting.append(before)


def read_by(nodes: Sequence[ir.Node], owners: Mapping[Any, str], kernels: Collection[str]) -> dict[str, str]:
    """The nodes without a kernel -> the first kernel that reads their results, directly or through others: they were
    fused into it, or computed at build time."""
    order = {kernel: place for place, kernel in enumerate(kernels)}
    found: dict[str, str] = {}
    for node in reversed(nodes):
        if (kernel := owners.get(node.name) or found.get(str(node.name))) is None:
            continue
        for before in producers(node):
            if before.name not in owners:
                found[str(before.name)] = min(found.get(str(before.name), kernel), kernel, key=order.__getitem__)
    return found


def longest_beginning(name: str, ours: Collection[str], marks: str) -> str:
    """The longest of our names that an engine's name starts with, up to one of the marks after which the engine appends
    its own part; empty if there is none."""
    ends = [stop for stop in range(len(name), 0, -1) if stop == len(name) or name[stop] in marks]
    return next((name[:stop] for stop in ends if name[:stop] in ours), "")
