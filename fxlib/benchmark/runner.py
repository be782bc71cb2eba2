"""The measuring: warm-up, interleaved samples, percentiles, errors, memory.

Samples of all variants are taken in turn, round after round, so that a machine that slows down or speeds up does so for
all of them; the speed-up is the ratio of the medians. Before each sample, the threads of the previous variant have
become idle.
"""

from __future__ import annotations

import functools
import gc
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.benchmark import Timer

from fxlib.benchmark.report import BenchmarkReport, Measurement
from fxlib.benchmark.rest import rest
from fxlib.benchmark.variants import VARIANTS, Variant
from fxlib.capture.module_state import unchanged
from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.leaves import copied, map_tensors, tensors_in, write_back
from fxlib.ir.modules import data_kept
from fxlib.lowering.cache import cache_directory
from fxlib.lowering.difference import difference, mismatch

_NOTHING = "changes nothing in this model"
_APART = 1e-2
"""A relative difference between two runs of the same model that only random numbers explain."""
MIN_SAMPLE_S = 0.02
"""A sample repeats the call until it lasts this long, so that the clock does not matter."""


def benchmark(
    model: torch.nn.Module,
    inputs: Sequence[Any],
    variants: Sequence[str] | None = None,
    *,
    without: Collection[str] = (),
    trace: Callable[[], GraphModule] | None = None,
    batches: Sequence[int] | None = None,
    threads: Sequence[int] | None = None,
    rounds: int = 15,
    seconds: float = 60.0,
    progress: Callable[[str, float], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> BenchmarkReport:
    """Time a model and its variants.

    Args:
        model: a module in evaluation mode; a GPU model is timed on its GPU.
        inputs: example arguments of `forward`.
        variants: names from `VARIANTS`; default all that can run here and change the model. Eager is always measured.
        without: names of variants that are left out.
        trace: returns the traced model, for variants that start from one. Default: a symbolic trace.
        batches: batch sizes; tensors that have as many rows as the first one are repeated or cut along dimension 0, in
            lists and dicts too. Default: the inputs as they are given.
        threads: intra-op thread counts. Default: torch's present one.
        rounds: samples of each variant; fewer if `seconds` runs out, but at least three.
        seconds: time for the samples of one batch size and thread count.
        progress: called with a text and the fraction done.
        cancelled: called between samples; True stops, and the report has what was measured.

    Raises:
        TypeError: `model` is no module, `inputs` no tuple, or another argument of the wrong type.
        KeyError: an unknown variant; the text lists the known ones.
        ValueError: the model is in training mode, fails itself, or a batch size or thread count is not a positive
            number.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"benchmark(): model must be a torch.nn.Module, not {type(model).__name__}")
    if isinstance(inputs, torch.Tensor) or not isinstance(inputs, Sequence):
        raise TypeError(f"benchmark(): inputs must be a tuple of arguments of forward, not {type(inputs).__name__}")
    for name, names in (("variants", variants), ("without", without)):
        if isinstance(names, str):
            raise TypeError(f"benchmark(): {name} must be a list of names, not a string; pass [{names!r}]")
    for name, counts in (("batches", batches), ("threads", threads)):
        if counts is not None and not _are_counts(counts):
            raise ValueError(f"benchmark(): {name} must be a list of numbers of 1 or more, not {counts!r}")
    if type(rounds) is not int:
        raise TypeError(f"benchmark(): rounds must be an integer, not {type(rounds).__name__}")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"benchmark(): seconds must be a number, not {type(seconds).__name__}")
    if trace is not None and not callable(trace):
        raise TypeError(f"benchmark(): trace must be a function that traces the model, not {type(trace).__name__}")
    if model.training:
        raise ValueError(f"{type(model).__name__} is in training mode; call .eval() on it before timing")
    tensors = tensors_in(inputs, list(model.parameters()))
    device = tensors[0].device.type if tensors else "cpu"
    run = _Run(
        model, device, _chosen(variants, without, device), variants is not None, rounds, seconds,
        progress or (lambda text, done: None), cancelled or (lambda: False), trace and functools.cache(trace),
    )  # fmt: skip
    before = torch.get_num_threads()
    sizes = [(b, _resized(inputs, b)) for b in batches] if batches else [(_batch(inputs), list(inputs))]
    cells = [(batch, args, count) for count in threads or [before] for batch, args in sizes]
    report = BenchmarkReport(type(model).__name__, _describe(inputs), environment(), [])
    try:
        with exclusive(), cold_compiler(), unchanged(model), data_kept(model):
            for index, (batch, args, count) in enumerate(cells):
                torch.set_num_threads(count)
                say = run.within(index / len(cells), 1 / len(cells))
                report.rows += run.cell(copied(args), batch, count, say, by_layer=index == 0)
                if run.cancelled():
                    report.cancelled = True
                    break
    finally:
        torch.set_num_threads(before)
    run.progress("done", 1.0)
    return report


def _are_counts(values: Any) -> bool:
    return isinstance(values, Sequence) and all(type(each) is int and each > 0 for each in values)


def _chosen(names: Sequence[str] | None, without: Collection[str], device: str) -> list[tuple[Variant, str | None]]:
    """The variants to measure, each with the reason why it cannot run here, if any."""
    if unknown := [name for name in (*(names or ()), *without) if name not in VARIANTS]:
        raise KeyError(f"unknown variant {unknown[0]!r}; the variants are {', '.join(VARIANTS)}")
    left_out = {*without} - {"eager"}
    if names is None:
        usable = [(v, v.missing(device)) for v in VARIANTS.values() if v.default and v.name not in left_out]
        return [(v, problem) for v, problem in usable if problem is None]
    wanted = dict.fromkeys(["eager", *names])
    return [(VARIANTS[name], VARIANTS[name].missing(device)) for name in wanted if name not in left_out]


@dataclass
class _Run:
    """One benchmark: what is measured, for how long, and the callbacks."""

    model: torch.nn.Module
    device: str
    chosen: list[tuple[Variant, str | None]]
    named: bool
    """Whether the caller named the variants: each then gets a row, even without a measurement."""
    rounds: int
    seconds: float
    progress: Callable[[str, float], None]
    cancelled: Callable[[], bool]
    trace: Callable[[], GraphModule] | None

    def within(self, start: float, share: float) -> Callable[[str, float], None]:
        """`progress` for one part of the whole."""
        return lambda text, done: self.progress(text, start + share * done)

    def cell(
        self, args: list[Any], batch: int, threads: int, say: Callable[[str, float], None], by_layer: bool
    ) -> list[Measurement]:
        """All variants at one batch size and thread count."""
        rows: list[Measurement] = []
        calls: dict[str, Callable[..., Any]] = {}
        try:
            expected = self._first(self.model, args)
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise ValueError(
                f"{type(self.model).__name__} itself fails on these inputs ({_describe(args)}): {lines[0]}"
            ) from error
        random = difference(expected, self._first(self.model, args, seed=1))[1] > _APART
        for index, (variant, problem) in enumerate(self.chosen):
            row = Measurement(variant.name, variant.title, batch, threads, problem=problem, random=random)
            rows.append(row)
            if problem or self.cancelled():
                row.problem = problem or "cancelled"
                continue
            say(f"preparing {variant.title}", 0.4 * index / len(self.chosen))
            try:
                calls[variant.name] = self._prepared(variant, row, args, expected)
                if _same_program(calls[variant.name], calls.get("generated")):
                    del calls[variant.name]
                    row.problem = _NOTHING
            except Exception as error:
                text = str(error).strip().splitlines()
                row.problem = f"{type(error).__name__}: {text[0] if text else ''}"[:200]
        self._sample(rows, calls, args, say)
        for row, (variant, _) in zip(rows, self.chosen, strict=True) if by_layer else ():
            if variant.layers is not None and variant.name in calls and not self.cancelled():
                say(f"layers of {row.title}", 1.0)
                row.layers = [layer.as_dict() for layer in variant.layers(calls[variant.name], args)]
        return [row for row in rows if self.named or row.problem != _NOTHING]

    def _prepared(self, variant: Variant, row: Measurement, args: list[Any], expected: Any) -> Callable[..., Any]:
        """The prepared variant, after its first call."""
        peak = _peak(self.device)
        start = time.perf_counter()
        with unchanged(self.model), data_kept(self.model):  # a trace runs forward, which may write to buffers
            traced = self.trace() if self.trace is not None and variant.of_trace else None
            call = variant.prepare(self.model if traced is None else traced, copied(args))
        row.prepare_ms = (time.perf_counter() - start) * 1e3
        start = time.perf_counter()
        result = self._first(call, args)
        row.first_ms = (time.perf_counter() - start) * 1e3
        if variant.name == "eager":
            row.max_rel_error = 0.0
        else:
            row.mismatch = mismatch(expected, result, precision=False)
            row.max_rel_error = math.inf if row.mismatch else difference(expected, result)[1]
        row.memory_mib = max(0.0, _peak(self.device) - peak)
        return call

    def _first(self, call: Callable[..., Any], args: list[Any], seed: int = 0) -> Any:
        """The result of a first call: on copies of the inputs, the model's own state, and the same random numbers."""
        with torch.no_grad(), unchanged(self.model), data_kept(self.model), torch.random.fork_rng():
            torch.manual_seed(seed)
            result = call(*copied(args))
            if self.device == "cuda":
                torch.cuda.synchronize()
            return copied(result)

    def _sample(
        self, rows: list[Measurement], calls: dict[str, Callable[..., Any]], args: list[Any],
        say: Callable[[str, float], None],
    ) -> None:  # fmt: skip
        """Samples of all variants in turn."""
        kept, versions = copied(args), _versions(args)
        timers: dict[str, Timer] = {}
        repeats: dict[str, int] = {}
        by_name = {row.variant: row for row in rows}
        with torch.no_grad():
            for name, call in calls.items():
                timer = Timer("call(*args)", globals={"call": call, "args": args}, num_threads=by_name[name].threads)
                once = min(timer.timeit(1).median for _ in range(2))  # the last calls of the warm-up
                timers[name], repeats[name] = timer, max(1, round(MIN_SAMPLE_S / max(once, 1e-9)))
            start = time.perf_counter()
            gc.collect()
            for index in range(self.rounds):
                if self.cancelled() or (index >= 3 and time.perf_counter() - start > self.seconds):
                    break
                say(f"round {index + 1} of {self.rounds}", 0.4 + 0.6 * index / self.rounds)
                for name, timer in timers.items():
                    if self.cancelled():
                        break
                    if _versions(args) != versions:  # the model writes to its inputs
                        for tensor, value in zip(tensors_in(args), tensors_in(kept), strict=True):
                            write_back(tensor, value)
                        versions = _versions(args)
                    rest()
                    by_name[name].times_ms.append(timer.timeit(repeats[name]).median * 1e3)
        eager = by_name.get("eager")
        for row in rows:
            if eager is not None and eager.times_ms and row.times_ms:
                row.speedup = eager.median_ms / row.median_ms


def _same_program(call: Any, generated: Any) -> bool:
    """Whether a variant has left the traced model as it was."""
    if call is generated or not isinstance(call, GraphModule) or not isinstance(generated, GraphModule):
        return False
    kinds = [{name: type(module) for name, module in each.named_modules() if name} for each in (call, generated)]
    return call.code == generated.code and kinds[0] == kinds[1]


def environment() -> dict[str, Any]:
    """The machine, for the foot of a table."""
    cpu = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    load = 0.0
    with suppress(OSError, AttributeError):
        load = os.getloadavg()[0]
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "gpu": gpu,
        "load": load,
        "platform": platform.platform(),
    }


@contextmanager
def exclusive() -> Iterator[None]:
    """Only one benchmark of this user runs at a time; a second one waits for the first."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with open(cache_directory() / "benchmark.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def cold_compiler() -> Iterator[None]:
    """Give torch.compile an empty cache that is deleted afterwards, so that preparation times are complete."""
    name = "TORCHINDUCTOR_CACHE_DIR"
    before = os.environ.get(name)
    with tempfile.TemporaryDirectory(prefix="fxlib-compile-", ignore_cleanup_errors=True) as folder:
        os.environ[name] = folder
        try:
            yield
        finally:
            os.environ.pop(name, None)
            if before is not None:
                os.environ[name] = before


def _versions(args: Sequence[Any]) -> list[int]:
    """A number for each tensor that a write to it changes."""
    return [tensor._version for tensor in tensors_in(args)]


def _batch(inputs: Sequence[Any]) -> int:
    return next((tensor.shape[0] for tensor in tensors_in(inputs) if tensor.dim()), 1)


def _resized(inputs: Sequence[Any], batch: int) -> list[Any]:
    """The inputs with that many rows, in tensors that have the number of the first one.

    Raises:
        ValueError: there are no rows to repeat.
    """
    rows = _batch(inputs)
    if not rows:
        raise ValueError("benchmark(): the example has no rows to repeat; leave batches out, or give one with rows")

    def resized(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.dim() or tensor.shape[0] != rows or rows == batch:
            return tensor
        return tensor.repeat(-(-batch // rows), *[1] * (tensor.dim() - 1))[:batch].contiguous()

    return map_tensors(resized, list(inputs))


class _Shown(str):
    """A text that stands for itself within a printed structure."""

    __slots__ = ()
    __repr__ = str.__str__


def _describe(inputs: Sequence[Any]) -> str:
    def shown(tensor: torch.Tensor) -> _Shown:
        return _Shown(f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(map(str, tensor.shape))}]")

    return ", ".join(repr(map_tensors(shown, each)) for each in inputs)


def _peak(device: str) -> float:
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    if sys.platform == "win32":
        return 0.0
    import resource

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / 2**20 if sys.platform == "darwin" else size / 2**10
