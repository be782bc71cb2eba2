"""Hovers over parameters, variables and attributes: what they hold while a model is traced, by the real server."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsp_client import Client

BLOCKS = """\
import torch
from torch import nn


def halves(value, at=1):
    half = value.shape[at] // 2
    return value[:, :half], value[:, half:]


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.wide = nn.Linear(size, 2 * size)
        self.register_buffer("shift", torch.zeros(size))
        self.heads = 4
        self.alone = nn.Parameter(torch.zeros(size))

    def forward(self, x, mask=None):
        y = self.wide(x)
        q, k = halves(y)
        if mask is not None:
            q = q * mask
        parts = [part + self.shift for part in (q, k)]
        q, k = map(lambda part: part * 2, (q, k))
        for index, each in enumerate(parts):
            k = k + each * self.heads * index
        return torch.cat(
            [
                k,
                q,
            ],
            dim=1,
        )
"""
NET = """\
import torch
from blocks import Block
from torch import nn


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(4), Block(8)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        seen = x
        x += 1
        return seen
"""


class Files:
    def __init__(self, client: Client, folder: Path) -> None:
        self.client, self.folder = client, folder
        self.texts = {"blocks.py": BLOCKS, "net.py": NET}
        for name, text in self.texts.items():
            (folder / name).write_text(text)
        self.uris = {name: client.open(folder / name) for name in ("net.py", "blocks.py")}
        for uri in self.uris.values():
            client.request("fxlens/record", {"uri": uri})

    def hover(self, name: str, before: str, here: str) -> str:
        """What is said at the position between two pieces of the file's text."""
        text = self.texts[name]
        head = text[: text.index(before + here) + len(before)]
        at = {"line": head.count("\n"), "character": len(head) - head.rfind("\n") - 1}
        found = self.client.request("textDocument/hover", {"textDocument": {"uri": self.uris[name]}, "position": at})
        return found["contents"]["value"] if found else ""


@pytest.fixture
def files(shared: Client, folder: Path):
    with shared.lent(deadline=30) as client:
        yield Files(client, folder)


def test_a_name_holds_what_it_does_at_its_place(files: Files):
    said = {
        ("def forward(self, ", "x):"): "**`x`** · `f32[2, 4]`",
        ("for ", "layer in"): "**`layer`** · `Block`",
        ("", "seen = x"): "**`seen`** · `f32[2, 16]`",
        ("return ", "seen"): "**`seen`** · `f32[2, 16]`",
        ("self.", "layers:"): "**`self.layers`** · `ModuleList`",
    }
    for (before, here), wanted in said.items():
        assert files.hover("net.py", before, here).startswith(wanted), here
    assert files.hover("net.py", "            ", "x = layer").splitlines()[3:5] == ["f32[2, 8]", "f32[2, 16]"]
    assert "call_function" in files.hover("net.py", "x ", "+= 1"), "an operator is no name"
    said = files.hover("net.py", "x = la", "yer(x)")
    assert said.startswith("**`Block`** · `layers.0`, `layers.1` · 38 nodes"), "what it gives says more"
    assert said.splitlines()[3:5] == ["layers.0: f32[2, 4] → f32[2, 8]", "layers.1: f32[2, 8] → f32[2, 16]"]


def test_in_code_that_others_run_names_hold_what_they_do_there(files: Files):
    def values(before: str, here: str) -> list[str]:
        text = files.hover("blocks.py", before, here)
        return text.splitlines()[3:-1] if "```" in text else text.splitlines()[:1]

    both = ["layers.0: f32[2, 4]", "layers.1: f32[2, 8]"]
    assert values("def forward(self, ", "x, ")[:2] == both
    assert values("", "q, k = halves")[:2] == both
    assert values("index, ", "each in")[:2] == both
    assert values("torch.cat(\n            [\n                ", "k,")[:2] == both, "in a statement of many lines"
    assert values("[", "part + self")[:2] == both, "in a comprehension"
    assert values("lambda part: ", "part * 2")[:2] == both, "in a lambda"
    assert values("", "q, k = map")[:2] == both, "beside one"
    assert values("def halves(", "value")[:2] == ["layers.0: f32[2, 8]", "layers.1: f32[2, 16]"]
    assert values("x, ", "mask=None") == ["**`mask`** · `None`"]
    assert values("each * self.", "heads") == ["**`self.heads`** · `4`"]
    assert values("self.", "shift for")[:2] == ["layers.0: f32[4]", "layers.1: f32[8]"]
    assert values("* self.heads * ", "index") == ["**`index`** · `0, 1`"]
    assert "the graph keeps this value" in files.hover("blocks.py", "each * self.", "heads")
    assert files.hover("blocks.py", "each * self.", "heads").endswith("In `Net` of `net.py`")


def test_between_an_edit_and_its_trace_names_hold_what_they_did(files: Files):
    """While a file cannot be parsed, too; and after the next trace what they do then."""
    client, uri = files.client, files.uris["net.py"]
    assert "f32[2, 16]" in files.hover("net.py", "", "seen = x")
    broken = files.texts["net.py"] = NET.replace("        x += 1\n", "        x += (1\n")
    client.change(uri, broken)
    client.request("fxlens/record", {"uri": uri})
    said = files.hover("net.py", "", "seen = x")
    assert "f32[2, 16]" in said and said.endswith("Before the latest edit, which is not traced yet")
    files.texts["net.py"] = NET.replace("seen = x", "more = 1\n        seen = x[0]")
    client.change(uri, files.texts["net.py"])
    client.request("fxlens/record", {"uri": uri})
    assert files.hover("net.py", "", "seen = x").startswith("**`seen`** · `f32[16]`")
    assert files.hover("net.py", "", "more = 1").startswith("**`more`** · `1`")
    assert "latest edit" not in files.hover("net.py", "", "more = 1")


UNKNOWN = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        y = x.stranger()
        return y
"""


def test_what_is_not_known_is_said_so_where_nothing_else_is(files: Files):
    client, uri = files.client, files.uris["net.py"]
    files.texts["net.py"] = UNKNOWN
    client.change(uri, UNKNOWN)
    client.request("fxlens/record", {"uri": uri})
    said = "**`y`** · its value is not known: `Net` has no example inputs"
    assert files.hover("net.py", "", "y = x").splitlines()[0] == said


SHARED = """\
import torch
from torch import nn


def scaled(value, by=1):
    twice = by * 2
    return value * by


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def forward(self, x):
        return scaled(scaled(x, 2), 3)


# fxlens: Other() <- torch.randn(5, 6, 7)
class Other(nn.Module):
    def forward(self, x):
        return (scaled(x) + 1).relu()


# fxlens: Third() <- torch.randn(3)
class Third(nn.Module):
    def forward(self, x):
        return (scaled(x) + 1).relu().relu()
"""


def test_in_a_helper_that_models_share_each_value_says_whose_it_is(files: Files):
    client, uri = files.client, files.uris["net.py"]
    files.texts["net.py"] = SHARED
    client.change(uri, SHARED)
    client.request("fxlens/record", {"uri": uri})
    said = {
        ("def scaled(", "value"): ("**`value`** · `f32[3]`", "**`value`** · `f32[5, 6, 7]`"),
        ("value, ", "by=1"): ("**`by`** · `1`",),
        ("", "twice ="): ("**`twice`** · `2`",),
    }
    for (before, here), wanted in said.items():
        text = files.hover("net.py", before, here)
        parts = text.split("\n\n---\n\n")
        assert [part.splitlines()[0] for part in parts] == [*wanted], text
        assert "In `Third`" in parts[0] and "`Other`" in parts[-1].splitlines()[-1], text
        assert text.endswith("Other models may run it with other values: `Net`"), text
    text = files.hover("net.py", "return value ", "* by")
    assert text.endswith("In `Third`. Other models run it with other values: `Net`, `Other`"), text
    assert "In `" not in files.hover("net.py", "return ", "(scaled(x) + 1).relu()\n"), "its own class alone runs it"
