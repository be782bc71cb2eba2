"""Interpreters, torch and file systems as they are on other machines: each gives a clear sentence, and recovery."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from dataclasses import replace
from pathlib import Path

import pytest
from lsp_client import MODEL, Client
from processes import at_rest, descendants, gone, settled, tree, zygotes
from servers import eventually, started
from user_code import FATAL, HARMLESS, LEAVES_FILES, Case
from warm_python import warm_fxlens

OLD_PYTHON = (
    "import sys, runpy; sys.version_info = (3, 8, 1); sys.argv = sys.argv[1:]; "
    'runpy.run_path(sys.argv[0], run_name="__main__")'
)


def interpreter(folder: Path, torch: str | None = None, options: str = "-S") -> Path:
    """This Python without its packages; with a package ``torch`` of this text, if given."""
    if torch is not None:
        (folder / "lib" / "torch").mkdir(parents=True)
        (folder / "lib" / "torch" / "__init__.py").write_text(torch)
    path = folder / "python"
    path.write_text(f"#!/bin/sh\nPYTHONPATH='{folder}/lib' exec '{sys.executable}' {options} \"$@\"\n")
    path.chmod(0o755)
    return path


def script(folder: Path, text: str) -> Path:
    path = folder / "python"
    path.write_text(text)
    path.chmod(0o755)
    return path


BAD = {
    "no torch": (lambda folder: interpreter(folder), "torch is not installed"),
    "old torch": (lambda folder: interpreter(folder, "__version__ = '1.13.1'\n"), "torch 1.13.1 * is too old"),
    "torch of a strange version": (lambda folder: interpreter(folder, "__version__ = 'x.y'\n"), "too old"),
    "torch that does not import": (
        lambda folder: interpreter(folder, "raise OSError('libtorch.so: cannot open')\n"),
        "torch is broken * libtorch.so",
    ),
    "torch that misses a package": (lambda folder: interpreter(folder, "import numpy_of_old\n"), "torch is broken"),
    "torch that exits": (lambda folder: interpreter(folder, "raise SystemExit(3)\n"), "torch is broken * SystemExit"),
    "torch that crashes": (
        lambda folder: interpreter(folder, "import ctypes; ctypes.string_at(0)\n"),
        "exited while starting",
    ),
    "an empty torch": (lambda folder: interpreter(folder, ""), "damaged"),
    "old Python": (lambda folder: interpreter(folder, options=f"-c '{OLD_PYTHON}'"), "Python 3.8.1 is too old"),
    "a Python of long ago": (
        lambda folder: script(folder, "#!/bin/sh\necho 'SyntaxError: invalid syntax' >&2\nexit 1\n"),
        "too old: FX Lens needs Python 3.10",
    ),
    "no such file": (lambda folder: folder / "no" / "python", "cannot be started: No such file"),
    "a null byte": (lambda folder: "a\0b", "cannot be started"),
    "a folder": (lambda folder: folder, "cannot be started"),
    "not executable": (lambda folder: shutil.copy(__file__, folder / "text.txt"), "cannot be started: Permission"),
    "another program": (
        lambda folder: script(folder, "#!/bin/sh\necho not python >&2\nexit 3\n"),
        "exited while starting",
    ),
    "binary rubbish": (lambda folder: script(folder, "\x7fELF rubbish"), "cannot be started"),
}


def fits(message: str, pattern: str) -> bool:
    at = 0
    for part in pattern.split(" * "):
        at = message.find(part, at)
        if at < 0:
            return False
    return True


@pytest.mark.usefixtures("warm")
def test_interpreters(tmp_path: Path, report):
    """One server gets one unusable interpreter after another; each problem is reported once, and hover, edits and
    requests still work. Then it gets a good one."""
    with started(tmp_path) as server:
        uri = (tmp_path / "warm.py").as_uri()
        for number, (name, (make, says)) in enumerate(BAD.items()):
            folder = tmp_path / f"bad{number}"
            folder.mkdir()
            server.settings = {"debounce": 0, "python": str(make(folder))}
            server.notify("workspace/didChangeConfiguration", {"settings": {}})
            found: list[dict] = []
            while not found or not fits(found[0]["message"], says):  # the previous one may be reported again
                found = server.diagnostics(uri)
            assert [each["code"] for each in found] == ["FX309"], (name, found)
            assert "Traceback" not in found[0]["message"] and "\n" not in found[0]["message"]
        server.settings = {"debounce": 0, "python": sys.executable}
        began = time.monotonic()
        server.notify("workspace/didChangeConfiguration", {"settings": {}})
        while server.diagnostics(uri):
            pass
        assert server.request("fxlens/record", {"uri": uri})["record"]["targets"][0]["status"] == "traced"
        report(tries=len(BAD), outcome="a sentence each", recovered=time.monotonic() - began)


def environment(folder: Path) -> Path:
    """A virtual environment that sees the packages of this one; its interpreter."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "outer.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


def test_environment_deleted_while_running(tmp_path: Path, report):
    python = environment(tmp_path / "environment")
    with started(tmp_path, settings={"python": str(python), "deadline": 10}) as server:
        assert str(python) in server.request("fxlens/debugInfo", {})["text"]
        uri = (tmp_path / "warm.py").as_uri()
        shutil.rmtree(tmp_path / "environment")
        assert server.edit(uri, MODEL + "# still served by the running one\n") == []
        (zygote,) = zygotes(server.pid)
        pids = [zygote, *descendants(zygote)]
        os.kill(zygote, signal.SIGKILL)
        assert gone(pids) == []
        found = server.edit(uri, MODEL + "# gone\n")
        assert [each["code"] for each in found] == ["FX309"] and "cannot be started" in found[0]["message"]
        environment(tmp_path / "environment")
        server.request("fxlens/restart", {})
        began = time.monotonic()
        while server.edit(uri, MODEL + f"# back {time.monotonic()}\n"):
            assert time.monotonic() - began < 120
        report(outcome="served until it ends, then named", recovered=time.monotonic() - began)


NO_FORK = (
    "import errno, os, sys, runpy; fork, sys.argv = os.fork, sys.argv[1:]\n"
    "def refuse():\n"
    "    if os.path.exists(FLAG): raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))\n"
    "    return fork()\n"
    "os.fork = refuse\n"
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


def test_no_more_processes(tmp_path: Path, report):
    """The system refuses to fork (a limit of processes, a policy): this is reported, and the next edit works."""
    flag = tmp_path / "refuse"
    program = NO_FORK.replace("FLAG", repr(str(flag)))
    python = script(tmp_path, f'#!/bin/sh\nexec \'{sys.executable}\' -c "{program}" "$@"\n')
    with started(tmp_path, settings={"python": str(python), "deadline": 10}) as server:
        uri = (tmp_path / "warm.py").as_uri()
        flag.touch()
        server.edit(uri, MODEL + "# done by the process that was made before\n")
        found = server.edit(uri, MODEL + "# refused\n")
        assert [each["code"] for each in found] == ["FX309"], found
        assert "no process can be started" in found[0]["message"] and "temporarily" in found[0]["message"]
        flag.unlink()
        began = time.monotonic()
        assert server.edit(uri, MODEL + "# made again\n") == []
        report(outcome="named", recovered=time.monotonic() - began)


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGSTOP"])
def test_user_code_against_its_worker(tmp_path: Path, signal_name: str, report):
    """Code that ends or stops its parent process: its own file is reported or traced, others are unaffected."""
    text = Case("", "forward", f"os.kill(os.getppid(), signal.{signal_name})").text
    with started(tmp_path, settings={"deadline": 10, "verify": False, "lowering": "off"}) as server:
        uri = server.open(tmp_path / "hostile.py", text)
        codes = [each["code"] for each in server.diagnostics(uri)]
        assert set(codes) <= {"FX305"}, codes
        record = server.request("fxlens/record", {"uri": uri})["record"]
        # A class continues for a moment after it has killed its worker, so the reported class may be another one.
        assert [each["name"] for each in record["targets"]] == ["Bad", "Good"]
        began = time.monotonic()
        server.close(uri)
        for n in range(3):
            assert server.edit((tmp_path / "warm.py").as_uri(), MODEL + f"# {n}\n") == []
        taken = time.monotonic() - began
        left = settled(server.pid, at_rest())
        assert len(left) <= at_rest(), tree(server.pid)
    report(outcome="its file is named or traced, others go on", recovered=taken)


@pytest.mark.usefixtures("warm")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")
def test_a_parent_that_ignores_the_ends_of_its_children(tmp_path: Path, report):
    (tmp_path / "net.py").write_text(MODEL)
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    )
    command = [
        sys.executable,
        "-c",
        ignoring,
        sys.executable,
        "-m",
        "fxlens",
        "check",
        "net.py",
        "--no-cache",
        "--quick",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "Net traced" in done.stdout, (done.stdout, done.stderr)
    report(outcome="traced")


@pytest.mark.usefixtures("warm")
def test_a_file_that_ends_the_worker_costs_no_other(tmp_path: Path, report):
    """Each of its tries ends the jobs of others, too."""
    kills = MODEL.replace("return ", "import os\n        os.kill(os.getppid(), 9)\n        return ", 1)
    for n, text in enumerate([MODEL, MODEL, kills, MODEL, MODEL]):
        (tmp_path / f"file{n}.py").write_text(text)
    command = warm_fxlens("check", ".", "--no-cache", "--quick", "--jobs", "3", "--format", "json")
    for _ in range(3):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
        files = {each["path"]: each for each in json.loads(done.stdout)["files"]}
        found = {name: [each["code"] for each in file["findings"]] for name, file in files.items()}
        assert not any(codes for name, codes in found.items() if "file2" not in name), found
    report(tries=3, outcome="others traced")


@pytest.mark.usefixtures("warm")
def test_user_code_that_takes_away_what_its_worker_needs(tmp_path: Path, report):
    """It lowers the limits of its parent process, which can then no longer fork."""
    statement = "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (5, 5))"
    with started(tmp_path, settings={"deadline": 10, "verify": False, "lowering": "off"}) as server:
        uri = server.open(tmp_path / "hostile.py", Case("", "forward", statement).text)
        server.diagnostics(uri)
        server.close(uri)
        began = time.monotonic()
        for n in range(3):
            assert server.edit((tmp_path / "warm.py").as_uri(), MODEL + f"# {n}\n") == []
        report(tries=3, outcome="another one takes over", recovered=time.monotonic() - began)


JUNK = """import stat
if os.path.exists({mark!r}):
    for fd in range(700, 720):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                for text in [b'junk', b'{{}}', b'[1]', b'{{"branch": -1}}', b'{{"job": [], "pid": 3}}'] * 1000:
                    os.write(fd, text)
        except OSError:
            pass
open({mark!r}, 'w').close()"""


@pytest.mark.usefixtures("warm")
def test_a_kept_file_that_writes_to_the_server(tmp_path: Path, report):
    """It is executed a second time, to be kept, and finds the socket of that process."""
    mark = tmp_path / "executed"
    text = Case("", "import", JUNK.format(mark=str(mark))).text
    with started(tmp_path, settings={"deadline": 10, "verify": False, "lowering": "off"}) as server:
        uri = server.open(tmp_path / "hostile.py", text)
        assert server.diagnostics(uri) == []
        before = mark.stat().st_mtime_ns
        eventually(lambda: mark.stat().st_mtime_ns != before)
        began = time.monotonic()
        for n in range(3):
            assert server.edit((tmp_path / "warm.py").as_uri(), MODEL + f"# {n}\n") == []
        taken = time.monotonic() - began
        assert len(server.errors) < 100_000
    report(tries=5000, outcome="its process is given up", recovered=taken)


LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
os.execv(sys.executable, [sys.executable, "-m", "fxlens", "serve"])
"""


@pytest.mark.parametrize("kind", ["disk full", "no temporary folder"])
def test_nothing_can_be_written(tmp_path: Path, kind: str, report):
    """No file can be written (as on a full or read-only disk), or the temporary folder is missing."""
    full = kind == "disk full"
    command = [sys.executable, "-c", LIMITED] if full else None
    environment = {"HOME": "/proc"} if full else {"TMPDIR": "/proc/nowhere", "HOME": "/proc"}
    with Client(tmp_path, command=command, environment=environment, cold=True) as server:
        uri = server.open(tmp_path / "model.py", MODEL)
        assert server.diagnostics(uri) == []
        assert server.request("fxlens/record", {"uri": uri})["record"]["targets"][0]["status"] == "traced"
        failing = MODEL.replace("return torch", "open('x.bin', 'wb').write(b'x'); return torch")
        server.edit(uri, failing)
        began = time.monotonic()
        assert server.edit(uri, MODEL) == []
        report(outcome="traced all the same", recovered=time.monotonic() - began)


SPAWNED = [
    case
    for case in [*FATAL, *HARMLESS]
    if case.name in ("endless loop in C, forward", "segmentation fault, forward", "os._exit, import", "sys.exit, init",
                     "endless loop that prints", "private descriptors closed", "descriptors 0, 1, 2 closed",
                     "protocol written to standard output")
]  # fmt: skip


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("warm")
def test_without_fork(tmp_path: Path, report):
    """A sequence of edits, so that the after-effects of a fault would appear in the next answer."""
    assert len(SPAWNED) == 8
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    settings = {"worker": "spawn", "deadline": 2, "verify": False, "lowering": "off"}
    with started(tmp_path, settings=settings, environment={"TMPDIR": str(temporary)}) as server:
        assert '"mode": "spawn"' in server.request("fxlens/debugInfo", {})["text"]
        uri = server.open(tmp_path / "faulty.py", MODEL.replace("return torch", "return x if x.sum() > 0 else torch"))
        assert [each["code"] for each in server.diagnostics(uri)] == ["FX101"]
        for case in SPAWNED:
            if "segmentation" in case.name:  # what it leaves must be gone when the server is
                case = replace(case, statement=LEAVES_FILES + case.statement)
            text = case.text.split("\n\nclass Good")[0]  # one process less
            found = [each for each in server.edit(uri, text) if each["severity"] <= 2]
            assert [each["code"] for each in found] == list(case.codes), (case.name, found)
            if case.codes and case.line_known:
                assert found[0]["range"]["start"]["line"] == case.line, case.name
            if not case.codes:
                targets = server.request("fxlens/record", {"uri": uri})["record"]["targets"]
                assert [each["status"] for each in targets] == ["traced"], case.name
        began = time.monotonic()
        assert server.edit(uri, MODEL) == []
        taken = time.monotonic() - began
    eventually(lambda: not list(temporary.glob("fxlens-*")))
    report(tries=len(SPAWNED), outcome="the same as with fork", recovered=taken)
