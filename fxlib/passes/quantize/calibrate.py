"""Calibration: run the float graph on examples, with an observer for every value that will be 8-bit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.leaves import as_sequence, copied, tensors_in
from fxlib.ir.node import Node
from fxlib.passes.quantize.observers import OBSERVERS, Observer, QParams
from fxlib.passes.quantize.plan import Plan
from fxlib.transform.interpreter import Interpreter

__all__ = ["calibrate", "text_progress"]

Progress = Callable[[int, int | None], None]


def calibrate(
    graph_module: GraphModule,
    plan: Plan,
    data: Iterable[Any],
    observer: str = "minmax",
    progress: Progress | None = None,
) -> dict[Node, QParams]:
    """Scale and zero point of every value that the plan has in 8 bits; some values share theirs.

    Args:
        data: each item is the tuple of inputs, or the only input, of one run.
        observer: a name in `observers.OBSERVERS`.
        progress: called with the runs done and their number (None where ``data`` has no length).

    Raises:
        KeyError: unknown observer.
        ValueError: ``data`` is empty, has only empty tensors, or contains NaN, or an infinity in a value that is
            quantized.
    """
    if not isinstance(observer, str) or observer not in OBSERVERS:
        raise KeyError(f"no observer {observer!r}; known: {', '.join(OBSERVERS)}")
    observers: dict[Node, Observer] = {}
    watched = plan.observed()
    for node in watched:
        observers.setdefault(plan.representative(node), OBSERVERS[observer]())
    total = len(data) if hasattr(data, "__len__") else None  # type: ignore[arg-type]
    runner = _Watching(graph_module, {node: observers[plan.representative(node)] for node in watched})
    runs = 0
    with torch.no_grad():
        for item in data:
            _check_numbers(graph_module, watched, as_sequence(item), runs)
            try:
                runner.run(*copied(as_sequence(item)))
            except Exception as error:
                raise refused_example(runs, error) from error
            runs += 1
            if progress is not None:
                progress(runs, total)
    if not runs:
        raise ValueError("calibrate() got no data: pass at least one example input")
    if observers and not runner.seen:
        raise ValueError("quantize_static() got data in which every tensor to quantize is empty")
    ranges = {key: QParams.of_range(*watcher.range()) for key, watcher in observers.items()}
    return {node: ranges[plan.representative(node)] for node in watched}


def _check_numbers(graph_module: GraphModule, watched: Collection[Node], inputs: Sequence[Any], example: int) -> None:
    """
    Raises:
        ValueError: an input contains NaN, or a quantized one an infinity, which no range covers.
    """
    for node, value in zip(graph_module.graph.find_nodes(op="placeholder"), inputs, strict=False):
        for tensor in tensors_in(value):
            found = "NaN" if tensor.isnan().any() else "an infinity" if node in watched and tensor.isinf().any() else ""
            if found:
                raise ValueError(
                    f"quantize_static() got {found} in data: argument {node.target!r} of example {example}, counted "
                    "from 0; calibration needs numbers"
                )


def refused_example(example: int, error: Exception) -> ValueError:
    """The error for an example on which the model fails."""
    return ValueError(
        f"quantize_static() got data that the model fails on, in example {example}, counted from 0: "
        f"{str(error).splitlines()[0]}"
    )


class _Watching(Interpreter):
    def __init__(self, module: GraphModule, watchers: dict[Node, Observer]) -> None:
        super().__init__(module)
        self.watchers, self.seen = watchers, False

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        watcher = self.watchers.get(n)
        if watcher is not None and torch.is_tensor(result) and result.numel():
            watcher.see(result)
            self.seen = True
        return result


def text_progress(done: int, total: int | None) -> None:
    """A progress bar on standard error."""
    if total:
        filled = 30 * done // total
        sys.stderr.write(
            f"\rcalibrating [{'#' * filled}{'.' * (30 - filled)}] {done}/{total}{chr(10) if done == total else ''}"
        )
    else:
        sys.stderr.write(f"\rcalibrating: {done} runs")
    sys.stderr.flush()
