"""Running traced models: eager, generated code and interpreters of torch.fx and fxlib, in one process, interleaved.

python benchmarks/execution.py [--quick]

The tensors are tiny, so that the overhead around the operators is measured. Times are the thread's own processor time.
Aims: generated code as fast as torch.fx's and no slower than eager, within the noise of a run; an Interpreter no slower
than torch.fx's.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

import fxlib

# A ratio may be this much below 1 before it counts as slower, since two runs of the same function differ that much.
NOISE = 0.07
CALLS = 10


class Block(torch.nn.Module):
    """A residual block of eight channels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x)) + x)


class Attention(torch.nn.Module):
    """One head over sixteen features."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (torch.nn.Linear(16, 16) for _ in range(4))
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.query(x), self.key(x), self.value(x)
        weights = torch.softmax(q @ k.transpose(-2, -1) / 4.0, dim=-1)
        return self.norm(self.out(weights @ v) + x)


class Operations(torch.nn.Module):
    """Two hundred operations, no modules."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(50):
            x = torch.relu(x + 1).neg().abs()
        return x


CASES: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...]]] = {
    "30 residual blocks": (lambda: torch.nn.Sequential(*(Block() for _ in range(30))), (1, 8, 4, 4)),
    "12 attention layers": (lambda: torch.nn.Sequential(*(Attention() for _ in range(12))), (1, 4, 16)),
    "100 linear layers": (lambda: torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(100))), (1, 4)),
    "200 operations": (Operations, (4, 4)),
}


def seconds(run: Callable[[Any], Any], x: torch.Tensor) -> float:
    start = time.thread_time()
    for _ in range(CALLS):
        run(x)
    return (time.thread_time() - start) / CALLS


def measure(runs: dict[str, Callable[[Any], Any]], x: torch.Tensor, rounds: int) -> dict[str, float]:
    """The median time of a call of each, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        seconds(run, x)
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(seconds(run, x))
    gc.enable()
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 9 if parser.parse_args().quick else 41
    torch.set_num_threads(1)
    print(f"{'microseconds per call':22} {'eager':>8} {'generated code':^27} {'':>9} {'Interpreter':^27}")
    head = f"{'torch.fx':>9} {'fxlib':>9} {'ratio':>7}"
    print(f"{'':22} {'':>8} {head} {'to eager':>9} {head} {'to eager':>9}")
    met = True
    for name, (build, shape) in CASES.items():
        torch.manual_seed(0)
        model, x = build().eval(), torch.randn(shape)
        theirs, ours = torch.fx.symbolic_trace(model), fxlib.symbolic_trace(model)
        with torch.inference_mode():
            assert torch.equal(model(x), ours(x)) and torch.equal(fxlib.Interpreter(ours).run(x), theirs(x))
            found = measure(
                {
                    "eager": model,
                    "theirs": theirs,
                    "ours": ours,
                    "their interpreter": torch.fx.Interpreter(theirs).run,
                    "our interpreter": fxlib.Interpreter(ours).run,
                },
                x,
                rounds,
            )
        eager, a, b, c, d = (value * 1e6 for value in found.values())
        verdicts = {"torch.fx's code": a / b, "eager": eager / b, "torch.fx's Interpreter": c / d}
        slower = [what for what, ratio in verdicts.items() if ratio < 1 - NOISE]
        met = met and not slower
        print(
            f"{name:22} {eager:8.0f} {a:9.0f} {b:9.0f} {a / b:6.2f}x {eager / b:8.2f}x "
            f"{c:9.0f} {d:9.0f} {c / d:6.2f}x {eager / d:8.2f}x"
            + (f"  SLOWER THAN {', '.join(slower)}" if slower else "")
        )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
