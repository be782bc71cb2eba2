"""Names of files, classes and workspace folders that are special in other formats."""

from __future__ import annotations

import io
import json
import ntpath
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
import tomllib
from fxlens import record
from fxlens.checking import formats, patch
from fxlens.checking.checker import Checked
from fxlens.features.folders import folder_of
from fxlens.mcp import answers
from fxlens.sources import paths
from fxlens.sources.recorded import Example, parse, write
from fxlens.sources.toml_text import quoted
from lsp_client import MODEL, Client
from warm_python import warm_fxlens

BROKEN = MODEL.replace("return torch", "return len(x) * torch")
NAMES = ["#.py", "a b.py", "a?b=1.py", "a::Net.py", "new\nline.py", "tab\t.py", '"quoted\\".py', "\u202e.py", "é𝄞.py",
         os.fsdecode(b"\xff.py"), "\x7f.py"]  # fmt: skip


def test_names_of_files_are_told_apart_by_every_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report):
    """A log in SARIF has references of URIs, in which a `#` begins something else; git reads names in a patch, and
    takes all of a patch or nothing."""
    for name in NAMES:
        (tmp_path / name).write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    found = [record.finding("FX120", "error", "why")]
    checked = [Checked(name, BROKEN, record.empty_record(str(tmp_path / name)), found) for name in NAMES]
    formats.render_sarif(checked, log := io.StringIO())
    named = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
             for each in json.loads(log.getvalue())["runs"][0]["results"]]  # fmt: skip
    assert all(each.isascii() and urlsplit(each)[:2] == ("", "") for each in named)
    assert [os.fsdecode(unquote_to_bytes(urlsplit(each).path)) for each in named] == NAMES
    parts = [patch.of_file(str(tmp_path / name), BROKEN, MODEL) for name in NAMES]
    subprocess.run(["git", "apply"], input=b"".join(parts), check=True)
    assert not [name for name in NAMES if "len(x)" in (tmp_path / name).read_text()]
    report(tries=2 * len(NAMES), outcome="each by its name")


def fxlens(*arguments: str, cwd: Path) -> subprocess.CompletedProcess:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cwd / ".cache")}
    command = warm_fxlens(*arguments)
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, timeout=250)


@pytest.mark.usefixtures("warm")
def test_files_that_nothing_can_import_by_their_names_are_judged(tmp_path: Path, report):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    names = ["v1.5.py", "1.2.py", "resnet-18.py", "pkg/net.v2.py", "pkg/my-net.py"]
    for name in names:
        (tmp_path / name).write_text(("from . import __name__\n" if "/" in name else "") + MODEL)
    done = fxlens("check", ".", "--all", cwd=tmp_path)
    assert done.returncode == 0 and f"{len(names)} traced".encode() in done.stdout, done
    report(tries=len(names), outcome="traced")


@pytest.mark.usefixtures("warm")
def test_the_same_file_by_several_names_is_checked_once(tmp_path: Path, report):
    (tmp_path / "m.py").write_text(BROKEN)
    several = ["m.py", "./m.py", str(tmp_path / "m.py"), f"../{tmp_path.name}/m.py", "."]
    done = fxlens("check", *several, "--fix", cwd=tmp_path)
    assert done.returncode == 0 and b"1 file, 1 model" in done.stdout and b"not fixed" not in done.stderr, done
    report(tries=len(several), outcome="once")


def test_what_is_written_as_toml_can_be_read(report):
    """A character of two halves in JSON, one that is no text there, and half of one, which no file can hold."""
    odd = ["𝄞", "\x7f", "\n\t\x00\x1b", '"\\', "é漢\u2028"]
    for text in odd:
        assert tomllib.loads(f"{quoted(text)} = {quoted(text)}\n") == {text: text}
    assert tomllib.loads(f"a = {quoted(os.fsdecode(bytes([255])))}") == {"a": "?"}
    example = Example(construct="Net('𝄞\x7f')", train=["torch.ones(1)"])
    assert parse("\ufeff" + write({"𝄞.py::Net": [example]})) == {"𝄞.py::Net": [example]}
    report(tries=len(odd) + 2, outcome="the same text")


def test_an_answer_to_an_agent_holds_no_half_of_a_character(report):
    """The name of a file that is not in UTF-8, and what an exception says of it."""
    said = answers.fitted({"file": os.fsdecode(b"\xff.py")}, {"reason": "ValueError: '\udcff é 𝄞'"}, 2000)
    assert json.loads(said.encode()) == {"file": "\ufffd.py", "reason": "ValueError: '\ufffd é 𝄞'"}
    report(outcome="replaced")


def test_paths_on_other_drives(monkeypatch: pytest.MonkeyPatch, report):
    """Of two paths of Windows that have nothing in common, Python's own functions raise an error."""
    monkeypatch.setattr(paths, "os", SimpleNamespace(path=ntpath, curdir="."))
    assert paths.is_below("C:\\work\\net.py", "c:/work/") and paths.is_below("C:\\a", "C:\\")
    assert not paths.is_below("D:\\work\\net.py", "C:\\work") and not paths.is_below("C:\\workers", "C:\\work")
    assert paths.relative("D:\\net.py", "C:\\work") == "D:\\net.py"
    assert paths.relative("C:\\work\\net.py", "C:\\work") == "net.py"
    report(tries=6, outcome="outside")


def test_odd_workspace_folders(shared: Client, folder: Path, report):
    """Invalid workspace folders do not affect documents of others; one with a trailing slash keeps its files."""
    odd = ["untitled:folder", "vscode-vfs://github/a/b", "file://[x", "file:", ""]
    event = {"added": [{"uri": each, "name": "odd"} for each in odd], "removed": []}
    with shared.lent(deadline=30, verify=False) as server:
        server.notify("workspace/didChangeWorkspaceFolders", {"event": event})
        found = server.diagnostics(server.open(folder / "net.py", BROKEN))
        assert [each["code"] for each in found] == ["FX120"]
        event = {"added": [], "removed": event["added"]}
        server.notify("workspace/didChangeWorkspaceFolders", {"event": event})
    known = {each: SimpleNamespace(uri=each) for each in [*odd, f"{folder.as_uri()}/"]}
    server = SimpleNamespace(workspace=SimpleNamespace(folders=known, root_path=None))
    assert folder_of(server, str(folder / "net.py")) == str(folder)
    report(tries=len(odd) + 1, outcome="left alone")


@pytest.mark.usefixtures("warm")
def test_nothing_is_kept_where_there_is_no_home(tmp_path: Path, report):
    """Without an absolute home path, no folder is created in the current folder or next to our own files."""
    (tmp_path / "m.py").write_text(MODEL)
    for home in ("home", ""):
        environment = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
        command = warm_fxlens("check", "m.py")
        done = subprocess.run(command, cwd=tmp_path, env={**environment, "HOME": home}, timeout=200)
        assert done.returncode == 0
    assert os.listdir(tmp_path) == ["m.py"]
    assert not list(Path(paths.__file__).parents[1].glob("*/home"))
    report(tries=2, outcome="nothing is kept")
