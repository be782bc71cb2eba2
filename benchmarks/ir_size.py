"""Operations of ResNet-50 in three representations, counted as the torch.fx paper counts them: printed lines.

    python benchmarks/ir_size.py [--rows FILE]

Evaluation mode. fxlib records without leaf modules (a tracer that goes into ``torch.nn`` too), so that all three
show the same level. The paper (torch 1.8): 445 / 860 / 2614.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torchvision
from torch import nn

import fxlib
from benchmarks.rows import add_row

PAPER = {"fxlib": 445, "jit.trace": 860, "jit.script": 2614}


class NoLeaves(fxlib.Tracer):
    """Traces into every module, including those of ``torch.nn``."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return False


@contextlib.contextmanager
def no_rank_check() -> Iterator[None]:
    """Batch norm checks ``input.dim() != 4`` in Python, which a trace cannot evaluate; the check is left out."""
    before = nn.BatchNorm2d._check_input_dim
    nn.BatchNorm2d._check_input_dim = lambda self, input: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.BatchNorm2d._check_input_dim = before  # type: ignore[method-assign]


def lines(text: str) -> int:
    """The number of non-empty printed lines."""
    return sum(1 for line in text.splitlines() if line.strip())


def sizes(model: nn.Module, x: torch.Tensor) -> dict[str, int]:
    """Printed lines of each representation's graph."""
    with no_rank_check():
        ours = lines(str(NoLeaves().trace(model)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "fxlib": ours,
            "jit.trace": lines(str(torch.jit.trace(model, x).inlined_graph)),
            "jit.script": lines(str(torch.jit.script(model).inlined_graph)),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=Path, metavar="FILE", help="append the row for benchmarks/paper.py")
    options = parser.parse_args()
    model = torchvision.models.resnet50().eval()
    x = torch.randn(1, 3, 224, 224)
    found = sizes(model, x)
    nodes = len(fxlib.symbolic_trace(model).graph.nodes)
    print(f"{'representation':<16}{'paper':>8}{'here':>8}{'per fxlib':>11}")
    for name, count in found.items():
        print(f"{name:<16}{PAPER[name]:>8}{count:>8}{count / found['fxlib']:>10.1f}x")
    print(f"With the default leaf modules fxlib has {nodes} nodes.")
    print(
        "Differences: torch.jit's counts are those of torch " + torch.__version__ + "; its printers and inlining have"
    )
    print(
        "changed since torch 1.8. jit.script keeps control flow and checks of every branch, which a trace does not see."
    )
    what = "operations of ResNet-50: fx / jit.trace / jit.script"
    add_row(options.rows, what, " / ".join(map(str, PAPER.values())), " / ".join(map(str, found.values())))


if __name__ == "__main__":
    main()
