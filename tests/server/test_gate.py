"""``fxlens check`` as a gate: known findings do not fail, new ones do."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from check_command import BROKEN, fxlens
from fxlens.checking.baseline import Baseline
from fxlens.checking.checker import Checked
from fxlens.checking.files import CannotCheck
from fxlens.record import Finding, empty_record, finding, span
from warm_python import warm_fxlens

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "net.py").write_text(BROKEN, encoding="utf-8")
    return tmp_path


def test_a_baseline_is_a_file_and_writing_it_makes_no_report(project: Path):
    for given in (("--format", "json", "--output", "out.json"), ("--statistics",), ("--diff",), ("--format", "json")):
        done = fxlens("check", "src", "--write-baseline", *given, cwd=project)
        assert (done.returncode, done.stdout) == (2, "") and "--write-baseline writes no report" in done.stderr
    for other in ("src", os.devnull):
        done = fxlens("check", "src", "--baseline", other, cwd=project)
        assert done.returncode == 2 and done.stderr == f"fxlens: {other}: not an ordinary file\n"


def test_only_what_is_new_fails_and_what_is_gone_is_reported(project: Path):
    net = project / "src" / "net.py"
    check = ("check", "src", "--quick", "--baseline", "known.json")
    missing = fxlens(*check, cwd=project)
    assert missing.returncode == 2 and "--write-baseline" in missing.stderr
    written = fxlens(*check, "--write-baseline", cwd=project)
    assert written.returncode == 0 and written.stderr.splitlines()[-1] == "fxlens: 2 findings in known.json"
    assert json.loads((project / "known.json").read_text())["findings"] == {
        "src/net.py": [
            {"code": "FX101", "model": "Gate", "source": "if x.sum() > 0:", "count": 1},
            {"code": "FX120", "model": "Gate", "source": 'label = "naïve 🙂"; n = len(x)', "count": 1},
        ]
    }
    # The lines have moved, one is indented in another way, and the class has another name.
    moved = "# moved\n\n" + BROKEN.replace("Gate", "Door").replace(
        "        if x.sum() > 0:", "        if x.sum()  >  0:"
    )
    net.write_text(moved, encoding="utf-8")
    known = fxlens(*check, cwd=project)
    assert (known.returncode, known.stderr) == (0, "") and "no findings" in known.stdout
    # One problem is fixed, and the line of the other is there a second time: one more than is known.
    again = "            x = x * n\n        if x.sum() > 0:\n            x = x + 1\n"
    net.write_text(BROKEN.replace("len(x)", "4").replace("            x = x * n\n", again), encoding="utf-8")
    done = fxlens(*check, "--format", "json", cwd=project)
    assert [each["code"] for each in json.loads(done.stdout)["files"][0]["findings"]] == ["FX101"]
    assert done.returncode == 1
    assert done.stderr == ('fxlens: src/net.py: FX120 in Gate no longer occurs: label = "naïve 🙂"; n = len(x)\n')


def test_what_was_not_judged_fails_whatever_rules_are_selected(project: Path, tmp_path: Path):
    (project / "syntax.py").write_text("class Net\n", encoding="utf-8")
    (project / "latin.py").write_bytes(b"name = '\xe9'\n")
    for name in ("syntax.py", "latin.py"):
        done = fxlens("check", name, "--select", "FX1,FX2", cwd=project)
        assert done.returncode == 1 and "FX308" in done.stdout, (done.stdout, done.stderr)
        assert fxlens("check", name, "--ignore", "FX308", cwd=project).returncode == 0
    fxlens("check", "src", "--quick", "--write-baseline", cwd=project)
    before = (project / "fxlens-baseline.json").read_text()
    for given in (("--select", "FX1"), ("--ignore", "FX3"), ("--write-baseline", "--select", "FX1")):
        done = fxlens("check", "src", "--python", str(tmp_path / "none"), *given, cwd=project)
        assert done.returncode == 2, (done.stdout, done.stderr)
    assert (project / "fxlens-baseline.json").read_text() == before


def test_a_baseline_holds_for_fixes_and_for_the_rules_that_are_not_selected(project: Path):
    net, known = project / "src" / "net.py", project / "fxlens-baseline.json"
    fxlens("check", "src", "--quick", "--write-baseline", cwd=project)
    before = known.read_text()
    assert fxlens("check", "src", "--quick", "--write-baseline", "--select", "FX2", cwd=project).returncode == 0
    assert known.read_text() == before
    assert fxlens("check", "src", "--format", "json", "--output", known.name, cwd=project).returncode == 2
    assert known.read_text() == before
    assert fxlens("check", "src", "--baseline", known.name, "--diff", cwd=project).stdout == ""
    assert fxlens("check", "src", "--baseline", known.name, "--fix", cwd=project).returncode == 0
    assert net.read_text(encoding="utf-8") == BROKEN
    assert fxlens("check", "src", "--diff", cwd=project).stdout != ""


def checked(path: Path, *lines: int, also: tuple[Finding, ...] = ()) -> Checked:
    """A file with a finding of FX101 on some of its lines."""
    found = [finding("FX101", "error", "", span(str(path), line), target="Gate") for line in lines]
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return Checked(str(path), text, empty_record(str(path)), [*found, *also])


def test_what_was_not_looked_for_or_could_not_be_run_is_not_gone(project: Path):
    net, other = project / "src" / "net.py", project / "src" / "other.py"
    other.write_text(BROKEN, encoding="utf-8")
    path = str(project / "known.json")
    baseline = Baseline(path)
    assert baseline.take([checked(net, 13), checked(other, 13, 14)]) == 3
    baseline.write()
    assert Baseline.read(path) == baseline
    assert Baseline.read(path).apply([checked(net)], lambda code: code != "FX101") == []
    unknown = finding("FX301", "error", "The file cannot be imported")
    assert Baseline.read(path).apply([checked(net, also=(unknown,))], lambda code: True) == []
    (gone,) = Baseline.read(path).apply([checked(net)], lambda code: True)
    assert gone == "src/net.py: FX101 in Gate no longer occurs: if x.sum() > 0:"
    # Only one of two is gone.
    (gone,) = Baseline.read(path).apply([checked(net, 13), checked(other, 14)], lambda code: True)
    assert gone.startswith("src/other.py: FX101 in Gate")
    # Entries of files that were not checked stay; those of files that are gone do not.
    assert baseline.take([checked(net)]) == 2
    other.unlink()
    (gone,) = Baseline.read(path).apply([checked(net, 13)], lambda code: True)
    assert gone.startswith("src/other.py: the file is gone")
    assert baseline.take([checked(net, 13)]) == 1


def test_what_is_no_baseline_is_said(project: Path):
    (project / "known.json").write_text("[]")
    with pytest.raises(CannotCheck, match="is not a baseline"):
        Baseline.read(str(project / "known.json"))


def test_a_missing_torch_is_never_known(project: Path):
    nowhere = ("--python", "/no/such/python")
    written = fxlens("check", "src", "--write-baseline", *nowhere, cwd=project)
    assert written.returncode == 2 and not (project / "fxlens-baseline.json").exists()


def test_statistics(project: Path):
    (project / "src" / "other.py").write_text(BROKEN.replace("len(x)", "4"), encoding="utf-8")
    done = fxlens("check", "src", "--quick", "--statistics", cwd=project)
    assert done.stdout == "2  FX101  Control flow on the values of a tensor\n1  FX120  len() of a traced value\n"
    assert done.returncode == 1
    counts = json.loads(fxlens("check", "src", "--quick", "--statistics", "--format", "json", cwd=project).stdout)
    assert [(each["code"], each["count"]) for each in counts] == [("FX101", 2), ("FX120", 1)]
    assert fxlens("check", "src", "--statistics", "--format", "sarif", cwd=project).returncode == 2


class Watching:
    """``fxlens check --watch`` as a process; until it is interrupted."""

    def __init__(self, folder: Path, *paths: str) -> None:
        command = [sys.executable, "-m", "fxlens", "check", *paths, "--quick", "--watch"]
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / ".cache")}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        # A shell starts what runs in the background with interrupts ignored.
        heard = functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(
            command, cwd=folder, text=True, env=environment, preexec_fn=heard, start_new_session=True, **pipes
        )
        self._alarm = threading.Timer(60, self.process.kill)
        self._alarm.start()

    def report(self) -> str:
        """What is printed until it waits again."""
        lines = []
        while not lines or "judged" not in lines[-1]:
            line = self.process.stdout.readline()
            assert line, self.process.communicate()
            lines.append(line)
        assert "waiting for changes" in self.process.stderr.readline()
        return "".join(lines)

    def end(self) -> int:
        os.killpg(self.process.pid, signal.SIGINT)  # as a terminal sends it
        assert "started again" not in self.process.communicate(timeout=60)[1]
        self._alarm.cancel()
        return self.process.returncode


def test_watch_reports_after_each_change_of_a_file_or_of_what_it_imports(project: Path):
    net = project / "src" / "net.py"
    helper = project / "src" / "helper.py"
    helper.write_text("def positive(x):\n    return x * 2\n")
    net.write_text("from helper import positive\n" + BROKEN.replace("x * n", "positive(x)"))
    watching = Watching(project, "src/net.py")
    try:
        assert "FX101" in watching.report()
        net.write_text(net.read_text().replace("if x.sum() > 0", "if True").replace("len(x)", "4"))
        assert "1 traced" in watching.report()
        helper.write_text("def positive(x):\n    return x if x.max() > 0 else -x\n")
        assert "FX102" in (said := watching.report()) or "FX101" in said
        (project / "src" / "fxlens.toml").write_text('ignore = ["FX1"]\n')
        assert "no findings" in watching.report()
    finally:
        status = watching.end()
    assert status == 130


def test_watch_follows_the_baseline(project: Path):
    known = project / "known.json"
    check = ("check", "src/net.py", "--quick", "--baseline", "known.json")
    assert fxlens(*check, "--write-baseline", cwd=project).returncode == 0
    accepted = known.read_text()
    watching = Watching(project, "src/net.py", "--baseline", "known.json")
    try:
        assert "no findings" in watching.report()
        known.write_text('{"version": 1, "findings": {}}')
        assert "FX101" in watching.report()
        known.write_text("<<<<<<< HEAD\n" + accepted)
        assert "is not a baseline" in watching.process.stderr.readline()
        assert "FX101" in watching.report()
        known.write_text(accepted)
        assert "no findings" in watching.report()
    finally:
        watching.end()


def test_watch_ends_where_the_code_itself_changes_what_it_reads(project: Path):
    net, log, other = (project / "src" / name for name in ("net.py", "log", "other.json"))
    other.write_text("3")
    own = (
        f"import torch\nopen({str(log)!r}, 'a').write('x')\ntorch.save(torch.rand(3), 'own.pt')\ntorch.load('own.pt')\n"
    )
    net.write_text(own + f"N = int(open({str(other)!r}).read())\n" + BROKEN.replace("if x.sum() > 0", "if N > 3"))
    watching = Watching(project, "src/net.py")
    try:
        said, before = watching.report(), 0
        while before != (now := log.stat().st_size):
            before = now
            time.sleep(3)
        assert "FX120" in said and now < 20
        other.write_text("4")
        while "own.pt" not in os.listdir(project) or log.stat().st_size == now:
            time.sleep(0.1)
    finally:
        watching.end()


def test_watch_knows_what_files_say_that_are_not_checked(project: Path):
    """As one that constructs a model, when what is checked is checked again."""
    (caller := project / "train.py").write_text("import torch\nfrom net import Net\n\nNet(1)(torch.ones(2, 4))\n")
    (net := project / "net.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self, size):\n        super().__init__()\n"
        "        self.size = size\n\n    def forward(self, x):\n"
        "        return x if self.size > 3 and x.sum() > 0 else -x\n"
    )
    watching = Watching(project, "net.py")
    try:
        assert "FX101" not in watching.report()
        caller.write_text(caller.read_text().replace("1", "5", 1))
        net.write_text(f"{net.read_text()}\n")
        assert "FX101" in watching.report()
    finally:
        watching.end()


def test_watch_checks_again_what_was_saved_while_it_was_checked(project: Path):
    """A helper whose import was unknown: neither the report nor the cache keeps its old result."""
    net, helper = project / "src" / "net.py", project / "src" / "helper.py"
    helper.write_text("def positive(x):\n    return x * 2\n")
    waits = "import time\nopen('begun', 'w').close()\ntime.sleep(1.5)\n"
    net.write_text("from helper import positive\n" + waits + BROKEN.replace("x * n", "positive(x)"))
    net.write_text(net.read_text().replace("if x.sum() > 0", "if True").replace("len(x)", "4"))
    watching = Watching(project, "src/net.py")
    try:
        while not (project / "begun").exists():
            time.sleep(0.05)
        helper.write_text("def positive(x):\n    return x if x.max() > 0 else -x\n")
        assert "1 traced" in watching.report()
        assert "FX101" in watching.report()
    finally:
        watching.end()
    done = fxlens("check", "src/net.py", "--quick", cwd=project)
    assert "FX101" in done.stdout


def test_what_a_watch_keeps_ends_where_something_shadows_an_import_or_is_installed(project: Path):
    """Neither its report nor the cache has the old result; the file has been kept by the third round."""
    packages = project / "env" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(project / "env")], check=True)
    (packages / "torch.pth").write_text("\n".join(each for each in sys.path if each.endswith("site-packages")))
    net = project / "src" / "net.py"
    (project / "near.py").write_text("WHICH = 0\n")
    guarded = "try:\n    from installed_later import WHICH\nexcept ImportError:\n    from near import WHICH\n"
    net.write_text(guarded + BROKEN.replace("if x.sum() > 0", "if WHICH and x.sum() > 0").replace("len(x)", "4"))
    python = ("--python", str(project / "env" / "bin" / "python"))
    watching = Watching(project, "src/net.py", *python)
    try:
        assert "1 traced" in watching.report()
        for each in ("# a\n", "# b\n"):
            time.sleep(1)
            net.write_text(net.read_text() + each)
            assert "1 traced" in watching.report()
        time.sleep(1)
        (project / "src" / "near.py").write_text("WHICH = 1\n")
        assert "FX101" in watching.report()
        (project / "src" / "near.py").unlink()  # alone: a second change could have a round, and a report, of its own
        assert "1 traced" in watching.report()
        time.sleep(1)
        net.write_text(net.read_text() + "# c\n")
        assert "1 traced" in watching.report()
        time.sleep(1)
        (packages / "installed_later-1.0.dist-info").mkdir()
        (packages / "installed_later.py").write_text("WHICH = 1\n")
        net.write_text(net.read_text() + "# d\n")
        assert "FX101" in watching.report()
    finally:
        watching.end()
    assert "FX101" in fxlens("check", "src/net.py", "--quick", *python, cwd=project).stdout


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_the_hook_of_pre_commit(project: Path, tmp_path_factory: pytest.TempPathFactory):
    """The repository's own hook, in the environment of the tests: to install it takes a network and a minute."""
    source = tmp_path_factory.mktemp("source")
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", source)
    (source / "fxlens").write_text(f'#!/bin/sh\nexec {" ".join(warm_fxlens())} "$@"\n')
    (source / "fxlens").chmod(0o755)
    git(source, "init", "-q")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "hooks")
    hook = {"id": "fxlens", "language": "system"}
    repository = {"repo": str(source), "rev": git(source, "rev-parse", "HEAD"), "hooks": [hook]}
    (project / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [repository]}))
    (project / "notes.txt").write_text("no Python")
    git(project, "init", "-q")
    git(project, "add", "-A")

    warm = str(Path(os.environ["VIRTUAL_ENV"], "bin", "python"))

    def commit() -> subprocess.CompletedProcess:
        paths = os.pathsep.join([str(source), os.environ["PATH"]])
        own = {"PATH": paths, "PRE_COMMIT_HOME": str(source / "home"), "FXLENS_PYTHON": warm}
        own["XDG_CACHE_HOME"] = str(source / "cache")
        command = [sys.executable, "-m", "pre_commit", "run"]
        return subprocess.run(
            command, cwd=project, capture_output=True, text=True, env={**os.environ, **own}, timeout=200
        )

    failed = commit()
    assert failed.returncode == 1 and "src/net.py:13:12: error FX101" in failed.stdout, failed
    (project / "src" / "net.py").write_text(BROKEN.replace("if x.sum() > 0", "if True").replace("len(x)", "4"))
    git(project, "add", "-A")
    passed = commit()
    assert passed.returncode == 0 and "Passed" in passed.stdout, passed


def test_the_environment_of_a_hook_is_not_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from fxlens.host import launch

    own, users = tmp_path / "own", tmp_path / "users"
    for each in (own, users):
        (each / "bin").mkdir(parents=True)
        (each / "bin" / "python").touch(0o755)
        (each / "bin" / "python3").touch(0o755)
    monkeypatch.setattr(sys, "prefix", str(own))
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("VIRTUAL_ENV", str(own))
    monkeypatch.setenv("PATH", os.pathsep.join([str(own / "bin"), str(users / "bin")]))
    monkeypatch.delenv("PRE_COMMIT", raising=False)
    assert launch.find_python("", None) == str(own / "bin" / "python")
    monkeypatch.setenv("PRE_COMMIT", "1")
    assert launch.find_python("", None) == str(users / "bin" / "python3")


def test_what_init_finds_nothing_for_is_said(project: Path):
    (project / "lost.py").write_text(
        BROKEN.replace("def forward", "def __init__(self):\n        0 / 0\n\n    def forward")
    )
    done = fxlens("init", ".", cwd=project)
    assert done.returncode == 0 and done.stderr.splitlines()[-1].endswith("1 without: 1 cannot be constructed"), done
    done = fxlens("init", ".", "--python", "nowhere/python", cwd=project)
    assert (done.returncode, done.stdout) == (2, "[tool.fxlens.targets]\n")
    assert "nowhere/python" in done.stderr and "--python PATH names the interpreter" in done.stderr


ENDLESS = """from torch import nn


class Deep(nn.Module):
    def __init__(self, width):
        super().__init__()

    def forward(self, x):
        return self.forward(x)


class Plain(nn.Module):
    def forward(self, x):
        return x
"""


def test_init_counts_each_class_once(tmp_path: Path):
    (tmp_path / "net.py").write_text(ENDLESS)
    (tmp_path / "use.py").write_text("from net import Deep\nDeep(4)\n")
    done = fxlens("init", ".", cwd=tmp_path)
    assert '"net.py::Deep" = "Deep(4)"' in done.stdout
    assert done.stderr.splitlines()[-1] == "fxlens: 1 entry for 2 classes; 1 needs none"


def test_the_steps_of_the_github_action(project: Path):
    """The commands of ``action.yml`` as a runner runs them, with its inputs filled in."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    given = {name: each["default"] for name, each in action["inputs"].items()}
    given |= {"paths": "src\n", "arguments": "--quick\n--ignore FX120\n", "sarif": "found.sarif"}
    given["python"] = warm_fxlens()[0]
    steps = {step.get("name", step.get("uses")): step for step in action["runs"]["steps"]}
    for step in steps.values():
        used = re.findall(r"inputs\.([\w-]+)", str(step))
        assert set(used) <= given.keys() and (step.get("shell") == "bash" or "run" not in step)
    assert "pip install" in steps["Install FX Lens"]["run"] and "$GITHUB_ACTION_PATH" in steps["Install FX Lens"]["run"]
    check = steps["Check"]
    environment = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: given[found[1]], value)
        for name, value in check["env"].items()
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", check["run"]],
        cwd=project,
        capture_output=True,
        text=True,
        env={**os.environ, **environment, "XDG_CACHE_HOME": str(project / ".cache")},
        timeout=200,
    )
    assert done.returncode == 1, done
    (annotation,) = done.stdout.splitlines()
    assert annotation.startswith("::error file=src/net.py,line=13,endLine=13,col=12,endColumn=23,title=FX101::")
    (result,) = json.loads((project / "found.sarif").read_text())["runs"][0]["results"]
    assert result["ruleId"] == "FX101"
    # The restored folder is the one that the cache is in.
    (cached,) = [step for name, step in steps.items() if name.startswith("actions/cache@")]
    assert cached["with"]["path"] == "~/.cache/fxlens" and os.listdir(project / ".cache") == ["fxlens"]
