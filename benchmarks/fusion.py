"""Inference of ResNet-50 on this CPU: eager, batch norms folded, packed for oneDNN, ONNX Runtime; one interleaved run.

    python benchmarks/fusion.py [--model resnet50] [--batches 1 8] [--threads 1 2] [--seconds 8] [--rows FILE]

The paper's table for folding: -18 % with one thread, -40 % with the default number. Errors are relative, Euclidean
norm. Each figure is the minimum of interleaved runs; "spread" is the median over the minimum. If that is far from 1,
other programs ran: two threads then wait for each other, and a row can be off by a large factor.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torchvision
from torch import nn

import fxlib
from benchmarks.rows import add_row, threads_word
from benchmarks.turns import least_times
from fxlib.passes.fuse_conv_bn import fuse_conv_bn
from fxlib.passes.optimize_for_inference import optimize_for_inference

PAPER = {(False, 1): "-18 %", (True, 1): "-40 %"}
"""Folding alone, by several threads and batch; the paper does not give the batch size."""


def trained_like(model: nn.Module) -> nn.Module:
    """Statistics other than the neutral ones, so that folding has an effect."""
    for each in model.modules():
        if isinstance(each, nn.modules.batchnorm._BatchNorm):
            each.running_mean.uniform_(-0.1, 0.1)
            each.running_var.uniform_(0.8, 1.2)
    return model.eval()


def onnx_runtime(model: nn.Module, x: torch.Tensor, threads: int) -> Callable[[torch.Tensor], Any] | None:
    """The model in ONNX Runtime with as many threads, without spinning; None if it is not installed."""
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
    parser.add_argument("--rows", type=Path, metavar="FILE", help="append the rows for benchmarks/paper.py")
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
        errors = {}
        for name, module in (("eager", model), ("folded", folded), ("packed", packed)):
            errors[name] = f"{float((module(x).double() - expected).norm() / expected.norm()):.1e}"
            print(f"{name}: relative error {errors[name]} against float64")
        what = f"{options.model}, relative error against float64: eager / folded / packed"
        add_row(options.rows, what, "", " / ".join(errors.values()))
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
                turns = {name: (lambda call=call, x=x: call(x)) for name, call in calls.items()}
                row, spread = least_times(turns, options.seconds)
                change = {name: f"{100 * (seconds / row['eager'] - 1):+.0f} %" for name, seconds in row.items()}
                cells = [f"{1e3 * seconds:>11.1f} ms {change[name]:>6}" for name, seconds in row.items()]
                print(f"{threads:>7}{batch:>7}" + "".join(f"{c:>20}" for c in cells) + f"{spread:>9.2f}", flush=True)
                add_row(
                    options.rows,
                    f"{options.model}, {threads_word(threads)}, batch {batch}: folded / folded and packed",
                    PAPER.get((threads > 1, batch), "") if options.model == "resnet50" else "",
                    f"{change['folded']} / {change['packed']}"
                    + (f" (ONNX Runtime {change['onnxruntime']})" if engine is not None else ""),
                )


if __name__ == "__main__":
    main()
