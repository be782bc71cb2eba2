"""The time of a lowered model by layer, and so by source line."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from fxlib.lowering.part import EnginePart
from fxlib.lowering.report import LoweringReport


@dataclass
class LayerTime:
    """The time spent on a node in one run: in its kernel, or in PyTorch."""

    node: str
    """The node that the time is reported at; empty for kernels that the engine adds, such as changes of layout."""
    nodes: list[str]
    """All nodes that are computed in that time."""
    part: str
    kernels: list[str]
    """The engine's name for its kernels; empty in PyTorch."""
    ms: float
    share: float
    """The share of the total time."""
    span: tuple | None
    call_path: list[tuple]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def layer_times(
    model: torch.nn.Module, report: LoweringReport, inputs: tuple[Any, ...], runs: int = 10
) -> list[LayerTime]:
    """The time of each layer on these inputs, in the order in which they run; medians over runs.

    Nodes of a part whose engine does not time its kernels are left out.

    Args:
        model: a lowered model.
        report: its report.
        inputs: its arguments.
        runs: number of timed runs of each kernel and each node in PyTorch.
    """
    watched: dict[str, _Watch] = {}
    parts = {part.name: part for part in report.parts}
    modules = {name.rpartition(".")[2]: module for name, module in model.named_modules()}
    watches = [_Watch(name, modules[name], watched) for name in parts]
    try:
        for _ in range(runs):
            model(*inputs)
    finally:
        for watch in watches:
            watch.end()
    rows: list[LayerTime] = []
    for name, watch in watched.items():
        module = modules[name]
        given = [watch.given[index] for index in module.exported.inputs] if isinstance(module, EnginePart) else []
        if isinstance(module, EnginePart) and module.suits(given):
            rows += _of_engine(report, name, module, given, runs)
        else:
            nodes = list(parts[name].nodes)
            rows.append(_row(report, nodes[0], nodes, name, [], statistics.median(watch.ms)))
    whole = sum(row.ms for row in rows)
    for row in rows:
        row.share = row.ms / whole if whole else 0.0
    return rows


class _Watch:
    """Times the calls of one part, and keeps its arguments. It registers itself when its part first runs."""

    def __init__(self, name: str, module: torch.nn.Module, watched: dict[str, _Watch]) -> None:
        self.name, self.watched = name, watched
        self.given: tuple[Any, ...] = ()
        self.ms: list[float] = []
        self._start = 0.0
        self._hooks = [module.register_forward_pre_hook(self._before), module.register_forward_hook(self._after)]

    def _before(self, _: torch.nn.Module, args: tuple[Any, ...]) -> None:
        self.given = args
        self.watched.setdefault(self.name, self)
        self._start = time.perf_counter()

    def _after(self, *_: Any) -> None:
        self.ms.append((time.perf_counter() - self._start) * 1e3)

    def end(self) -> None:
        for hook in self._hooks:
            hook.remove()


def _of_engine(
    report: LoweringReport, name: str, part: EnginePart, given: Sequence[torch.Tensor], runs: int
) -> list[LayerTime]:
    joined: dict[str, LayerTime] = {}
    for kernel in part.program.profile(given, runs):
        spent = kernel.ms or 0.0
        row = joined.get(kernel.main)
        if row is None:
            joined[kernel.main] = _row(report, kernel.main, list(kernel.nodes), name, [kernel.kind], spent)
            continue
        row.ms += spent
        row.kernels.append(kernel.kind)
        row.nodes += [each for each in kernel.nodes if each not in row.nodes]
    return list(joined.values())


def _row(report: LoweringReport, node: str, nodes: list[str], part: str, kernels: list[str], ms: float) -> LayerTime:
    layer = next((each for each in report.layers if each.node == node), None)
    span, path = (layer.span, layer.call_path) if layer is not None else (None, [])
    return LayerTime(node, nodes, part, kernels, ms, 0.0, span, path)
