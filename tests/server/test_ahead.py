"""What is shown before the trace of a whole file is done: diagnostics without a version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lsp_client import Client

SLOW = """\
import time

import torch
from torch import nn


def positive(x):
    return bool(x)


# fxlens: Slow() <- torch.randn(2, 4)
class Slow(nn.Module):
    def forward(self, x):
        time.sleep(0.4)
        if x.sum() > 0:
            x = -x
        return x


# fxlens: Mine() <- torch.randn(2, 4)
class Mine(nn.Module):
    def forward(self, x):
        return torch.relu(x)


# fxlens: Holder() <- torch.randn(2, 4)
class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.mine = Mine()

    def forward(self, x):
        return self.mine(x)
"""
GATE = "        return torch.relu(x) if x.max() > 0 else x"
EDITED = SLOW.replace("        return torch.relu(x)", GATE)
SLOW_LINE, MINE_LINE = 14, 22


def next_of(client: Client, uri: str) -> dict[str, Any]:
    """The next diagnostics, whatever they say of a version."""
    method = "textDocument/publishDiagnostics"
    return client.wait(lambda each: each.get("method") == method and each["params"]["uri"] == uri)["params"]


def lines(shown: dict[str, Any]) -> set[int]:
    return {each["range"]["start"]["line"] for each in shown["diagnostics"] if each["code"] == "FX101"}


@pytest.fixture
def opened(shared: Client, folder: Path):
    (folder / "net.py").write_text(SLOW)
    with shared.lent(deadline=30) as client:
        uri = client.open(folder / "net.py")
        client.diagnostics(uri)
        client.request("fxlens/record", {"uri": uri})
        client.received.clear()
        yield client, uri


def test_what_is_read_in_the_class_at_the_cursor_is_shown_at_once(opened):
    client, uri = opened
    client.change(uri, EDITED)
    ahead = next_of(client, uri)
    assert ahead.get("version") is None and lines(ahead) == {SLOW_LINE, MINE_LINE}
    assert lines({"diagnostics": client.diagnostics(uri, 2)}) == {SLOW_LINE, MINE_LINE}


def test_the_class_at_the_cursor_is_traced_first_and_shown_before_the_others(opened):
    client, uri = opened
    client.change(uri, SLOW.replace("torch.relu(x)", "torch.relu(x if positive(x) else -x)"))
    first = next_of(client, uri)
    assert first.get("version") is None and SLOW_LINE in lines(first), "what was known of the others stays"
    assert {each["data"]["target"] for each in first["diagnostics"]} == {"Slow", "Mine"}
    client.diagnostics(uri, 2)


def test_a_file_that_is_opened_before_the_worker_is_there_is_read(tmp_path: Path):
    (tmp_path / "net.py").write_text(EDITED)
    with Client(tmp_path) as client:
        shown = next_of(client, client.open(tmp_path / "net.py"))
        assert shown.get("version") is None and lines(shown) == {SLOW_LINE, MINE_LINE}


def test_the_record_says_which_class_the_user_is_in(opened):
    client, uri = opened
    found = []
    for line in (SLOW_LINE, 0, MINE_LINE):
        client.notify("fxlens/cursor", {"uri": uri, "line": line})
        found.append(client.request("fxlens/record", {"uri": uri})["cursor"])
    assert found == ["Slow", None, "Mine"]
    client.edit(uri, SLOW.replace("x = -x", "x = x + 1"))
    assert client.request("fxlens/record", {"uri": uri})["cursor"] == "Slow"


def test_the_status_says_which_interpreter_is_used_and_why(opened):
    client, _ = opened
    python = client.request("fxlens/status", {})["python"]
    client.configure(python=python, pythonFrom="chosen in the Python extension", deadline=30)
    assert client.request("fxlens/status", {})["interpreter"] == f"{python} (chosen in the Python extension)"


def test_a_fix_that_is_not_checked_says_why(opened):
    client, uri = opened
    client.configure(verify=False, deadline=30)
    found = [each for each in client.edit(uri, EDITED) if each["code"] == "FX101"]
    titles = [each["title"] for each in client.actions(uri, found[-1]) if each["kind"] == "quickfix"]
    assert titles and all(title.endswith("(not checked: fxlens.verify is off)") for title in titles)
