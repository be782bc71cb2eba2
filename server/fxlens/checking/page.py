"""Checked files as one self-contained page: no network, no other file, no server."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zlib
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import TextIO

from fxlens import __version__
from fxlens.answers import ModelRow
from fxlens.views import page

from . import models, pictures
from .checker import Checked

_NO_DOT = "The graphs are not drawn, because Graphviz's dot was not found where this page was made."


def render(files: Iterable[Checked], out: TextIO, color: bool = False) -> None:
    """The page of the models.  Each file's part is written before waiting for the next file."""
    script, style = _asset("models.js") + _asset("report.js"), _asset("models.css") + _asset("drawing.css")
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; base-uri 'none'; "
        "form-action 'none'"
    )
    out.write(
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width">\n<title>Models</title>\n'
        f"<style>{style}</style>\n</head>\n<body>\n<noscript>This page needs JavaScript.</noscript>\n"
        '<script type="application/json" id="report">{"rows": ['
    )
    root, dot = os.getcwd(), pictures.program()
    count, notes, torch = 0, {}, ""
    first = True
    for file in files:
        count += 1
        notes.update(dict.fromkeys(file.record["notes"]))
        torch = torch or file.record["torch"] or ""
        for row in _drawn(file, models.rows(file, root), dot):
            out.write(f"{'' if first else ','}\n{_json(row)}")
            first = False
        file.drop_graphs()
    if dot is None:
        notes[_NO_DOT] = None
    made = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    versions = [f"FX Lens {__version__}", torch and f"torch {torch}", made]
    rest = {"title": os.path.basename(root), "files": count, "notes": list(notes), "versions": versions}
    out.write(f"\n], {_json(rest)[1:]}</script>\n<h1></h1>\n<main></main>\n")
    out.write(f'<script type="module">{script}</script>\n</body>\n</html>\n')


def _drawn(file: Checked, rows: list[ModelRow], dot: str | None) -> Iterable[ModelRow]:
    """The rows with the drawings of their models, compressed since they are most of the page."""
    targets = {target["name"]: target for target in file.record["targets"]}
    for row in rows:
        drawing = pictures.svg(targets[row["name"]], dot) if dot and row["name"] in targets else ""
        yield {**row, "graph": base64.b64encode(zlib.compress(drawing.encode())).decode() if drawing else ""}


def _asset(name: str) -> str:
    return (Path(page.__file__).parent / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """The hash of an inline script or style in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: object) -> str:
    """JSON that cannot end the enclosing HTML element."""
    return json.dumps(value).replace("<", "\\u003c")
