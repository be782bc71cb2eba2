"""Classes that could not be constructed or drawn: findings from their text stay, the status counts them, and all
others are judged."""

from __future__ import annotations

from pathlib import Path

from check_command import fxlens
from lsp_client import Client

FILE = """import torch
from torch import nn


class Hard(nn.Module):
    def __init__(self, config):
        super().__init__()
        raise RuntimeError(f"no {config} here")

    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class Easy(nn.Module):
    def forward(self, x):
        return x + 1
"""


def test_findings_of_the_text_stay_for_a_class_that_was_not_judged(client: Client, workspace: Path):
    model = workspace / "unjudged.py"
    model.write_text(FILE)
    uri = client.open(model)
    found = {each["code"]: each["range"]["start"]["line"] + 1 for each in client.diagnostics(uri)}
    assert found == {"FX101": 11, "FX302": 5}
    client.request("fxlens/record", {"uri": uri})
    assert client.request("fxlens/status", {})["unjudged"] == {uri: 1}
    client.edit(uri, FILE.replace('        raise RuntimeError(f"no {config} here")\n', ""))
    client.request("fxlens/record", {"uri": uri})
    assert client.request("fxlens/status", {})["unjudged"] == {}


CELLS = """# %%
import torch
from torch import nn

%matplotlib inline
!ls


# %%
class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


# %%
%timeit Net()(torch.ones(3))
"""


def test_lines_of_ipython_are_comments_in_a_file_of_cells(client: Client, workspace: Path):
    model = workspace / "cells.py"
    model.write_text(CELLS)
    (found,) = client.diagnostics(client.open(model))
    assert (found["code"], found["range"]["start"]["line"]) == ("FX101", 11)


UNDRAWN = """import enum

import torch
import torch.fx
from torch import nn


class Mode(enum.Enum):
    FAST = 1

    def __repr__(self):
        raise ValueError("no text")


@torch.fx.wrap
def run(x, mode):
    return x


class Odd(nn.Module):
    def forward(self, x):
        return run(x, Mode.FAST)


class Gnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = nn.Linear(3, 3)

    def forward(self, x):
        return self.graph(x)


class Other(nn.Module):
    def forward(self, x):
        return x.relu()
"""


def test_a_graph_that_cannot_be_drawn_leaves_the_others(tmp_path):
    (tmp_path / "net.py").write_text(UNDRAWN)
    result = fxlens("check", "net.py", "--no-cache", cwd=tmp_path)
    assert "FX199 Odd could not be traced: drawing its graph raised ValueError: no text" in result.stdout
    assert "net.py:25:1: warning FX191 The traced model cannot hold `graph`" in result.stdout
    assert "Other traced, 3 nodes" in result.stdout and "FX Lens itself" not in result.stdout
