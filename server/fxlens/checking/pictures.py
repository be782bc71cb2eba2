"""Drawings of graphs as SVG, if Graphviz's ``dot`` is installed."""

from __future__ import annotations

import re
import shutil
import subprocess

from fxlens.record import Target
from fxlens.views.drawing import draw

_SECONDS = 20.0
_UNUSED = re.compile(r"<!--.*?-->\s*|<title>.*?</title>\s*|<\?xml.*?\?>\s*|<!DOCTYPE.*?>\s*", re.S)
"""Parts that a picture inside a page does not need; in texts Graphviz writes ``<`` and ``>`` as entities."""


def program() -> str | None:
    """The path of Graphviz's ``dot``, if it is on the search path."""
    return shutil.which("dot")


def svg(target: Target, dot: str) -> str:
    """The drawing of a model as an ``svg`` element; empty if it has no graph, or Graphviz cannot lay it out."""
    if not target["nodes"]:
        return ""
    try:
        done = subprocess.run(
            [dot, "-Tsvg"], input=draw(target).dot.encode(), capture_output=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return _UNUSED.sub("", done.stdout.decode("utf-8", "replace")).strip()
