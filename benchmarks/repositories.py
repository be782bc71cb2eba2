"""How many classes of repositories `fxlens check` judges without configuration.

    python benchmarks/repositories.py ~/src [--only detr --only whisper] [--agree] [--json FILE] [--markdown FILE]

For each folder below the one given: the classes with a forward, how many of them were judged, traced, and constructed
on assumptions, why the others were not judged, and the findings: errors, warnings and hints with ``--all``, and as
shown without it, where only classes that are meant to be captured have errors, and only these and root models warnings.
Findings louder than that are listed. ``--agree`` also lets torch.fx trace each class from the same construction, and
counts differing results.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "server")]),
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "CUDA_VISIBLE_DEVICES": "",
}
HEAD = (
    "repository", "classes", "judged", "%", "traced", "assumed", "with --all: errors, warnings, hints",
    "shown: errors, warnings, hints", "torch.fx agrees", "s", "not judged",
)  # fmt: skip


def check(repository: Path, jobs: int, cache: str, *more: str) -> dict[str, Any]:
    """The result of ``fxlens check . --quick`` as data. With the same ``cache`` a second check traces nothing again."""
    command = [sys.executable, "-m", "fxlens", "check", ".", "--quick", "--format", "json", *more]
    command += ["--jobs", str(jobs), "--python", sys.executable]
    env = {**ENVIRONMENT, "XDG_CACHE_HOME": cache}
    done = subprocess.run(command, cwd=repository, env=env, capture_output=True, text=True)
    if done.returncode == 2 or not done.stdout:
        raise SystemExit(f"{repository}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def agreement(repository: Path, files: list[dict[str, Any]]) -> Counter[str]:
    """``same``, ``other`` and ``no answer``: torch.fx's result for each class, from the same construction."""
    counts: Counter[str] = Counter()
    for file in files:
        asked = {
            each["name"]: [each["construct"]["text"], each["status"]]
            for each in file["targets"]
            if each["construct"] and each["status"] in ("traced", "partial")
        }
        if not asked:
            continue
        command = [sys.executable, __file__, "--oracle", file["path"], json.dumps(asked)]
        done = subprocess.run(command, cwd=repository, env=ENVIRONMENT, capture_output=True, text=True)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"class"')]
        for line in lines:
            counts["same" if line["traces"] == (asked[line["class"]][1] == "traced") else "other"] += 1
            if line["traces"] != (asked[line["class"]][1] == "traced"):
                print(
                    f"    {file['path']} {line['class']}: {asked[line['class']]}, torch.fx: {line['said']}",
                    file=sys.stderr,
                )
        counts["no answer"] += len(asked) - len(lines)
    return counts


def oracle(path: str, asked: dict[str, tuple[str, str]]) -> None:
    """In a separate process: torch.fx traces the classes of one file, ten seconds of the processor for each."""
    import torch
    from fxlens.worker import scope, user_file

    def end(*_: object) -> None:
        raise TimeoutError("it does not end")

    signal.signal(signal.SIGPROF, end)
    module = user_file.load(os.path.abspath(path), Path(path).read_text(encoding="utf-8"), os.getcwd(), {})
    for name, (construct, _) in asked.items():
        said = None
        for device in ("meta", None):
            try:
                with torch.device(device) if device else contextlib.nullcontext():
                    model = eval(construct, scope.scope(module))
            except Exception:
                continue
            signal.setitimer(signal.ITIMER_PROF, 10)
            try:
                torch.fx.symbolic_trace(model)
                said = ""
                break
            except Exception as error:
                said = f"{type(error).__name__}: {error}"[:200]
                if "meta" not in said and "device" not in said:
                    break
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        if said is None:
            continue
        print(json.dumps({"class": name, "traces": not said, "said": said}), flush=True)


def grades(said: dict[str, Any]) -> str:
    """Errors, warnings and hints; information counts as hints."""
    counts = Counter(finding["severity"] for file in said["files"] for finding in file["findings"])
    return f"{counts['error']}, {counts['warning']}, {counts['info'] + counts['hint']}"


def too_loud(said: dict[str, Any]) -> list[str]:
    """Errors in classes that are not known to be captured, and warnings in those that are not root models either."""
    found = []
    for file in said["files"]:
        roles = {target["name"]: target["role"] for target in file["targets"]}
        for each in file["findings"]:
            allowed = {"error": ("meant",), "warning": ("meant", "root")}.get(each["severity"])
            if each["target"] in roles and allowed is not None and roles[each["target"]] not in allowed:
                found.append(f"{file['path']} {each['target']} {each['severity']} {each['code']}")
    return found


def row(
    name: str, said: dict[str, Any], shown: dict[str, Any], agrees: Counter[str] | None, seconds: float
) -> list[Any]:
    counts = said["coverage"]
    targets = [target for file in said["files"] for target in file["targets"]]
    share = round(100 * counts["judged"] / counts["classes"], 1) if counts["classes"] else 100.0
    reasons = ", ".join(f"{count} {reason}" for reason, count in counts["notJudged"].items())
    known = agrees and agrees["same"] + agrees["other"]
    return [
        name, counts["classes"], counts["judged"], share, sum(each["status"] == "traced" for each in targets),
        counts["assumed"], grades(said), grades(shown),
        f"{agrees['same']} of {known}" if agrees else "", round(seconds), reasons,
    ]  # fmt: skip


def total(rows: list[list[Any]]) -> list[Any]:
    sums = [sum(each[at] for each in rows) for at in (1, 2, 4, 5, 9)]
    share = round(100 * sums[1] / sums[0], 1) if sums[0] else 100.0
    found = [
        ", ".join(str(sum(int(each[at].split(", ")[part]) for each in rows)) for part in range(3)) for at in (6, 7)
    ]
    pairs = [each[8].split(" of ") for each in rows if each[8]]
    agrees = f"{sum(int(a) for a, _ in pairs)} of {sum(int(b) for _, b in pairs)}" if pairs else ""
    return ["all", sums[0], sums[1], share, *sums[2:4], *found, agrees, sums[4], ""]


def print_not_judged(said: dict[str, Any]) -> None:
    for file in said["files"]:
        for target in file["targets"]:
            if target["status"] in ("skipped", "failed"):
                print(f"    {file['path']} {target['name']}: {(target['reason'] or '')[:300]}", file=sys.stderr)
        for finding in file["findings"]:
            if finding["code"] in ("FX301", "FX306", "FX309", "FX199"):
                grade = f"{finding['code']} {finding['severity']}"
                print(f"    {file['path']} {grade}: {finding['message'][:300]}", file=sys.stderr)


def markdown(rows: list[list[Any]]) -> str:
    lines = [HEAD, ["---"] + ["--:"] * (len(HEAD) - 2) + ["---"], *rows]
    return "".join(f"| {' | '.join(str(each) for each in line)} |\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds one folder for each repository")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--agree", action="store_true", help="compare with torch.fx")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="keep what check says in this folder")
    parser.add_argument("--markdown", type=Path, help="write the table there")
    options = parser.parse_args()
    rows = []
    for repository in sorted(path for path in options.folder.iterdir() if path.is_dir()):
        if options.only and repository.name not in options.only:
            continue
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as cache:
            said = check(repository, options.jobs, cache, "--all")
            seconds = time.perf_counter() - started
            shown = check(repository, options.jobs, cache)
        if options.json:
            options.json.mkdir(exist_ok=True)
            (options.json / f"{repository.name}.json").write_text(json.dumps(said))
        agrees = agreement(repository, said["files"]) if options.agree else None
        rows.append(row(repository.name, said, shown, agrees, seconds))
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
        print_not_judged(said)
        for each in too_loud(shown):
            print(f"    too loud: {each}", file=sys.stderr)
    table = markdown([*rows, total(rows)])
    print(table)
    if options.markdown:
        options.markdown.write_text(table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--oracle"]:
        oracle(sys.argv[2], json.loads(sys.argv[3]))
    else:
        main()
