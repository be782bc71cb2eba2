"""The record matches its types, in Python, in TypeScript, and in a real server's messages."""

from __future__ import annotations

import re
import subprocess
import sys
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union

import pytest
from fxlens import answers, overlays, record
from lsp_client import Client

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import protocol_types  # noqa: E402  (gives `record` what its annotations say for checkers only)

MODELS = """import torch
from torch import nn


# fxlens: Net(4) <- torch.randn(2, 4)
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        y = self.linear(x)
        if self.training:
            y = torch.relu(y)
        return torch.logcumsumexp(y + 0, 1)


# fxlens: Branch() <- torch.randn(2, 4)
class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return x


class Unknown(nn.Module):
    def __init__(self, stem):
        super().__init__()
        self.size = len(open(stem + ".nowhere").read())

    def forward(self, x):
        return x
"""


def wrong(value: Any, hint: Any, at: str) -> list[str]:
    """Where a value is not what a type says."""
    kind, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return []
    if typing.is_typeddict(hint):
        fields = typing.get_type_hints(hint)
        if not isinstance(value, dict):
            return [f"{at}: {value!r}"]
        if set(value) != set(fields):
            return [f"{at}: {sorted(set(fields) ^ set(value))}"]
        return [each for name, field in fields.items() for each in wrong(value[name], field, f"{at}.{name}")]
    if kind is Literal:
        return [] if value in arguments else [f"{at}: {value!r}"]
    if kind in (Union, UnionType):
        every = [wrong(value, each, at) for each in arguments]
        return [] if [] in every else every[0]
    if kind is Sequence:
        if not isinstance(value, list):
            return [f"{at}: {value!r}"]
        return [each for index, item in enumerate(value) for each in wrong(item, arguments[0], f"{at}[{index}]")]
    if kind is Mapping:
        return [each for name, item in value.items() for each in wrong(item, arguments[1], f"{at}.{name}")]
    plain = (int, float) if hint is float else hint
    return [] if isinstance(value, plain) and (hint is bool) == isinstance(value, bool) else [f"{at}: {value!r}"]


def test_the_types_of_the_extension_are_those_of_the_record():
    script = ROOT / "scripts" / "protocol_types.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run python scripts/protocol_types.py {done.stderr}"
    assert {kind.__name__ for kind in protocol_types.types()} >= {"Record", "Target", "Node", "Finding", "Fix", "Span"}


def test_answers_have_the_fields_that_the_extension_reads():
    folder = ROOT / "vscode-extension" / "src" / "protocol"
    text = "\n".join(path.read_text() for path in sorted(folder.glob("*.ts")) if path.name != "record.ts")
    compared = set()
    for name, kind in vars(answers).items():
        found = re.search(rf"^export interface {name} \{{\n(.*?)^\}}", text, re.M | re.S)
        if not typing.is_typeddict(kind) or found is None:
            continue
        ours, read = set(typing.get_type_hints(kind)), set(re.findall(r"^  (\w+)\??:", found.group(1), re.M))
        if name == "Measurement":  # the rest of a row only passes through the server
            assert ours <= read
        else:
            assert ours - read <= ({"located", "text", "saved"} if "located" in ours else set()), name
            assert read <= ours, name
        compared.add(name)
    assert compared >= {"GraphView", "NodeInfo", "GraphAnswer", "CodeAnswer", "PassAnswer", "Engine", "BenchResult"}


@pytest.mark.parametrize("settings", [{}, {"batch": "N", "device": "A100"}], ids=["plain", "named batch and device"])
def test_what_a_server_sends_is_what_the_types_say(shared: Client, folder: Path, settings: dict[str, str]):
    (folder / "models.py").write_text(MODELS)
    with shared.lent(deadline=60, lowering="hints", **settings) as client:
        uri = client.open(folder / "models.py")
        found = client.wait(lambda each: "FX401" in str(each.get("params", {}).get("diagnostics")), 120)
        client.request("textDocument/codeAction", {
            "textDocument": {"uri": uri}, "context": {"diagnostics": []},
            "range": {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}},
        })  # fmt: skip
        sent = client.request("fxlens/record", {"uri": uri})["record"]
        graph = client.request("fxlens/graph", {"uri": uri, "target": "Net"})
        code = client.request("fxlens/code", {"uri": uri, "target": "Net", "view": "code"})
        passes = client.request("fxlens/passes", {"uri": uri, "target": "Net"})
    assert found and wrong(sent, record.Record, "record") == []
    assert wrong(graph, answers.GraphAnswer, "graph") == wrong(code, answers.CodeAnswer, "code") == []
    assert wrong(passes, answers.PassesAnswer, "passes") == []
    targets = {each["name"]: each for each in sent["targets"]}
    assert [targets[name]["status"] for name in ("Net", "Branch", "Unknown")] == ["traced", "partial", "skipped"]
    (linear,) = [node for node in targets["Net"]["nodes"] if node["op"] == "call_module"]
    assert linear["settings"] == "in_features=4, out_features=4, bias=True"
    assert targets["Net"]["lowering"] and targets["Net"]["baked"] and targets["Branch"]["findings"][0]["fixes"]
    named = [node for node in targets["Net"]["nodes"] if node["symbolic"]]
    assert bool(named) == bool(settings) and any(node["predicted"] for node in targets["Net"]["nodes"]) == bool(
        settings
    )


def test_overlays_leave_the_record_as_it_was():
    at = record.span("/net.py", 3, 4, 3, 9)
    fix: record.Fix = {
        "id": "wrap", "title": "", "kind": "wrap", "capture": "fx", "preferred": False, "checked": False,
        "assumes": None,
        "note": None,
        "edits": [],
    }  # fmt: skip
    found = record.finding("FX101", "error", "m", at, target="Net", fixes=[fix])
    net: record.Target = {**record.target("Net", at), "findings": [found]}
    before: record.Record = {**record.empty_record("/net.py"), "targets": [net]}
    text = repr(before)
    hint = record.finding("FX401", "hint", "stays", at, target="Net")
    after = overlays.with_lowering(overlays.with_fixes(before, {0: [{**fix, "checked": True}]}), {"Net": [hint]})
    after = overlays.with_note(after, "a note")
    assert repr(before) == text
    assert [each["code"] for each in overlays.findings(after)] == ["FX101", "FX401"]
    assert after["targets"][0]["findings"][0]["fixes"][0]["checked"] and after["notes"] == ["a note"]
    assert overlays.without_graphs(after)["targets"][0]["nodes"] == []
