"""Sources to which links lead: what counts is the same by either name, and one file by two names is one file."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from check_command import fxlens
from fxlens.index import service
from fxlens.index.index import Index
from lsp_client import Client

MODEL = """import torch
from torch import nn


class {name}(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        if x.sum() > 0:
            return self.linear(x)
        return x
"""
CAPTURE = "\n\ndef capture():\n    return torch.fx.symbolic_trace({name}())\n"
BAD = (MODEL + CAPTURE).format(name="Net")
SIZED = """import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x: torch.Tensor):
        return x.view(len(x), -1)


torch.fx.symbolic_trace(Net())
"""


def judged(folder: Path, *paths: str) -> tuple[int, dict[str, list[tuple[str, str]]]]:
    """The status, and what was found in each file."""
    done = fxlens("check", "--quick", "--format", "json", *paths, cwd=folder)
    files: list[dict[str, Any]] = json.loads(done.stdout)["files"]
    return done.returncode, {
        each["path"].removeprefix("./"): [(found["code"], found["severity"]) for found in each["findings"]]
        for each in files
    }


@pytest.mark.usefixtures("warm")
def test_a_file_behind_a_link_is_judged_as_by_its_own_name(tmp_path: Path, report):
    work, shared = tmp_path / "work", tmp_path / "shared"
    for each in (work / "app", work / "own", shared):
        each.mkdir(parents=True)
    (work / "pyproject.toml").touch()
    (shared / "net.py").write_text(BAD)
    (shared / "part.py").write_text(MODEL.format(name="Part"))
    (shared / "use.py").write_text("import torch\nfrom part import Part\n" + CAPTURE.format(name="Part"))
    (work / "own" / "net.py").write_text(BAD)
    (work / "app" / "net.py").symlink_to("../../shared/net.py")
    (work / "app" / "loop").symlink_to("..")
    (work / "folder").symlink_to("../shared")
    (work / "inner").symlink_to("own")
    error = [("FX101", "error")]
    for paths, found in (
        (["../shared"], {"../shared/net.py": error, "../shared/part.py": error, "../shared/use.py": []}),
        (["app"], {"app/net.py": error}),
        (["app/net.py"], {"app/net.py": error}),
        (["folder"], {"folder/net.py": error, "folder/part.py": error, "folder/use.py": []}),
        (["folder/net.py"], {"folder/net.py": error}),
        (["inner"], {"inner/net.py": error}),
        (["app/loop/own"], {"app/loop/own/net.py": error}),
        (["."], {"app/net.py": error, "own/net.py": error}),
    ):
        assert judged(work, *paths) == (1, found), paths
    report(tries=8, outcome="an error, and status 1")


@pytest.mark.usefixtures("warm")
def test_one_file_by_two_names_has_its_findings_once(tmp_path: Path, report):
    """By the file's own name, if it was found. Where another file is imported, what is found there is told, too."""
    for each in ("kit", "app"):
        (tmp_path / each).mkdir()
    net = "from size import SIZE\n" + BAD.replace("if x.sum() > 0:", "if SIZE > 3 and x.sum() > 0:")
    (tmp_path / "kit" / "net.py").write_text(net)
    (tmp_path / "app" / "net.py").symlink_to("../kit/net.py")
    (tmp_path / "again").symlink_to("kit")
    sizes = tmp_path / "kit" / "size.py", tmp_path / "app" / "size.py"
    error = [("FX101", "error")]
    for kit, app in ((4, 4), (3, 4)):
        for path, size in zip(sizes, (kit, app), strict=True):
            path.write_text(f"SIZE = {size}\n")
        found = {"kit/net.py": error, "app/net.py": []} if kit == 4 else {"kit/net.py": [], "app/net.py": error}
        assert judged(tmp_path, "app/net.py", "kit/net.py") == (1, found)
        assert list(judged(tmp_path, "app/net.py", "kit/net.py")[1]) == ["kit/net.py", "app/net.py"]
    report(tries=4, outcome="once")


def known(index: Index, path: Path) -> dict[str, Any]:
    return service.answers(index, str(path))["answers"]


def test_the_index_knows_a_file_once(tmp_path: Path, report):
    """Two names in the workspace, two links to one file outside, and a folder behind a link that is not read."""
    work, home = tmp_path / "work", tmp_path / "home"
    for each in (work / "kit", work / "app", home):
        each.mkdir(parents=True)
    (work / "kit" / "net.py").write_text(MODEL.format(name="Net"))
    (work / "app" / "net.py").symlink_to("../kit/net.py")
    (work / "app" / "use.py").write_text("import torch\nfrom net import Net\n" + CAPTURE.format(name="Net"))
    (home / "ext.py").write_text((MODEL + CAPTURE).format(name="Ext"))
    (home / "other.py").write_text(MODEL.format(name="Other"))
    for name in ("a.py", "b.py"):
        (work / name).symlink_to(home / "ext.py")
    (work / "home").symlink_to(home)
    (work / "self").symlink_to(".")
    (work / "device.py").symlink_to("/dev/zero")
    index = Index(str(work))
    assert index.build().files == 3
    assert {*index.workspace.facts} == {str(work / name) for name in ("kit/net.py", "app/use.py", "a.py")}
    for name in ("kit/net.py", "app/net.py", "self/app/net.py"):
        assert known(index, work / name)["Net"]["captured"][0][1] == str(work / "app" / "use.py")
    for name in ("a.py", "b.py", "self/self/b.py"):
        assert known(index, work / name)["Ext"]["captured"][0][1] == str(work / name)
    index.update(str(work / "home"))
    assert len(index.workspace.facts) == 3
    assert [*known(index, work / "home" / "other.py")] == ["Other"] and len(index.workspace.facts) == 4
    # Links come, go and lead elsewhere.
    (work / "a.py").unlink()
    index.update(str(work / "a.py"))
    assert {*index.workspace.facts} == {
        str(work / name) for name in ("kit/net.py", "app/use.py", "b.py", "home/other.py")
    }
    (work / "app" / "net.py").unlink()
    (work / "app" / "net.py").write_text(MODEL.format(name="Mine"))
    index.update(str(work / "app" / "net.py"))
    assert not known(index, work / "kit" / "net.py")["Net"]["captured"]
    assert [*known(index, work / "app" / "net.py")] == ["Mine"]
    (work / "app" / "net.py").unlink()
    (work / "app" / "net.py").symlink_to("../kit/net.py")
    index.update(str(work / "app" / "net.py"), MODEL.format(name="Net"))
    assert known(index, work / "kit" / "net.py")["Net"]["captured"]
    report(tries=12, outcome="one file, one caller")


@pytest.mark.usefixtures("warm")
def test_a_patch_names_files_where_they_lie(tmp_path: Path, report):
    """Neither git nor patch follows a link, and a patch that names one is refused as a whole."""
    work, shared = tmp_path / "work", tmp_path / "shared"
    for each in (work / "kit", work / "app", shared):
        each.mkdir(parents=True)
        (each / "net.py").write_text(SIZED)
    (work / "pyproject.toml").touch()
    subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
    (work / "app" / "twice.py").symlink_to("../kit/net.py")
    (work / "app" / "out.py").symlink_to("../../shared/net.py")
    (work / "linked").symlink_to("kit")
    (work / "away").symlink_to(shared)
    (tmp_path / "by_link").symlink_to(work)
    outside = "Check it from a folder that contains it", "was not named and is not part of the project"
    for paths, names, left in (
        (["."], ["app/net.py", "kit/net.py"], ["app/out.py"]),
        (["app"], ["app/net.py"], ["app/out.py", "app/twice.py"]),
        (["linked/net.py", "away", "kit"], ["kit/net.py"], ["away/net.py"]),
        ([str(tmp_path / "by_link" / "kit")], ["kit/net.py"], []),
        (["../shared/net.py", "app/net.py"], ["app/net.py"], ["../shared/net.py"]),
    ):
        done = fxlens("check", "--quick", "--diff", *paths, cwd=work)
        named = [line.removeprefix("+++ b/") for line in done.stdout.splitlines() if line.startswith("+++ ")]
        assert sorted(named) == names, (paths, done.stdout, done.stderr)
        said = [line.removeprefix("fxlens: ") for line in done.stderr.splitlines() if line.strip().endswith(outside)]
        assert [os.path.relpath(work / line.partition(":")[0], work) for line in said] == left, done.stderr
        subprocess.run(["git", "apply", "--check"], cwd=work, input=done.stdout, text=True, check=True)
    done = fxlens("check", "--quick", "--fix", ".", cwd=work)
    assert not [each for each in ("kit", "app") if "len(x)" in (work / each / "net.py").read_text()], done
    assert (work / "app" / "twice.py").is_symlink() and (shared / "net.py").read_text() == SIZED
    report(tries=6, outcome="taken by git")


@pytest.mark.usefixtures("warm")
def test_a_baseline_holds_by_all_names(tmp_path: Path, report):
    """Of the files, of their folders, and of the baseline itself."""
    work, by_link, shared = tmp_path / "work", tmp_path / "by_link", tmp_path / "shared"
    for each in (work / "kit", work / "conf", shared):
        each.mkdir(parents=True)
    (work / "kit" / "net.py").write_text(BAD)
    (shared / "ext.py").write_text(BAD.replace("Net", "Ext"))
    (work / "ext.py").symlink_to(shared / "ext.py")
    (work / "again.py").symlink_to("kit/net.py")
    by_link.symlink_to(work)
    name = "fxlens-baseline.json"
    (work / "conf" / "known.json").write_text('{"version": 1, "findings": {}}')
    for link, first in ((False, "kit/net.py"), (True, "../kit/net.py")):
        if link:
            (work / name).unlink()
            (work / name).symlink_to("conf/known.json")
        for _ in range(2):
            assert fxlens("check", "--quick", "--write-baseline", ".", cwd=work).returncode == 0
            assert fxlens("check", "--quick", "--write-baseline", f"{by_link}/kit/net.py", cwd=by_link).returncode == 0
        written = json.loads((work / name).read_text())["findings"]
        assert {*written} == {first, "../ext.py" if link else "ext.py"}, written
        assert all(entries[0]["count"] == 1 and len(entries) == 1 for entries in written.values())
        for paths, known in (
            (["."], name),
            (["again.py", "ext.py"], name),
            ([f"{by_link}/kit", f"{by_link}/ext.py", str(shared)], f"{by_link}/{name}"),
            (["."], "conf/known.json" if link else name),
        ):
            done = fxlens("check", "--quick", "--baseline", known, *paths, cwd=work)
            assert done.returncode == 0 and "baseline" not in done.stderr, (paths, done)
    # One that an earlier version wrote: from the folder of the link, and one file by two names.
    entries = written[first]
    earlier = {"version": 1, "findings": {"again.py": entries, "kit/net.py": entries, "gone.py": entries}}
    (work / name).write_text(json.dumps(earlier))
    done = fxlens("check", "--quick", "--baseline", name, "kit", "again.py", cwd=work)
    assert done.returncode == 0 and done.stderr.count("the file is gone") == 1 == done.stderr.count("gone.py"), done
    assert fxlens("check", "--quick", "--write-baseline", "kit", cwd=work).returncode == 0
    assert [*json.loads((work / name).read_text())["findings"]] == ["../kit/net.py"]
    report(tries=8, outcome="accepted")


def test_an_open_document_behind_a_link_is_the_one_that_was_opened(tmp_path: Path, warm: None, report):
    """Its severities are those of its own name, before it is saved too, and what is changed is that document."""
    work, shared = tmp_path / "work", tmp_path / "shared"
    for each in (work / "kit", shared):
        each.mkdir(parents=True)
    for each in (work / "kit", shared):
        (each / "net.py").write_text(BAD)
        (each / "sized.py").write_text(SIZED)
        (each / "quiet.py").write_text(MODEL.format(name="Quiet"))
    (work / "kit" / "part.py").write_text(MODEL.format(name="Part"))
    (work / "kit" / "use.py").write_text("import torch\nfrom part import Part\n" + CAPTURE.format(name="Part"))
    (work / "link.py").symlink_to("kit/net.py")
    (work / "part_of_kit.py").symlink_to("kit/part.py")
    (work / "out.py").symlink_to(shared / "net.py")
    (work / "folder").symlink_to("kit")
    (work / "away").symlink_to(shared)
    with Client(work, settings={"scope": "meant", "deadline": 30}) as client:
        own, linked = ["kit/net.py", "kit/part.py"], ["link.py", "out.py", "part_of_kit.py"]
        for name in (*own, *linked, "folder/net.py", "folder/part.py", "away/net.py"):
            uri = client.open(work / name)
            wait_for(client, uri, 1, [1])
            client.close(uri)
        for name in (
            "kit/quiet.py",
            "folder/quiet.py",
            "away/quiet.py",
        ):  # nothing is captured but in the text that is not saved
            uri = client.open(work / name)
            wait_for(client, uri, 1, [2])
            client.change(uri, MODEL.format(name="Quiet") + CAPTURE.format(name="Quiet"))
            wait_for(client, uri, 2, [1])
            client.close(uri)
        for name in ("folder/sized.py", "away/sized.py"):
            uri = client.open(work / name)
            (found,) = [each for each in client.diagnostics(uri) if each["code"] == "FX120"]
            fixes = [each["edit"] for each in client.actions(uri, found) if each.get("edit")]
            assert fixes and all({*changed(edit)} == {uri} for edit in fixes), fixes
            client.close(uri)
    report(tries=13, outcome="as by its own name")


def wait_for(client: Client, uri: str, version: int, severities: list[int]) -> None:
    """Until FX101 is shown of the document so, once its classes are known."""
    shown = None
    while shown != severities:
        found = client.diagnostics(uri, version)
        shown = [each["severity"] for each in found if each["code"] == "FX101"]


def changed(edit: dict[str, Any]) -> list[str]:
    return [*edit.get("changes", ()), *(each["textDocument"]["uri"] for each in edit.get("documentChanges", ()))]
