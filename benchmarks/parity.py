"""Whether the verdicts are those of torch: on models of libraries, of repositories, and of any file.

    python benchmarks/parity.py zoo [--only resnet …] [--sizes]
    python benchmarks/parity.py repositories FOLDER [--only detr …] [--most 4] [--sizes]
    python benchmarks/parity.py file FILE [--only Branch …]

torch is run as its users do, in a process with nothing of this project but the one file that runs it
(`tests/fxlib/captures/reference.py`); another process judges the model. The comparison covers what torch.export,
torch.compile and torch.compile(fullgraph=True) accept (for a file's models also strict torch.export), the graphs and
their operators, the places of graph breaks, each range that Dynamo reports, and the line at which an export fails.
*complaints* are errors and warnings about models that torch captures whole; differences are listed below the model.

``repositories``: ``fxlens check`` finds the models below each folder, and how they are constructed and called; the
``--most`` with the most operations that are not too large are compared. ``file``: the classes with `inputs`, like those
of `tests/fxlib/captures/collection`. ``--sizes``: torch.export is run for each size separately: it must reject one that
is reported as pinned, and accept one that is reported as free; and the proposed dynamic_shapes are counted.
"""

from __future__ import annotations

import argparse
import ast
import functools
import inspect
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

TIMM = (
    "resnet10t", "vit_tiny_patch16_224", "mobilenetv3_small_050", "regnetx_002", "levit_128s", "ghostnet_050",
    "mobilevit_xxs", "edgenext_xx_small", "lcnet_035", "tinynet_e", "convnext_atto", "efficientformerv2_s0",
    "repvgg_a0", "pit_ti_224", "xcit_nano_12_p16_224", "swin_tiny_patch4_window7_224",
)  # fmt: skip
_SECONDS = 120  # of the processor, for one side of one model
_LARGEST = 20_000_000  # parameters


@dataclass(frozen=True)
class Case:
    """A model: how it and its inputs are made, and the folder or file whose code counts as the user's. ``strict``: also
    compare strict torch.export, which is slowest."""

    name: str
    own: str
    make: Callable[[], tuple[Any, tuple[Any, ...]]]
    strict: bool = False
    repository: str = ""


# ---- models


def zoo(only: list[str]) -> Iterator[Case]:
    import timm
    import torch

    os.environ["FXLENS_ZOO"] = "all"
    from tests.fxlib.captures.test_zoo import ENTRIES, inputs

    def of_a_library(entry: Any) -> tuple[Any, tuple[Any, ...]]:
        torch.manual_seed(0)
        return entry.build().eval(), tuple(inputs(entry).values())

    def of_timm(name: str) -> tuple[Any, tuple[Any, ...]]:
        torch.manual_seed(0)
        model = timm.create_model(name, pretrained=False).eval()
        whole = model.default_cfg["fixed_input_size"] or any(each in name for each in ("224", "xx", "former"))
        size = model.default_cfg["input_size"] if whole else (3, 64, 64)
        return model, (torch.randn(2, *size),)

    for entry in ENTRIES:
        if not only or entry.name in only:
            yield Case(str(entry), _package(entry.family), lambda entry=entry: of_a_library(entry))
    for name in TIMM:
        if not only or name in only:
            yield Case(f"timm:{name}", _package("timm"), lambda name=name: of_timm(name))


def _package(name: str) -> str:
    return os.path.dirname(str(sys.modules[name].__file__))


def of_file(path: str, only: list[str]) -> Iterator[Case]:
    from tests.fxlib.captures import reference

    path = os.path.realpath(path)
    for name, each in vars(reference.load(path)).items():
        if isinstance(each, type) and hasattr(each, "inputs") and (not only or name in only):
            yield Case(name, path, lambda each=each: (each(), tuple(each.inputs())), strict=True)


def repositories(folder: Path, only: list[str]) -> Iterator[Case]:
    for repository in sorted(path for path in folder.iterdir() if path.is_dir()):
        if only and repository.name not in only:
            continue
        command = [sys.executable, "-m", "fxlens", "check", ".", "--quick", "--format", "json", "--jobs", "1"]
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, "XDG_CACHE_HOME": cache}
            done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True)
        ready = [
            (target["nodes"] or 0, str(repository / file["path"]), target)
            for file in (json.loads(done.stdout)["files"] if done.stdout else ())
            for target in file["targets"]
            if target["construct"] and target["inputs"] and target["status"] in ("traced", "partial")
        ]
        # The largest ones, but not all of one file.
        taken: Counter[str] = Counter()
        for _, path, target in sorted(ready, key=lambda each: each[0], reverse=True):
            taken[path] += 1
            if taken[path] <= 2:
                name = f"{repository.name}:{target['name']}"
                made = functools.partial(in_repository, path, target)
                yield Case(name, str(repository), made, repository=repository.name)


def in_repository(path: str, told: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """A model of a repository and its inputs, made as the worker makes them, with data."""
    import torch

    sys.path.insert(0, str(ROOT / "server"))
    from fxlens.jobs.captures import made, with_data
    from fxlens.sources import targets
    from fxlens.sources.targets import Source
    from fxlens.worker import user_file

    text = Path(path).read_text(encoding="utf-8")
    tree = ast.parse(text)
    namespace = user_file.load(path, text, os.path.dirname(path), {}, tree)
    target = next(each for each in targets.find(tree, text) if each.name == told["name"])
    target.construct, target.inputs = [Source(**told["construct"])], [Source(**told["inputs"])]
    model, given, has_data = made(namespace, target)
    if sum(each.numel() for each in model.parameters()) > _LARGEST:
        raise ValueError("it is too large for this comparison")
    if not has_data:
        model, given = with_data(namespace, target)
    torch.manual_seed(0)
    bound = inspect.signature(model.forward).bind(**given) if isinstance(given, dict) else None
    if bound is not None and bound.kwargs:
        raise ValueError("it is called with keywords only")
    return model, tuple(given) if bound is None else bound.args


# ---- both sides, each in its own process


def apart(case: Case, ask: Callable[[Case], dict[str, Any]]) -> dict[str, Any]:
    """The result of ``ask`` in a fork, which is ended if it takes too long. Its output is not shown."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + _SECONDS, resource.RLIM_INFINITY))
        for descriptor in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        try:
            found = ask(case)
        except BaseException as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        answer = json.loads(file.read() or '{"error": "it took too long, or ended the process"}')
    os.waitpid(pid, 0)
    return answer


def of_torch(case: Case) -> dict[str, Any]:
    from tests.fxlib.captures import reference

    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        os.dup2(os.open(log.name, os.O_WRONLY | os.O_APPEND), 2)
        found = reference.judged(case.make, case.own, log.name, strict=case.strict)
    if not found["breaks"] and found["compile"] is None:
        found["compiled again"] = compiled_again(case)
    return found


def compiled_again(case: Case) -> bool:
    """Whether later calls with the same inputs make torch.compile compile again."""
    import torch

    graphs: list[Any] = []
    model, inputs = case.make()
    compiled = torch.compile(model, backend=lambda graph, _: graphs.append(graph) or graph.forward)
    first = None
    for _ in range(3):
        compiled(*inputs)
        first = len(graphs) if first is None else first
    return len(graphs) != first


def of_fxlens(case: Case) -> dict[str, Any]:
    from fxlib.captures import judge
    from tests.fxlib.captures.agreement import answer

    model, inputs = case.make()
    return answer(
        judge(model, inputs, captures=("export", "compile", "strict") if case.strict else ("export", "compile"))
    )


def of_sizes(case: Case) -> dict[str, Any]:
    """Each size reported as free or pinned, with torch.export's result for it alone; and the specification."""
    from torch.export import Dim, export

    from fxlib.captures import judge, specify
    from fxlib.captures.pins import analyse

    model, inputs = case.make()
    if judge(model, inputs, captures=("export",)).verdicts["export"].outcome != "captured":
        return {"exports": False}
    shapes = analyse(model, inputs, {})
    wrong = []
    for dimension, size in shapes.inputs.dimensions().items():
        said = next((name for name in ("free", "pinned") if dimension in getattr(shapes, name)), None)
        if said is None or size < 2:
            continue
        group = next((each for each in shapes.groups if dimension in each), {dimension})
        asked = shapes.inputs.shapes(dict.fromkeys(group, Dim.DYNAMIC))
        try:
            export(model, shapes.inputs.args, shapes.inputs.kwargs, dynamic_shapes=asked, strict=False)
            taken = True
        except Exception:
            taken = False
        if taken != (said == "free"):
            wrong.append(f"{dimension.text} is called {said}, torch.export {'takes' if taken else 'refuses'} it")
    found = specify(model, inputs)
    return {
        "exports": True, "wrong": wrong, "pinned": len(shapes.pinned), "free": len(shapes.free),
        "varies": bool(found.dims), "proven": found.proven, "text": found.text, "limits": found.limits,
    }  # fmt: skip


# ---- the table


def compared(case: Case) -> dict[str, Any]:
    from tests.fxlib.captures.agreement import complaints, differences, known_ranges

    real, ours = apart(case, of_torch), apart(case, of_fxlens)
    row: dict[str, Any] = {"name": case.name, "torch": real, "here": ours}
    errors = {side: found["error"] for side, found in (("torch", real), ("here", ours)) if "error" in found}
    if errors:
        return {**row, "left out": errors}
    return {
        **row, "differences": differences(real, ours), "complaints": complaints(real, ours),
        "ranges": len(known_ranges(real)),
    }  # fmt: skip


def line(row: dict[str, Any]) -> str:
    if "left out" in row:
        return f"{row['name']:<44} left out: {row['left out']}"
    real = row["torch"]
    said = "  ".join(
        f"{name} {'✗' if real[name] else '✓'}" for name in ("export", "strict", "fullgraph") if name in real
    )
    parts = f"{len(set(real['breaks'])):>3} breaks {real['graphs']:>3} graphs {real['operators']:>5} operators"
    wrong = "".join(f"\n    {each}" for each in row["differences"])
    wrong += "".join(f"\n    {each} though torch takes it" for each in row["complaints"])
    return f"{row['name']:<44} {said} {parts} {'same' if not wrong else 'DIFFERS'}{wrong}"


def summary(rows: list[dict[str, Any]]) -> str:
    known = [row for row in rows if "left out" not in row]
    whole = [row for row in known if not any(row["torch"][name] for name in ("export", "fullgraph", "compile"))]
    return (
        f"{len(known)} models: {sum(not row['differences'] for row in known)} the same in everything; "
        f"{sum(len(set(row['torch']['breaks'])) for row in known)} lines with breaks, "
        f"{sum(row['ranges'] for row in known)} ranges of Dynamo's; complaints about "
        f"{sum(bool(row['complaints']) for row in known)} of the {len(whole)} that torch takes; "
        f"{len(rows) - len(known)} left out"
    )


def line_of_sizes(row: dict[str, Any]) -> str:
    if not row.get("exports"):
        return f"{row['name']:<44} {row.get('error', 'torch.export refuses it')}"
    said = "proven" if row["proven"] else "NOT PROVEN" if row["varies"] else "nothing varies"
    wrong = "".join(f"\n    {each}" for each in row["wrong"])
    return f"{row['name']:<44} {row['free']} free, {row['pinned']} pinned, {said} {row['text']}{wrong}"


def summary_of_sizes(rows: list[dict[str, Any]]) -> str:
    known = [row for row in rows if row.get("exports")]
    varying = [row for row in known if row["varies"]]
    return (
        f"{len(known)} models that torch.export takes: {sum(row['free'] for row in known)} sizes free and "
        f"{sum(row['pinned'] for row in known)} pinned, {sum(len(row['wrong']) for row in known)} of them wrong; "
        f"{len(varying)} have sizes that vary, of {sum(row['proven'] for row in varying)} the specification is proven"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("zoo", "repositories", "file"))
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--most", type=int, default=3, help="models of a repository")
    parser.add_argument("--sizes", action="store_true", help="compare sizes that vary")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    import torch._dynamo  # noqa: F401 each model is asked in a fork of this process

    if arguments.what == "zoo":
        cases = zoo(arguments.only)
    elif arguments.what == "file":
        cases = of_file(str(arguments.path), arguments.only)
    else:
        cases = repositories(arguments.path.resolve(), arguments.only)
    rows: list[dict[str, Any]] = []
    compared_of: Counter[str] = Counter()
    for case in cases:
        if case.repository and compared_of[case.repository] == arguments.most:
            continue
        rows.append({"name": case.name, **apart(case, of_sizes)} if arguments.sizes else compared(case))
        print((line_of_sizes if arguments.sizes else line)(rows[-1]), flush=True)
        compared_of[case.repository] += "left out" not in rows[-1]
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1))
    print((summary_of_sizes if arguments.sizes else summary)(rows))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
