"""Lowering with fxlib against torch.onnx.export and ONNX Runtime: preparation time, and time of a run.

    python benchmarks/lowering.py [--models resnet50 transformer] [--batch 1 8] [--threads 1 2] [--rounds 7]
                                  [--no-compile] [--json FILE]

Preparation: `fxlib.lower` (trace, conversion, split, session; stage times are its own, and its final comparison with
eager is excluded) and `torch.onnx.export(dynamo=True)` followed by an `InferenceSession`, each from a fresh copy of the
model, once after one warm-up on a small model; then `fxlib.lower` to each other engine that runs on the CPU here, in
each of its precisions. A run: eager (also in bf16, if an engine computes in it), torch.compile, their session and ours,
in one interleaved run per cell. Each sample starts when the threads of the previous one are idle (those of an ONNX
Runtime session spin for a tenth of a second); ratios are medians over neighbouring samples.
"""

from __future__ import annotations

import argparse
import copy
import importlib.metadata
import importlib.util
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import fxlib  # noqa: E402
from fxlib.benchmark import VARIANTS, rest  # noqa: E402
from fxlib.lowering.engines import DEFAULT, table  # noqa: E402

MODELS: dict[str, tuple[str, str, Callable[[int], tuple[torch.Tensor, ...]]]] = {
    "resnet50": ("resnet50.py", "ResNet50", lambda batch: (torch.randn(batch, 3, 224, 224),)),
    "transformer": (
        "transformer.py",
        "TransformerEncoder",
        lambda batch: (torch.randint(0, 30522, (batch, 128)), torch.ones(batch, 128)),
    ),
}
NEEDED = ("onnxruntime", "onnx_ir", "onnxscript")


def load(name: str) -> tuple[torch.nn.Module, Callable[[int], tuple[torch.Tensor, ...]]]:
    """An example's model, and its inputs by batch size."""
    file, kind, make = MODELS[name]
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, kind)().eval(), make


def theirs(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], threads: int) -> tuple[Callable[..., Any], dict]:
    """The standard way: export, session, arrays in and out. Returns the call, and milliseconds by stage."""
    import onnxruntime as ort

    start = time.perf_counter()
    program = torch.onnx.export(model, inputs, dynamo=True, verbose=False)
    exported = time.perf_counter()
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    data = program.model_proto.SerializeToString()  # type: ignore[union-attr]
    session = ort.InferenceSession(data, settings, providers=["CPUExecutionProvider"])
    made = time.perf_counter()
    names = [each.name for each in session.get_inputs()]

    def call(*args: torch.Tensor) -> torch.Tensor:
        feed = {name: value.numpy() for name, value in zip(names, args, strict=True)}
        return torch.from_numpy(session.run(None, feed)[0])

    return call, {"export": (exported - start) * 1e3, "session": (made - exported) * 1e3, "all": (made - start) * 1e3}


def ours(
    model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], threads: int, engine: str = DEFAULT,
    precision: str = "fp32",
) -> tuple[Callable[..., Any], dict]:  # fmt: skip
    start = time.perf_counter()
    options = fxlib.lowering.BuildOptions(threads=threads)
    lowered = fxlib.lower(model, inputs, engine=engine, precision=precision, options=options)
    # The comparison with eager is not counted, since the standard way has none.
    whole = (time.perf_counter() - start) * 1e3 - lowered.report.timings["compare"]
    return lowered, {**lowered.report.timings, "all": whole, "relative error": lowered.report.max_rel_error}


def other_ways() -> dict[str, tuple[str, str]]:
    """Label -> engine and precision, for the other engines that can run on the CPU here."""
    ways = {}
    for engine in table().values():
        for precision in engine.precisions:
            variant = VARIANTS[engine.variant(precision)]
            if engine.name != DEFAULT and variant.default and variant.missing("cpu") is None:
                ways[variant.title] = (engine.name, precision)
    return ways


def in_bf16(model: torch.nn.Module) -> Callable[..., Any]:
    small = copy.deepcopy(model).bfloat16()

    def call(*args: torch.Tensor) -> Any:
        return small(*(arg.bfloat16() if arg.is_floating_point() else arg for arg in args))

    return call


def first(result: Any) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result


def interleaved(calls: dict[str, Callable[..., Any]], args: tuple, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of one call, sample after sample in turn."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    with torch.no_grad():
        for call in calls.values():
            call(*args)
            call(*args)
        for _ in range(rounds):
            for name, call in calls.items():
                rest()
                start = time.perf_counter()
                repeats = 0
                while repeats == 0 or (time.perf_counter() - start < 0.05 and repeats < 50):
                    call(*args)
                    repeats += 1
                times[name].append((time.perf_counter() - start) / repeats * 1e3)
    return times


def cell(name: str, batch: int, threads: int, rounds: int, compiled: bool) -> dict[str, Any]:
    torch.set_num_threads(threads)
    model, make = load(name)
    inputs = make(batch)
    mine, my_stages = ours(model, inputs, threads)
    other, their_stages = theirs(model, inputs, threads)
    calls: dict[str, Callable[..., Any]] = {"eager": model, "export + ORT": other, "fxlib.lower": mine}
    stages = {"fxlib.lower": my_stages}
    for label, way in other_ways().items():
        calls[label], stages[label] = ours(model, inputs, threads, *way)
    if any("bf16" in label for label in calls):
        calls["eager bf16"] = in_bf16(model)
    if compiled:
        torch._dynamo.reset()
        calls["torch.compile"] = torch.compile(model)
    with torch.no_grad():
        want = first(model(*inputs))
        for label, call in calls.items():
            difference = (first(call(*inputs)) - want).abs().max() / want.abs().max()
            assert difference < (1e-1 if "bf16" in label else 1e-3), f"{label} differs from eager by {difference:.1e}"
    times = interleaved(calls, inputs, rounds)
    eager, export = times["eager"], times["export + ORT"]
    rows = {
        label: {
            "ms": statistics.median(values),
            "vs eager": statistics.median(a / b for a, b in zip(eager, values, strict=True)),
            "vs export + ORT": statistics.median(a / b for a, b in zip(export, values, strict=True)),
        }
        for label, values in times.items()
    }
    return {
        "model": name, "batch": batch, "threads": threads, "run": rows, "ours": stages, "theirs": their_stages,
        "to get there": {label: their_stages["all"] / mine["all"] for label, mine in stages.items()},
    }  # fmt: skip


def show(result: dict[str, Any]) -> None:
    print(f"\n{result['model']}, batch {result['batch']}, {result['threads']} thread(s)")
    there = result["theirs"]
    parts = f"export {there['export']:.0f}, session {there['session']:.0f}"
    print(f"  to get there\n  export + ORT       {there['all']:8.0f} ms  ({parts})")
    for label, taken in result["ours"].items():
        stages = ", ".join(f"{k} {v:.0f}" for k, v in taken.items() if k not in ("all", "relative error", "compare"))
        ratio = f"{result['to get there'][label]:5.1f} x faster"
        print(f"  {label:<18} {taken['all']:8.0f} ms  {ratio}  ({stages}; error {taken['relative error']:.1e})")
    print("  a run")
    for label, row in result["run"].items():
        ratios = f"{row['vs eager']:5.2f} x eager  {row['vs export + ORT']:5.2f} x theirs"
        print(f"  {label:<18} {row['ms']:8.2f} ms  {ratios}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out: it takes a minute a cell")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"missing: {', '.join(missing)}; `pip install {' '.join(missing)}` adds it", file=sys.stderr)
        return 2
    small = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
    for way in (ours, theirs):
        way(small, (torch.randn(2, 4),), 1)
    for way in other_ways().values():
        ours(small, (torch.randn(2, 4),), 1, *way)
    results = []
    for name in arguments.models:
        for threads in arguments.threads:
            for batch in arguments.batch:
                results.append(cell(name, batch, threads, arguments.rounds, not arguments.no_compile))
                show(results[-1])
    machine = platform.processor() or platform.machine()
    packages = ["torch", "onnxruntime", *(table()[name].packages[-1] for name, _ in other_ways().values())]
    versions = [f"{name} {importlib.metadata.version(name)}" for name in dict.fromkeys(packages)]
    print(f"\n{', '.join(versions)}, {machine}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
