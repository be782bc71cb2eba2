"""Output for the user: files not written by FX Lens are not replaced, and any terminal can show the text."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib
from fxlens.worker import outputs
from lsp_client import MODEL, Client
from warm_python import warm_fxlens

pytestmark = pytest.mark.usefixtures("warm")

ODD = MODEL.replace("return torch", "raise ValueError('\\udcff é 漢')\n        return torch")


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cwd / ".cache"), **environment}
    command = warm_fxlens(*arguments)
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, timeout=200)


def test_no_folder_of_others_is_written_to(tmp_path: Path, report):
    (tmp_path / "model.py").write_text(MODEL)
    package = tmp_path / "package"
    package.mkdir()
    for name, text in (("__init__.py", "precious = 1\n"), ("manifest.json", '{"mine": 1}'), ("module.pt", "mine")):
        (package / name).write_text(text)
    before = {each.name: each.read_bytes() for each in package.iterdir()}
    done = run("lower", "model.py", "--engine", "onnxruntime", "-o", "package", cwd=tmp_path)
    assert done.returncode == 2 and b"--force" in done.stderr, done.stderr
    assert {each.name: each.read_bytes() for each in package.iterdir()} == before
    (tmp_path / "empty").mkdir()
    for folder, force in (("package", True), ("new", False), ("empty", False)):
        outputs.check_folder(str(tmp_path / folder), force)
    (package / "manifest.json").write_text('{"format": 3}')
    (package / "seal.json").write_text("{}")
    with pytest.raises(outputs.NotOurs):
        outputs.check_folder(str(package), False)
    for _ in range(2):  # the second time with a file beside it, which stays
        done = run("lower", "model.py", "--engine", "onnxruntime", "-o", "mine", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        (tmp_path / "mine" / "notes").write_text("mine")
    (tmp_path / "mine" / "part_0.onnx").write_bytes(b"edited")
    done = run("lower", "model.py", "--engine", "onnxruntime", "-o", "mine", cwd=tmp_path)
    assert done.returncode == 2 and b"edited since" in done.stderr, done.stderr
    assert (tmp_path / "mine" / "notes").read_text() == "mine"
    for other in (package / "module.pt", package):
        with pytest.raises(outputs.NotOurs):
            outputs.check_file(str(other), False)
    report(tries=10, outcome="refused; --force allows it")


def test_no_saved_result_that_was_edited_is_replaced(tmp_path: Path, report):
    """Nor a package that looks like one, nor a program that mentions fxlib; what is as it was saved is replaced."""
    (tmp_path / "net.py").write_text(MODEL)
    package, program, mine = tmp_path / "package", tmp_path / "program.py", tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("from .module import *")
    (package / "module.py").write_text("class Mine: pass\n")
    program.write_text("import fxlib\n")
    with Client(tmp_path) as server:
        uri = server.open(tmp_path / "net.py")
        kept = server.request("fxlens/pass", {"uri": uri, "target": "Net", "passes": ["fuse"]})["kept"]

        def save(**where: object) -> dict:
            asked = {name: str(each) if isinstance(each, Path) else each for name, each in where.items()}
            return server.request("fxlens/savePass", {"kept": kept, **asked})

        for where in ({"out": mine}, {"onnx": tmp_path / "mine.onnx"}):
            assert [save(**where) for _ in range(2)] == [{"saved": True}] * 2
        (mine / "__pycache__").mkdir()
        assert save(out=mine) == {"saved": True}
        saved = (mine / "module.py").read_text()
        for number, edit in enumerate((lambda: (mine / "module.py").write_text(f"{saved}# edited"),
                                       lambda: (mine / "notes").touch(),
                                       lambda: (mine / "state_dict.pt").unlink())):  # fmt: skip
            edit()
            assert "edited since" in save(out=mine)["reason"], number
            assert save(out=mine, force=True) == {"saved": True}
            (mine / "notes").unlink(missing_ok=True)
            assert save(out=mine) == {"saved": True}
        with (tmp_path / "mine.onnx").open("ab") as file:
            file.write(b"\0")
        for where in ({"onnx": tmp_path / "mine.onnx"}, {"out": package}, {"onnx": program}, {"onnx": package}):
            reason = save(**where)["reason"]
            assert "did not write" in reason and "--force" not in reason, "an editor has no such option"
        assert (package / "module.py").read_text() == "class Mine: pass\n" and program.read_text() == "import fxlib\n"
        assert save(onnx=program, force=True) == {"saved": True}
        assert "did not write" in save(onnx=package, force=True)["reason"], "it is a folder"
    report(tries=8, outcome="refused; with force it is replaced")


def test_no_source_is_replaced_by_a_report(tmp_path: Path, report):
    (tmp_path / "model.py").write_text(MODEL)
    os.symlink("model.py", tmp_path / "link")
    for arguments in (["check", ".", "--output", "model.py"], ["check", "model.py", "--output", "link"],
                      ["bench", "model.py", "--svg", "model.py"]):  # fmt: skip
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 2 and b"Traceback" not in done.stderr, done.stderr
        assert (tmp_path / "model.py").read_text() == MODEL
    known = tmp_path / "known.json"
    os.symlink("helper.py", tmp_path / "report.txt")
    for name in ("helper.py", "pyproject.toml", "known.json", "report.txt"):
        known.write_text('{"findings": {}}')
        (tmp_path / name).touch()
        before = (tmp_path / name).read_text()
        done = run("check", "model.py", "--baseline", "known.json", "--output", name, cwd=tmp_path)
        assert done.returncode == 2 and b"--output would replace it" in done.stderr, done.stderr
        assert (tmp_path / name).read_text() == before
    report(tries=7, outcome="refused")


def test_an_output_that_cannot_be_written_is_said_in_a_line(tmp_path: Path, report):
    """Before anything is timed or checked."""
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "file").touch()
    commands = [
        [*command, place]
        for place in ("missing/out", "file/out")
        for command in (["bench", "model.py", "--svg"], ["check", "model.py", "--output"], ["serve", "--log-file"])
    ]
    for command in commands:
        done = run(*command, cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.startswith(b"fxlens: "), (command, done)
        assert done.stderr.count(b"\n") == 1 and b"out" in done.stderr and not done.stdout, (command, done)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "model.py"]
    report(tries=len(commands), outcome="one line, status 2")


INTERRUPTED = """import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it


class Finder:
    def find_spec(name, *_):
        if name == "argparse":
            os.kill(os.getpid(), 2)


sys.modules.pop("argparse", None)
sys.meta_path.insert(0, Finder)
from fxlens.cli import main
"""


def test_an_interrupt_during_the_imports_shows_none_of_them(report):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGINT and not done.stderr
    report(outcome="quiet")


@pytest.mark.parametrize(("encoding", "style"), [("ascii", "text"), ("cp1252", "github")])
def test_any_encoding_can_be_written(tmp_path: Path, encoding: str, style: str, report):
    for name in ("é漢.py", os.fsdecode(b"\xff.py")):
        (tmp_path / name).write_text(ODD)
    done = run("check", "--quick", "--all", "--format", style, ".", cwd=tmp_path, PYTHONIOENCODING=encoding)
    assert done.returncode == 1 and b"Traceback" not in done.stderr, done.stderr
    assert b"\\u6f22" in done.stdout
    report(outcome="escaped")


def test_an_output_that_cannot_be_written(tmp_path: Path, report):
    command = warm_fxlens("init")
    for unbuffered in ("", "1"):
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, stdout=full, stderr=subprocess.PIPE, timeout=200
            )
        assert (done.returncode, done.stderr) == (2, b"fxlens: No space left on device\n")
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "full").write_bytes(b" " * (1 << 20))
    limited = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20,) * 2); "
    limited += "os.execv(sys.executable, [sys.executable, '-m', 'fxlens', *sys.argv[1:]])"
    for arguments in (["init"], ["graph", "model.py"], ["check", "model.py", "--all", "--no-cache"]):
        with open(tmp_path / "full", "ab") as full:
            done = subprocess.run(
                [sys.executable, "-c", limited, *arguments], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE,
                timeout=200,
            )  # fmt: skip
        assert (done.returncode, done.stderr) == (2, b"fxlens: File too large\n"), arguments
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command], cwd=tmp_path, timeout=200, capture_output=True
    )
    assert closed.returncode == 0
    report(tries=6, outcome="a sentence")


def test_what_is_said_beside_the_results_is_no_reason_to_fail(tmp_path: Path, report):
    """The log is on a full disk: the file is fixed, and the exit status says so."""
    (tmp_path / "m.py").write_text(MODEL.replace("return torch", "return len(x) * torch"))
    command = warm_fxlens("check", "--fix", "m.py")
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=full, timeout=200)
    assert done.returncode == 0 and b"1 traced" in done.stdout
    # Who reads the results and has enough of them is no error that was found.
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        program.stdout.close()
        assert program.wait(200) == 141, program.stderr.read()
    for arguments in (["--deadline", "inf"], ["--deadline", "1e400"], ["--memory", "9" * 30]):
        done = run("check", "m.py", *arguments, cwd=tmp_path)
        assert done.returncode == 2 and b"and at most" in done.stderr, done.stderr
    for command, option, number in (
        ("check", "--jobs", "0"),
        ("check", "--jobs", "9" * 20),
        ("init", "--jobs", "-1"),
        ("lower", "--threads", "-3"),
        ("bench", "--batch", "0"),
        ("bench", "--layers", "-3"),
        ("record", "--calls", "-1"),
    ):
        done = run(command, f"{option}={number}", "m.py", cwd=tmp_path)
        assert done.returncode == 2 and f"{option}: must be a whole number above 0" in done.stderr.decode(), done.stderr
    report(tries=5, outcome="the status of the check")


def test_names_of_files_add_nothing_to_a_proposed_configuration(tmp_path: Path, report):
    (tmp_path / "plain.py").write_text(
        "import torch\n\n\nclass Plain(torch.nn.Module):\n    def __init__(self, dim):\n        super().__init__()\n"
        "        self.linear = torch.nn.Linear(dim, dim)\n\n    def forward(self, x):\n        return self.linear(x)\n"
    )
    (tmp_path / "a\n[tool.evil]\nq = 1 #\x1b[31m.py").write_text("from plain import Plain\n\nPlain(5)\n")
    done = run("init", ".", cwd=tmp_path)
    assert set(tomllib.loads(done.stdout.decode())["tool"]) == {"fxlens"} and b"\x1b" not in done.stdout
    report(outcome="escaped")


HOSTILE = "\x1b[2J\x1b]0;t\x07\x9b31m\r\x08"
FAILING = MODEL.replace("return torch", f"raise ValueError({HOSTILE!r})\n        return torch")
# Names, settings, arguments, outputs and sources with terminal escape sequences; and a fix on such a line.
SPEAKING = f"""import torch
from torch import nn

WORDS = {HOSTILE!r}
print(WORDS)


class Layer(nn.Module):
    def extra_repr(self):
        return WORDS

    def forward(self, x):
        return torch.relu(x)


Layer.__name__ = Layer.__qualname__ = "Layer" + WORDS


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module("one" + WORDS, Layer())
        self.register_buffer("two" + WORDS, torch.ones(4))

    def forward(self, x):
        for child in self.children():
            x = child(x)
        x = x + getattr(self, "two" + WORDS)
        return torch.einsum("ij,jk->ik", x, torch.ones(4, 4)) * len(x)  # {HOSTILE.replace(chr(13), "")}


class Asking(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)

    def forward(self, x):
        return self.linear(x)
"""
CALLING = "from model import Asking\n\nAsking(5)\n"
COMMANDS = {
    "graph": ["graph"],
    "graph as a drawing": ["graph", "--format", "dot"],
    "code": ["code"],
    "estimate": ["estimate", "--device", "a100"],
    "lower": ["lower", "--engine", "onnxruntime"],
    "bench": ["bench", "--rounds", "1", "--seconds", "2", "--variants", "fxlib"],
    "check": ["check", "--all"],
    "check --diff": ["check", "--all", "--diff"],
    "check --fix": ["check", "--all", "--fix"],
    "init": ["init"],
}


# A command on one model says that there is none as `graph` does, or, in a process of its own, as `lower` does.
FAILS = ("graph", "lower")


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_drives_the_terminal(tmp_path: Path, name: str, report):
    """What a model says, and how it fails, shown on a terminal."""
    (tmp_path / "model.py").write_text(SPEAKING if "check" in name else SPEAKING.replace(" * len(x)", ""))
    (tmp_path / "failing.py").write_text(FAILING)
    (tmp_path / f"called{HOSTILE[:4]}.py").write_text(CALLING)
    targets = ["."] if name == "init" or "check" in name else ["model.py::Net", "failing.py"][: 1 + (name in FAILS)]
    for target in targets:
        said = on_a_terminal(*COMMANDS[name][:1], target, *COMMANDS[name][1:], cwd=tmp_path)
        # The progress that FX Lens itself writes over, and its colours.
        bare = re.sub(r"\r?\x1b\[K|\x1b\[[\d;]*m|\r\n", "\n", said)
        found = set(bare) & {chr(each) for each in (*range(9), *range(11, 32), *range(127, 160))}
        assert not found and said.strip(), (found, said)
        assert r"\x1b[K" not in said, "progress is written over, not shown"
        assert name not in ("check", "check --fix") or "ValueError" in said, "how the other one fails"
        assert "drawing" not in name or "digraph" in said
    report(tries=len(targets), outcome="escaped")


def on_a_terminal(*arguments: str, cwd: Path) -> str:
    """What the command writes where both of its streams are a terminal."""
    master, slave = os.openpty()
    environment = {**os.environ, "XDG_CACHE_HOME": str(cwd / ".cache"), "TERM": "xterm", "COLUMNS": "200"}
    command = warm_fxlens(*arguments)
    said = b""
    with subprocess.Popen(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave):
        os.close(slave)
        try:
            while data := os.read(master, 65536):
                said += data
        except OSError:  # the other end is closed
            pass
        finally:
            os.close(master)
    return said.decode(errors="replace")


def test_a_recording_drives_no_terminal(tmp_path: Path, report):
    """What was noted of a class that is gone, and where it is written; the program's own output is its own."""
    (tmp_path / "net.py").write_text(MODEL)
    (tmp_path / f"odd{HOSTILE[:3]}.toml").write_text('[["net.py::Gone\\u001b[2J"]]\nconstruct = "Gone(3)"\n')
    program = "import sys, torch; sys.path.insert(0, '.'); import net; net.Net()(torch.ones(2, 4))"
    said = on_a_terminal(
        "record", "--output", f"odd{HOSTILE[:3]}.toml", "--", sys.executable, "-c", program, cwd=tmp_path
    )
    assert "recorded" in said and "Gone" in said
    assert not set(said) & {chr(each) for each in (*range(9), *range(14, 32), *range(127, 160))}, said
    report(outcome="escaped")
