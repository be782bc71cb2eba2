"""How many graph breaks and export failures have a proven fix, in the collection of tests/fxlib/captures.

    python benchmarks/capture_fixes.py [--only NAME …] [--jobs 2] [--list] [--json FILE]

Every model of the collection is judged, and each finding that stops torch.export or breaks a graph of torch.compile is
passed to its rule's recipes. A fix counts as proven if the finding is gone from that capture, it causes no other
problem there, and values, gradients, another batch and the captured program agree with eager.
``torch.compiler.disable`` counts as a workaround, not as a fix. ``--list`` names the findings without a proven fix.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import linecache
import os
import signal
import sys
import time
import warnings
from collections import Counter
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

GROUPS = ("control", "numbers", "effects", "python", "operators", "threads", "reports", "architectures")
COLLECTION = "tests.fxlib.captures.collection"
_SECONDS = 60  # of the processor
CAPTURES = {"export": "torch.export", "compile": "torch.compile"}


@dataclass
class Row:
    """One finding of a capture: its place, the proven fix, the workaround, and other proposals."""

    model: str
    capture: str
    code: str
    line: int
    text: str
    proven: str | None
    around: str | None
    offered: list[str]


def cases(only: list[str]) -> list[tuple[str, str]]:
    found = []
    for group in GROUPS:
        held = vars(importlib.import_module(f"{COLLECTION}.{group}"))
        found += [(group, name) for name, each in held.items() if isinstance(each, type) and hasattr(each, "inputs")]
    return [each for each in found if not only or each[1] in only]


def measure(case: tuple[str, str]) -> list[Row]:
    """The findings of one model, and the results of their fixes."""
    from fxlib.captures import judge
    from fxlib.captures.places import shown
    from fxlib.captures.proof import CaptureChecker

    warnings.simplefilter("ignore")
    group, name = case
    module = importlib.import_module(f"{COLLECTION}.{group}")
    made = getattr(module, name)
    linecache.cache.pop(str(module.__file__), None)  # may hold the text of a fix for the previous model
    rows = []
    verdicts = judge(made(), made.inputs()).verdicts
    texts = {each.span: shown(each.span) for verdict in verdicts.values() for each in verdict.findings}
    for capture, verdict in verdicts.items():
        checker = CaptureChecker(capture, str(module.__file__), f"{name}()", f"*{name}.inputs()", total=600.0)
        for finding in verdict.findings:
            if not stops(finding):
                continue
            fixes = checker.settle(finding) if finding.span is not None else []
            best = next((fix for fix in fixes if fix.preferred), None)
            proven = best.id if best is not None and best.kind != "around" else None
            around = next((fix.id for fix in fixes if fix.kind == "around"), None)
            offered = [fix.title for fix in fixes if fix.id not in (proven, around)]
            line = finding.span.line if finding.span is not None else 0
            rows.append(Row(name, capture, finding.code, line, texts[finding.span], proven, around, offered))
    return rows


def quietly(case: tuple[str, str]) -> list[Row]:
    """`measure` without the models' output; one that never ends on other inputs is interrupted."""
    signal.signal(signal.SIGPROF, _interrupt)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS, _SECONDS)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        return measure(case)


def _interrupt(*_: Any) -> None:
    raise TimeoutError(f"it takes more than {_SECONDS} s of the processor")


def stops(finding: Any) -> bool:
    """Whether a finding is a failure of torch.export or a graph break; a function that the user excluded does not
    count."""
    return finding.code.startswith(("FX50", "FX59", "FX60", "FX61", "FX69")) and finding.code not in ("FX606", "FX614")


def table(rows: list[Row]) -> list[str]:
    lines = [f"{'':<6} {'':<14} {'findings':>8} {'proven':>7} {'around':>7} {'none':>5}  fixes"]
    for capture, title in CAPTURES.items():
        own = [row for row in rows if row.capture == capture]
        for code in sorted({row.code for row in own}):
            lines.append(_line(code, title, [row for row in own if row.code == code]))
        lines.append(_line("", title, own))
    return lines


def _line(code: str, title: str, rows: list[Row]) -> str:
    proven = [row for row in rows if row.proven is not None]
    around = [row for row in rows if row.proven is None and row.around is not None]
    left = len(rows) - len(proven) - len(around)
    used = ", ".join(f"{name} {count}" for name, count in Counter(row.proven for row in proven).most_common())
    counts = f"{len(rows):>8} {len(proven):>7} {len(around):>7} {left:>5}"
    return f"{code:<6} {title:<14} {counts}  {used if code else _share(rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    began = time.monotonic()
    rows: list[Row] = []
    with get_context("spawn").Pool(arguments.jobs) as pool:
        for found in pool.imap_unordered(quietly, cases(arguments.only)):
            rows += found
            print(f"{time.monotonic() - began:.0f} s: {len(rows)} findings, {_share(rows)} proven", file=sys.stderr)
            if arguments.json:
                Path(arguments.json).write_text(json.dumps([asdict(row) for row in rows], indent=2))
    print(*table(rows), sep="\n")
    print(f"{_share(rows)} of all in {time.monotonic() - began:.0f} s")
    if arguments.list:
        for row in sorted((row for row in rows if row.proven is None), key=lambda row: (row.capture, row.code)):
            print(f"{row.capture} {row.code} {row.model}:{row.line} {row.text}  {'; '.join(row.offered)}")


def _share(rows: list[Row]) -> str:
    return f"{100 * sum(row.proven is not None for row in rows) / max(1, len(rows)):.0f} %"


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
