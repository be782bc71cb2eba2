"""Results that are saved: whole or not at all, however the save ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from lsp_client import MODEL, Client

KILLED = "import os, pathlib\npathlib.Path.write_text = lambda *_, **__: os.kill(os.getpid(), 9)\n"
"""In the middle of a save, after the first file."""
# Saves `small`, then `large` on top of it, and is stopped at each step that moves a file, or fails there; then `small`
# again. Prints what is found after each.
STEPS = """import itertools, json, os, signal, sys
from pathlib import Path
from fxlib.codegen import saving

folder, killed, moved = Path(sys.argv[1]), sys.argv[2] == "killed", os.replace
small, large = {"a": "1", "b": "1", "c": "1"}, {"b": "2" * 9, "c": "2" * 9, "d": "2" * 9}
left = itertools.count()

def save(files):
    saving.save_folder(folder, lambda made: [(made / name).write_text(text) for name, text in files.items()])

def stopped(*names):
    if not next(left) - at:
        if killed:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(5, "Input/output error")
    moved(*names)

def found():
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}

for at in itertools.count():
    save(small)
    before = found()
    if not (child := os.fork()):
        left, os.replace = itertools.count(), stopped
        try:
            save(large)
        except OSError:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    hidden = len([each for each in folder.iterdir() if each.is_dir()])
    whole = saving.is_as_saved(folder)
    after, clean = found(), all(each.is_file() for each in folder.iterdir())
    print(json.dumps([status, hidden, whole, clean, after == before, set(large) <= set(after) and "a" not in after]))
    if not status:
        break
"""


@pytest.mark.parametrize("how", ["killed", "failed"])
def test_a_save_that_ends_while_its_files_are_moved(tmp_path: Path, how: str, report):
    """The earlier result is there again, as a whole; of one that failed at once, of one that was killed before the next
    save."""
    command = [sys.executable, "-W", "ignore", "-c", STEPS, str(tmp_path / "saved"), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    *ended, last = done.stdout.split("\n")[:-1]
    assert last == "[0, 0, true, true, false, true]"
    assert len(ended) == 8, "two files are replaced, one goes, one is new, and the digests make it valid"
    status, hidden = (9, 1) if how == "killed" else (256, 0)
    assert set(ended) == {f"[{status}, {hidden}, true, true, true, false]"}, ended
    report(tries=len(ended), outcome="as it was")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def hidden(folder: Path) -> list[Path]:
    return [*folder.rglob(".fxlens-*")]


def test_a_save_that_is_killed(tmp_path: Path, report):
    """A lowered model and a changed one: the earlier result stays, and the next save removes what is left, but not what
    another process writes just now."""
    out, new, package = (tmp_path / name for name in ("out", "new", "package"))
    living = tmp_path / ".fxlens-0123456789abcdef"
    living.mkdir()
    holding = [sys.executable, "-c", "import fcntl, os, sys\nfcntl.flock(os.open(sys.argv[1], os.O_RDONLY), "
               "fcntl.LOCK_EX)\nprint(flush=True)\nsys.stdin.read()", str(living)]  # fmt: skip
    with (
        subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
        Client(tmp_path, settings={"deadline": 60}) as server,
    ):
        assert process.stdout.readline()
        uri = server.open(tmp_path / "net.py", MODEL)

        def lower(place: Path) -> dict:
            options = {"engine": "onnxruntime", "out": str(place)}
            return server.request("fxlens/lower", {"uri": uri, "target": "Net", "options": options})

        def save(place: Path) -> dict:
            done = server.request("fxlens/pass", {"uri": uri, "target": "Net", "passes": ["fuse"]})
            return server.request("fxlens/savePass", {"kept": done["kept"], "out": str(place)})

        assert lower(out)["result"]["saved"] == str(out) and save(package) == {"saved": True}
        before = contents(out), contents(package)
        server.change(uri, KILLED + MODEL)
        for killed in (lower(out), save(package), lower(new)):
            assert "reason" in killed
        assert len(hidden(tmp_path)) == 4
        assert (contents(out), contents(package)) == before and not new.exists()
        server.change(uri, MODEL)
        assert lower(out)["result"]["saved"] == str(out) and save(package) == {"saved": True}
        assert hidden(tmp_path) == [living]
        process.stdin.close()
        process.wait(60)
        assert lower(new)["result"]["saved"] == str(new) and hidden(tmp_path) == []
    report(tries=3, outcome="the earlier result stays, the next save leaves nothing else")
