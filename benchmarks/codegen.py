"""Cost of generating source, and of a whole GraphModule: fxlib against torch.fx, in one process, interleaved, medians.

python benchmarks/codegen.py

Times are the thread's own processor time, so that other load is not counted.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
import torch.fx

import fxlib

SOURCE_AIM = 4.0


class Residual(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x)) + x)


class Attention(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (torch.nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, 4, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        weights = torch.softmax(q @ k.transpose(-2, -1) / (d // 4) ** 0.5, dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, -1)) + x


def operations(count: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def forward(x: torch.Tensor) -> torch.Tensor:
        for i in range(count // 2):
            x = torch.relu(x) + i
        return x

    return forward


MODELS: dict[str, Callable[[], Any]] = {
    "convolutions, 50 blocks": lambda: torch.nn.Sequential(*(Residual(4) for _ in range(50))),
    "attention, 12 layers": lambda: torch.nn.Sequential(*(Attention(16) for _ in range(12))),
    "2,000 layers": lambda: torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(2000))),
    "10,000 operations": lambda: operations(10_000),
}


def timed(run: Callable[[], Any]) -> float:
    gc.disable()  # a collection during one of the two would distort its time
    start = time.thread_time()
    run()
    elapsed = time.thread_time() - start
    gc.enable()
    return elapsed


def median_pair(make: Callable[[ModuleType], Callable[[], Any]], rounds: int) -> tuple[float, float]:
    theirs, ours = make(torch.fx), make(fxlib)
    gc.collect()
    pairs = [(timed(theirs), timed(ours)) for _ in range(rounds)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def main() -> int:
    print(f"{'milliseconds':26} {'source':^28} {'GraphModule':^28} {'GraphModule and first use':^28}")
    print(f"{'':26} " + f"{'torch.fx':>9} {'fxlib':>9} {'ratio':>7}  " * 3)
    met = True
    for name, build in MODELS.items():
        with torch.device("meta"):
            model = build()
        root = model if isinstance(model, torch.nn.Module) else torch.nn.Module()
        graphs = {library: library.Tracer().trace(model) for library in (torch.fx, fxlib)}

        def source(library: ModuleType, graphs: dict = graphs) -> Callable[[], Any]:
            return lambda: graphs[library].python_code("self")

        def module(library: ModuleType, graphs: dict = graphs, root: torch.nn.Module = root) -> Callable[[], Any]:
            return lambda: library.GraphModule(root, graphs[library])

        def used(library: ModuleType, graphs: dict = graphs, root: torch.nn.Module = root) -> Callable[[], Any]:
            return lambda: library.GraphModule(root, graphs[library]).forward

        assert graphs[torch.fx].python_code("self").src == graphs[fxlib].python_code("self").src
        cells = []
        for i, make in enumerate((source, module, used)):
            a, b = median_pair(make, 15)
            cells.append(f"{a * 1e3:9.2f} {b * 1e3:9.2f} {a / b:6.2f}x  ")
            if i == 0:
                met = met and a / b >= SOURCE_AIM
        print(f"{name:26} {''.join(cells)}")
    print(f"aim: source at least {SOURCE_AIM}x: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
