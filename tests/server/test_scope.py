"""Severity by role: errors in classes that are meant to be captured, warnings in root models, hints elsewhere."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fxlens import overlays, record
from fxlens.sources import targets
from fxlens.sources.roles import Said
from lsp_client import CAPABILITIES, Client
from warm_python import warm_fxlens

MODELS = """import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        if x.sum() > 0:
            return x
        return self.linear(x)


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = Gate(width)

    def forward(self, x):
        return self.gate(x) * len(x)


class Exported(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        if x.mean() > 0:
            x = x * 2
        return self.linear(x)


class Agreement(nn.Module):
    def forward(self, outputs, targets):
        if outputs.mean() > 1:
            outputs = outputs * 2
        return outputs - targets
"""
TRAIN = """import torch
from models import Agreement, Exported, Net

net = Net(8)
criterion = Agreement()
criterion(net(torch.randn(2, 8)), torch.randn(2, 8))
torch.onnx.export(Exported(4), torch.randn(1, 4), "exported.onnx")
"""
GATE, EXPORTED, AGREEMENT = 10, 30, 37  # lines from 0 of the conditions


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def check(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = warm_fxlens("check", ".", "--quick", "--jobs", "1", *arguments)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def grades(answer: str) -> dict[int, str]:
    """Severities by line, from 0."""
    files = json.loads(answer)["files"]
    return {each["range"]["start"]["line"]: each["severity"] for file in files for each in file["findings"]}


def test_errors_are_in_what_is_captured_warnings_in_roots_hints_elsewhere(project: Path):
    done = check(project, "--format", "json")
    found = grades(done.stdout)
    assert (found[GATE], found[EXPORTED], found[AGREEMENT]) == ("warning", "error", "hint"), found
    assert done.returncode == 1
    (models,) = [file for file in json.loads(done.stdout)["files"] if file["path"].endswith("models.py")]
    parts = {each["name"]: (each["role"], each["why"]) for each in models["targets"]}
    assert parts == {
        "Gate": ("other", "part of Net"),
        "Net": ("root", "scripts construct it"),
        "Exported": ("meant", "torch.onnx at train.py:7"),
        "Agreement": ("aside", "called at train.py:6"),
    }
    whose = {each["range"]["start"]["line"]: each["target"] for each in models["findings"]}
    assert whose[GATE] == "Net", "the gate matters to the model that it is a part of"


def test_what_changes_data_before_a_model_sees_it_stands_beside_the_models(tmp_path: Path):
    (tmp_path / "augment.py").write_text(
        "from torch import nn\n\n\nclass Louder(nn.Module):\n    def forward(self, x):\n"
        "        return x * 2 if x.mean() > 0 else x\n"
    )
    (tmp_path / "train.py").write_text("from torch import nn\nimport augment\n\nlouder = [augment.Louder()]\n")
    (found,) = json.loads(check(tmp_path, "--format", "json").stdout)["files"][0]["targets"]
    assert (found["role"], found["why"]) == ("aside", "by the name of its file")


def test_models_are_not_taken_for_losses_by_parts_of_words_or_by_the_names_of_their_inputs(tmp_path: Path):
    layer = "    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(4, 4)\n\n"
    forwards = {
        "GeometricEncoder": "x, mask",
        "SymmetricNet": "x, mask",
        "Generator": "z",
        "Discriminator": "x, labels",
        "Decoder": "tgt, memory",
        "DiceLoss": "x, mask",
        "nms_head": "x, mask",
    }
    text = "import torch\nfrom torch import nn\n"
    for name, parameters in forwards.items():
        first = parameters.partition(",")[0]
        text += f"\n\nclass {name}(nn.Module):\n{layer}    def forward(self, {parameters}):\n"
        text += f"        return self.fc({first})\n"
    (tmp_path / "models.py").write_text(text)
    (tmp_path / "train.py").write_text(
        "import torch\nfrom models import Decoder, Discriminator, Generator\n\n"
        "G, D, dec = Generator(), Discriminator(), Decoder()\n"
        "labels, tgt = torch.ones(2, 4), torch.ones(2, 4)\nfake = G(torch.randn(2, 4))\n"
        "score = D(fake, labels)\nout = dec(tgt, fake)\n"
    )
    (file,) = [each for each in json.loads(check(tmp_path, "--format", "json").stdout)["files"] if each["targets"]]
    aside = {each["name"] for each in file["targets"] if each["role"] == "aside"}
    assert aside == {"DiceLoss", "nms_head"}


def test_the_scope_all_is_given_by_an_option_or_by_the_project(project: Path):
    assert set(grades(check(project, "--format", "json", "--all").stdout).values()) == {"error"}
    (project / "fxlens.toml").write_text('scope = "all"\n')
    assert set(grades(check(project, "--format", "json").stdout).values()) == {"error"}


def test_fixes_of_what_is_not_shown_are_proven_only_if_asked_for(project: Path):
    command = warm_fxlens("check", "models.py", "--format", "json", "--no-cache")

    def proven(*more: str) -> dict[int, bool]:
        done = subprocess.run([*command, *more], cwd=project, capture_output=True, text=True, timeout=300)
        (file,) = json.loads(done.stdout)["files"]
        return {
            each["range"]["start"]["line"]: any(fix["preferred"] for fix in each["fixes"]) for each in file["findings"]
        }

    assert (proven()[EXPORTED], proven()[AGREEMENT]) == (True, False)
    assert (proven("--all")[EXPORTED], proven("--all")[AGREEMENT]) == (True, True)


def test_the_status_counts_only_what_is_meant_to_be_captured(project: Path):
    (project / "train.py").write_text(TRAIN.replace("torch.onnx.export", "print"))
    done = check(project)
    assert done.returncode == 0
    assert "Agreement: 1 obstacle to capture, shown with --all (called at train.py:6)" in done.stdout
    assert "outputs.mean()" not in done.stdout
    annotations = check(project, "--format", "github").stdout
    assert "::error" not in annotations and f"line={AGREEMENT + 1}," not in annotations
    (project / "fxlens.toml").write_text('[targets]\n"models.py::Agreement" = "Agreement()"\n')
    assert check(project).returncode == 1, "the configuration names it"


def test_a_severity_of_the_configuration_counts_as_it_is_written(project: Path):
    (project / "fxlens.toml").write_text('[severity]\nFX101 = "error"\n')
    assert grades(check(project, "--format", "json").stdout)[AGREEMENT] == "error"


def parts(**more: Any) -> dict[str, Any]:
    return {name: (part.role, part.limit) for name, part in Said(**more).parts(["Net"]).items()}


def test_a_class_that_nobody_speaks_of_is_a_root():
    assert parts(known={}) == {"Net": ("root", "warning")}
    assert parts(known={}, written={"Net"}) == {"Net": ("meant", "error")}
    assert parts(known={}, watched={"Net"}) == {"Net": ("meant", "error")}
    part_of = {"Net": {"captured": "", "aside": "", "root": False, "holder": "Whole"}}
    assert parts(known=part_of) == {"Net": ("other", "hint")}
    assert parts(known=part_of, cursor="Net") == {"Net": ("other", "warning")}
    assert parts(known=part_of, scope="all") == {"Net": ("other", "error")}


def test_a_comment_means_the_class_and_an_ignored_line_does_not():
    text = "# fxlens: A(4)\nclass A: ...\n\n\nclass B:\n    x = 1  # fxlens: ignore\n\n\nclass C: ...  # fxlens: skip\n"
    assert targets.written(text) == {"A"}


def test_a_finding_that_two_classes_share_is_as_severe_as_the_louder_one_allows():
    at = record.span("/net.py", 3)
    found = record.finding("FX101", "error", "no", at, target="Gate")
    one = {**record.target("Gate", at), "findings": [found], "limit": "hint"}
    other = {**record.target("Net", at), "findings": [{**found, "target": "Net"}], "limit": "warning"}
    whole = {**record.empty_record("/net.py"), "targets": [one, other]}
    assert [(each["severity"], each["target"]) for each in overlays.findings(whole)] == [("warning", "Net")]


class Editor:
    """A client with lenses, on the project."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        capabilities = {**CAPABILITIES, "experimental": {"commands": ["fxlens.watch", "fxlens.showProblems"]}}
        self.settings = {"scope": "meant", "deadline": 30, **settings}
        self.client = Client(folder, settings=self.settings, capabilities=capabilities)
        self.path = folder / "models.py"

    def __enter__(self) -> Editor:
        self.client.__enter__()
        self.uri = self.client.open(self.path)
        return self

    def __exit__(self, *exception: object) -> None:
        self.client.__exit__(*exception)

    def expect(self, wanted: dict[int, int]) -> None:
        """Waits for diagnostics with these severities, as LSP has them, by line."""

        def fits(message: dict[str, Any]) -> bool:
            if message.get("method") != "textDocument/publishDiagnostics" or message["params"]["uri"] != self.uri:
                return False
            found = {each["range"]["start"]["line"]: each["severity"] for each in message["params"]["diagnostics"]}
            return all(found.get(line, 0) == severity for line, severity in wanted.items())

        self.client.wait(fits, 120)

    def lenses(self) -> list[str]:
        self.client.request("fxlens/record", {"uri": self.uri})  # findings are shown before its graphs are there
        asked = self.client.request("textDocument/codeLens", {"textDocument": {"uri": self.uri}})
        return [each["command"]["title"] for each in asked]


def test_the_editor_is_calm_until_a_class_is_watched_or_under_the_cursor(project: Path):
    with Editor(project) as editor:
        editor.expect({GATE: 2, EXPORTED: 1, AGREEMENT: 0})
        assert "1 obstacle to capture · Watch" in editor.lenses()
        hover = editor.client.request(
            "textDocument/hover", {"textDocument": {"uri": editor.uri}, "position": {"line": 24, "character": 8}}
        )
        assert "torch.onnx at train.py:7" in hover["contents"]["value"]
        editor.client.notify("fxlens/cursor", {"uri": editor.uri, "line": AGREEMENT})
        editor.expect({GATE: 2, EXPORTED: 1, AGREEMENT: 2})
        editor.client.configure(**editor.settings, watch=["models.py::Agreement"])
        editor.expect({AGREEMENT: 1})
        assert "Stop watching" in editor.lenses()
        editor.client.notify("fxlens/cursor", {"uri": editor.uri, "line": 0})
        rests = {"start": {"line": AGREEMENT, "character": 8}, "end": {"line": AGREEMENT, "character": 8}}
        asked = {"textDocument": {"uri": editor.uri}, "range": rests, "context": {"diagnostics": []}}
        editor.client.request("textDocument/codeAction", asked)  # about a marker below the mouse
        assert editor.client.request("fxlens/record", {"uri": editor.uri})["cursor"] is None
        editor.client.received.clear()
        editor.client.configure(**editor.settings)
        editor.expect({AGREEMENT: 0})
