"""Predicted against measured time on this CPU, for the example models; one calibration, one run.

    python benchmarks/cost.py [--threads 1] [--seconds 2] [--rows FILE]

The prediction comes from `fxlib.passes.cost` and a calibration of a second, not from the models; its error is printed.
The measured time is the minimum of the runs, as in the calibration, since other load can only add to it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torchvision
from torch import nn

import fxlib
from benchmarks.rows import add_row, threads_word
from examples.deep_recommender import DeepRecommender
from fxlib.passes.cost import estimate
from fxlib.passes.devices import DEVICES, calibrated_cpu


def cases() -> list[tuple[str, nn.Module, tuple[torch.Tensor, ...]]]:
    """Name, model, inputs."""
    models = torchvision.models
    return [
        ("ResNet-50, batch 1", models.resnet50(), (torch.randn(1, 3, 224, 224),)),
        ("ResNet-50, batch 8", models.resnet50(), (torch.randn(8, 3, 224, 224),)),
        ("MobileNet v2", models.mobilenet_v2(), (torch.randn(1, 3, 224, 224),)),
        ("VGG-16", models.vgg16(), (torch.randn(1, 3, 224, 224),)),
        ("ViT-B/16", models.vit_b_16(), (torch.randn(1, 3, 224, 224),)),
        ("DeepRecommender, batch 64", DeepRecommender(50_000), (torch.randn(64, 50_000),)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="per model")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="append the rows for benchmarks/paper.py")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    cpu = calibrated_cpu()
    print(
        f"{cpu.name}: {cpu.kinds['matmul'] / 1e9:.0f} GFLOP/s products, {cpu.kinds['conv'] / 1e9:.0f} convolutions, "
        f"{cpu.bandwidth / 1e9:.1f} GB/s, {cpu.overhead * 1e6:.1f} us per operator"
    )
    gpus = ("T4", "A100", "H200")
    print(
        f"{'model':<28}{'GFLOPs':>9}{'peak MB':>9}{'predicted ms':>14}{'measured ms':>13}{'error':>8}"
        + "".join(f"{g + ' ms':>10}" for g in gpus)
    )
    errors = []
    for name, model, inputs in cases():
        graph_module = fxlib.symbolic_trace(model.eval())
        found = estimate(graph_module, *inputs, device=cpu)
        with torch.no_grad():
            graph_module(*inputs)
            times = []
            end = time.perf_counter() + options.seconds
            while time.perf_counter() < end or len(times) < 3:
                start = time.perf_counter()
                graph_module(*inputs)
                times.append(time.perf_counter() - start)
        measured, predicted = min(times), found.seconds or 0.0
        errors.append(predicted / measured - 1)
        bounds = [estimate(graph_module, *inputs, device=DEVICES[g]).seconds or 0.0 for g in gpus]
        print(
            f"{name:<28}{found.flops / 1e9:>9.2f}{found.peak_bytes / 1e6:>9.0f}"
            f"{predicted * 1e3:>14.1f}{measured * 1e3:>13.1f}"
            f"{100 * errors[-1]:>+7.0f} %" + "".join(f"{b * 1e3:>10.2f}" for b in bounds)
        )
    sizes = [abs(error) for error in errors]
    mean, worst = f"{100 * statistics.mean(sizes):.0f} %", f"{100 * max(sizes):.0f} %"
    print(f"mean absolute error {mean}, the worst {worst}; the GPU columns are lower bounds, not measured")
    what = f"time predicted against measured, {len(errors)} models, {threads_word(options.threads)}: mean error"
    add_row(options.rows, what, "", f"{mean}, the worst {worst}")


if __name__ == "__main__":
    main()
