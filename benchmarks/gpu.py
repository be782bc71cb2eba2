"""The paper's models on a GPU: eager, fp16/bf16, CUDA graphs, torch.compile, and TensorRT if it is installed.

    python benchmarks/gpu.py [--json FILE] [--batch 1 8 64]

The paper's TensorRT results for comparison: ResNet-50 3.7x, LearningToPaint's actor 1.54x over eager. Without a GPU,
prints why nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from examples.deep_recommender import DeepRecommender
from examples.learning_to_paint import Actor
from examples.resnet50 import ResNet50
from examples.transformer import TransformerEncoder
from fxlib.benchmark import benchmark

MODELS = {
    "resnet50": (ResNet50, lambda: (torch.randn(1, 3, 224, 224),)),
    "learning_to_paint": (Actor, lambda: (torch.rand(1, 9, 128, 128),)),
    "deep_recommender": (DeepRecommender, lambda: (torch.randn(1, 197951),)),
    "transformer": (TransformerEncoder, lambda: (torch.randint(0, 30522, (1, 128)), torch.ones(1, 128))),
}
VARIANTS = ["generated", "fused", "fp16", "bf16", "cudagraph", "cudagraph_fp16", "compile", "tensorrt", "tensorrt_fp16"]
PAPER = {"resnet50": "3.7x with TensorRT", "learning_to_paint": "1.54x with TensorRT"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no GPU here; nothing was measured")
        return 0
    results = {}
    for name in options.models:
        make, inputs = MODELS[name]
        torch.manual_seed(0)
        model = make().eval().cuda()
        report = benchmark(model, [v.cuda() for v in inputs()], VARIANTS, batches=options.batch, rounds=11, seconds=30)
        print(f"\n{name}" + (f" (the paper: {PAPER[name]})" if name in PAPER else ""))
        print(report.table(), flush=True)
        results[name] = report.as_dict()
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
        del model
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
