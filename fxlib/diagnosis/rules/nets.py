"""The source of the models that rules show."""

from __future__ import annotations

from textwrap import dedent, indent

__all__ = ["HEAD", "net"]

HEAD = "import torch\nfrom torch import nn\n"


def net(body: str, head: str = HEAD, init: str = "", signature: str = "self, x") -> str:
    """A file with one model, ``Net``: ``head``, what its constructor does, and the statements of its forward."""
    made = f"    def __init__(self):\n        super().__init__()\n{_lines(init)}\n" if init else ""
    return f"{head}\n\nclass Net(nn.Module):\n{made}    def forward({signature}):\n{_lines(body)}"


def _lines(text: str) -> str:
    return indent(dedent(text).rstrip("\n"), " " * 8) + "\n"
