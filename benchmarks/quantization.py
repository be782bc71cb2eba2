"""8-bit models: time and error against eager and against packed float32, in one run. DeepRecommender, then ResNet-50.

    python benchmarks/quantization.py [--items 197951] [--batches 1 16 64 256] [--images 1 8] [--threads 1 2]
                                      [--seconds 2] [--rows FILE]

Minimum times of interleaved runs; "spread" is the largest ratio of a median to its minimum. The error is the relative
Euclidean norm of the difference from eager. The paper's table has up to 3.3x over eager on a server CPU for
DeepRecommender, and no convolutions. ``--batches`` or ``--images`` without a number leaves a model out.
"""

from __future__ import annotations

import argparse
import copy
import sys
from pathlib import Path

import torch
import torchvision

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import fxlib
from benchmarks.fusion import trained_like
from benchmarks.rows import add_row, threads_word
from benchmarks.turns import least_times
from examples.deep_recommender import DeepRecommender
from fxlib.passes.optimize_for_inference import optimize_for_inference
from fxlib.passes.quantize import quantize_static
from fxlib.passes.quantize.report import relative_error

HEAD = (
    f"{'threads':>7}{'batch':>7}{'eager ms':>11}{'packed ms':>11}{'int8 ms':>10}"
    f"{'/eager':>9}{'/packed':>9}{'error':>9}{'spread':>8}"
)


def ratings(batch: int, items: int) -> torch.Tensor:
    """Sparse ratings 1..5, two percent of the items, as in the data set."""
    values = torch.randint(1, 6, (batch, items)).float()
    return values * (torch.rand(batch, items) < 0.02)


def row(models: tuple[torch.nn.Module, ...], x: torch.Tensor, seconds: float) -> str:
    """Measure eager, packed and int8 on ``x``, print the line, and return it as text."""
    model, packed, int8 = models
    error = relative_error(int8(x), model(x))
    calls = {"eager": lambda: model(x), "packed": lambda: packed(x), "int8": lambda: int8(x)}
    t, spread = least_times(calls, seconds)
    over_eager, over_packed = t["eager"] / t["int8"], t["packed"] / t["int8"]
    print(
        f"{torch.get_num_threads():>7}{len(x):>7}{t['eager'] * 1e3:>11.1f}{t['packed'] * 1e3:>11.1f}"
        f"{t['int8'] * 1e3:>10.1f}{over_eager:>8.1f}x{over_packed:>8.1f}x{error:>9.4f}{spread:>8.2f}",
        flush=True,
    )
    return f"{over_eager:.1f}x ({over_packed:.1f}x over packed float32), error {error:.3f}"


def recommender(options: argparse.Namespace) -> None:
    """Linear layers: the paper's model."""
    model = DeepRecommender(options.items).eval()
    traced = fxlib.symbolic_trace(model)
    int8 = quantize_static(traced, [ratings(16, options.items) for _ in range(4)], progress=sys.stderr.isatty())
    print(f"DeepRecommender, {options.items:,} items\n{int8.meta['quantize']}")
    packed = optimize_for_inference(copy.deepcopy(traced))
    print(HEAD)
    for threads in dict.fromkeys(options.threads):
        torch.set_num_threads(threads)
        for batch in options.batches:
            found = row((model, packed, int8), ratings(batch, options.items), options.seconds)
            what = f"int8 DeepRecommender ({options.items:,} items), {threads_word(threads)}, batch {batch}"
            add_row(options.rows, what, "up to 3.3x", found)


def images(options: argparse.Namespace) -> None:
    """Convolutions, with ReLU and the residual sums in 8 bits."""
    model = trained_like(torchvision.models.resnet50(weights=None))
    traced = fxlib.symbolic_trace(model)
    int8 = quantize_static(traced, [torch.randn(8, 3, 224, 224) for _ in range(2)], progress=sys.stderr.isatty())
    packed = optimize_for_inference(copy.deepcopy(traced), torch.randn(8, 3, 224, 224))
    print(f"\nResNet-50\n{HEAD}")
    for threads in dict.fromkeys(options.threads):
        torch.set_num_threads(threads)
        for batch in options.images:
            found = row((model, packed, int8), torch.randn(batch, 3, 224, 224), options.seconds)
            add_row(options.rows, f"int8 ResNet-50, {threads_word(threads)}, batch {batch}", "", found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=197951)
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 16, 64, 256], help="of the recommender")
    parser.add_argument("--images", type=int, nargs="*", default=[1, 8], help="batches of ResNet-50")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, torch.get_num_threads()])
    parser.add_argument("--seconds", type=float, default=2.0, help="per row")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="append the rows for benchmarks/paper.py")
    options = parser.parse_args()
    torch.manual_seed(0)
    with torch.no_grad():
        if options.batches:
            recommender(options)
        if options.images:
            images(options)


if __name__ == "__main__":
    main()
