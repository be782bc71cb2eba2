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
from fxlib.ir.leaves import copied, map_tensors, tensors_in
from fxlib.ir.modules import data_kept
from fxlib.lowering.cache import cache_directory
from fxlib.lowering.difference import difference, mismatch

_FIRST = ("eager", "generated")
_NOTHING = "changes nothing in this model"
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
        batches: batch sizes; the tensors whose dimension 0 is that of the first are repeated or cut along it. Default:
            as given.
        threads: intra-op thread counts, of at most the number of processors. Default: torch's present one.
        rounds: samples of each variant; fewer if `seconds` runs out, but at least three.
        seconds: time for the samples of one batch size and thread count.
        progress: called with a text and the fraction done.
        cancelled: called between samples; True stops, and the report has what was measured.

    Raises:
        TypeError: `model` is no module, `inputs` no tuple, or another argument of the wrong type.
        KeyError: an unknown variant; the text lists the known ones.
        ValueError: the model is in training mode or fails on its inputs, or a batch size or thread count is not a
            positive number, or is too large.
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
    most = os.cpu_count() or 1
    if threads is not None and max(threads) > most:
        raise ValueError(
            f"benchmark(): threads must be at most {most}, the processors of this machine, not {threads!r}"
        )
    if batches is not None and (sizes := [each.shape for each in tensors_in(inputs) if each.dim()]) and not sizes[0][0]:
        raise ValueError("benchmark(): batches need an example with at least one row, and its first tensor has none")
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
    wanted: Sequence[int | None] = batches or [None]  # None: as given
    cells = [(b, t) for t in (threads or [before]) for b in wanted]
    report = BenchmarkReport(type(model).__name__, _describe(inputs), environment(), [])
    try:
        with exclusive(), cold_compiler():
            for index, (batch, count) in enumerate(cells):
                torch.set_num_threads(count)
                say = run.within(index / len(cells), 1 / len(cells))
                given = list(inputs) if batch is None else _resized(inputs, batch)
                report.rows += run.cell(given, _batch(given), count, say, by_layer=index == 0)
                if run.cancelled():
                    report.cancelled = True
                    break
            report.random, report.writes = run.random, run.writes
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
    random: bool = False
    """Whether the model draws random numbers. The results that are compared are then of the same seed."""
    writes: bool = False
    """Whether the model writes to its inputs. Each call that is timed then takes copies."""

    def within(self, start: float, share: float) -> Callable[[str, float], None]:
        """`progress` for one part of the whole."""
        return lambda text, done: self.progress(text, start + share * done)

    def cell(
        self, args: list[Any], batch: int, threads: int, say: Callable[[str, float], None], by_layer: bool
    ) -> list[Measurement]:
        """All variants at one batch size and thread count."""
        calls: dict[str, Callable[..., Any]] = {}
        expected = self._expected(args)
        rows = [Measurement(each.name, each.title, batch, threads, problem=problem) for each, problem in self.chosen]
        # The generated code comes early, since what changes nothing in it needs no measurement.
        in_turn = sorted(zip(rows, self.chosen, strict=True), key=lambda each: each[0].variant not in _FIRST)
        for index, (row, (variant, problem)) in enumerate(in_turn):
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
        with self._kept():
            self._sample(rows, calls, args, say)
        for row, (variant, _) in zip(rows, self.chosen, strict=True) if by_layer else ():
            if variant.layers is not None and variant.name in calls and not self.cancelled():
                say(f"layers of {row.title}", 1.0)
                with self._kept():
                    row.layers = [layer.as_dict() for layer in variant.layers(calls[variant.name], copied(args))]
        return [row for row in rows if self.named or row.problem != _NOTHING]

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """The state of the model is restored, and the same random numbers are drawn each time."""
        with torch.no_grad(), unchanged(self.model), data_kept(self.model, True), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            yield

    def _expected(self, args: list[Any]) -> Any:
        """Eager's result, and what it does besides."""
        given = copied(args)
        versions = [tensor._version for tensor in tensors_in(given)]
        with self._kept():
            before = torch.random.get_rng_state()
            try:
                expected = copied(self.model(*given))
            except Exception as error:
                lines = str(error).strip().splitlines() or [type(error).__name__]
                raise ValueError(f"{type(self.model).__name__} itself fails on its inputs: {lines[0]}") from error
            self.random = self.random or not torch.equal(before, torch.random.get_rng_state())
        self.writes = self.writes or versions != [tensor._version for tensor in tensors_in(given)]
        return expected

    def _prepared(self, variant: Variant, row: Measurement, args: list[Any], expected: Any) -> Callable[..., Any]:
        """The prepared variant, after its first call."""
        peak = _peak(self.device)
        start = time.perf_counter()
        with self._kept():  # a trace runs forward, which may write to buffers
            traced = self.trace() if self.trace is not None and variant.of_trace else None
            call = variant.prepare(self.model if traced is None else traced, args)
        row.prepare_ms = (time.perf_counter() - start) * 1e3
        start = time.perf_counter()
        with self._kept():
            result = call(*copied(args))
        if self.device == "cuda":
            torch.cuda.synchronize()
        row.first_ms = (time.perf_counter() - start) * 1e3
        if variant.name == "eager":
            row.max_rel_error = 0.0
        else:
            row.mismatch = mismatch(expected, result, precision=False)
            row.max_rel_error = math.inf if row.mismatch else difference(expected, result)[1]
        row.memory_mib = max(0.0, _peak(self.device) - peak)
        return call

    def _sample(
        self, rows: list[Measurement], calls: dict[str, Callable[..., Any]], args: list[Any],
        say: Callable[[str, float], None],
    ) -> None:  # fmt: skip
        """Samples of all variants in turn."""
        timers: dict[str, Timer] = {}
        repeats: dict[str, int] = {}
        by_name = {row.variant: row for row in rows}
        code = "call(*copied(args))" if self.writes else "call(*args)"
        for name, call in calls.items():
            known = {"call": call, "args": args, "copied": copied}
            timer = Timer(code, globals=known, num_threads=by_name[name].threads)
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


def _batch(inputs: Sequence[Any]) -> int:
    return next((tensor.shape[0] for tensor in tensors_in(inputs) if tensor.dim()), 1)


def _resized(inputs: Sequence[Any], batch: int) -> list[Any]:
    present = _batch(inputs)

    def resized(value: torch.Tensor) -> torch.Tensor:
        if not value.dim() or value.shape[0] != present or present == batch:
            return value
        return value.repeat(-(-batch // present), *[1] * (value.dim() - 1))[:batch].contiguous()

    return map_tensors(resized, list(inputs))


class _Shown(str):
    """A text that stands for a tensor, within whatever holds it."""

    __repr__ = str.__str__


def _describe(inputs: Sequence[Any]) -> str:
    shown = map_tensors(lambda v: _Shown(f"{str(v.dtype).removeprefix('torch.')}{list(v.shape)}"), list(inputs))
    return ", ".join(map(repr, shown))


def _peak(device: str) -> float:
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    if sys.platform == "win32":
        return 0.0
    import resource

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / 2**20 if sys.platform == "darwin" else size / 2**10
