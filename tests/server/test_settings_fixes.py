"""Fixes that change the project's configuration: leaf modules and constant arguments, applied as an editor does."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from lsp_client import CAPABILITIES, Client, edited

GATED = """import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        while x.sum() > 100:
            x = self.linear(x)
        return x


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()

    def forward(self, x):
        return self.gate(x) * 2
"""

ARGUMENT = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, mode="a"):
        x = self.linear(x)
        if mode == "a":
            return x * 2
        return self.linear(x)
"""

MAKES_FILES = {"workspaceEdit": {"documentChanges": True, "resourceOperations": ["create", "rename", "delete"]}}


def proven(client: Client, uri: str, part: str) -> dict:
    """The action for the first problem, once it has been checked."""
    diagnostic = client.diagnostics(uri)[0]
    client.request("fxlens/record", {"uri": uri})
    until = time.monotonic() + 120
    while time.monotonic() < until:
        actions = [each for each in client.actions(uri, diagnostic) if part in each["title"]]
        if actions and not re.search("being checked|not checked", actions[0]["title"]):
            return actions[0]
        time.sleep(0.1)
    raise AssertionError(f"no checked action with {part!r} in {client.actions(uri, diagnostic)}")


def wait_for(client: Client, uri: str, codes: list[str]) -> None:
    """Until the problems are these; what was on its way before may come first."""
    while [each.get("code") for each in client.diagnostics(uri)] != codes:
        continue


@pytest.mark.parametrize("how", ["saved", "open"])
def test_a_leaf_module_clears_the_problem(tmp_path: Path, how: str):
    model, configuration = tmp_path / "net.py", tmp_path / "pyproject.toml"
    model.write_text(GATED)
    configuration.write_text('[project]\nname = "it"\n')
    with Client(tmp_path, settings={"deadline": 60}) as client:
        uri = client.open(model)
        action = proven(client, uri, "Keep `Gate` as one node: leaf module in pyproject.toml")
        (edits,) = action["edit"]["changes"].values()
        assert list(action["edit"]["changes"]) == [configuration.as_uri()]
        text = edited(configuration.read_text(), edits)
        assert text == '[project]\nname = "it"\n\n[tool.fxlens]\nleaf-modules = ["Gate"]\n'
        if how == "saved":
            configuration.write_text(text)
            changes = [{"uri": configuration.as_uri(), "type": 2}]
            client.notify("workspace/didChangeWatchedFiles", {"changes": changes})
        else:
            item = {"uri": configuration.as_uri(), "languageId": "toml", "version": 1, "text": text}
            client.notify("textDocument/didOpen", {"textDocument": item})
        wait_for(client, uri, [])
        if how == "open":
            client.close(configuration.as_uri())
            wait_for(client, uri, ["FX101"])  # it was never saved


def test_the_configuration_is_made_where_there_is_none(tmp_path: Path):
    model = tmp_path / "net.py"
    model.write_text(GATED)
    (tmp_path / ".git").mkdir()
    capabilities = {**CAPABILITIES, "workspace": {**CAPABILITIES["workspace"], **MAKES_FILES}}
    with Client(tmp_path, settings={"deadline": 60}, capabilities=capabilities) as client:
        uri = client.open(model)
        action = proven(client, uri, "write the Tracer")
        created, *changes = action["edit"]["documentChanges"]
        assert created == {
            "kind": "create",
            "uri": (tmp_path / "pyproject.toml").as_uri(),
            "options": {"ignoreIfExists": True},
        }
        texts = {each["textDocument"]["uri"]: each["edits"] for each in changes}
        (tmp_path / "pyproject.toml").write_text(edited("", texts[created["uri"]]))
        mended = edited(GATED, texts[uri])
        assert mended.endswith("        return super().is_leaf_module(m, module_qualified_name)\n")
        names: dict = {}
        exec(compile(mended, "net.py", "exec"), names)
        graph = names["LeafTracer"]().trace(names["Net"]())
        assert [node.target for node in graph.nodes if node.op == "call_module"] == ["gate"]
        client.notify(
            "workspace/didChangeWatchedFiles", {"changes": [{"uri": (tmp_path / "pyproject.toml").as_uri(), "type": 1}]}
        )
        assert client.edit(uri, mended) == []


def test_the_configuration_nearest_to_a_file_counts(tmp_path: Path):
    part = tmp_path / "part"
    part.mkdir()
    for folder in (tmp_path, part):
        (folder / "net.py").write_text(GATED)
    (tmp_path / "fxlens.toml").write_text('ignore = ["FX1"]\n')
    (part / "fxlens.toml").write_text('leaf-modules = ["Other"]\n')
    with Client(tmp_path, settings={"deadline": 60}) as client:
        assert client.diagnostics(client.open(tmp_path / "net.py")) == []
        uri = client.open(part / "net.py")
        assert [each["code"] for each in client.diagnostics(uri)] == ["FX101"]
        (part / "fxlens.toml").write_text('leaf-modules = ["Gate"]\n')
        changes = [{"uri": (part / "fxlens.toml").as_uri(), "type": 2}]
        client.notify("workspace/didChangeWatchedFiles", {"changes": changes})
        wait_for(client, uri, [])


def test_a_constant_argument_clears_the_problem(tmp_path: Path):
    model = tmp_path / "net.py"
    model.write_text(ARGUMENT)
    with Client(tmp_path, settings={"deadline": 60}) as client:
        uri = client.open(model)
        action = proven(client, uri, 'Set mode="a" for the trace')
        mended = edited(ARGUMENT, action["edit"]["changes"][uri])
        assert '# fxlens: <- concrete_args={"mode": "a"}\nclass Net' in mended
        left = client.edit(uri, mended)
        assert [each.get("code") for each in left if each["severity"] < 3] == []


MISTAKE = """import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) * math.sqrt(2)


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return self.block(x) * 2
"""


def test_an_error_of_the_code_is_not_hidden_by_settings(tmp_path: Path):
    """The fix for a name that nobody imports is the import: a leaf module would hide it until the model runs."""
    model = tmp_path / "net.py"
    model.write_text(MISTAKE)
    with Client(tmp_path, settings={"deadline": 60}) as client:
        uri = client.open(model)
        diagnostic = next(each for each in client.diagnostics(uri) if each.get("code") == "FX199")
        client.request("fxlens/record", {"uri": uri})
        actions = client.actions(uri, diagnostic)
        assert [each["title"].partition(" (")[0] for each in actions] == ["Add `import math`"]
        mended = edited(MISTAKE, actions[0]["edit"]["changes"][uri])
        assert mended.startswith("import math\n\nimport torch\n")
        assert client.edit(uri, mended) == []


def test_what_changes_the_project_comes_last_and_is_shown(tmp_path: Path):
    model, configuration = tmp_path / "net.py", tmp_path / "pyproject.toml"
    model.write_text(GATED.replace("while", "if").replace("            x = self.linear(x)", "            x = x * 2"))
    configuration.write_text('[project]\nname = "it"\n')
    capabilities = {**CAPABILITIES, "window": {"showDocument": {"support": True}}}
    with Client(tmp_path, settings={"deadline": 60}, capabilities=capabilities) as client:
        uri = client.open(model)
        diagnostic = client.diagnostics(uri)[0]
        client.request("fxlens/record", {"uri": uri})
        actions = client.actions(uri, diagnostic)
        changed = ["pyproject.toml" in str(each["edit"]) for each in actions]
        assert any(changed) and not changed[0] and changed == sorted(changed)
        assert not any(each.get("isPreferred") for each, project in zip(actions, changed, strict=True) if project)
        command = next(each for each in actions if "leaf module in" in each["title"])["command"]
        client.request("workspace/executeCommand", {"command": command["command"], "arguments": command["arguments"]})
        client.request("fxlens/status", {})
        shown = next(each["params"] for each in client.asked_for if each["method"] == "window/showDocument")
        assert shown["uri"] == configuration.as_uri() and shown["takeFocus"]
        assert shown["selection"]["start"]["line"] == 2
