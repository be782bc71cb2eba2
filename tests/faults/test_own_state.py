"""Files above the trusted folder, and FX Lens's own state, damaged or left over."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fxlens.checking import formats
from fxlens.checking.baseline import Baseline
from fxlens.checking.files import CannotCheck
from fxlens.config.project import Project
from fxlens.index import documents
from fxlens.sources import paths
from fxlens.sources.files import Changed
from fxlens.sources.known import from_recorded
from fxlens.sources.paths import key
from fxlens.sources.recorded import Example
from lsp_client import MODEL, Client
from pygls import uris


def test_nothing_above_the_trusted_folder_is_read(tmp_path: Path, report):
    trusted = tmp_path / "trusted"
    (trusted / "below").mkdir(parents=True)
    (tmp_path / "fxlens.toml").write_text("select = ['FX1']\n")
    assert Project.read(str(trusted), top=str(trusted)).root is None
    assert Project.read(str(trusted / "below"), top=str(trusted)).root is None
    (trusted / "fxlens.toml").write_text("select = ['FX2']\n")
    assert Project.read(str(trusted / "below"), top=str(trusted)).select == ("FX2",)
    report(tries=3, outcome="not read")


def test_another_users_configuration_above_the_present_folder_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report
):
    below = tmp_path / "below"
    below.mkdir()
    (tmp_path / "fxlens.toml").write_text("select = ['FX1']\n")
    monkeypatch.chdir(below)
    assert Project.read(str(below)).select == ("FX1",)
    if os.getuid() == 0:
        os.chown(tmp_path / "fxlens.toml", 54321, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 54321)
    found = Project.read(str(below))
    assert found.root is None and not found.select and "another user owns it" in found.problems[0]
    monkeypatch.chdir(tmp_path)
    assert Project.read(str(below)).select == ("FX1",), "a checkout that another user made can be checked"
    assert paths.is_within(str(below), [str(tmp_path)])
    report(tries=3, outcome="not read above it")


def test_a_damaged_key_seals_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report):
    from fxlib.lowering import store

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    key = store._key()
    assert len(key) == 32 and store._key() == key
    path = tmp_path / "fxlens" / "keys" / "seal"
    assert path.stat().st_mode & 0o777 == 0o600 and len(list(path.parent.iterdir())) == 1
    for damaged, mode in ((b"", 0o600), (key[:31], 0o600), (key + b".", 0o600), (key, 0o640)):
        path.write_bytes(damaged)
        path.chmod(mode)
        with pytest.raises(store.UntrustedModel, match="Remove it"):
            store._key()
    report(tries=4, outcome="refused")


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="its caches have a fixed place there")
def test_a_relative_cache_folder_writes_nothing_beside_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report
):
    from fxlib.lowering import cache

    (tmp_path / "sources").mkdir()
    monkeypatch.chdir(tmp_path / "sources")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    folders = {paths.cache_folder("index").parent, cache.cache_directory("keys").parent}
    assert folders == {tmp_path / "home" / ".cache" / "fxlens"} and not os.listdir()
    report(tries=2, outcome="the user's cache folder")


@pytest.mark.usefixtures("warm")
def test_a_damaged_cache_is_not_read_and_belongs_to_nobody_else(tmp_path: Path, report):
    """Every record is damaged differently; only the user can access the folder, with any umask."""
    damaged = ["[" * 100_000, "", "{}", '{"record": {}, "files": [], "tests": 3}', "null", "\0"]
    for number, _ in enumerate(damaged):
        (tmp_path / f"net{number}.py").write_text(BROKEN.replace(" if x.sum() > 0 else x", ""))
    command = [sys.executable, "-c", "import os, sys; os.umask(0); from fxlens.cli import main; sys.exit(main())"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / ".cache")}
    for run in range(2):
        records = list((tmp_path / ".cache").rglob("records/*.json"))
        assert len(records) == run * len(damaged)
        for each, text in zip(records, damaged, strict=False):
            whole = each.read_text()
            each.write_text(text or whole.replace('"findings": []', '"findings": null'))
        done = subprocess.run(
            [*command, "check", "."], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200
        )
        assert done.returncode == 0 and "6 traced" in done.stdout and "Traceback" not in done.stderr, done.stderr
    (folder,) = (tmp_path / ".cache").rglob("records")
    modes = [path.stat().st_mode & 0o077 for path in [folder, *folder.iterdir()]]
    assert len(modes) >= 2 and not any(modes)
    report(tries=len(damaged), outcome="traced again")


WRONG_COUNTS = ["x", None, [1], 1.5, {}]


def test_a_damaged_baseline_is_said_to_be_none(tmp_path: Path, report):
    path = tmp_path / "fxlens-baseline.json"
    entry = {"code": "FX101", "model": "Net", "source": "if x:", "count": 1}
    damaged = [*({**entry, "count": each} for each in WRONG_COUNTS), {**entry, "code": 3}, {**entry, "source": [1]}]
    for each in damaged:
        path.write_text(json.dumps({"version": 1, "findings": {"net.py": [each]}}))
        with pytest.raises(CannotCheck, match="is not a baseline"):
            Baseline.read(str(path))
    odd = {"gone.py\n::error::forged": [entry]}
    path.write_text(json.dumps({"version": 1, "findings": odd}))
    (said,) = Baseline.read(str(path)).apply([], lambda code: True)
    assert "\n" not in said
    report(tries=len(damaged) + 1, outcome="refused; one line for each entry")


def test_entries_for_thousands_of_other_files_take_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report):
    """Resolving each path would block all requests for seconds; entries for a link to the file are still found."""
    (tmp_path / "net.py").touch()
    (tmp_path / "link.py").symlink_to("net.py")
    (tmp_path / "folder").symlink_to(".")
    deep = tmp_path / ("deep/" * 20)
    deep.mkdir(parents=True)
    for number in range(100):
        (deep / f"net{number}.py").touch()
    names = [*(f"{'deep/' * 20}net{number}.py" for number in range(20_000)), "link.py", "folder/net.py", "./net.py"]
    project = Project(root=str(tmp_path), targets={f"{name}::{at}": "Net()" for at, name in enumerate(names)})
    examples = {f"{name}::{at}": [Example("Net()", evaluation=["x"])] for at, name in enumerate(names)}
    found = ["20000", "20001", "20002"]
    resolved: list[str] = []
    monkeypatch.setattr(paths, "key", lambda path: resolved.append(path) or key(path))
    began = time.process_time()
    path = str(tmp_path / "net.py")
    assert project.targets_of(path) == dict.fromkeys(found, "Net()")
    assert list(from_recorded(examples, str(tmp_path), path)) == found
    taken = time.process_time() - began
    assert taken < 1.5 and not [each for each in resolved if "deep" in each]
    assert list(project.targets_of(str(tmp_path / "link.py"))) == found
    report(tries=2, outcome=f"{taken:.2f} s")


def test_a_severity_that_is_none_is_refused(tmp_path: Path, report):
    (tmp_path / "fxlens.toml").write_text('[severity]\nFX101 = "\\u001b[2J"\nFX102 = "hint"\n')
    project = Project.read(str(tmp_path), top=str(tmp_path))
    assert project.severity == {"FX102": "hint"} and "severity must map codes" in project.problems[0]
    report(outcome="said, and not used")


def test_what_means_nothing_in_a_configuration_is_said(tmp_path: Path, report):
    """If a misspelt key were ignored silently, a check could pass that the project wants to fail."""
    (tmp_path / "fxlens.toml").write_bytes(b'\xef\xbb\xbfignores = ["FX101"]\nscope = "all"\n')
    project = Project.read(str(tmp_path), top=str(tmp_path))
    assert project.scope == "all", "a byte order mark is no fault"
    assert len(project.problems) == 1 and "unknown key 'ignores'; the keys are select, ignore" in project.problems[0]
    report(outcome="said by name")


LEFT = "import os, sys\nos.mkdir('gone')\nos.chdir('gone')\nos.rmdir('../gone')\n"


@pytest.mark.parametrize(
    "command", [["-m", "fxlens", "check"], ["-c", "from fxlens.cli import main; exit(main())", "check"]]
)
def test_a_present_folder_that_was_removed_is_said(tmp_path: Path, command: list[str], report):
    (tmp_path / "net.py").write_text(BROKEN)
    left = f"{LEFT}os.execv(sys.executable, sys.argv[1:])"
    run = [sys.executable, "-c", left, sys.executable, *command, str(tmp_path / "net.py")]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stderr.startswith("fxlens: the current directory no longer exists"), done
    report(outcome="named")


def test_a_configuration_is_read_where_the_present_folder_was_removed(tmp_path: Path, report):
    """A server or an agent's tools outlive the folder that they were started in."""
    code = f"{LEFT}from fxlens.config.project import Project\nprint(Project.read(sys.argv[1]).scope)"
    (tmp_path / "fxlens.toml").write_text('scope = "all"\n')
    run = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout == "all\n", done
    report(outcome="read")


BROKEN = """import torch
from torch import nn


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x
"""


@pytest.mark.usefixtures("warm")
def test_two_baselines_at_once(tmp_path: Path, report):
    """Each replaces the entries of the files that it checks, and keeps those that the other has written meanwhile."""
    names = ["a", "b"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "net.py").write_text(BROKEN)
    command = [sys.executable, "-m", "fxlens", "check", "--quick", "--write-baseline"]
    running = [subprocess.Popen([*command, name], cwd=tmp_path, stderr=subprocess.PIPE, text=True) for name in names]
    for each in running:
        said = each.communicate(timeout=120)[1]
        assert each.returncode == 0, said
    written = json.loads((tmp_path / "fxlens-baseline.json").read_text())
    assert sorted(written["findings"]) == ["a/net.py", "b/net.py"]
    known = Baseline.read(str(tmp_path / "fxlens-baseline.json"))
    (tmp_path / "fxlens-baseline.json").write_text('{"findings": {}}')
    with pytest.raises(Changed):
        known.write()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "fxlens-baseline.json"]
    report(tries=2, outcome="both are there")


def test_baselines_of_others(tmp_path: Path, report):
    """One of a later version, one that an editor began with a byte order mark, and a folder that is not there."""
    path = tmp_path / "known.json"
    path.write_text('{"version": 2, "findings": {}}')
    with pytest.raises(CannotCheck, match="another version"):
        Baseline.read(str(path))
    with pytest.raises(CannotCheck, match="another version"):
        Baseline.update(str(path), [])
    assert '"version": 2' in path.read_text()
    path.write_bytes(b'\xef\xbb\xbf{"version": 1, "findings": {}}')
    assert Baseline.read(str(path)).files == {}
    with pytest.raises(FileNotFoundError) as raised:
        Baseline.update(str(tmp_path / "no" / "known.json"), [])
    assert raised.value.filename == str(tmp_path / "no" / "known.json")
    report(tries=3, outcome="refused, read, named")


@pytest.mark.usefixtures("warm")
def test_a_code_that_no_rule_has_is_refused(tmp_path: Path, report):
    """Otherwise nothing is found, and the check always passes."""
    (tmp_path / "net.py").write_text(BROKEN)
    command = [sys.executable, "-m", "fxlens", "check", "--quick", "net.py"]
    for arguments in (["--select", "FX999"], ["--select", "FX1,fx101"], ["--ignore", "QQ"], ["--memory", "0"]):
        done = subprocess.run([*command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2 and arguments[0] in done.stderr and "Traceback" not in done.stderr, done.stderr
    (tmp_path / "fxlens.toml").write_text('select = ["fx101"]\nignore = ["FX20x", ""]\nseverity = {"" = "off"}\n')
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "FX101" in done.stdout and "no rule code begins with fx101" in done.stderr, (
        done.stderr
    )
    (tmp_path / "fxlens.toml").write_text("[severity\n")
    (tmp_path / "other.py").write_text(BROKEN)
    done = subprocess.run([*command, "other.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stderr.count("fxlens.toml: ") == 1, done.stderr
    report(tries=6, outcome="said; all rules count")


SHADOW = "import pathlib\npathlib.Path({mark!r}).touch()\n"


@pytest.mark.parametrize(
    "command", [["-m", "fxlens"], ["-c", "import sys; from fxlens.cli import main; sys.exit(main())"]]
)
def test_an_empty_entry_of_the_path_imports_nothing_from_the_folder(tmp_path: Path, command: list[str], report):
    """What Python itself imports at its start comes before anything that a program could do."""
    mark = tmp_path / "ran"
    for name in ("argparse", "asyncio", "json", "logging"):
        (tmp_path / f"{name}.py").write_text(SHADOW.format(mark=str(mark)))
    path = os.pathsep.join(["", *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])
    if command[0] == "-c":
        command = ["-I", "-c", f"import sys; sys.path[:0] = {path.split(os.pathsep)[1:]!r} + ['']; " + command[1]]
    done = subprocess.run(
        [sys.executable, *command, "engines"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path or os.pathsep},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert not mark.exists() and done.returncode == 0, done.stderr
    report(outcome="nothing imported")


def test_a_view_is_written_again_where_a_cleaner_has_removed_its_folder(server: Client, workspace: Path, report):
    """As they do with what is old in the folder for temporary files."""
    uri = server.open(workspace / "viewed.py", MODEL)
    server.diagnostics(uri)
    asked = {"command": "fxlens.openView", "arguments": [uri, "Net", "code"]}
    first = Path(uris.to_fs_path(server.request("workspace/executeCommand", asked)["uri"]))
    shutil.rmtree(first.parent.parent)
    second = Path(uris.to_fs_path(server.request("workspace/executeCommand", asked)["uri"]))
    assert "def forward" in second.read_text() and not first.exists()
    server.edit(uri, MODEL.replace("relu", "tanh"))
    server.request("fxlens/record", {"uri": uri})
    assert "tanh" in second.read_text()
    server.close(uri)
    report(tries=2, outcome="written again")


def test_no_report_of_ours_is_a_configuration_of_models(tmp_path: Path, report):
    written = []
    for style in ("json", "sarif"):
        formats.FORMATS[style]([], out := io.StringIO(), False)
        written.append(out.getvalue())
    Baseline(str(tmp_path / "known.json")).write()
    written.append((tmp_path / "known.json").read_text())
    assert [documents.parse("report.json", each) for each in written] == [None] * 3
    assert documents.parse("net.json", '{"version": 1, "files": 3}') == {"version": 1, "files": 3}
    report(tries=len(written), outcome="passed over")
