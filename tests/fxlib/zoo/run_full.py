"""Compares torch.fx and fxlib on whole zoos and prints a table.

    python -m tests.fxlib.zoo.run_full [--full] [--only SUBSTRING] [torchvision] [timm] [transformers]

``--full`` takes every model of timm, which runs for hours; without it one of each of its modules.
"""

from __future__ import annotations

import argparse
import collections
import gc
import itertools

from .compare import compare
from .models import timm_models, torchvision_models, transformers_models, transformers_parts


def main() -> int:
    """Runs the comparison; the exit status is 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zoos", nargs="*", default=["torchvision", "timm", "transformers"])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    makers = {
        "torchvision": torchvision_models,
        "timm": lambda: timm_models(every=options.full),
        "transformers": lambda: itertools.chain(transformers_models(), transformers_parts()),
    }
    verdicts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    differing = 0
    ratios = []
    for entry in itertools.chain.from_iterable(makers[zoo]() for zoo in options.zoos):
        if options.only not in entry.name:
            continue
        result = compare(entry)
        verdicts[entry.family][result.verdict] += 1
        differing += bool(result.differences)
        slow, fast = result.milliseconds
        if result.verdict == "traced":
            ratios.append(slow / fast)
        print(f"{entry!s:55} {result.verdict:20} {result.nodes:5d} nodes {slow:8.1f} ms {fast:8.1f} ms", flush=True)
        if result.note:
            print("     ", result.note[:300], flush=True)
        for difference in result.differences[:4]:
            print("    ", difference[:300], flush=True)
        gc.collect()
    for family, counts in verdicts.items():
        print(family, ", ".join(f"{verdict}: {count}" for verdict, count in counts.most_common()))
    if ratios:
        print(f"symbolic_trace, torch.fx over fxlib, median: {sorted(ratios)[len(ratios) // 2]:.2f}")
    print(f"{differing} models differ")
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
