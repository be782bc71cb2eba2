"""Where example inputs come from, as an editor shows it, and one action that writes them down."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from lsp_client import Client

TEXT = """\
from __future__ import annotations

from torch import nn


def plain(kind):
    return kind


class Annotated(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Float[Tensor, "b 3 224 224"], times: int):
        return self.conv(x) * times


@plain
class Inferred(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, ids, scale):
        return self.head(self.embed(ids)) * scale


# fxlens: Given() <- torch.randn(2, 8)
class Given(nn.Module):
    def forward(self, x):
        return x + 1
"""


def test_the_choice_and_its_source_are_shown_and_written_down(shared: Client, folder: Path):
    path = folder / "net.py"
    path.write_text(TEXT)
    with shared.lent(deadline=60) as client:
        uri = client.open(path)
        assert client.diagnostics(uri) == []
        wait_for(lambda: len(lenses(client, uri)) == 3)
        assert lenses(client, uri) == [
            "x: f32[2, 3, 224, 224], times · inferred",
            "ids: i64[2, 16], scale: f32[1] · inferred",
            "x: f32[2, 8] · comment",
        ]
        text = TEXT
        for name in ("Annotated", "Inferred"):
            (action,) = wait_for(partial(actions, client, uri, text, name))
            assert action["title"] == f"Write the example inputs of {name} into a comment (inferred)"
            assert actions(client, uri, text, "Given") == []
            (edit,) = action["edit"]["changes"][uri]
            lines = text.splitlines(keepends=True)
            lines.insert(edit["range"]["start"]["line"], edit["newText"])
            text = "".join(lines)
            assert client.edit(uri, text) == []
        wait_for(lambda: all(shown.endswith(" · comment") for shown in lenses(client, uri)))
    assert "# fxlens: Annotated() <- torch.randn(2, 3, 224, 224), 4\nclass Annotated" in text
    assert "# fxlens: Inferred() <- torch.randint(0, 100, (2, 16)), torch.ones(1)\n@plain\nclass Inferred" in text


def wait_for(look: Callable[[], Any]) -> Any:
    """What is seen once there is something to see: graphs come after the findings."""
    until = time.monotonic() + 120
    while not (found := look()):
        assert time.monotonic() < until, "nothing came in two minutes"
        time.sleep(0.1)
    return found


def lenses(client: Client, uri: str) -> list[str]:
    """What the lenses say of inputs."""
    found = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    return [each["command"]["title"] for each in found if " · " in each["command"]["title"]]


def actions(client: Client, uri: str, text: str, name: str) -> list[dict[str, Any]]:
    line = next(number for number, line in enumerate(text.splitlines()) if line.startswith(f"class {name}"))
    place = {"line": line, "character": 8}
    context = {"diagnostics": [], "only": ["refactor"]}
    parameters = {"textDocument": {"uri": uri}, "range": {"start": place, "end": place}, "context": context}
    found = client.request("textDocument/codeAction", parameters)
    return [each for each in found if "dynamic_shapes" not in each["title"]]
