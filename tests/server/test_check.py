"""``fxlens check`` as people run it: the real command, real files, its output and exit status."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from check_command import BROKEN, fxlens, waits_for

CLEAN = """import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Outer(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.inner = Inner(width)

    def forward(self, x):
        return self.inner(x) + 1


class Needs(nn.Module):
    def __init__(self, stem, depth):
        super().__init__()
        self.depth = len(open(stem + '.nowhere').read()) + depth

    def forward(self, x):
        return x
"""


DEVICE = """import torch
from torch import nn


# fxlens: Placed() <- torch.randn(2, 4)
class Placed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        if self.scale.device.type != "cpu":
            raise ValueError("not here")
        if x.device != self.weight.device:
            raise ValueError("on another device")
        return x * self.weight * self.scale
"""


# What reads numbers of the model's own tensors: torch.fx traces each of these.
READS = [
    "x * float(self.t)", "x * int(self.n)", "x * sum(range(self.n))", "x * round(float(self.t))",
    "x * float(np.asarray(self.t))", "x * len(f'{float(self.t):.1f}')", "x * [1, 2, 3][self.n]",
    "x * (2 if self.t > 1 else 1)", "torch.zeros(self.n, 4) + x", "x * len(self.v.nonzero())",
    "x * complex(self.t).real", "x * math.sqrt(self.t)", "x * self.t.item()",
    "(self.l(x).sum().backward(), self.l.weight.grad * 1)[1]",
]  # fmt: skip
READING = "import math\nimport numpy as np\nimport torch\nfrom torch import nn\n" + "".join(
    f"""

# fxlens: Reads{number}() <- torch.randn(2, 4)
class Reads{number}(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("t", torch.tensor(2.0))
        self.register_buffer("v", torch.ones(3))
        self.n = torch.tensor(2)
        self.l = nn.Linear(4, 4)

    def forward(self, x):
        return {expression}
"""
    for number, expression in enumerate(READS)
)


# What raises where anybody asks it something.
OBJECTS = """
import torch
from torch import nn


class Dict(dict):
    __getattr__ = dict.__getitem__


class Asked:
    scale = 2.0

    def __eq__(self, other):
        raise RuntimeError("no")


DICT, ASKED = Dict(width=4), Asked()


class Net(nn.Module):
    dict = DICT

    def __init__(self, config):
        super().__init__()
        self.config, self.asked = config, ASKED
        self.layer = nn.Linear(config.width, self.dict.width)

    def forward(self, x):
        return self.layer(x) * self.config.width * DICT.width * self.asked.scale * ASKED.scale


if __name__ == "__main__":
    Net(DICT)(torch.randn(2, 4))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "broken.py").write_text(BROKEN, encoding="utf-8")
    (folder / "clean.py").write_text(CLEAN)
    (folder / "device.py").write_text(DEVICE)
    (folder / "reading.py").write_text(READING)
    (folder / "objects.py").write_text(OBJECTS)
    (folder / "nothing.py").write_text("raise SystemExit('never executed: it mentions no model')\n")
    (folder / "half.py").write_text("class Net(:\n")
    return folder


@pytest.fixture(scope="module")
def report(project: Path) -> dict:
    done = fxlens("check", ".", "--format", "json", cwd=project)
    assert done.returncode == 1, done.stderr
    return {Path(file["path"]).name: file for file in json.loads(done.stdout)["files"]}


def test_json_positions_are_utf16_from_zero(report: dict):
    found = {each["code"]: each for each in report["broken.py"]["findings"]}
    assert set(found) == {"FX101", "FX120"}
    line = BROKEN.splitlines()[11]
    start = len(line[: line.index("len(x)")].encode("utf-16-le")) // 2
    assert found["FX120"]["range"] == {
        "start": {"line": 11, "character": start},
        "end": {"line": 11, "character": start + 6},
    }
    assert found["FX101"]["range"]["start"] == {"line": 12, "character": 11}
    assert found["FX101"]["severity"] == "error" and found["FX101"]["target"] == "Gate"
    assert any("symbolically traced variables" in each["message"] for each in found["FX101"]["related"])


def test_json_fixes_are_proven(report: dict):
    found = {each["code"]: each for each in report["broken.py"]["findings"]}
    titles = {fix["title"]: fix["preferred"] for fix in found["FX101"]["fixes"]}
    assert any("torch.fx.wrap" in title and preferred for title, preferred in titles.items())


def test_json_targets_say_what_became_of_each_model(report: dict):
    assert report["broken.py"]["targets"] == [
        {
            "name": "Gate",
            "line": 5,
            "status": "partial",
            "nodes": report["broken.py"]["targets"][0]["nodes"],
            "reason": report["broken.py"]["targets"][0]["reason"],
            "role": "meant",
            "why": "its construction is written down",
            "construct": {"text": "Gate(4)", "source": "comment", "line": 5, "file": None},
            "inputs": {"text": "torch.randn(2, 4)", "source": "comment", "line": 5, "file": None},
        }
    ]
    assert report["broken.py"]["targets"][0]["nodes"] > 3
    clean = {target["name"]: target for target in report["clean.py"]["targets"]}
    assert clean["Outer"]["status"] == "traced"
    assert clean["Inner"]["status"] == "traced" and clean["Inner"]["construct"]["text"] == "Inner(4)"
    assert clean["Needs"]["status"] == "skipped"


def test_what_cannot_be_constructed_is_one_hint_that_says_what_to_write(report: dict):
    (hint,) = report["clean.py"]["findings"]
    assert (hint["code"], hint["severity"], hint["range"]["start"]["line"]) == ("FX302", "hint", 22)
    assert "# fxlens: Needs(stem, depth) <-" in hint["message"]


def test_that_models_are_made_without_memory_answers_no_question(report: dict):
    """A condition on the device is decided as where the model runs, not as on the meta device."""
    (finding,) = report["device.py"]["findings"]
    assert finding["code"] == "FX102" and "is False on the example inputs" in finding["message"]


def test_numbers_of_the_models_own_tensors_are_there(report: dict):
    """Those of buffers are constants of the graph, which is information; nothing is missing for the trace."""
    assert {(each["code"], each["severity"]) for each in report["reading.py"]["findings"]} == {("FX241", "info")}
    assert {each["status"] for each in report["reading.py"]["targets"]} == {"traced"}


def test_objects_that_raise_whatever_they_are_asked_are_no_finding(report: dict):
    assert report["objects.py"]["findings"] == []
    assert [each["status"] for each in report["objects.py"]["targets"]] == ["traced"]


def test_a_file_without_models_is_not_executed_and_a_broken_one_is_reported(report: dict):
    assert report["nothing.py"] == {"path": "./nothing.py", "targets": [], "findings": []}
    (finding,) = report["half.py"]["findings"]
    assert finding["code"] == "FX308" and finding["range"]["start"]["line"] == 0


def test_text_shows_the_line_and_carets_under_the_expression(project: Path):
    done = fxlens("check", "broken.py", "--quick", cwd=project)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    column = BROKEN.splitlines()[11].index("len(x)") + 1
    at = next(number for number, line in enumerate(lines) if line.startswith(f"broken.py:12:{column}: error FX120"))
    source, carets = lines[at + 1], lines[at + 2]
    assert source == '   12 |         label = "naïve 🙂"; n = len(x)'
    # The face is two columns wide on a terminal.
    assert carets == "      | " + " " * (source.index("len(x)") - 8 + 1) + "^^^^^^"
    assert lines[-2:] == ["1 file, 1 model: 1 partial; 2 errors", "1 of 1 class judged"]
    assert "\x1b" not in done.stdout


def test_color_when_asked(project: Path):
    assert "\x1b[" in fxlens("check", "broken.py", "--quick", "--color", "always", cwd=project, TERM="xterm").stdout


def test_exit_status(project: Path):
    assert fxlens("check", "nothing.py", cwd=project).returncode == 0
    assert fxlens("check", "missing.py", cwd=project).returncode == 2
    done = fxlens("check", "clean.py", "--python", "/no/such/python", cwd=project)
    assert done.returncode == 2 and "cannot be started" in done.stdout
    assert "fxlens: --python PATH names the interpreter that has torch" in done.stderr


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--write-baseline", "my.json"], "unexpected arguments: my.json"),
        (["--slect", "FX1"], "unexpected arguments: --slect FX1"),
        (["--select", "FX1,fx2"], "argument --select: no rule code begins with 'fx2'"),
        (["--ignore", "FX9"], "argument --ignore: no rule code begins with 'FX9'"),
        (["--jobs", "many"], "argument --jobs: must be a whole number above 0, and at most 10,000,000, not 'many'"),
    ],
)
def test_a_wrong_argument_is_one_sentence(project: Path, wrong: list[str], said: str):
    """A code that no rule has would otherwise pass for a file without findings."""
    done = fxlens("check", "broken.py", *wrong, cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"fxlens check: {said}; see fxlens check --help\n"


def test_a_code_of_no_rule_in_the_configuration_is_said(tmp_path: Path):
    (tmp_path / "fxlens.toml").write_text('select = ["FX9", "FX1"]\nignore = ["FX120"]\n[severity]\nfx2 = "off"\n')
    for name in ("net.py", "other.py"):
        (tmp_path / name).write_text(BROKEN, encoding="utf-8")
    done = fxlens("check", "net.py", "other.py", "--quick", cwd=tmp_path)
    for said in ("select: no rule code begins with FX9", "severity: no rule code begins with fx2"):
        assert done.stderr.count(f"fxlens.toml: {said}\n") == 1
    assert done.returncode == 1 and "FX101" in done.stdout


def test_a_configuration_that_cannot_be_read_is_said(tmp_path: Path):
    (tmp_path / "pyproject.toml").write_text('[tool.fxlens]\ntracer = 3\nscope = "some"\n')
    (tmp_path / "net.py").write_text(BROKEN, encoding="utf-8")
    done = fxlens("check", "net.py", "--quick", cwd=tmp_path)
    assert "pyproject.toml: tracer must name a class as package.module:Class\n" in done.stderr
    assert "pyproject.toml: scope must be one of " in done.stderr
    (tmp_path / "pyproject.toml").write_text("[tool.fxlens\n")
    assert f"fxlens: {tmp_path}/pyproject.toml: " in fxlens("check", "net.py", "--quick", cwd=tmp_path).stderr


def test_select_ignore_and_comments(project: Path, tmp_path: Path):
    done = fxlens("check", "broken.py", "--quick", "--select", "FX12", "--format", "json", cwd=project)
    assert [each["code"] for each in json.loads(done.stdout)["files"][0]["findings"]] == ["FX120"]
    done = fxlens("check", "broken.py", "--quick", "--ignore", "FX1", "--format", "json", cwd=project)
    assert done.returncode == 0 and json.loads(done.stdout)["files"][0]["findings"] == []
    silenced = BROKEN.replace("> 0:", "> 0:  # fxlens: ignore[FX101]").replace("len(x)", "len(x)  # fxlens: ignore")
    (tmp_path / "silenced.py").write_text(silenced, encoding="utf-8")
    done = fxlens("check", "silenced.py", "--quick", "--format", "json", cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)["files"][0]["findings"] == []


def test_project_configuration(tmp_path: Path):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.fxlens]\nignore = ["FX120"]\n[tool.fxlens.severity]\nFX101 = "warning"\n'
        '[tool.fxlens.targets]\n"net.py::Gate" = "Gate(6) <- torch.randn(3, 6)"\n'
    )
    (tmp_path / "net.py").write_text(BROKEN.replace("# fxlens: Gate(4) <- torch.randn(2, 4)\n", ""), encoding="utf-8")
    done = fxlens("check", "net.py", "--quick", "--format", "json", cwd=tmp_path)
    (finding,) = json.loads(done.stdout)["files"][0]["findings"]
    assert (finding["code"], finding["severity"], done.returncode) == ("FX101", "warning", 0)


def test_sarif_and_github(project: Path):
    done = fxlens("check", "broken.py", "--quick", "--format", "sarif", cwd=project)
    results = json.loads(done.stdout)["runs"][0]["results"]
    assert [(each["ruleId"], each["level"]) for each in results] == [("FX120", "error"), ("FX101", "error")]
    region = results[1]["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 13, "startColumn": 12, "endLine": 13, "endColumn": 23}
    known = json.loads(done.stdout)["runs"][0]["tool"]["driver"]["rules"]
    titles = {rule["id"]: rule["shortDescription"]["text"] for rule in known}
    assert titles == {"FX101": "Control flow on the values of a tensor", "FX120": "len() of a traced value"}
    # A log goes to other machines: it brings the pages along, and no address on this one.
    assert all("## Works" in rule["help"]["markdown"] for rule in known) and "file://" not in done.stdout
    done = fxlens("check", "broken.py", "--quick", "--format", "github", cwd=project)
    assert "::error file=broken.py,line=13,endLine=13,col=12,endColumn=23,title=FX101::" in done.stdout


def test_github_and_sarif_name_files_as_seen_from_the_repository(project: Path):
    """Where GitHub looks for them, however the command was called."""
    (project / ".git").mkdir()
    (project / "pkg").mkdir()
    shutil.copy(project / "broken.py", project / "pkg" / "net one.py")
    for folder, path in [(project / "pkg", "."), (project / "pkg", "./net one.py"), (project, "./pkg")]:
        found = fxlens("check", path, "--quick", "--format", "github", cwd=folder).stdout
        assert "::error file=pkg/net one.py,line=13," in found
        found = json.loads(fxlens("check", path, "--quick", "--format", "sarif", cwd=folder).stdout)
        places = [each["locations"][0]["physicalLocation"] for each in found["runs"][0]["results"]]
        assert {each["artifactLocation"]["uri"] for each in places} == {"pkg/net%20one.py"}


def test_graph_and_code(project: Path):
    table = fxlens("graph", "clean.py::Outer", cwd=project).stdout.splitlines()
    assert table[0].split() == ["op", "name", "target", "args", "shape", "line"]
    assert any(line.startswith("call_module") and "inner.linear" in line for line in table)
    code = fxlens("code", "clean.py::Outer", cwd=project)
    assert code.returncode == 0 and code.stdout.startswith("def forward(self, x):")
    missing = fxlens("code", "clean.py::Nobody", cwd=project)
    assert missing.returncode == 2 and "Outer" in missing.stderr


def test_a_file_that_cannot_be_checked_is_an_error(tmp_path: Path):
    """Each with the results of others, and always an exit status that reports it."""
    (tmp_path / "net.py").write_text(BROKEN)
    (tmp_path / "deep.ipynb").write_text('{"a":' * 5000)
    done = fxlens("check", "net.py", "deep.ipynb", "--quick", "--format", "json", cwd=tmp_path)
    net, deep = json.loads(done.stdout)["files"]
    assert net["targets"] and net["findings"]
    assert "nested too deeply" in deep["findings"][0]["message"]
    assert done.returncode == 1 and "Traceback" not in done.stderr


def test_an_unknown_width_of_the_terminal_hides_nothing(tmp_path: Path):
    (tmp_path / "net.py").write_text(BROKEN)
    assert "FX101" in fxlens("check", "net.py", "--quick", cwd=tmp_path, COLUMNS="0").stdout


def test_ray_at_an_address_where_nothing_listens(tmp_path: Path):
    (tmp_path / "net.py").write_text(BROKEN, encoding="utf-8")
    done = fxlens("check", "net.py", "--ray", "127.0.0.1:1", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("fxlens: no Ray cluster at 127.0.0.1:1: "), done.stderr


def test_a_model_of_another_file_makes_the_file_one_of_models(tmp_path: Path):
    (tmp_path / "base.py").write_text("from torch import nn\n\n\nclass Base(nn.Module):\n    pass\n", encoding="utf-8")
    (tmp_path / "sub.py").write_text(OF_ANOTHER, encoding="utf-8")
    done = fxlens("check", "sub.py", "--quick", "--all", cwd=tmp_path)
    assert done.returncode == 1 and "FX101" in done.stdout, (done.stdout, done.stderr)


OF_ANOTHER = """\
from base import Base


class Sub(Base):
    def forward(self, x):
        return x if x.sum() > 0 else -x
"""


@pytest.mark.timeout(900)
def test_ray_gives_the_same_and_a_lost_worker_loses_nothing(tmp_path: Path):
    import psutil

    for number in range(6):
        (tmp_path / f"m{number}.py").write_text(BROKEN.replace("x * n", f"x * n + {number}"), encoding="utf-8")
    check = ["check", ".", "--quick", "--no-cache", "--format", "json"]
    local = fxlens(*check, cwd=tmp_path)
    command = [sys.executable, "-m", "fxlens", *check, "--jobs", "2", "--ray"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    killed = None
    until = time.monotonic() + 250
    while killed is None and process.poll() is None and time.monotonic() < until:
        for child in psutil.Process(process.pid).children(recursive=True):
            try:
                if "ray::check_here" in " ".join(child.cmdline()):
                    child.kill()
                    killed = child.pid
                    break
            except psutil.NoSuchProcess:
                continue
        time.sleep(0.05)
    out, error = process.communicate(timeout=300)
    assert killed is not None, error
    assert json.loads(out) == json.loads(local.stdout)
    assert process.returncode == local.returncode == 1


STAYS = """import torch
from torch import nn


# fxlens: Net() <- torch.randn(4, 8)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        x = torch.relu(self.linear(x)) + 1
        x = torch.logcumsumexp(x, 1)
        return torch.relu(x).sum(1) * 2
"""


def test_lowering_is_judged_where_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(STAYS)

    def codes(*more: str) -> tuple[int, list[tuple[str, str]]]:
        done = fxlens("check", "net.py", "--format", "json", "--quick", *more, cwd=tmp_path)
        assert done.returncode in (0, 1), done.stderr
        (file,) = json.loads(done.stdout)["files"]
        return done.returncode, [(each["code"], each["severity"]) for each in file["findings"]]

    assert codes() == (0, [])
    assert codes("--lowering") == (0, [("FX401", "hint")])
    assert codes("--select", "FX401") == (0, [("FX401", "hint")])
    (tmp_path / "fxlens.toml").write_text('[severity]\nFX4 = "error"\n')
    assert codes() == (1, [("FX401", "error")])
    assert codes() == (1, [("FX401", "error")]), "from the cache"


def test_an_import_that_fails_in_another_file_names_its_line(tmp_path: Path):
    package = tmp_path / "kit"
    package.mkdir()
    (package / "__init__.py").write_text("from .first import helper\n")
    (package / "first.py").write_text("import torch\nhelper = {}['nothing']\n")
    (package / "second.py").write_text(CLEAN)
    (tmp_path / "user.py").write_text(f"from kit.first import helper\n{CLEAN}")
    result = fxlens("check", "kit/second.py", "user.py", "--format", "json", cwd=tmp_path)
    second, user = (each["findings"] for each in json.loads(result.stdout)["files"])
    assert sorted(each["code"] for each in second) == ["FX302", "FX311"], "judged without the line that fails"
    assert sorted(each["code"] for each in user) == ["FX302", "FX311"]
    (failed,) = (each for each in user if each["code"] == "FX311")
    assert failed["range"]["start"]["line"] == 0 and failed["severity"] == "warning"
    assert failed["message"].startswith("The statement at line 2 of first.py was left out, since it raises KeyError")
    (place,) = failed["related"]
    assert place["path"].endswith("first.py") and place["range"]["start"]["line"] == 1
    (tmp_path / "other.py").write_text((tmp_path / "user.py").read_text())
    said = fxlens("check", "user.py", "other.py", cwd=tmp_path).stdout.splitlines()
    assert sum("FX311" in line and "line 2 of first.py was left out" in line for line in said) == 2
    assert any(line.startswith("FX311 in 1 more file: The statement at line 2 of first.py") for line in said)


TALKATIVE = "import sys; from fxlens import cli; from fxlens.commands import progress; progress._EVERY = 0.0; "
TALKATIVE += "sys.exit(cli.main())"


def test_results_are_written_while_later_files_are_still_checked(tmp_path: Path):
    """A reader of the output sees each file as soon as it is done, and how many there are."""
    (tmp_path / "a.py").write_text(BROKEN, encoding="utf-8")
    go = tmp_path / "go"
    (tmp_path / "b.py").write_text(waits_for(go) + "from torch import nn\n\n\nclass B(nn.Module):\n    pass\n")
    command = [sys.executable, "-c", TALKATIVE, "check", "a.py", "b.py", "--quick", "--jobs", "1", "--no-cache"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith("a.py:12:32: error FX120")
        go.touch()
        rest, said = process.stdout.read(), process.stderr.read()
    assert "2 files" in rest and "fxlens: 2 of 2 files checked" in said and "FX304" not in rest
