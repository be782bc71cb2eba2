"""The measuring: warm-up, interleaved samples, percentiles, errors, memory.

Samples of all variants are taken in turn, round after round, so that a machine that slows down or speeds up does so
for all of them; the speed-up is the median over rounds of eager's sample to the variant's. Before each sample the
threads of the variant before it have come to rest.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils.benchmark import Timer

from fxlib.benchmark.report import BenchmarkReport, Measurement
from fxlib.benchmark.rest import rest
from fxlib.benchmark.variants import VARIANTS, Variant

MIN_SAMPLE_S = 0.02
"""A sample repeats the call until it lasts this long, so that the clock does not matter."""


def benchmark(
    model: torch.nn.Module,
    inputs: Sequence[Any],
    variants: Sequence[str] | None = None,
    *,
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
        variants: names from `VARIANTS`; default all that can run here. Eager is always measured.
        batches: batch sizes; tensors are repeated or cut along dimension 0. Default: as given.
        threads: intra-op thread counts. Default: torch's present one.
        rounds: samples of each variant; fewer where `seconds` runs out, but never fewer than three.
        seconds: time for the samples of one batch size and thread count.
        progress: called with a text and the fraction done.
        cancelled: asked between samples; True stops and returns what there is.

    Raises:
        KeyError: an unknown variant; the text lists the known ones.
        ValueError: the model is in training mode.
    """
    if model.training:
        raise ValueError(f"{type(model).__name__} is in training mode; call .eval() on it before timing")
    device = next(
        (
            v.device.type
            for v in pytree.tree_leaves([list(inputs), list(model.parameters())])
            if isinstance(v, torch.Tensor)
        ),
        "cpu",
    )
    chosen = _chosen(variants, device)
    say = progress or (lambda text, done: None)
    stop = cancelled or (lambda: False)
    before = torch.get_num_threads()
    cells = [(b, t) for t in (threads or [before]) for b in (batches or [_batch(inputs)])]
    report = BenchmarkReport(type(model).__name__, _describe(inputs), environment(), [])
    try:
        with exclusive(), cold_compiler():
            for index, (batch, count) in enumerate(cells):
                torch.set_num_threads(count)
                args = [_resize(v, batch) for v in inputs]
                span = (index / len(cells), 1 / len(cells))
                report.rows += _cell(
                    model, args, chosen, batch, count, rounds, seconds, device, say, stop, span, by_layer=index == 0
                )
                if stop():
                    report.cancelled = True
                    break
    finally:
        torch.set_num_threads(before)
    say("done", 1.0)
    return report


def _chosen(names: Sequence[str] | None, device: str) -> list[tuple[Variant, str | None]]:
    if names is None:
        usable = [(v, v.missing(device)) for v in VARIANTS.values() if v.default]
        return [(v, problem) for v, problem in usable if problem is None]
    unknown = [n for n in names if n not in VARIANTS]
    if unknown:
        raise KeyError(f"unknown variant {unknown[0]!r}; the variants are {', '.join(VARIANTS)}")
    return [(VARIANTS[n], VARIANTS[n].missing(device)) for n in dict.fromkeys(["eager", *names])]


def _cell(model, args, chosen, batch, threads, rounds, seconds, device, say, stop, span, by_layer) -> list[Measurement]:
    rows, calls = [], {}
    with torch.no_grad():
        expected = _copy(model(*_copy(args)))
    for index, (variant, problem) in enumerate(chosen):
        row = Measurement(variant.name, variant.title, batch, threads, problem=problem)
        rows.append(row)
        if problem or stop():
            row.problem = problem or "cancelled"
            continue
        say(f"preparing {variant.title}", span[0] + span[1] * 0.4 * index / len(chosen))
        peak = _peak(device)
        start = time.perf_counter()
        try:
            call = variant.prepare(model, args)
            row.prepare_ms = (time.perf_counter() - start) * 1e3
            start = time.perf_counter()
            with torch.no_grad():
                result = call(*_copy(args))
            _sync(device)
            row.first_ms = (time.perf_counter() - start) * 1e3
            row.max_rel_error = 0.0 if variant.name == "eager" else _error(expected, result)
            row.memory_mib = max(0.0, _peak(device) - peak)
        except Exception as error:
            text = str(error).strip().splitlines()
            row.problem = f"{type(error).__name__}: {text[0] if text else ''}"[:200]
            continue
        calls[variant.name] = call
    _sample(rows, calls, args, rounds, seconds, threads, say, stop, span)
    for row in rows if by_layer else ():
        tell = getattr(calls.get(row.variant), "profile", None)
        if tell is not None and not stop():
            say(f"layers of {row.title}", span[0] + span[1])
            row.layers = [layer.as_dict() for layer in tell(*args)]
    return rows


def _sample(rows, calls, args, rounds, seconds, threads, say, stop, span) -> None:
    timers, repeats = {}, {}
    with torch.no_grad():
        for name, call in calls.items():
            timers[name] = Timer("call(*args)", globals={"call": call, "args": args}, num_threads=threads)
            with torch.no_grad():
                once = timers[name].timeit(1).median  # also the last of the warm-up
                once = min(once, timers[name].timeit(1).median)
            repeats[name] = max(1, round(MIN_SAMPLE_S / max(once, 1e-9)))
        start = time.perf_counter()
        by_name = {row.variant: row for row in rows}
        gc.collect()
        for index in range(rounds):
            if stop() or (index >= 3 and time.perf_counter() - start > seconds):
                break
            say(f"round {index + 1} of {rounds}", span[0] + span[1] * (0.4 + 0.6 * index / rounds))
            for name, timer in timers.items():
                if stop():
                    break
                rest()
                by_name[name].times_ms.append(timer.timeit(repeats[name]).median * 1e3)
    eager: list[float] = next((row.times_ms for row in rows if row.variant == "eager"), [])
    for row in rows:
        pairs = [a / b for a, b in zip(eager, row.times_ms, strict=False) if b]
        row.speedup = statistics.median(pairs) if pairs else None


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
def exclusive():
    """Only one benchmark of this user runs at a time; a second one waits for the first."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fxlens"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(folder / "benchmark.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def cold_compiler():
    """torch.compile finds nothing that it compiled before, and leaves nothing behind: the time to get ready is the
    whole one."""
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
    return next((v.shape[0] for v in inputs if isinstance(v, torch.Tensor) and v.dim()), 1)


def _resize(value: Any, batch: int) -> Any:
    if not isinstance(value, torch.Tensor) or not value.dim() or value.shape[0] == batch:
        return value
    times = -(-batch // value.shape[0])
    return value.repeat(times, *[1] * (value.dim() - 1))[:batch].contiguous()


def _describe(inputs: Sequence[Any]) -> str:
    return ", ".join(
        f"{str(v.dtype).removeprefix('torch.')}[{', '.join(map(str, v.shape))}]"
        if isinstance(v, torch.Tensor)
        else repr(v)
        for v in inputs
    )


def _copy(value: Any) -> Any:
    return pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, value)


def _error(expected: Any, got: Any) -> float:
    worst = 0.0
    for want, have in zip(pytree.tree_leaves(expected), pytree.tree_leaves(got), strict=True):
        if isinstance(want, torch.Tensor) and want.numel():
            scale = max(want.double().abs().max().item(), 1e-30)
            worst = max(worst, (want.double() - have.double()).abs().max().item() / scale)
    return worst


def _sync(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _peak(device: str) -> float:
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    if sys.platform == "win32":
        return 0.0
    import resource

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / 2**20 if sys.platform == "darwin" else size / 2**10
