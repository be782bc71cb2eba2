"""How close inference comes to the limits of this CPU: arithmetic rate and memory bandwidth.

    python benchmarks/limits.py [--threads 1 2] [--batches 1 8] [--items 197951] [--seconds 8]

For each number of threads, in one interleaved run: the rate of a product of 2048 x 2048 float32 matrices and of a
favourable 3x3 convolution (the faster one is the core's peak); ResNet-50 eager, packed and in ONNX Runtime as a share
of it; the bytes a second that a copy moves, and that a matrix-vector product reads; DeepRecommender at batch 1, eager
and int8, as a share of the latter. Times are minima; "spread" is the largest median over its minimum. Above 1.2 other
programs used the cores, and the figures for several threads are meaningless: wait for a quiet machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torchvision

import fxlib
from benchmarks.fusion import onnx_runtime, trained_like
from benchmarks.quantization import ratings
from benchmarks.turns import least_times
from examples.deep_recommender import DeepRecommender
from fxlib.passes.cost import estimate
from fxlib.passes.optimize_for_inference import optimize_for_inference
from fxlib.passes.quantize import quantize_static

SIDE = 2048
QUIET = 1.2


def arithmetic(threads: int, batches: list[int], seconds: float) -> None:
    """Print the peak, and the share of it that ResNet-50 reaches."""
    model = trained_like(torchvision.models.resnet50(weights=None))
    square = torch.randn(SIDE, SIDE)
    image, conv = torch.randn(1, 256, 56, 56), torch.nn.Conv2d(256, 256, 3, padding=1, bias=False)
    fast = optimize_for_inference(fxlib.symbolic_trace(torch.nn.Sequential(conv).eval()), image)
    flops = {"product": 2 * SIDE**3, "convolution": 2 * 9 * 256 * image.numel()}
    calls: dict[str, Callable[[], Any]] = {"product": lambda: square @ square, "convolution": lambda: fast(image)}
    for batch in batches:
        x = torch.randn(batch, 3, 224, 224)
        packed = optimize_for_inference(fxlib.symbolic_trace(model), x)
        count = estimate(fxlib.symbolic_trace(model), x).flops
        ways = {"eager": model, "packed": packed, "ONNX Runtime": onnx_runtime(model, x, threads)}
        for name, way in ways.items():
            if way is not None:
                calls[f"batch {batch}, {name}"] = lambda way=way, x=x: way(x)
                flops[f"batch {batch}, {name}"] = count
    times, spread = least_times(calls, seconds)
    rates = {name: flops[name] / time for name, time in times.items()}
    peak = max(rates["product"], rates["convolution"])
    shares = ", ".join(f"{name} {rate / peak:.0%}" for name, rate in rates.items())
    print(f"threads {threads}: peak {peak / 1e9:.0f} GFLOP/s, of it {shares}{told(spread)}", flush=True)


def memory(threads: int, items: int, seconds: float) -> None:
    """Print the bandwidths, and the share of the read bandwidth that DeepRecommender reaches at batch 1."""
    model = DeepRecommender(items).eval()
    int8 = quantize_static(fxlib.symbolic_trace(model), [ratings(16, items) for _ in range(4)], tolerance=None)
    x = ratings(1, items)
    weights = sum(p.numel() for p in model.parameters() if p.dim() > 1)
    source = torch.empty(1 << 27)
    target, vector, matrix = torch.empty_like(source), torch.randn(1 << 13), torch.randn(1 << 14, 1 << 13)
    moved = {"copy": 2 * source.nbytes, "product": matrix.nbytes, "eager": 4 * weights, "int8": weights}
    calls = {
        "copy": lambda: target.copy_(source), "product": lambda: matrix @ vector,
        "eager": lambda: model(x), "int8": lambda: int8(x),
    }  # fmt: skip
    times, spread = least_times(calls, seconds)
    rates = {name: moved[name] / time for name, time in times.items()}
    read = max(rates["product"], rates["eager"])
    print(
        f"threads {threads}: a copy moves {rates['copy'] / 1e9:.1f} GB/s, reading {read / 1e9:.1f} GB/s; "
        f"DeepRecommender at batch 1: eager {rates['eager'] / read:.0%} of that, int8 {rates['int8'] / read:.0%}, "
        f"{times['eager'] / times['int8']:.1f}x{told(spread)}",
        flush=True,
    )


def told(spread: float) -> str:
    return f" (spread {spread:.2f}{': not quiet' if spread > QUIET else ''})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, torch.get_num_threads()])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--items", type=int, default=197951)
    parser.add_argument("--seconds", type=float, default=8.0, help="per line")
    options = parser.parse_args()
    torch.manual_seed(0)
    with torch.no_grad():
        for threads in dict.fromkeys(options.threads):
            torch.set_num_threads(threads)
            arithmetic(threads, options.batches, options.seconds)
            memory(threads, options.items, options.seconds)


if __name__ == "__main__":
    main()
