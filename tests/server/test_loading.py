"""What a record depends on, as seen in the editor: files that are imported, and files that would be."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from check_command import waits_for
from fxlens.index.index import Index
from fxlens.record import Record, empty_record
from fxlens.workspace.document import Document, Moment
from lsp_client import Client

MODEL = """\
from torch import nn

from . import extras


class Net(nn.Module):
    def forward(self, x):
        return extras.act(x)
"""


def test_a_module_that_was_missing_traces_the_open_model_again(shared: Client, folder: Path):
    package = folder / "kit"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "net.py").write_text(MODEL)
    missing = package / "extras.py"
    with shared.lent(deadline=60) as client:
        uri = client.open(package / "net.py")
        while not any(each["code"] == "FX311" for each in client.diagnostics(uri)):
            continue
        missing.write_text("def act(x):\n    return x * len(x)\n")
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": missing.as_uri(), "type": 1}]})
        wait_for(client, uri, ["FX120"])


GUARDED = """\
from torch import nn

try:
    from kit.extras import act
except ImportError:
    act = abs


class Net(nn.Module):
    def forward(self, x):
        return act(x)
"""


def test_an_open_file_whose_import_fails_and_is_caught_counts(shared: Client, folder: Path):
    """Half-typed, and corrected: nothing of it is left in ``sys.modules``, and nothing was read from the disk."""
    package = folder / "kit"
    package.mkdir()
    (package / "__init__.py").write_text("")
    right = "from math import floor\n\n\ndef act(x):\n    return x * len(x)\n"
    with shared.lent(deadline=60) as client:
        extras = client.open(package / "extras.py", right)
        uri = client.open(folder / "net.py", GUARDED)
        wait_for(client, uri, ["FX120"])
        client.change(extras, right.replace("floor", "floo"))
        wait_for(client, uri, [])
        client.change(extras, right)
        wait_for(client, uri, ["FX120"])


def wait_for(client: Client, uri: str, codes: list[str]) -> None:
    """Until the problems are these; what was on its way before may come first."""
    while [each.get("code") for each in client.diagnostics(uri)] != codes:
        continue


def test_a_folder_that_is_gone_or_comes_back_traces_what_imports_from_it_again(shared: Client, folder: Path):
    """Of what is in it, a client may tell nothing: VS Code does not, of a folder that is deleted or moved."""
    package = folder / "kit"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "extras.py").write_text("def act(x):\n    return x * len(x)\n")
    net = folder / "net.py"
    net.write_text(MODEL.replace("from . import", "from kit import"))
    other = folder / "kit.py"
    with shared.lent(deadline=60) as client:
        uri = client.open(net)
        wait_for(client, uri, ["FX120"])
        package.rename(folder / "elsewhere")
        other.write_text("class extras:\n    act = abs\n")
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": package.as_uri(), "type": 3}]})
        wait_for(client, uri, [])
        other.unlink()
        (folder / "elsewhere").rename(package)
        client.notify(
            "workspace/didChangeWatchedFiles",
            {"changes": [{"uri": other.as_uri(), "type": 3}, {"uri": package.as_uri(), "type": 1}]},
        )
        wait_for(client, uri, ["FX120"])


def told(client: Client, path: Path, kind: int) -> None:
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": kind}]})


@pytest.mark.parametrize("event", ["before", "after", "none"])
def test_a_clean_open_file_that_changes_on_disk_is_reloaded_by_closing_and_opening_it(
    shared: Client, folder: Path, event: str
):
    """As Emacs and Neovim do after a checkout; the change may be told before, afterwards, or not at all."""
    good, bad = "def act(x):\n    return x\n", "def act(x):\n    return x * len(x)\n"
    extras = folder / "extras.py"
    extras.write_text(good)
    with shared.lent(deadline=60) as client:
        opened = client.open(extras)
        uri = client.open(folder / "net.py", MODEL.replace("from . import", "import"))
        wait_for(client, uri, [])
        extras.write_text(bad)
        if event == "before":
            told(client, extras, 2)
        client.close(opened)
        opened = client.open(extras)
        if event == "after":
            told(client, extras, 2)
        wait_for(client, uri, ["FX120"])
        client.close(opened)
        extras.write_text(good)
        client.open(extras)
        wait_for(client, uri, [])


def test_a_clean_open_file_that_changes_on_disk_and_is_closed(shared: Client, folder: Path):
    extras = folder / "extras.py"
    extras.write_text("def act(x):\n    return x\n")
    with shared.lent(deadline=60) as client:
        opened = client.open(extras)
        uri = client.open(folder / "net.py", MODEL.replace("from . import", "import"))
        wait_for(client, uri, [])
        extras.write_text("def act(x):\n    return x * len(x)\n")
        told(client, extras, 2)
        client.close(opened)
        wait_for(client, uri, ["FX120"])


ALL = """\
import importlib, os, pathlib, pkgutil
from torch import nn

PARTS = []
for name in {names}:
    if not name.startswith("_"):
        PARTS.append(importlib.import_module("kit." + name.removesuffix(".py")))


class Net(nn.Module):
    def forward(self, x):
        for part in PARTS:
            x = part.act(x)
        return x
"""


@pytest.mark.parametrize(
    ("text", "comes"),
    [
        (MODEL.replace("from . import", "import"), "extras/__init__.py"),
        (MODEL.replace("from . import extras", "from deep import extras"), "models/deep/extras.py"),
        (GUARDED.replace("kit.extras", "third.leaf"), "third/leaf.py"),
        (ALL.replace("{names}", "os.listdir('kit')"), "kit/two.py"),
        (ALL.replace("{names}", "[each.name for each in pathlib.Path('kit').glob('*.py')]"), "kit/two.py"),
        (ALL.replace("{names}", "[each.name for each in pkgutil.iter_modules(['kit'])]"), "kit/two.py"),
    ],
    ids=["package", "nearer", "folder", "listdir", "glob", "pkgutil"],
)
def test_what_comes_and_would_be_imported_counts(shared: Client, folder: Path, text: str, comes: str):
    """No file that was there changes; the model is kept for the next edit meanwhile."""
    good = "def act(x):\n    return x\n"
    (folder / "extras.py").write_text(good)
    for each in ("deep", "kit", "models"):
        (folder / each).mkdir()
    (folder / "deep" / "extras.py").write_text(good)
    (folder / "kit" / "one.py").write_text(good)
    new = folder / comes
    with shared.lent(deadline=60) as client:
        text = text.replace("'kit'", repr(str(folder / "kit")))
        uri = client.open(folder / "models" / "net.py" if "deep" in comes else folder / "net.py", text)
        wait_for(client, uri, [])
        for edit in ("# once", "# twice"):
            assert client.edit(uri, f"{text}\n{edit}\n") == []
        there = new.parent.exists()
        new.parent.mkdir(exist_ok=True)
        new.write_text("def act(x):\n    return x * len(x)\n")
        told(client, new if there else new.parent, 1)
        wait_for(client, uri, ["FX120"])
        new.unlink() if there else shutil.rmtree(new.parent)
        told(client, new if there else new.parent, 3)
        wait_for(client, uri, [])


def test_what_comes_after_a_folder_was_listed_and_before_the_trace_has_ended_counts(shared: Client, folder: Path):
    """Once it has come, the code waits no more."""
    (folder / "kit").mkdir()
    listed, new = folder / "listed", folder / "kit" / "two.py"
    waits = f"open({str(listed)!r}, 'w').close()\n{waits_for(new)}"
    names = f"pathlib.Path({str(folder / 'kit')!r}).glob('*.py')"
    text = ALL.replace("{names}", f"[each.name for each in {names}]").replace("\n\n\nclass", f"\n\n{waits}\n\nclass")
    with shared.lent(deadline=60) as client:
        uri = client.open(folder / "net.py", text)
        while not listed.exists():
            time.sleep(0.02)
        new.write_text("def act(x):\n    return x * len(x)\n")
        told(client, new, 1)
        wait_for(client, uri, ["FX120"])


RUNS = {
    "a folder for each run": "os.makedirs(f'{runs}/{len(os.listdir(runs))}/logs')",
    "a file for each run": "torch.save(len(os.listdir(runs)), f'{runs}/{time.time_ns()}.pt')",
    "one file, read again": "n = len(open(last).read()) if os.path.exists(last) else 0; open(last, 'a').write('x')",
    "one file, written by C": "torch.save(os.urandom(8), last); torch.load(last)",
    "a module": "open(here + '/version_of.py', 'w').write('V = 1'); import version_of",
}


@pytest.mark.parametrize("name", RUNS)
def test_code_that_changes_what_it_looks_at_is_not_executed_without_end(shared: Client, folder: Path, name: str):
    (folder / "runs").mkdir()
    own = f"here = {str(folder)!r}; runs = here + '/runs'; last = here + '/last.json'"
    text = MODEL.replace("from . import extras", f"import os, time, torch\n{own}\n{RUNS[name]}")
    text = text.replace("return extras.act(x)", "return x * len(x)")

    def state() -> dict[Path, int]:
        return {each: each.stat().st_mtime_ns for each in folder.rglob("*") if "__pycache__" not in each.parts}

    with shared.lent(deadline=60) as client:
        uri = client.open(folder / "net.py", text)
        wait_for(client, uri, ["FX120"])
        before, still = {}, 0
        for _ in range(20):
            now = state()
            still = still + 1 if now == before else 0
            for each in [each for each in now if now[each] != before.get(each)]:
                told(client, each, 2 if each in before else 1)
            before = now
            if still == 3:
                break
            time.sleep(0.5)
        assert still == 3, sorted(before)


def test_the_index_forgets_a_folder_that_is_gone_and_reads_one_that_comes(tmp_path: Path):
    package, elsewhere = tmp_path / "kit", tmp_path / "elsewhere"
    package.mkdir()
    (package / "net.py").write_text("from torch import nn\nclass Net(nn.Module):\n    pass\n")
    (package / "net.yaml").write_text("width: 3\n")
    index = Index(str(tmp_path))
    index.build()
    assert index.classes(str(package / "net.py")) == ["Net"]
    package.rename(elsewhere)
    for each in (package, elsewhere, tmp_path / "never"):
        index.update(str(each))
    assert index.classes(str(package / "net.py")) == [] and index.classes(str(elsewhere / "net.py")) == ["Net"]
    assert index.workspace.configuration_files == {str(elsewhere / "net.yaml")}
    foreign = tmp_path / "node_modules"
    elsewhere.rename(foreign)
    index.update(str(elsewhere))
    index.update(str(foreign))
    assert not index.workspace.facts and not index.workspace.configuration_files


def test_the_index_reads_changed_examples_of_docstrings_again(tmp_path: Path):
    (net := tmp_path / "net.py").write_text(
        "from torch import nn\nclass Net(nn.Module):\n    def __init__(self, width):\n        self.width = width\n"
    )
    example = 'def train():\n    """Trains it.\n\n    >>> from net import Net\n    >>> net = Net({})\n    """\n'
    (other := tmp_path / "other.py").write_text(example.format(8))
    index = Index(str(tmp_path))
    index.build()
    for width in (8, 5):
        other.write_text(example.format(width))
        index.update(str(other))
        assert [each.text for each in index.answer(str(net), "Net").constructions] == [f"Net({width})"]


IMPORTED = """\
import sys

from torch import nn


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def forward(self, x):
        names = [*sys.modules]
        raise RuntimeError(" ".join(names[names.index("fxlib.diagnosis.fixes.loaded") + 1 :]))
"""


def test_a_job_imports_nothing_that_others_import_too(shared: Client, folder: Path):
    """That is done once, in the process that it is a fork of."""
    with shared.lent(deadline=60) as client:
        (found,) = client.diagnostics(client.open(folder / "net_of_a_job.py", IMPORTED))
    assert "RuntimeError: net_of_a_job" in found["message"], found["message"]
    assert "RuntimeError: net_of_a_job " not in found["message"], found["message"]


READING = """\
from pathlib import Path

from torch import nn

SIZE = len(Path(__file__).with_name("{name}").read_text())


class Net(nn.Module):
    def forward(self, x):
        return x / len(x) if SIZE > 3 else x
"""


def test_the_client_watches_whatever_the_code_reads(tmp_path: Path, warm: None):
    with Client(tmp_path) as client:
        for number, name in enumerate(["net.dims", "VERSION", ".secret", "wide[2].layers"]):
            (read := tmp_path / name).write_text("abc")
            uri = client.open(tmp_path / f"net{number}.py", READING.replace("{name}", name))
            wait_for(client, uri, [])
            while read not in watched(client, tmp_path):
                client.request("fxlens/status", {})
            read.write_text("abcd")
            told(client, read, 2)
            wait_for(client, uri, ["FX120"])
        (tmp_path / "other.dims2").touch()
        assert tmp_path / "other.dims2" not in watched(client, tmp_path)


def watched(client: Client, folder: Path) -> set[Path]:
    """The files whose changes of content the client is to tell."""
    asked = [each["params"] for each in client.asked_for if each["method"] == "client/registerCapability"]
    options = [each["registerOptions"] for every in asked for each in every["registrations"]]
    watchers = [each for every in options for each in every.get("watchers", ()) if each.get("kind", 7) & 2]
    return {path for each in watchers for path in folder.glob(each["globPattern"])}


def test_the_configuration_is_that_of_the_present_workspace_folder(tmp_path: Path, warm: None):
    """A folder is added and removed below one that has a configuration, whose files are configured from there while
    they belong to it."""
    (sub := tmp_path / "sub").mkdir()
    (tmp_path / "fxlens.toml").write_text('ignore = ["FX120"]\n')
    text = MODEL.replace("from . import extras", "").replace("extras.act(x)", "x * len(x)")
    outer, inner = ({"uri": each.as_uri(), "name": each.name} for each in (tmp_path, sub))
    with Client(sub) as client:
        uri = client.open(sub / "net.py", text)
        wait_for(client, uri, ["FX120"])
        for added, removed, codes in ((outer, inner, []), (inner, outer, ["FX120"])):
            event = {"added": [added], "removed": [removed]}
            client.notify("workspace/didChangeWorkspaceFolders", {"event": event})
            wait_for(client, uri, codes)


def test_settings_that_were_pushed_count_when_a_folder_is_added(tmp_path: Path, warm: None):
    """By a client that cannot be asked for them."""
    (sub := tmp_path / "sub").mkdir()
    text = MODEL.replace("from . import extras", "").replace("extras.act(x)", "x * len(x)")
    with Client(sub, capabilities={"workspace": {"workspaceFolders": True}}) as client:
        pushed = {"ignore": ["FX120"], "verify": False, "captures": ["fx"], "scope": "all"}
        client.notify("workspace/didChangeConfiguration", {"settings": {"fxlens": pushed}})
        wait_for(client, client.open(sub / "net.py", text), [])
        event = {"added": [{"uri": tmp_path.as_uri(), "name": "outer"}], "removed": []}
        client.notify("workspace/didChangeWorkspaceFolders", {"event": event})
        wait_for(client, client.open(tmp_path / "net.py", text), [])


def test_a_configuration_by_a_link_is_followed(shared: Client, folder: Path):
    for each in ("of_all", "kit"):
        (folder / each).mkdir()
    (real := folder / "of_all" / "fxlens.toml").write_text("")
    (folder / "kit" / "fxlens.toml").symlink_to(real)
    text = MODEL.replace("from . import extras", "").replace("extras.act(x)", "x * len(x)")
    with shared.lent(deadline=60) as client:
        uri = client.open(folder / "kit" / "net.py", text)
        wait_for(client, uri, ["FX120"])
        real.write_text('ignore = ["FX120"]\n')
        told(client, real, 2)
        wait_for(client, uri, [])


def test_what_changes_during_each_execution_counts_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its code may write it, or somebody else has changed it each time."""
    monkeypatch.setattr("fxlens.workspace.document._PATIENCE", 0.2)
    (read := tmp_path / "sizes.ini").write_text("1")
    document = Document("file:///net.py", str(tmp_path / "net.py"), str(tmp_path), "", 1)
    record: Record = {**empty_record("net.py"), "files": [str(read)]}
    for number in range(3):
        assert document.depends_on(str(read)) or not number
        began = Moment.now()
        time.sleep(0.02)
        read.write_text(str(number))
        document.keep(record, "", 1, began)
    assert not document.depends_on(str(read))
    time.sleep(document.until_looked_again(str(read)) or 0)
    assert document.depends_on(str(read))
    document.keep(record, "", 1, Moment.now())
    assert document.until_looked_again(str(read)) is None, "nobody has changed it during the last one"
