"""Classes that could not be constructed: findings from their text stay, and the status counts them."""

from __future__ import annotations

from pathlib import Path

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
