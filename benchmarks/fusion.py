"""Inference of ResNet-50 on this CPU: eager, batch norms folded, packed for oneDNN, ONNX Runtime; one interleaved run.

    python benchmarks/fusion.py [--model resnet50] [--batches 1 8] [--threads 1 2] [--seconds 8]

The paper's table for folding: -18 % with one thread, -40 % with the default number. Errors are relative, Euclidean
norm. Each figure is the least time of runs that take turns; "spread" is the median over the least, and where that is
far from 1 something else ran: two threads then wait for each other, and a row can be wrong by many times.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torchvision
from torch import nn

import fxlib
from fxlib.benchmark import rest
from fxlib.passes.fuse_conv_bn import fuse_conv_bn
from fxlib.passes.optimize_for_inference import optimize_for_inference


def trained_like(model: nn.Module) -> nn.Module:
    """Statistics that are not the neutral ones, so that folding has something to fold."""
    for each in model.modules():
        if isinstance(each, nn.modules.batchnorm._BatchNorm):
            each.running_mean.uniform_(-0.1, 0.1)
            each.running_var.uniform_(0.8, 1.2)
    return model.eval()


def onnx_runtime(model: nn.Module, x: torch.Tensor, threads: int) -> Callable[[torch.Tensor], Any] | None:
    """The model in ONNX Runtime with as many threads, its spinning off; None where it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = str(Path(folder) / "model.onnx")
        torch.onnx.export(model, (x,), path, dynamo=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda value: session.run(None, {name: value.numpy()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, torch.get_num_threads()])
    parser.add_argument("--seconds", type=float, default=8.0, help="per row")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = trained_like(torchvision.models.get_model(options.model, weights=None))
    traced = fxlib.symbolic_trace(model)
    with torch.no_grad():
        folded = fuse_conv_bn(copy.deepcopy(traced))
        packed = optimize_for_inference(copy.deepcopy(traced), torch.randn(8, 3, 224, 224))
        x = torch.randn(2, 3, 224, 224)
        expected = model.double()(x.double())
        model.float()
        for name, module in (("eager", model), ("folded", folded), ("packed", packed)):
            error = (module(x).double() - expected).norm() / expected.norm()
            print(f"{name}: relative error {error:.1e} against float64")
        names = ["eager", "folded", "packed", "onnxruntime"]
        print(f"{'threads':>7}{'batch':>7}" + "".join(f"{n:>20}" for n in names) + f"{'spread':>9}")
        for threads in dict.fromkeys(options.threads):
            torch.set_num_threads(threads)
            for batch in options.batches:
                x = torch.randn(batch, 3, 224, 224)
                calls: dict[str, Callable[[torch.Tensor], Any]] = {"eager": model, "folded": folded, "packed": packed}
                engine = onnx_runtime(model, x, threads)
                if engine is not None:
                    calls["onnxruntime"] = engine
                row, spread = measure(calls, x, options.seconds)
                cells = [f"{1e3 * t:>11.1f} ms {100 * (t / row['eager'] - 1):>+4.0f} %" for t in row.values()]
                print(f"{threads:>7}{batch:>7}" + "".join(f"{c:>20}" for c in cells) + f"{spread:>9.2f}", flush=True)


def measure(
    calls: dict[str, Callable[[torch.Tensor], Any]], x: torch.Tensor, seconds: float
) -> tuple[dict[str, float], float]:
    """Least seconds of each, taking turns, and the largest ratio of a median to its least."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call(x)
        call(x)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["eager"]) < 3:
        for name, call in calls.items():
            rest()
            start = time.perf_counter()
            call(x)
            times[name].append(time.perf_counter() - start)
    spread = max(statistics.median(t) / min(t) for t in times.values())
    return {name: min(t) for name, t in times.items()}, spread


if __name__ == "__main__":
    main()
