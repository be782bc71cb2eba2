"""How many classes that torch.fx does not trace are traceable after ``fxlens check --fix --unsafe-fixes``, in a
folder of repositories.

    python benchmarks/repository_fixes.py ~/repositories [--only NAME …] [--keep FOLDER] [--diff FILE] [--jobs 2]
        [--safe]

Each repository is copied, and the command runs on the copy until nothing changes. A class counts as refused
if FX Lens can construct it and torch.fx raises. It counts as fixed if torch.fx traces it afterwards and the traced
module gives the same result as the class of the original repository in eval mode: same seed, same inputs; omitted
arguments with the default None are None for the trace. The last column names the rules whose findings stop the others.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import difflib
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "server")]
ROUNDS = 4
SECONDS = 120
LARGEST = 1 << 20


@dataclass
class Model:
    """A class of a repository: its place, how it is constructed and called, and its results."""

    path: str
    name: str
    construct: str
    inputs: str | None
    traced: bool
    codes: tuple[str, ...]


@dataclass
class Outcome:
    """The result for one repository."""

    name: str
    judged: int = 0
    refused: int = 0
    traced: int = 0
    equal: int = 0
    different: list[str] = field(default_factory=list)
    fixes: int = 0
    rounds: int = 0
    seconds: float = 0.0
    left: Counter[str] = field(default_factory=Counter)
    diff: str = ""

    def row(self) -> list[str]:
        share = f"{100 * self.equal / self.refused:.0f} %" if self.refused else ""
        causes = ", ".join(f"{code} {count}" for code, count in self.left.most_common(4))
        numbers = (self.judged, self.refused, self.traced, self.equal)
        return [self.name, *map(str, numbers), share, str(self.fixes), str(self.rounds), f"{self.seconds:.0f}", causes]


HEAD = ["repository", "judged", "refused", "then traced", "and equal", "share", "fixes", "rounds", "seconds", "left"]


def models_of(folder: Path, jobs: int) -> dict[tuple[str, str], Model]:
    """The classes below a folder that can be constructed, by file and name."""
    from fxlens.checking.checker import Options, check
    from fxlens.checking.files import python_files
    from fxlens.host.launch import Launch
    from fxlens.ipc.request import Limits

    async def all_of() -> dict[tuple[str, str], Model]:
        limits = Limits(deadline=30.0)
        chosen = Options(Launch(sys.executable, str(folder)), jobs=jobs, limits=limits, verify=False, light=True)
        found = {}
        async for checked in check(python_files([str(folder)]), chosen):
            path = os.path.relpath(checked.record["path"], folder)
            for target in checked.record["targets"]:
                if target["construct"] is None or target["status"] == "skipped":
                    continue
                codes = tuple(sorted({each["code"] for each in target["findings"] if each["severity"] == "error"}))
                inputs = target["inputs"]["text"] if target["inputs"] else None
                made = target["construct"]["text"]
                traced = target["status"] == "traced"
                found[path, target["name"]] = Model(path, target["name"], made, inputs, traced, codes)
        return found

    return asyncio.run(all_of())


def fix(folder: Path, jobs: int, safe: bool) -> int:
    """One run of the command; the number of fixes that it applied."""
    command = [
        sys.executable,
        "-m",
        "fxlens",
        "check",
        "--fix",
        *([] if safe else ["--unsafe-fixes"]),
        "--quick",
        "--no-cache",
        "--jobs",
        str(jobs),
        str(folder),
    ]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'server'}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    return sum(": fixed: " in line for line in done.stderr.splitlines())


def copy_of(repository: Path, into: Path) -> Path:
    """The repository without its history and without large files."""

    def left_out(folder: str, names: list[str]) -> list[str]:
        large = [name for name in names if os.path.getsize(os.path.join(folder, name)) > LARGEST]
        return [name for name in names if name in (".git", "__pycache__") or name in large]

    target = into / repository.name
    shutil.copytree(repository, target, ignore=left_out, dirs_exist_ok=True, ignore_dangling_symlinks=True)
    return target


def measure(repository: Path, into: Path, jobs: int, safe: bool) -> Outcome:
    began = time.monotonic()
    original, edited = copy_of(repository, into / "before"), copy_of(repository, into / "after")
    outcome = Outcome(repository.name)
    before = models_of(original, jobs)
    refused = [key for key, model in before.items() if not model.traced]
    outcome.judged, outcome.refused = len(before), len(refused)
    while refused and outcome.rounds < ROUNDS:
        outcome.rounds += 1
        applied = fix(edited, jobs, safe)
        outcome.fixes += applied
        if not applied:
            break
    after = models_of(edited, jobs) if outcome.fixes else before
    for key in refused:
        now = after.get(key)
        if now is None or not now.traced:
            outcome.left.update(before[key].codes if now is None else now.codes)
            continue
        outcome.traced += 1
        difference = compare(original, edited, before[key])
        if difference:
            outcome.different.append(f"{repository.name}/{key[0]}::{key[1]}: {difference}")
        else:
            outcome.equal += 1
    outcome.diff = "".join(differences(original, edited))
    outcome.seconds = time.monotonic() - began
    return outcome


def differences(original: Path, edited: Path) -> Iterator[str]:
    for path in sorted(edited.rglob("*.py")):
        name = str(path.relative_to(edited))
        texts = [each.read_text(encoding="utf-8", errors="replace") for each in (original / name, path)]
        if texts[0] != texts[1]:
            old, new = (text.splitlines(keepends=True) for text in texts)
            yield from difflib.unified_diff(old, new, f"{original.name}/{name}", f"{edited.name}/{name}")


def compare(original: Path, edited: Path, model: Model) -> str | None:
    """The difference between eager of the original class and torch.fx's trace of the edited one; None if there is
    none."""
    import torch
    from torch.utils import _pytree as pytree

    if model.inputs is None:
        return "no inputs are known"
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("eager", "traced")]
        for root, file, start in ((original, files[0], None), (edited, files[1], files[0])):
            process = get_context("fork").Process(target=_run, args=(root, model, file, start))
            process.start()
            process.join(SECONDS)
            if process.is_alive():
                process.kill()
            if not os.path.exists(file):
                return "the process of a run ended"
        eager, traced = (torch.load(file, weights_only=False) for file in files)
    if "error" in eager or "error" in traced:
        return f"eager: {eager.get('error', 'runs')}; traced: {traced.get('error', 'runs')}"
    old, new = (pytree.tree_leaves(each["value"]) for each in (eager, traced))
    if len(old) != len(new):
        return f"{len(new)} results instead of {len(old)}"
    for left, right in zip(old, new, strict=True):
        if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
            if left.shape != right.shape or not torch.allclose(left, right, 1e-4, 1e-5, equal_nan=True):
                return "the results differ"
        elif left != right:
            return f"{right!r} instead of {left!r}"
    return None


def _run(root: Path, model: Model, file: str, start: str | None) -> None:
    """In a separate process: the result of eager, or that of the traced module with the weights in ``start``."""
    import torch
    import torch.fx
    from fxlens.worker import scope, user_file

    torch.set_num_threads(1)
    result: dict[str, Any] = {}
    with open(os.devnull, "w") as null, contextlib.redirect_stdout(null), contextlib.redirect_stderr(null):
        try:
            path = str(root / model.path)
            torch.manual_seed(0)
            namespace = user_file.load(path, Path(path).read_text(encoding="utf-8"), str(root), {})
            names = {**scope.scope(namespace), "_arguments": lambda *a, **k: (a, k)}
            torch.manual_seed(0)
            module = eval(model.construct, names).eval()
            torch.manual_seed(1)
            args, kwargs = eval(f"_arguments({model.inputs})", names)
            concrete = kwargs.pop("concrete_args", None)
            if start is not None:
                module.load_state_dict(torch.load(start, weights_only=False)["state"], strict=False)
                given = inspect.signature(module.forward).bind_partial(*args, **kwargs).arguments
                parameters = inspect.signature(module.forward).parameters.values()
                left_out = {each.name: None for each in parameters if each.default is None and each.name not in given}
                module = torch.fx.symbolic_trace(module, {**left_out, **(concrete or {})})
            state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
            torch.manual_seed(2)
            with torch.no_grad():
                result = {"value": module(*args, **kwargs), "state": state}
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"[:200]}
    torch.save(result, f"{file}.part")
    os.replace(f"{file}.part", file)


def table(outcomes: list[Outcome]) -> str:
    total = Outcome("all")
    for each in outcomes:
        total.judged, total.refused = total.judged + each.judged, total.refused + each.refused
        total.traced, total.equal = total.traced + each.traced, total.equal + each.equal
        total.fixes, total.seconds = total.fixes + each.fixes, total.seconds + each.seconds
        total.left.update(each.left)
    rows = [HEAD, *(each.row() for each in outcomes), total.row()]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder of repositories")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these repositories")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the copies there")
    parser.add_argument("--diff", type=Path, metavar="FILE", help="write there what the fixes changed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--safe", action="store_true", help="only fixes that assume nothing, as --fix applies by itself"
    )
    options = parser.parse_args()
    outcomes, diffs = [], []
    with contextlib.ExitStack() as stack:
        into = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fxlens-fixes-")))
        for repository in sorted(each for each in options.folder.iterdir() if each.is_dir()):
            if options.only and repository.name not in options.only:
                continue
            outcomes.append(measure(repository.resolve(), into, options.jobs, options.safe))
            diffs.append(outcomes[-1].diff)
            print("  ".join(outcomes[-1].row()), file=sys.stderr, flush=True)
    print(table(outcomes))
    for each in outcomes:
        for line in each.different:
            print(f"not equal: {line}")
    if options.diff:
        options.diff.write_text("".join(diffs), encoding="utf-8")


if __name__ == "__main__":
    main()
