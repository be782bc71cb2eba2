"""Where the time of a lowered model goes: by layer, and so by source line."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from fxlib.lowering.lowered import EnginePart, LoweredModule
    from fxlib.lowering.report import LoweringReport


@dataclass
class LayerTime:
    """The time of one run that is spent for a node: by its kernel, or by the part that stays in PyTorch."""

    node: str
    """The node that the time is told at; empty for what the engine adds, such as changes of layout."""
    nodes: list[str]
    """All nodes that are computed in that time."""
    part: str
    kernels: list[str]
    """What the engine calls its kernels; empty in PyTorch."""
    ms: float
    share: float
    """Of the sum of all."""
    span: tuple | None
    call_path: list[tuple]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def profile(lowered: LoweredModule, inputs: tuple[Any, ...], runs: int = 10) -> list[LayerTime]:
    """The time of each layer on these inputs, in the order in which they run; medians over runs.

    Engines that cannot tell the time of a kernel are left out, as their kernels are.
    """
    given: dict[str, tuple[Any, ...]] = {}
    spent: dict[str, list[float]] = {}
    order: list[str] = []
    handles = []
    parts = {part.name: part for part in lowered.report.parts}
    modules = {name.rpartition(".")[2]: module for name, module in lowered.module.named_modules()}
    for name in parts:
        handles += _watched(name, modules[name], given, spent, order)
    try:
        for _ in range(runs):
            lowered(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    rows: list[LayerTime] = []
    for name in dict.fromkeys(order):
        if parts[name].engine is None:
            nodes = list(parts[name].nodes)
            rows.append(_row(lowered.report, nodes[0], nodes, name, [], statistics.median(spent[name])))
        else:
            rows += _of_engine(lowered.report, name, modules[name], given[name], runs)
    whole = sum(row.ms for row in rows)
    for row in rows:
        row.share = row.ms / whole if whole else 0.0
    return rows


def _watched(
    name: str,
    module: torch.nn.Module,
    given: dict[str, tuple[Any, ...]],
    spent: dict[str, list[float]],
    order: list[str],
) -> list[Any]:
    start = [0.0]

    def before(_: Any, args: tuple[Any, ...]) -> None:
        given[name] = args
        order.append(name)
        start[0] = time.perf_counter()

    def after(*_: Any) -> None:
        spent.setdefault(name, []).append((time.perf_counter() - start[0]) * 1e3)

    return [module.register_forward_pre_hook(before), module.register_forward_hook(after)]


def _of_engine(
    report: LoweringReport, name: str, part: EnginePart, args: tuple[Any, ...], runs: int
) -> list[LayerTime]:
    tell: Callable[..., Any] | None = getattr(part.program, "profile", None)
    if tell is None:
        return []
    joined: dict[str, LayerTime] = {}
    for kernel in tell([args[index] for index in part.exported.inputs], runs):
        row = joined.get(kernel.main)
        if row is None:
            joined[kernel.main] = _row(report, kernel.main, list(kernel.nodes), name, [kernel.operator], kernel.ms)
            continue
        row.ms += kernel.ms
        row.kernels.append(kernel.operator)
        row.nodes += [each for each in kernel.nodes if each not in row.nodes]
    return list(joined.values())


def _row(report: LoweringReport, node: str, nodes: list[str], part: str, kernels: list[str], ms: float) -> LayerTime:
    layer = next((each for each in report.layers if each.node == node), None)
    span, path = (layer.span, layer.call_path) if layer is not None else (None, [])
    return LayerTime(node, nodes, part, kernels, ms, 0.0, span, path)
