"""Tracing: fxlib against torch.fx, in one process, interleaved, medians.

    python benchmarks/trace.py [--quick]

Every node that fxlib makes carries its source span; torch.fx records none. "warm" repeats the trace, "cold" runs a full
garbage collection before each, as in a process that does other work. "symbolic_trace" includes the GraphModule. Times
are the thread's own processor time, so that other load is not counted.
"""

from __future__ import annotations

import argparse
import functools
import gc
import pathlib
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.fx

import fxlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))

# The target ratios; the model with 4,000 parameters has its own.
AIMS = {"warm": 5.0, "cold": 3.0, "symbolic_trace": 4.0}
PARAMETERS_AIM = 20.0


def trace_theirs(model: torch.nn.Module) -> object:
    return torch.fx.Tracer().trace(model)


def trace_ours(model: torch.nn.Module) -> object:
    return fxlib.Tracer().trace(model)


# what -> (torch.fx, fxlib, after a full collection)
RUNS = {
    "warm": (trace_theirs, trace_ours, False),
    "cold": (trace_theirs, trace_ours, True),
    "symbolic_trace": (torch.fx.symbolic_trace, fxlib.symbolic_trace, True),
}


class Encoder(torch.nn.Module):
    """A BERT-base-sized encoder in plain torch: 12 layers, width 768, 12 heads."""

    class Layer(torch.nn.Module):
        def __init__(self, width: int = 768, heads: int = 12) -> None:
            super().__init__()
            self.heads, self.size = heads, width // heads
            self.query = torch.nn.Linear(width, width)
            self.key = torch.nn.Linear(width, width)
            self.value = torch.nn.Linear(width, width)
            self.out = torch.nn.Linear(width, width)
            self.norm1 = torch.nn.LayerNorm(width)
            self.norm2 = torch.nn.LayerNorm(width)
            self.up = torch.nn.Linear(width, 4 * width)
            self.down = torch.nn.Linear(4 * width, width)
            self.dropout = torch.nn.Dropout(0.1)

        def split(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(x.size(0), x.size(1), self.heads, self.size).permute(0, 2, 1, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
            scores = torch.softmax(q @ k.transpose(-2, -1) / self.size**0.5, dim=-1)
            mixed = (self.dropout(scores) @ v).permute(0, 2, 1, 3).reshape(x.size(0), x.size(1), -1)
            x = self.norm1(x + self.dropout(self.out(mixed)))
            return self.norm2(x + self.dropout(self.down(torch.nn.functional.gelu(self.up(x)))))

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(30522, 768)
        self.position = torch.nn.Parameter(torch.zeros(1, 512, 768))
        self.norm = torch.nn.LayerNorm(768)
        self.layers = torch.nn.ModuleList(self.Layer() for _ in range(12))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.embedding(tokens) + self.position)
        for layer in self.layers:
            x = layer(x)
        return x


class Layers(torch.nn.Module):
    """2,000 linear layers in a Sequential."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(2000)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Chain(torch.nn.Module):
    """10,000 operations in a row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(5000):
            x = torch.relu(x + 1)
        return x


class Parameters(torch.nn.Module):
    """4,000 parameters on the module itself, each used once."""

    def __init__(self) -> None:
        super().__init__()
        for i in range(4000):
            self.register_parameter(f"p{i}", torch.nn.Parameter(torch.zeros(1)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(4000):
            x = x + getattr(self, f"p{i}")
        return x


def models() -> dict[str, torch.nn.Module]:
    from mlp_mixer import MlpMixer
    from resnet50 import ResNet50

    with torch.device("meta"):
        return {
            "ResNet-50": ResNet50(),
            "BERT-base encoder": Encoder(),
            "MLP-Mixer": MlpMixer(),
            "2,000 layers": Layers(),
            "10,000 operations": Chain(),
            "4,000 parameters": Parameters(),
        }


def milliseconds(fn: Callable[[], object], collect: bool) -> float:
    if collect:
        gc.collect()
    start = time.thread_time()
    result = fn()
    elapsed = time.thread_time() - start
    del result
    return elapsed * 1e3


def compare(
    theirs: Callable[[], object], ours: Callable[[], object], repeats: int, collect: bool
) -> tuple[float, float]:
    """Medians of both, interleaved."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for fn, kept in zip((theirs, ours), times, strict=True):
            kept.append(milliseconds(fn, collect))
    return statistics.median(times[0]), statistics.median(times[1])


def check(model: torch.nn.Module) -> int:
    """Both trace to the same graph, and ours has a span for every operation; returns the number of nodes."""
    ours, theirs = fxlib.Tracer().trace(model), torch.fx.Tracer().trace(model)
    rows = [[(n.op, n.name, str(n.target), str(n.args)) for n in graph.nodes] for graph in (ours, theirs)]
    assert rows[0] == rows[1], type(model)
    assert all(node.span is not None for node in ours.nodes if node.op not in ("output", "placeholder"))
    return len(rows[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}; milliseconds, medians of interleaved runs\n")
    print(f"{'model':20} {'nodes':>6}  {'what':15} {'torch.fx':>9} {'fxlib':>9} {'ratio':>7} {'aim':>6}")
    for name, model in models().items():
        nodes = check(model)
        slow = name == "4,000 parameters"
        repeats = 3 if slow else (5 if options.quick else 21) if nodes < 1500 else (3 if options.quick else 9)
        for what, (theirs, ours, collect) in RUNS.items():
            if slow and what != "cold":
                continue
            a, b = compare(functools.partial(theirs, model), functools.partial(ours, model), repeats, collect)
            aim = PARAMETERS_AIM if slow else AIMS[what]
            missed = "" if a / b >= aim else "  missed"
            print(f"{name:20} {nodes:6}  {what:15} {a:9.2f} {b:9.2f} {a / b:6.1f}x {aim:5.0f}x{missed}")


if __name__ == "__main__":
    main()
