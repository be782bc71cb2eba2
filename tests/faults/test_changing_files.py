"""Files that change, are shared, or are not regular files: no save is lost, and nothing waits for input that never
comes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from fxlens.checking import watching
from fxlens.checking.cache import Cache
from fxlens.checking.checker import Checked, Options
from fxlens.host.launch import Launch, find_python
from fxlens.sources.files import Changed, read_source, write_source
from lsp_client import Client, edited
from warm_python import warm_fxlens

pytestmark = pytest.mark.usefixtures("warm")

NET = """import torch
from torch import nn


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def forward(self, x):
        {first}
        return x / len(x)
"""
SAVING = """import pathlib

import helper
{net}

at = pathlib.Path({at!r})
if not at.read_text().endswith("# saved\\n"):
    at.write_text(at.read_text() + "# saved\\n")
"""
HELPER = """from torch import nn


class Scale(nn.Module):
    def forward(self, x):
        return x / len(x)
"""
CALLING = """import torch
from torch import nn

from helper import Scale


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = Scale()

    def forward(self, x):
        return self.scale(x)
"""


REFUSING = """import sys
from fxlens import cli
from fxlens.checking import checker

def refuse(path, *texts, write=checker.write_source):
    if "locked" in path:
        raise PermissionError(13, "Permission denied", path)
    write(path, *texts)

checker.write_source = refuse
sys.exit(cli.main())
"""


def check(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    command = warm_fxlens("check", "--all", "--jobs", "1", *arguments)
    environment = {**os.environ, "XDG_CACHE_HOME": str(cwd / ".cache"), **environment}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=250, env=environment)


def test_a_save_during_fix_is_kept(tmp_path: Path, report):
    """The first file and its helper are saved during the check; another file is fixed."""
    saved = tmp_path / "saved.py"
    saved.write_text(SAVING.format(net=NET.format(first="pass"), at=str(saved)))
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "other.py").write_text(NET.format(first="pass"))
    before = saved.read_text()
    done = check("--fix", "saved.py", "other.py", cwd=tmp_path)
    assert saved.read_text() == before + "# saved\n"
    assert "saved.py: not fixed: it was saved while it was being checked" in done.stderr
    assert "other.py: fixed: " in done.stderr and "saved.py: fixed" not in done.stderr
    assert "len(x)" not in (tmp_path / "other.py").read_text()
    assert done.returncode == 1
    report(outcome="not fixed, with a sentence; the others are")


def test_fix_changes_only_what_was_named(tmp_path: Path, report):
    """A helper is not changed, unless it was named or belongs to the project; it is then listed by name."""
    model, helper = tmp_path / "m.py", tmp_path / "helper.py"
    for named, changed in (("m.py", False), ("helper.py", True), ("project", True)):
        model.write_text(CALLING)
        helper.write_text(HELPER)
        if named == "project":
            (tmp_path / "fxlens.toml").touch()
        done = check("--fix", "m.py", *(["helper.py"] if named == "helper.py" else []), cwd=tmp_path)
        assert ("len(x)" not in helper.read_text()) == changed == ("helper.py: fixed: " in done.stderr), done.stderr
    (tmp_path / "fxlens.toml").unlink()
    helper.write_text(NET.format(first="pass"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link.py").symlink_to(helper)
    done = check("--fix", "folder", cwd=tmp_path)
    assert "len(x)" in helper.read_text() and "was not named and is not part of the project" in done.stderr, done.stderr
    report(tries=4, outcome="only what was named, or is the project's")


def test_a_file_that_cannot_be_written_costs_the_others_nothing(tmp_path: Path, report):
    locked = tmp_path / "locked"
    locked.mkdir()
    for folder in (tmp_path, locked):
        (folder / "net.py").write_text(NET.format(first="pass"))
    (tmp_path / "large.py").write_bytes(b"class Net: torch = 1\n" + b"#" * (11 << 20))
    (tmp_path / "odd.py").write_bytes(b"# coding: klingon\nclass Net: torch = 1\n")
    command = [sys.executable, "-m", "fxlens", "check", "--jobs", "1", "--fix", "."]
    if os.geteuid() == 0:  # file modes do not stop this user
        command[1:3] = ["-c", REFUSING]
    locked.chmod(0o555)
    try:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=250)
    finally:
        locked.chmod(0o755)
    assert "Traceback" not in done.stderr
    assert "\nnet.py: fixed: " in "\n" + done.stderr
    assert "locked/net.py: not fixed: Permission denied" in done.stderr
    for name, reason in (("large.py", "larger than 10 MiB"), ("odd.py", "klingon")):
        assert any(name in line and reason in line for line in done.stdout.splitlines()), (name, done.stdout)
    report(tries=4, outcome="one line each")


def test_what_is_no_ordinary_file_is_passed_over(tmp_path: Path, report):
    """A pipe, a socket and a folder in place of a source, a test and a helper are not read."""
    (tmp_path / "m.py").write_text(CALLING.replace("# fxlens: Net() <- torch.randn(2, 4)\n", ""))
    for name in ("pipe.py", "test_m.py", "helper.py", "fxlens.toml"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "folder.py").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket.py"))
        done = check("--quick", ".", cwd=tmp_path)
        assert "m.py" in done.stdout and "Traceback" not in done.stderr
        for name in ("pipe.py", "socket.py"):
            alone = check("--quick", name, cwd=tmp_path)
            assert alone.returncode == 2 and "not an ordinary file" in alone.stderr
    report(tries=6, outcome="passed over, or named")


def test_a_file_name_makes_no_line_of_its_own_in_a_patch(tmp_path: Path, report):
    (tmp_path / "a\n+++ b.py").write_text(NET.format(first="pass"))
    done = check("--diff", ".", cwd=tmp_path)
    assert '+++ "b/a\\012+++ b.py"' in done.stdout
    report(outcome="escaped")


def test_links_owner_mode_and_attributes_stay(tmp_path: Path, report):
    real, link, twin = tmp_path / "real.py", tmp_path / "link.py", tmp_path / "twin.py"
    real.write_text("x = 1\n")
    real.chmod(0o750)
    if os.geteuid() == 0:
        os.chown(real, 12345, 54321)
    with_attributes = True
    try:
        os.setxattr(real, "user.note", b"kept")
    except OSError:
        with_attributes = False
    owner = os.stat(real).st_uid, os.stat(real).st_gid
    link.symlink_to(real)
    write_source(str(link), "x = 1\n", "x = 2\n")
    assert link.is_symlink() and real.read_text() == "x = 2\n"
    state = os.stat(real)
    assert (state.st_uid, state.st_gid, stat.S_IMODE(state.st_mode)) == (*owner, 0o750)
    assert not with_attributes or os.getxattr(real, "user.note") == b"kept"
    os.link(real, twin)
    write_source(str(twin), "x = 2\n", "x = 3\n")
    assert real.read_text() == twin.read_text() == "x = 3\n" and os.stat(real).st_nlink == 2
    report(tries=2, outcome="kept")


@pytest.mark.parametrize("hard", [False, True])
def test_a_text_is_replaced_only_where_it_is_the_one_that_was_read(tmp_path: Path, hard: bool, report):
    path = tmp_path / "net.py"
    path.write_bytes("# coding: latin-1\nx = 'é'\r\n".encode("latin-1"))
    if hard:
        os.link(path, tmp_path / "twin.py")
    before = read_source(str(path))
    write_source(str(path), before, before.replace("é", "è"))
    assert path.read_bytes() == "# coding: latin-1\nx = 'è'\r\n".encode("latin-1")
    with pytest.raises(Changed):
        write_source(str(path), before, "x = 3\n")
    assert path.read_bytes() == "# coding: latin-1\nx = 'è'\r\n".encode("latin-1")
    assert sorted(each.name for each in tmp_path.iterdir()) == (["net.py", "twin.py"] if hard else ["net.py"])
    report(tries=2, outcome="kept")


PROTECTED = """import sys
from fxlens.sources.files import write_source
write_source(sys.argv[1], "x = 1\\n", "x = 2\\n")
"""
# A privileged user may write everything.
AS_ANYBODY = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.geteuid() == 0 else []


def test_a_file_that_is_protected_against_writing_is_not_replaced(tmp_path: Path, report):
    """Although its folder would allow it."""
    path = tmp_path / "net.py"
    path.write_text("x = 1\n")
    path.chmod(0o444)
    command = [*AS_ANYBODY, sys.executable, "-c", PROTECTED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "PermissionError" in done.stderr and path.read_text() == "x = 1\n" and len(os.listdir(tmp_path)) == 1
    report(outcome="refused")


ENCODINGS = {
    "koi8-r": ("# привет\n".encode("koi8-r"), True),
    "iso2022_jp": ("# 表\n".encode("iso2022_jp"), True),
    "unicode_escape": (b"# \\u00e9\n", False),
    "raw_unicode_escape": (b"# \\u00e9\n", False),
    "utf-7": (b"# A+AC0-B\n", False),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_of_no_encoding_are_other_lines_written_differently(tmp_path: Path, encoding: str, report):
    path = tmp_path / "net.py"
    line, written = ENCODINGS[encoding]
    path.write_bytes(before := f"# coding: {encoding}\n".encode() + line + b"x = 1\n")
    text = read_source(str(path))
    if written:
        write_source(str(path), text, text.replace("= 1", "= 2"))
        assert path.read_bytes() == before.replace(b"= 1", b"= 2")
    else:
        with pytest.raises(OSError, match="would change, too"):
            write_source(str(path), text, text.replace("= 1", "= 2"))
        assert path.read_bytes() == before
    report(outcome="kept")


def test_what_cannot_be_read_is_said(tmp_path: Path, report):
    """A folder that cannot be entered or listed must not look like one without models; codecs that are not for text are
    invalid encodings of a source."""
    for name, mode in (("closed", 0o000), ("unlisted", 0o300), ("unentered", 0o600)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "net.py").write_text(NET.format(first="pass"))
        (tmp_path / name).chmod(mode)
    for codec in ("rot13", "zlib"):
        (tmp_path / f"{codec}.py").write_text(f"# coding: {codec}\n" + NET.format(first="pass"))
    command = [*AS_ANYBODY, sys.executable, "-m", "fxlens", "check", "--quick"]
    done = subprocess.run([*command, "."], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 1 and done.stdout.count("FX308 The file cannot be read") == 3, done.stdout
    assert done.stderr.count(" is left out: Permission denied\n") == 2, done.stderr
    for name in ("closed", "unlisted"):
        done = subprocess.run([*command, name], cwd=tmp_path, capture_output=True, text=True, timeout=200)
        assert done.returncode == 2 and done.stderr == f"fxlens: {name}: Permission denied\n"
    for name in ("closed", "unlisted", "unentered"):
        (tmp_path / name).chmod(0o700)
    report(tries=7, outcome="said")


def test_a_time_that_is_still_to_come_is_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report):
    """A file from a machine whose clock is ahead is checked once, and cached."""
    (tmp_path / "net.py").write_text(NET.format(first="pass"))
    os.utime(tmp_path / "net.py", (2e9, 2e9))
    time.sleep(0.06)  # resolution of the file system's clock
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache = Cache(Launch(sys.executable))
    options = Options(Launch(find_python("", None), str(tmp_path)), cache=cache, verify=False)

    async def seen() -> int:
        rounds = watching.rounds(lambda: [str(tmp_path / "net.py")], lambda: options)
        await anext(rounds)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(anext(rounds), 1)
            return 2
        return 1

    assert asyncio.run(seen()) == 1
    assert len(list(cache.where.iterdir())) == 1
    report(outcome="checked once")


ABSENT = """import importlib.util

try:
    import flash_attention_that_nobody_has as fast
except ImportError:
    fast = None

if importlib.util.find_spec("apex_that_nobody_has"):
    import apex_that_nobody_has
"""


def test_packages_that_are_not_there_are_no_change(tmp_path: Path, report):
    """``--watch`` rests although imports were looked for, and sees the helper that comes later, and a configuration
    above."""
    models = tmp_path / "models"
    models.mkdir()
    (models / "net.py").write_text(ABSENT + "\ntry:\n    import helper\nexcept ImportError:\n    helper = None\n"
                                   + NET.format(first="pass"))  # fmt: skip
    options = Options(Launch(find_python("", None), str(tmp_path)), verify=False)

    async def comes(rounds: AsyncGenerator[list[Checked], None], seconds: float) -> list[Checked] | None:
        task = asyncio.ensure_future(anext(rounds))
        done, _ = await asyncio.wait([task], timeout=seconds)
        waiting.append(task)
        return task.result() if done else None

    waiting: list[asyncio.Future[Any]] = []

    async def seen() -> None:
        rounds = watching.rounds(lambda: [str(models / "net.py")], lambda: options)
        assert await comes(rounds, 60) is not None
        assert await comes(rounds, 1.5) is None
        (models / "helper.py").write_text("SIZE = 3\n")
        await asyncio.wait([waiting[-1]], timeout=60)
        assert waiting[-1].done()
        assert await comes(rounds, 1.5) is None
        (tmp_path / "fxlens.toml").write_text('ignore = ["FX1"]\n')
        await asyncio.wait([waiting[-1]], timeout=60)
        (checked,) = waiting[-1].result()
        assert not checked.shown
        await rounds.aclose()

    asyncio.run(seen())
    report(tries=3, outcome="rests, and sees what comes")


@pytest.mark.parametrize(
    ("act", "said"),
    [("at.unlink()", "No such file or directory"), ("at.write_text('# coding: nonsense\\n')", "it was saved while")],
)
def test_a_file_that_goes_while_it_is_fixed(tmp_path: Path, act: str, said: str, report):
    (tmp_path / "net.py").write_text(
        f"import pathlib\n{NET.format(first='pass')}\nat = pathlib.Path(__file__)\nif at.exists():\n    {act}\n"
    )
    done = subprocess.run(
        warm_fxlens("check", "net.py", "--fix", "--no-cache"), cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert f"net.py: not fixed: {said}" in done.stderr and "Traceback" not in done.stderr
    assert "FX120" in done.stdout and "FX199" not in done.stdout and done.returncode == 1
    report(outcome="said, and its findings are reported")


@pytest.mark.parametrize("refused", ["in the folder", "to replace it"])
def test_a_file_that_can_only_be_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, report
):
    """One of a folder in which nobody may make files, and one that is mounted by itself."""
    (tmp_path / "net.py").write_text("a = 1\n")

    def fail(*given: object, **named: object) -> None:
        raise OSError(errno.EACCES if refused == "in the folder" else errno.EBUSY, "refused")

    monkeypatch.setattr(*((tempfile, "mkstemp") if refused == "in the folder" else (os, "replace")), fail)
    write_source(str(tmp_path / "net.py"), "a = 1\n", "a = 2\n")
    assert [each.name for each in tmp_path.iterdir()] == ["net.py"]
    assert (tmp_path / "net.py").read_text() == "a = 2\n"
    report(outcome="written")


def test_edits_are_for_one_version(tmp_path: Path, report):
    """A client that supports versions gets them in every edit; others get edits by document."""
    able = {"workspaceEdit": {"documentChanges": True, "resourceOperations": ["create"]}, "configuration": True}
    text = NET.format(first="pass").replace("# fxlens: Net() <- torch.randn(2, 4)\n", "")
    with Client(tmp_path, capabilities={"workspace": able}) as server:
        uri = server.open(tmp_path / "net.py", text + "\n\nif __name__ == '__main__':\n    Net()(torch.randn(2, 4))\n")
        (found,) = [each for each in server.diagnostics(uri) if each["code"].startswith("FX1")]
        at = {"textDocument": {"uri": uri}, "context": {"diagnostics": []}}
        server.request("fxlens/record", {"uri": uri})
        class_line = {"line": 5, "character": 8}
        asked = [
            {**at, "range": found["range"]},
            {**at, "range": {"start": class_line, "end": class_line}},
            {**at, "range": found["range"], "context": {"diagnostics": [], "only": ["source.fixAll"]}},
        ]
        edits = [each["edit"] for given in asked for each in server.request("textDocument/codeAction", given)
                 if "edit" in each]  # fmt: skip
        assert len(edits) >= 3
        for edit in edits:
            assert "changes" not in edit
            assert [each["textDocument"]["version"] for each in edit["documentChanges"]] == [1]
    report(tries=len(edits), outcome="with the version")


def test_edits_of_another_file_are_of_the_text_that_it_has(shared: Client, folder: Path, report):
    """A helper is edited while all fixes are applied, and then saved by another program without notification."""
    (folder / "helper.py").write_text(HELPER)
    (folder / "net.py").write_text(CALLING)
    with shared.lent(deadline=30) as server:
        helper, uri = server.open(folder / "helper.py"), server.open(folder / "net.py")
        (found,) = [each for each in server.diagnostics(uri) if each["code"] == "FX120"]
        server.actions(uri, found)  # until they are checked: all fixes are applied after that
        at = {"textDocument": {"uri": uri}, "range": found["range"]}
        number = server.start("textDocument/codeAction", {**at, "context": {"diagnostics": [], "only": ["source"]}})
        time.sleep(0.3)
        server.change(helper, typed := "# typed meanwhile\n" + HELPER)
        answer = server.wait(lambda each: each.get("id") == number and "method" not in each)
        for action in answer["result"]:
            assert edited(typed, action["edit"]["changes"].get(helper, [])).startswith("# typed meanwhile\n")
        server.close(helper)
        server.edit(uri, CALLING + "\n")
        actions = server.actions(uri, found)
        assert [each for each in actions if (folder / "helper.py").as_uri() in each["edit"]["changes"]]
        (folder / "helper.py").write_text("# saved by another program\n" + HELPER)
        actions = server.actions(uri, found)
        assert not [each for each in actions if (folder / "helper.py").as_uri() in each["edit"]["changes"]]
    report(tries=2, outcome="nothing that was typed or saved is undone, no edit at a wrong place")


def test_edits_of_another_file_are_not_of_a_text_that_was_given_up(shared: Client, folder: Path, report):
    """It is closed without being saved, and its caller is traced again only on request."""
    (folder / "helper.py").write_text(HELPER)
    (folder / "net.py").write_text(CALLING)
    with shared.lent(deadline=30, run="manual") as server:
        helper, uri = server.open(folder / "helper.py", "# typed\n" + HELPER), server.open(folder / "net.py")
        (found,) = [each for each in server.diagnostics(uri) if each["code"] == "FX120"]

        def offered() -> bool:
            return any(helper in each["edit"]["changes"] for each in server.actions(uri, found) if "edit" in each)

        assert offered()
        server.close(helper)
        assert not offered()
        server.open(folder / "helper.py")
        assert not offered()
        server.request("fxlens/trace", {"uri": uri})
        assert offered()
    report(tries=4, outcome="offered only for the text that it has")


def test_a_round_in_which_an_import_is_no_more_is_one(tmp_path: Path, report):
    """``--watch`` of a file that has imported one that is not checked."""
    (tmp_path / "extra.py").write_text("WIDTH = 4\n")
    net = tmp_path / "net.py"
    net.write_text("import extra\n" + NET.format(first="pass"))
    options = Options(Launch(find_python("", None), str(tmp_path)), verify=False)

    async def seen() -> int:
        rounds = watching.rounds(lambda: [str(net)], lambda: options)
        await anext(rounds)
        net.write_text(NET.format(first="pass"))
        await asyncio.wait_for(anext(rounds), 60)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(anext(rounds), 1.5)
            return 3
        return 2

    assert asyncio.run(seen()) == 2
    report(outcome="checked once more")
