"""DeepRecommender in 8 bits: time and error against eager and against prepacked float32, in one run.

    python benchmarks/quantization.py [--items 197951] [--batches 1 16 64 256] [--threads 1 2] [--seconds 2]

Least times of interleaved runs. The paper's table has up to 3.3x over eager on a server CPU.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import fxlib
from examples.deep_recommender import DeepRecommender
from fxlib.passes.optimize_for_inference import optimize_for_inference
from fxlib.passes.quantize import quantize_static
from fxlib.passes.quantize.report import relative_error


def interleaved(calls: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Least seconds of each call, the calls taking turns."""
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[next(iter(calls))]) < 3:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: min(values) for name, values in times.items()}


def ratings(batch: int, items: int) -> torch.Tensor:
    """Sparse ratings 1..5, two percent of the items, as the data set has them."""
    values = torch.randint(1, 6, (batch, items)).float()
    return values * (torch.rand(batch, items) < 0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=197951)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 64, 256])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, torch.get_num_threads()])
    parser.add_argument("--seconds", type=float, default=2.0, help="per row")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = DeepRecommender(options.items).eval()
    traced = fxlib.symbolic_trace(model)
    int8 = quantize_static(traced, [ratings(16, options.items) for _ in range(4)], progress=True)
    print(int8.meta["quantize"])
    float32 = optimize_for_inference(copy.deepcopy(traced))
    print(
        f"{'threads':>7}{'batch':>7}{'eager ms':>11}{'packed ms':>11}{'int8 ms':>10}"
        f"{'/eager':>9}{'/packed':>9}{'error':>9}"
    )
    with torch.no_grad():
        for threads in dict.fromkeys(options.threads):
            torch.set_num_threads(threads)
            for batch in options.batches:
                x = ratings(batch, options.items)
                error = relative_error(int8(x), model(x))
                calls = {"eager": lambda x=x: model(x), "packed": lambda x=x: float32(x), "int8": lambda x=x: int8(x)}
                t = interleaved(calls, options.seconds)
                print(
                    f"{threads:>7}{batch:>7}{t['eager'] * 1e3:>11.1f}{t['packed'] * 1e3:>11.1f}{t['int8'] * 1e3:>10.1f}"
                    f"{t['eager'] / t['int8']:>8.1f}x{t['packed'] / t['int8']:>8.1f}x{error:>9.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
