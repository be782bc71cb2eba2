"""Classes as parts of models of other files: the content of their lenses and hovers, through the real server."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from lsp_client import Client

BLOCKS = """\
import torch
from torch import nn


class Double(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(size, size), nn.ReLU())
        self.size = size

    def forward(self, x):
        return self.body(x)


class Up(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.wide = nn.Linear(size, 2 * size)
        self.twice = Double(2 * size)
        self.never = nn.Linear(1, 1)

    def forward(self, x, skip):
        x = self.wide(x)
        half = x.size()[1] // 2
        x = torch.cat([x[:, :half], skip], dim=1)
        return self.twice(x)
"""
NET = """\
import torch
from blocks import Up
from torch import nn


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up1 = Up(4)
        self.up2 = Up(8)

    def forward(self, x):
        x = self.up1(x, x)
        return self.up2(x, x)
"""
BODY = "`Linear(in_features=8, out_features=8, bias=True)`"


@pytest.fixture
def files(shared: Client, folder: Path):
    with shared.lent(deadline=30) as client:
        texts = {"blocks.py": BLOCKS, "net.py": NET}
        for name, text in texts.items():
            (folder / name).write_text(text)
        uris = {name: client.open(folder / name) for name in texts}
        for uri in uris.values():
            client.request("fxlens/record", {"uri": uri})

        def hover(name: str, before: str, here: str) -> str | None:
            """Of the position between two pieces of the file's text."""
            head = texts[name][: texts[name].index(before + here) + len(before)]
            at = {"line": head.count("\n"), "character": len(head) - head.rfind("\n") - 1}
            found = client.request("textDocument/hover", {"textDocument": {"uri": uris[name]}, "position": at})
            return found and found["contents"]["value"]

        yield client, uris, hover


def test_the_lens_of_a_part_opens_the_model_that_holds_it(files):
    client, uris, _ = files
    found = client.request("textDocument/codeLens", {"textDocument": {"uri": uris["blocks.py"]}})
    ways = [each["command"] for each in found if each["command"]["title"].startswith("Traced in")]
    assert [(each["title"], each["arguments"]) for each in ways] == [
        ("Traced in Net ×2", [uris["net.py"], "Net", "graph"])
    ] * 2
    opened = client.request(
        "workspace/executeCommand", {"command": ways[0]["command"], "arguments": ways[0]["arguments"]}
    )
    assert "uri" in opened
    own = client.request("textDocument/codeLens", {"textDocument": {"uri": uris["net.py"]}})
    assert not any("Traced in" in each["command"]["title"] for each in own)


def test_hover_where_a_submodule_is_created_says_what_becomes_of_it(files):
    _, _, hover = files
    wanted = textwrap.dedent("""\
        **`up1`** · `Up` · in `Net`

        ```text
        f32[2, 4] → f32[2, 8]
        ```

        Linear ×2, cat, ReLU · 112 parameters · 384 FLOPs

        Used in line 14 `self.up1(x, x)`""")
    assert hover("net.py", "self.", "up1 = ") == hover("net.py", "up1 = ", "Up(4") == wanted
    assert hover("net.py", "self.up1 = Up(", "4)") is None


def test_hover_in_another_file_speaks_of_all_models_that_it_is_part_of(files):
    _, _, hover = files
    double = hover("blocks.py", "self.", "twice = ")
    assert double.startswith("**`twice`** · `Double` · in `Net` ×2")
    assert "up1.twice: f32[2, 8] → f32[2, 8]\nup2.twice: f32[2, 16] → f32[2, 16]" in double
    assert double.endswith("Used in line 26 `self.twice(x)`")
    inner = hover("blocks.py", "nn.Sequential(", "nn.Linear(size")
    assert inner.startswith(f"**`body.0`** · {BODY} · in `Net` ×2") and "Used in line 12 `self.body(x)`" in inner
    assert hover("blocks.py", "self.", "size = ") is None, "no submodule"
    assert hover("blocks.py", "self.", "never = ") is None, "no forward runs it"


def test_hover_of_a_call_names_its_module_and_its_layers_without_the_arithmetic_on_sizes(files):
    _, _, hover = files
    call = hover("net.py", "x = self.", "up1(x")
    assert call.startswith("**`Up`** · `up1` · 8 nodes") and "f32[2, 4] → f32[2, 8]" in call
    assert "Linear ×2, cat, ReLU · 112 parameters" in call and "size" not in call
    both = hover("blocks.py", "return self.", "twice(x")
    assert both.startswith("**`Double`** · `up1.twice`, `up2.twice` · 4 nodes") and "executed 2 times" in both
