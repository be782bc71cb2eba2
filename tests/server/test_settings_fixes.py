"""Fixes that change what the project says: leaf modules and constant arguments, applied as an editor does."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsp_client import CAPABILITIES, Client
from test_fixes import apply

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
    for _ in range(60):
        actions = [each for each in client.actions(uri, diagnostic) if part in each["title"]]
        if actions and "being checked" not in actions[0]["title"]:
            return actions[0]
    raise AssertionError(f"no checked action with {part!r}")


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
        text = apply(configuration.read_text(), edits)
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
        created, *edited = action["edit"]["documentChanges"]
        assert created == {
            "kind": "create",
            "uri": (tmp_path / "pyproject.toml").as_uri(),
            "options": {"ignoreIfExists": True},
        }
        texts = {each["textDocument"]["uri"]: each["edits"] for each in edited}
        (tmp_path / "pyproject.toml").write_text(apply("", texts[created["uri"]]))
        mended = apply(GATED, texts[uri])
        assert mended.endswith("        return super().is_leaf_module(m, module_qualified_name)\n")
        names: dict = {}
        exec(compile(mended, "net.py", "exec"), names)
        graph = names["LeafTracer"]().trace(names["Net"]())
        assert [node.target for node in graph.nodes if node.op == "call_module"] == ["gate"]
        client.notify(
            "workspace/didChangeWatchedFiles", {"changes": [{"uri": (tmp_path / "pyproject.toml").as_uri(), "type": 1}]}
        )
        assert client.edit(uri, mended) == []


def test_a_constant_argument_clears_the_problem(tmp_path: Path):
    model = tmp_path / "net.py"
    model.write_text(ARGUMENT)
    with Client(tmp_path, settings={"deadline": 60}) as client:
        uri = client.open(model)
        action = proven(client, uri, 'Set mode="a" for the trace')
        mended = apply(ARGUMENT, action["edit"]["changes"][uri])
        assert '# fxlens: <- concrete_args={"mode": "a"}\nclass Net' in mended
        left = client.edit(uri, mended)
        assert [each.get("code") for each in left if each["severity"] < 3] == []
