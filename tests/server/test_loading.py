"""What a record depends on, as seen in the editor: files that are imported, and files that would be."""

from __future__ import annotations

from pathlib import Path

from lsp_client import Client

MODEL = """\
from torch import nn

from . import extras


class Net(nn.Module):
    def forward(self, x):
        return extras.act(x)
"""


def test_a_module_that_was_missing_traces_the_open_model_again(shared: Client, folder: Path):
    package = folder / "kit"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "net.py").write_text(MODEL)
    missing = package / "extras.py"
    with shared.lent(deadline=60) as client:
        uri = client.open(package / "net.py")
        wait_for(client, uri, ["FX301"])
        missing.write_text("def act(x):\n    return x * len(x)\n")
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": missing.as_uri(), "type": 1}]})
        wait_for(client, uri, ["FX120"])


def wait_for(client: Client, uri: str, codes: list[str]) -> None:
    """Until the problems are these; what was on its way before may come first."""
    while [each.get("code") for each in client.diagnostics(uri)] != codes:
        continue
