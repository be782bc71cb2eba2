"""replace_pattern: torch.fx against fxlib, on chains with a growing number of matches.

    python -m benchmarks.rewrite [--matches 500 1000 2000 ...]

Both rewrite the same graph in the same process, one after the other; the medians of interleaved runs are printed. Times
are the thread's own processor time, including garbage collection, so that other load is not counted.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import Any

import torch
import torch.fx

import fxlib

AIM = 20.0


def chain(library: Any, matches: int) -> Any:
    """A graph with ``matches`` occurrences of ``relu(x + w)``, each of which uses the one before."""
    graph = library.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    for _ in range(matches):
        x = graph.call_function(torch.relu, (graph.call_function(torch.add, (x, w)),))
    graph.output(x)
    return library.GraphModule({}, graph)


def pattern(x: Any, w: Any) -> Any:
    """The pattern."""
    return torch.relu(torch.add(x, w))


def replacement(x: Any, w: Any) -> Any:
    """The replacement."""
    return torch.sub(x, w)


def once(library: Any, matches: int) -> float:
    """Milliseconds of one call of ``replace_pattern``, including ``recompile``."""
    gm = chain(library, matches)
    gc.collect()
    start = time.thread_time()
    found = library.replace_pattern(gm, pattern, replacement)
    elapsed = (time.thread_time() - start) * 1e3
    assert len(found) == matches
    return elapsed


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matches", type=int, nargs="*", default=[250, 500, 1000, 2000])
    parser.add_argument("--alone", type=int, nargs="*", default=[4000, 16000, 64000], help="sizes for fxlib only")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    for library in (torch.fx, fxlib):
        once(library, 10)
    print(f"{'matches':>8} {'torch.fx ms':>12} {'fxlib ms':>10} {'ratio':>7}")
    for matches in options.matches:
        times: dict[Any, list[float]] = {torch.fx: [], fxlib: []}
        for _ in range(options.repeat):
            for library, measured in times.items():
                measured.append(once(library, matches))
        theirs, ours = (statistics.median(measured) for measured in times.values())
        aim = f"  aim {AIM:.0f}" if matches == 2000 else ""
        print(f"{matches:8d} {theirs:12.1f} {ours:10.1f} {theirs / ours:6.1f}x{aim}")
    for matches in options.alone:
        ours = statistics.median(once(fxlib, matches) for _ in range(options.repeat))
        print(f"{matches:8d} {'':>12} {ours:10.1f} {ours / matches * 1e3:6.1f} us/match")


if __name__ == "__main__":
    main()
