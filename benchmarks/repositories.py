"""How many classes of checked out repositories are constructed, and get inputs, on assumptions alone.

    python benchmarks/repositories.py ~/src/detr ~/src/whisper … [--failures] [--class NAME] [--jobs 2] [--json FILE]

For each repository: module classes with a forward in files that can be imported, how many of them were constructed,
for how many of those inputs were found under which the eager forward runs, and the median time that a class took. A
package that is not installed is replaced by a stand-in, which raises when it is used; classes that need one to be
constructed, or to run, are counted apart.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import io
import json
import os
import statistics
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "server")]
SKIPPED = {".git", "node_modules", "__pycache__", "build", "dist", ".tox"}
IMPORT_SECONDS = 60


class NeedsPackage(ImportError):
    """A class used a package that is not installed."""


class _Meta(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(f"{cls.__name__}.{name}")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.__dict__.get("stands_for") is None:
            return super().__call__(*args, **kwargs)
        if not Missing.importing:
            raise NeedsPackage(cls.__dict__["stands_for"])
        if len(args) == 1 and not kwargs and (callable(args[0]) or isinstance(args[0], type)):
            return args[0]
        return _stand_in(f"{cls.__name__}()")

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__

    def __getitem__(cls, key: Any) -> Any:
        return cls

    def __iter__(cls) -> Any:
        return iter(())


def _stand_in(name: str) -> Any:
    if name.rpartition(".")[2] in ("Module", "LightningModule", "PreTrainedModel", "BaseModule"):
        return torch.nn.Module
    return _Meta(name.rpartition(".")[2], (), {"stands_for": name})


class Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module that nothing else found."""

    importing = True

    def __init__(self, root: str) -> None:
        self.root = root
        self.made: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        top = name.partition(".")[0]
        asking = next((f for f in _frames() if not f.startswith("<frozen")), "")
        inside = "site-packages" in asking or "/lib/python" in asking
        if not Missing.importing or inside:
            return None
        if top in sys.modules and top not in self.made and not _inside(sys.modules[top], self.root):
            return None
        self.made.add(top)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        return _StandInModule(spec.name)

    def exec_module(self, module: Any) -> None:
        module.__path__ = []


class _StandInModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        return "0.0" if name == "__version__" else _stand_in(f"{self.__name__}.{name}")


def _frames() -> Any:
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if "importlib" not in name and not name.endswith("repositories.py"):
            yield name
        frame = frame.f_back


def _inside(module: Any, root: str) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith(root)


def files_of(repository: Path) -> list[Path]:
    found = []
    for folder, inner, names in os.walk(repository):
        inner[:] = sorted(each for each in inner if each not in SKIPPED)
        found += [Path(folder) / name for name in sorted(names) if name.endswith(".py")]
    return [path for path in found if "forward" in path.read_text(encoding="utf-8", errors="replace")]


def load(path: Path, repository: Path) -> ModuleType:
    """The file as a module; a package whose ``__init__`` fails is passed over."""
    from fxlens.worker.user_file import import_name

    name, root = import_name(str(path))
    sys.path[:0] = list(dict.fromkeys([root, str(path.parent), str(repository), str(repository / "src")]))
    sys.meta_path.append(Missing(str(repository)))
    sys.argv = [str(path)]
    with contextlib.suppress(ImportError):
        importlib.import_module("torch.utils.tensorboard")
    if "torch.utils.tensorboard" not in sys.modules:
        sys.modules["torch.utils.tensorboard"] = _StandInModule("torch.utils.tensorboard")
    parts = name.split(".")
    for count in range(1, len(parts)):
        package = ".".join(parts[:count])
        try:
            importlib.import_module(package)
        except Exception:
            bare = ModuleType(package)
            bare.__path__ = [os.path.join(root, *parts[:count])]  # type: ignore[attr-defined]
            sys.modules[package] = bare
    if "." not in name and (name in sys.modules or not name.isidentifier()):
        name = "_tried_" + "".join(c if c.isalnum() else "_" for c in name)
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    return importlib.import_module(name)


def classes_of(module: ModuleType, path: Path) -> list[type]:
    tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    names = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    found = []
    for name in dict.fromkeys(names):
        kind = getattr(module, name, None)
        if not isinstance(kind, type) or not issubclass(kind, torch.nn.Module) or kind.__module__ != module.__name__:
            continue
        forward = getattr(kind, "forward", None)
        if forward is not None and getattr(forward, "__name__", "") != "_forward_unimplemented":
            found.append(kind)
    return found


def measure(path: Path, repository: Path, only: set[tuple[str, str]] | None, send: Any) -> None:
    """Imports one file and reports on each of its classes."""
    torch.set_num_threads(1)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            module = load(path, repository)
    except BaseException as error:
        send({"file": str(path), "import": f"{type(error).__name__}: {error}"[:300]})
        return
    Missing.importing = False
    from fxlens.worker.assume import Assumer

    kinds = [
        kind
        for kind in classes_of(module, path)
        if only is None or ("", kind.__name__) in only or (str(path), kind.__name__) in only
    ]
    assumer = Assumer(module)
    for kind in kinds:
        send({"file": str(path), "begin": kind.__name__})
        began = time.process_time()
        row: dict[str, Any] = {"file": str(path), "class": kind.__name__}
        try:
            result = assumer.assume(kind)
            row.update(status=result.status, construct=result.construct, inputs=result.inputs, ran=result.ran)
            row.update(reason=result.reason, trials=result.trials, missing=isinstance(result.error, NeedsPackage))
            if result.error is not None:
                row["where"] = where(result.error)
        except BaseException as error:
            row.update(status="broken", reason=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
        row["ms"] = round((time.process_time() - began) * 1000, 1)
        send(row)


def where(error: BaseException) -> str:
    """The last lines of the repository's code in the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if "site-packages" not in each.filename and str(ROOT) not in each.filename]
    return "".join(f"\n        {os.path.basename(each.filename)}:{each.lineno} {each.line}" for each in own[-2:])


def run(repository: Path, only: set[tuple[str, str]] | None, jobs: int) -> list[dict[str, Any]]:
    """One process for each file."""
    rows: list[dict[str, Any]] = []
    running: dict[int, tuple[Any, Path, float]] = {}
    waiting = files_of(repository)
    if only is not None:
        names = {name for file, name in only if not file}
        waiting = [
            path
            for path in waiting
            if any(file == str(path) for file, _ in only)
            or any(f"class {name}" in path.read_text(encoding="utf-8", errors="replace") for name in names)
        ]
    while waiting or running:
        while waiting and len(running) < jobs:
            path = waiting.pop(0)
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(read)
                null = os.open(os.devnull, os.O_RDWR)
                os.dup2(null, 0)
                if not os.environ.get("TRIAL_STDERR"):
                    os.dup2(null, 2)
                out = os.fdopen(write, "w", buffering=1)
                measure(path, repository, only, lambda row, out=out: out.write(json.dumps(row, default=str) + "\n"))
                out.flush()
                os._exit(0)
            os.close(write)
            running[child] = (os.fdopen(read), path, time.monotonic())
        rows += _collect(running)
    return rows


def _collect(running: dict[int, tuple[Any, Path, float]]) -> list[dict[str, Any]]:
    import select

    rows: list[dict[str, Any]] = []
    ready, _, _ = select.select([out for out, _, _ in running.values()], [], [], 1.0)
    for child, (out, path, began) in list(running.items()):
        late = time.monotonic() - began > 300
        if out not in ready and not late:
            continue
        if late:
            os.kill(child, 9)
        lines = [json.loads(line) for line in out if line.endswith("\n")]
        os.waitpid(child, 0)
        del running[child]
        done = {row.get("class") for row in lines}
        for row in lines:
            if "begin" in row and row["begin"] not in done:
                rows.append({"file": str(path), "class": row["begin"], "status": "died", "reason": "the process ended", "ms": 0})
            elif "begin" not in row:
                rows.append(row)
    return rows


def warm_up() -> None:
    """What the first run on meta imports, once and not in every process."""
    with torch.device("meta"):
        torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())(torch.randn(2, 3, 8, 8))


HEAD = ("repository", "classes", "abstract", "needs package", "constructed", "of", "inputs", "of", "ran", "median ms", "p90 ms")


def table_row(name: str, rows: list[dict[str, Any]]) -> list[Any]:
    classes = [row for row in rows if "class" in row]
    abstract = [row for row in classes if row["status"] == "abstract"]
    missing = [row for row in classes if row["status"] != "abstract" and row.get("missing")]
    judged = [row for row in classes if row not in abstract and row not in missing]
    built = [row for row in judged if row.get("construct")]
    fed = [row for row in built if row.get("inputs") is not None]
    ran = [row for row in fed if row.get("ran")]
    times = sorted(row["ms"] for row in classes) or [0]
    return [
        name, len(classes), len(abstract), len(missing), len(built), len(judged), len(fed), len(built), len(ran),
        round(statistics.median(times)), round(times[int(0.9 * (len(times) - 1))]),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", type=Path)
    parser.add_argument("--failures", action="store_true", help="print what was not constructed, or got no inputs, and why")
    parser.add_argument("--all", action="store_true", help="print what was found for every class")
    parser.add_argument("--class", dest="only", help="only classes of this name")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", type=Path, help="only classes that failed in this file of --json")
    parser.add_argument("--json", type=Path, help="write all rows there")
    options = parser.parse_args()
    everything, table = [], []
    warm_up()
    for repository in options.repositories:
        rows = run(repository.resolve(), only_of(options, repository), options.jobs)
        for row in rows:
            row["repository"] = repository.name
        everything += rows
        table.append(table_row(repository.name, rows))
        if options.failures or options.all:
            _print_rows(rows, options.all)
        print("  ".join(str(each) for each in table[-1]), file=sys.stderr, flush=True)
    if len(table) > 1:
        table.append(table_row("all", everything))
    widths = [max(len(str(line[i])) for line in [HEAD, *table]) for i in range(len(HEAD))]
    for line in [HEAD, *table]:
        print("  ".join(str(each).rjust(width) if i else str(each).ljust(width) for i, (each, width) in enumerate(zip(line, widths, strict=True))))
    failed = Counter(row["import"].partition(":")[0] for row in everything if "import" in row)
    if failed:
        print("files that cannot be imported:", dict(failed))
    if options.json:
        options.json.write_text("".join(json.dumps(row) + "\n" for row in everything))


def only_of(options: argparse.Namespace, repository: Path) -> set[tuple[str, str]] | None:
    """Pairs of file and class to look at, "" for any file; None for all."""
    if options.again:
        rows = [json.loads(line) for line in options.again.read_text().splitlines()]
        return {
            (row["file"], row["class"])
            for row in rows
            if row["repository"] == repository.name and "class" in row and row["status"] != "abstract"
            and (not row.get("construct") or row.get("inputs") is None) and not row.get("missing")
        }  # fmt: skip
    return {("", options.only)} if options.only else None


def _print_rows(rows: list[dict[str, Any]], everything: bool) -> None:
    for row in rows:
        where = os.path.basename(row["file"])
        if "import" in row:
            print(f"IMPORT {where}: {row['import']}")
        elif everything or not row.get("construct") or row.get("inputs") is None or not row.get("ran"):
            print(f"{row['status'].upper()} {where} {row['class']} ({row['ms']:.0f} ms): {row.get('construct')} <- {row.get('inputs')}")
            if row.get("reason"):
                print(f"    {row['reason']}{row.get('where', '')}")
            if row.get("trace"):
                print(row["trace"])


if __name__ == "__main__":
    main()
