"""Full disks and jumping clocks: no existing data is lost, and nothing waits for the time of day."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lsp_client import MODEL, Client

ROOT = Path(__file__).resolve().parents[2]
# No file can grow beyond so many bytes, which simulates a full disk.
LIMITED = """import os, resource, runpy, sys
size = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
sys.argv = sys.argv[2:]
runpy.run_module("fxlens", run_name="__main__", alter_sys=True)
"""
BROKEN = MODEL.replace("return torch", "x = x * len(x)\n        return torch")


def run(*arguments: str, cwd: Path, most: int, **environment: str) -> subprocess.CompletedProcess:
    environment = {
        **os.environ, "XDG_CACHE_HOME": str(cwd / ".cache"), "PYTHONDONTWRITEBYTECODE": "1", **environment
    }  # fmt: skip
    command = [sys.executable, "-c", LIMITED, str(most), "fxlens", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=250)


def left(folder: Path) -> list[str]:
    """What was begun and is not finished."""
    return [path.name for path in folder.rglob("*") if path.name.endswith(".new") or path.name.startswith(".fxlens-")]


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("hard", [False, True], ids=["one name", "two names"])
def test_a_fix_that_does_not_fit_leaves_the_file_as_it_was(tmp_path: Path, hard: bool, report):
    (tmp_path / "net.py").write_text(BROKEN)
    if hard:
        os.link(tmp_path / "net.py", tmp_path / "twin")
    done = run("check", "--fix", "--all", "net.py", cwd=tmp_path, most=len(BROKEN) - 1)
    assert (tmp_path / "net.py").read_text() == BROKEN
    assert "net.py: not fixed: File too large" in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert left(tmp_path) == []
    report(outcome="not fixed, with a sentence")


WRITE = """import resource, sys
from fxlens.sources.files import write_source
most = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
before = open(sys.argv[1]).read()
try:
    write_source(sys.argv[1], before, "y = 2  # longer\\n" + before)
except OSError as error:
    print(error.strerror)
"""


def test_a_file_with_two_names_is_whole_again(tmp_path: Path, report):
    """It is written in place, and the disk is full in the middle."""
    text = "x = 1\n" * 4000
    for most in (len(text), len(text) + 5, 9000, 0):
        (tmp_path / "net.py").write_text(text)
        (tmp_path / "twin.py").unlink(missing_ok=True)
        os.link(tmp_path / "net.py", tmp_path / "twin.py")
        command = [sys.executable, "-c", WRITE, str(tmp_path / "net.py"), str(most)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert done.stdout == "File too large\n", done.stderr
        assert (tmp_path / "twin.py").read_text() == (tmp_path / "net.py").read_text() == text
    report(tries=4, outcome="as it was")


def test_own_files_stay_as_they_were(tmp_path: Path, warm_python: Path, report):
    """The baseline, recorded examples and the cache; the check itself goes on."""
    (tmp_path / "net.py").write_text(BROKEN)
    warm = {"VIRTUAL_ENV": str(warm_python / "plain")}  # whose workers have no limit
    done = run("check", "--quick", "--all", "--write-baseline", "net.py", cwd=tmp_path, most=1 << 30, **warm)
    assert done.returncode == 0
    before = (tmp_path / "fxlens-baseline.json").read_text()
    (tmp_path / "net.py").write_text(BROKEN.replace("Net", "Other"))
    done = run("check", "--quick", "--all", "--write-baseline", "net.py", cwd=tmp_path, most=20, **warm)
    assert done.returncode == 2 and "File too large" in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert (tmp_path / "fxlens-baseline.json").read_text() == before
    done = run("check", "--quick", "--all", "--worker", "spawn", "net.py", cwd=tmp_path, most=20)
    assert done.returncode == 1 and "FX120" in done.stdout and "Traceback" not in done.stderr, done.stderr
    examples = tmp_path / "fxlens.examples.toml"
    examples.write_text('[["other.py::Other"]]\nconstruct = "Other(77)"\n')
    (tmp_path / "other.py").write_text("class Other:\n    def __init__(self, n): ...\n")
    program = "import sys, torch; sys.path.insert(0, '.'); import net; net.Other()(torch.ones(2, 4))"
    was = examples.read_text()
    done = run("record", "--", sys.executable, "-c", program, cwd=tmp_path, most=20)
    assert "Traceback" not in done.stderr, done.stderr
    assert examples.read_text() == was and left(tmp_path) == []
    report(tries=4, outcome="as they were, with a sentence")


def test_a_model_that_cannot_be_saved(tmp_path: Path, warm_python: Path, report):
    """No half of a model is taken for one, nor half of a key for a key; and an earlier one stays."""
    (tmp_path / "net.py").write_text(MODEL)
    arguments = ["lower", "net.py", "--engine", "onnxruntime", "-o", "models/out"]
    out = tmp_path / "models" / "out"
    done = run(*arguments, cwd=tmp_path, most=20)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "models/out cannot be written: File too large" in done.stderr
    assert [path for path in (tmp_path / ".cache").rglob("keys/*")] == []
    assert not out.parent.exists()
    warm = {"VIRTUAL_ENV": str(warm_python / "plain")}  # whose workers have no limit
    done = run(*arguments, cwd=tmp_path, most=1 << 30, **warm)
    assert done.returncode == 0 and (out / "seal.json").exists(), done.stderr
    before = {each.name: each.read_bytes() for each in out.iterdir()}
    (tmp_path / "net.py").write_text(MODEL.replace("4, 4)", "400, 400)").replace("2, 4)", "2, 400)"))
    done = run(*arguments, cwd=tmp_path, most=100_000)
    assert done.returncode == 2 and "File too large" in done.stderr, done.stderr
    assert {each.name: each.read_bytes() for each in out.iterdir()} == before
    done = run(*arguments, cwd=tmp_path, most=1 << 30, **warm)
    assert done.returncode == 0 and left(tmp_path) == [], done.stderr
    report(tries=4, outcome="a sentence; the earlier one stays, and the next one is saved")


LIMIT = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
"""Of the process that has the result."""


def test_a_result_that_cannot_be_saved(tmp_path: Path, report):
    """Of an earlier save all stays, of a new one there is nothing, and the result can still be saved elsewhere."""
    large = MODEL.replace("4, 4)", "400, 400)").replace("2, 4)", "2, 400)")
    good, new, onnx = tmp_path / "good", tmp_path / "new", tmp_path / "new.onnx"
    (tmp_path / "net.py").write_text(large)
    with Client(tmp_path) as server:
        uri = server.open(tmp_path / "net.py")

        def save(**where: Path) -> dict:
            asked = {name: str(each) for name, each in where.items()}
            return server.request("fxlens/savePass", {"kept": kept, **asked})

        def apply() -> str:
            return server.request("fxlens/pass", {"uri": uri, "target": "Net", "passes": ["fuse"]})["kept"]

        kept = apply()
        assert save(out=good) == {"saved": True}
        before = {each.name: each.read_bytes() for each in good.iterdir()}
        server.change(uri, LIMIT + large)
        kept = apply()
        for where, place in (("out", good), ("out", new), ("onnx", onnx)):
            assert save(**{where: place}) == {"reason": f"{place} cannot be written: File too large"}
        assert {each.name: each.read_bytes() for each in good.iterdir()} == before
        assert not new.exists() and not onnx.exists() and left(tmp_path) == []
        server.change(uri, large)
        kept = apply()
        for where, place in (("out", good), ("out", new), ("onnx", onnx)):
            assert save(**{where: place}) == {"saved": True}
    report(tries=3, outcome="a sentence; the next one is saved")


JUMPING = """import itertools, random, sys, time
real, numbers = time.time, random.Random(3)
time.time = lambda: real() + numbers.choice([-1, 1]) * numbers.random() * 4e8
from fxlens.cli import main
sys.exit(main(["serve"]))
"""


@pytest.mark.usefixtures("warm")
def test_a_clock_that_jumps(tmp_path: Path, report):
    """The time of day changes by years between two reads, without effect on deadlines, pauses and clean-up."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    settings = {"deadline": 1.5, "debounce": 50, "verify": False, "lowering": "off"}
    with Client(tmp_path, command=[sys.executable, "-c", JUMPING], settings=settings,
                environment={"TMPDIR": str(temporary)}) as server:  # fmt: skip
        uri = server.open(tmp_path / "net.py", MODEL)
        assert server.diagnostics(uri) == []
        began = time.monotonic()
        found = server.edit(uri, MODEL.replace("return torch", "import time; time.sleep(99); return torch"))
        taken = time.monotonic() - began
        assert [each["code"] for each in found] == ["FX304"] and 1.0 < taken < 60, (found, taken)
        began = time.monotonic()
        assert server.edit(uri, MODEL) == []
        recovered = time.monotonic() - began
    assert not [each for each in temporary.iterdir() if "fxlens" in each.name]
    report(tries=3, outcome=f"stopped after {taken:.1f} s", recovered=recovered)


def test_the_time_of_day_decides_nothing(report):
    """Only what is compared with the times of files, and what a page says of its own date, come from it."""
    compared = {
        "server/fxlens/ipc/temporary.py", "server/fxlens/sources/files.py", "server/fxlens/worker/bytecode.py",
        "server/fxlens/worker/kept.py",
    }  # fmt: skip
    allowed = {*compared, "server/fxlens/checking/page.py", "server/fxlens/commands/check.py"}
    asking = ("time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "time.strftime")
    found, files = set(), 0
    for path in (ROOT / "server").rglob("*.py"):
        files += 1
        calls = [each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Call)]
        if any(ast.unparse(each.func) in asking for each in calls):
            found.add(path.relative_to(ROOT).as_posix())
    assert found == allowed
    report(tries=files, outcome="monotonic clocks everywhere else")
