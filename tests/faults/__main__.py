"""``python -m tests.faults``: runs every proof on real processes and prints the results.

``--seconds N`` of random sessions from ``--seed S`` on, ``--minutes M`` or ``--traces N`` of soak (what takes longer),
each ``--stride``-th prefix of a file traced, ``--documents N`` open at once, ``-k TEXT`` for some of the proofs only.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent


class Table:
    """A pytest plugin that keeps one row for each proof."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, str]] = []
        self.failed = 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when != "call" and not report.failed:
            return
        said = dict(report.user_properties)
        outcome = str(said.get("outcome", "held")) if report.passed else "FAILED: " + _reason(report)
        self.failed += not report.passed
        recovered = f"{said['recovered'] * 1000:.0f} ms" if "recovered" in said else ""
        self.rows.append((_fault(report.nodeid), str(said.get("tries", 1)), outcome, recovered))
        print("." if report.passed else "F", end="", flush=True, file=sys.stderr)


def _fault(nodeid: str) -> str:
    file, _, name = nodeid.partition("::")
    name, _, case = name.partition("[")
    group = Path(file).stem.removeprefix("test_").replace("_", " ")
    return f"{group}: {name.removeprefix('test_').replace('_', ' ')}" + (f": {case[:-1]}" if case else "")


def _reason(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return " ".join(str(crash.message if crash else report.longrepr).split())[:100]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=0.1)
    parser.add_argument("--traces", type=int, default=60)
    parser.add_argument("--stride", type=int, default=151)
    parser.add_argument("--documents", type=int, default=16)
    parser.add_argument("-k", default="", metavar="TEXT")
    given = parser.parse_args()
    table = Table()
    options = [f"--seconds={given.seconds}", f"--seed={given.seed}", f"--minutes={given.minutes}"]
    options += [f"--traces={given.traces}", f"--stride={given.stride}", f"--documents={given.documents}", "-k", given.k]
    limit = max(300, given.seconds + 120, given.minutes * 60 + 120, given.traces, 50_000 / given.stride)
    # A proof that needs a second try has failed: no reruns here.
    quiet = ["-p", "no:terminal", "-p", "no:rerunfailures", "-o", "addopts=", f"--timeout={limit}"]
    status = pytest.main([str(HERE), *quiet, *options], plugins=[table])
    head = ("fault", "tries", "outcome", "recovered in")
    widths = [max(len(row[column]) for row in [head, *table.rows]) for column in range(4)]
    print(file=sys.stderr)
    for row in [head, *table.rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(f"\n{len(table.rows)} proofs, {table.failed} failed")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
