"""``[tool.fxlens] tracer``: a project's own tracer on the command line and in the server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from fxlens.config.project import Project
from lsp_client import Client
from warm_python import warm_fxlens

TRACER = """import torch.fx
from torch import nn


class LayerTracer(torch.fx.Tracer):
    def __init__(self, depth=2):
        super().__init__()
        self.depth = depth

    def is_leaf_module(self, m, module_qualified_name):
        return module_qualified_name.count(".") + 1 >= self.depth
"""
MODELS = """import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return self.linear(x)


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return torch.relu(self.block(x))
"""
SHALLOW = '[tool.fxlens]\ntracer = "tools.tracing:LayerTracer"\ntracer-arguments = { depth = 1 }\n'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "pyproject.toml").write_text(SHALLOW)
    (folder / "models").mkdir()
    (folder / "models" / "net.py").write_text(MODELS)
    (folder / "tools").mkdir()
    (folder / "tools" / "tracing.py").write_text(TRACER)
    return folder


def checked(folder: Path, *more: str) -> dict:
    command = warm_fxlens("check", "models", "--format", "json", "--jobs", "1", *more)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)["files"][0]


def test_the_class_decides_and_a_change_of_it_counts(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shallow = checked(project, "--quick")
    assert {each["name"]: each["status"] for each in shallow["targets"]} == {"Block": "partial", "Net": "traced"}
    assert [each["nodes"] for each in shallow["targets"] if each["name"] == "Net"] == [4]
    # A kept record is one of this tracer's text.
    (project / "tools" / "tracing.py").write_text(TRACER.replace("+ 1 >=", ">="))
    deep = checked(project, "--quick")
    assert {each["name"]: each["status"] for each in deep["targets"]} == {"Block": "partial", "Net": "partial"}


def test_one_that_cannot_be_used_is_reported_and_torch_fx_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.py").write_text(MODELS)
    (tmp_path / "fxlens.toml").write_text('tracer = "tools.tracing:LayerTracer"\n')
    found = checked(tmp_path)
    (unusable,) = [each for each in found["findings"] if each["code"] == "FX312"]
    assert unusable["severity"] == "error" and "No module named 'tools'" in unusable["message"]
    (branch,) = [each for each in found["findings"] if each["code"] == "FX101"]
    assert branch["severity"] == "error" and any(fix["preferred"] for fix in branch["fixes"])


def fxlens(folder: Path, command: str, *arguments: str) -> dict:
    """What a command on one model says, as JSON."""
    given = warm_fxlens(command, "models/net.py::Net", "--format", "json", *arguments)
    done = subprocess.run(given, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_commands_on_one_model_begin_with_its_graph(tmp_path: Path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.py").write_text(MODELS.replace("x.sum() > 0", "x.shape[0] > 1"))
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "tracing.py").write_text(TRACER)
    for configuration in ('[tool.fxlens]\nleaf-modules = ["Block"]\n', SHALLOW):
        (tmp_path / "pyproject.toml").write_text(configuration)
        cost = fxlens(tmp_path, "estimate")
        assert [node["name"] for node in cost["nodes"]] == ["block", "relu"]
        assert cost["totals"]["flops"] == 2 * 2 * 4 * 4, "what a leaf computes counts"
        hints = checked(tmp_path, "--quick", "--lowering", "--no-cache")["findings"]
        lines = [(each["target"], each["range"]["start"]["line"]) for each in hints if each["code"] == "FX401"]
        assert lines == [("Net", 22)]
    lowered = fxlens(tmp_path, "lower", "--engine", "onnxruntime")
    assert [layer["node"] for layer in lowered["layers"]] == ["block", "relu"]
    assert [layer["engine"] for layer in lowered["layers"]] == [False, False], "one operator is no part of its own"
    assert lowered["layers"][0]["span"][1] == 23 and lowered["max_abs_error"] == 0
    timed = fxlens(tmp_path, "bench", "--variants", "generated", "fused", "--rounds", "3", "--seconds", "1")
    rows = {row["variant"]: row["problem"] for row in timed["rows"]}
    assert rows == {"eager": None, "generated": None, "fused": "changes nothing in this model"}
    (tmp_path / "models" / "net.py").write_text(MODELS)
    refused = subprocess.run(warm_fxlens("estimate", "models/net.py"), cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode == 2 and "Block: the result depends on the data" in refused.stderr
    (tmp_path / "pyproject.toml").write_text(SHALLOW.replace("LayerTracer", "Nobody"))
    refused = subprocess.run(warm_fxlens("lower", "models/net.py"), cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode == 2 and "cannot be traced by the project's tracer tools.tracing:Nobody" in refused.stderr


def test_the_editor_follows_the_configuration_and_the_class(tmp_path: Path):
    with Client(tmp_path) as client:
        follow(client, tmp_path)


def follow(client: Client, workspace: Path) -> None:
    def changed(path: Path, text: str) -> None:
        path.write_text(text)
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": 2}]})

    def codes() -> set[str]:
        message = client.wait(
            lambda each: (
                each.get("method") == "textDocument/publishDiagnostics"
                and each["params"]["uri"] == uri
                and {each["code"] for each in each["params"]["diagnostics"]} != last
            )
        )
        return {each["code"] for each in message["params"]["diagnostics"]}

    tracing = workspace / "own_tracing.py"
    tracing.write_text(TRACER)
    (workspace / "fxlens.toml").write_text('tracer = "own_tracing:LayerTracer"\n')
    text = MODELS.replace("class Block", "# fxlens: skip\nclass Block")
    uri = client.open(workspace / "net.py", text)
    assert {each["code"] for each in client.diagnostics(uri)} == {"FX101"}
    last = {"FX101"}
    changed(tracing, TRACER.replace("depth=2", "depth=0x1"))
    assert codes() == set()
    nodes = client.request("fxlens/graph", {"uri": uri, "target": "Net"})["view"]["nodes"]
    assert [node["name"] for node in nodes] == ["x", "block", "relu", "output"]
    assert nodes[0]["value"] == "f32[2, 4]"
    changed_model = client.request("fxlens/pass", {"uri": uri, "target": "Net", "passes": ["dead-code"]})
    assert "self.block(x)" in changed_model["before"] and changed_model["nodes"] == [4, 4]
    # An edit within a function is traced by it too.
    assert client.edit(uri, text.replace("torch.relu(self", "torch.tanh(self")) == []
    nodes = client.request("fxlens/graph", {"uri": uri, "target": "Net"})["view"]["nodes"]
    assert [node["name"] for node in nodes] == ["x", "block", "tanh", "output"]
    last = set()
    changed(workspace / "fxlens.toml", 'tracer = "own_tracing:LayerTracer"\ntracer-arguments = { depth = 2 }\n')
    assert codes() == {"FX101"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tracer = 3", "tracer must name a class as package.module:Class"),
        ('tracer = "os.system(1)"', "tracer must name a class as package.module:Class"),
        ('tracer = "a:B"\ntracer-arguments = { at = 2026-01-01 }', "tracer-arguments must be a table"),
        ('tracer = "a:B"\ntracer-arguments = [1]', "tracer-arguments must be a table"),
    ],
)
def test_configurations_that_say_nothing_sensible_are_refused(tmp_path: Path, text: str, problem: str):
    (tmp_path / "fxlens.toml").write_text(text)
    project = Project.read(str(tmp_path))
    assert project.tracer is None and problem in project.problems[0]
