"""Time of shape propagation: fxlib's rules against torch's FakeTensorProp, ratios in one run.

    python benchmarks/shapes.py [MODEL ...]

Two rows per model: cold (empty cache, as in a fresh process) and warm (the same model again, as after an edit).
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torch.fx
import torchvision
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from fxlib.shapes import clear, propagate

MODELS = ["resnet50", "mobilenet_v3_large", "vit_b_16", "densenet121", "convnext_tiny", "swin_t"]


def stack(layers: int = 1000) -> nn.Module:
    """Twice ``layers`` leaf modules."""
    return nn.Sequential(*[m for _ in range(layers) for m in (nn.Linear(8, 8), nn.ReLU())])


def median(call: Callable[[], Any], runs: int, before: Callable[[], Any] = lambda: None) -> float:
    """Median milliseconds."""
    times = []
    for _ in range(runs):
        before()
        gc.collect()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(f"{'model':<22}{'nodes':>7}{'fake ms':>10}{'cold ms':>10}{'warm ms':>10}{'cold':>8}{'warm':>8}")
    cases = [
        (name, torchvision.models.get_model(name, weights=None).eval(), (1, 3, 224, 224)) for name in options.models
    ]
    cases.append(("2,000 layers", stack(), (4, 8)))
    for name, model, shape in cases:
        graph_module = torch.fx.symbolic_trace(model)
        x = torch.empty(shape)

        def fake(graph_module: Any = graph_module, x: Any = x) -> None:
            FakeTensorProp(graph_module, FakeTensorMode(allow_non_fake_inputs=True)).propagate(x)

        def fast(graph_module: Any = graph_module, x: Any = x) -> None:
            propagate(graph_module, x)

        fake()
        cold = median(fast, options.runs, clear)
        warm = median(fast, options.runs)
        slow = median(fake, options.runs)
        print(
            f"{name:<22}{len(graph_module.graph.nodes):>7}{slow:>10.1f}{cold:>10.1f}{warm:>10.1f}"
            f"{slow / cold:>7.1f}x{slow / warm:>7.1f}x"
        )


if __name__ == "__main__":
    main()
