"""Checked files as text for a terminal, as JSON, as GitHub annotations and as SARIF: one function each, in a table. The
page is in ``page``."""

from __future__ import annotations

import functools
import io
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from fxlens import __version__, rules
from fxlens.record import Finding, Origin, Related, Span, Target
from fxlens.sources import files, positions
from fxlens.sources.paths import relative
from fxlens.views import finding_place, terminal, verdicts
from fxlens.views.coverage import coverage
from fxlens.views.fixes import best_fixes
from fxlens.views.terminal import one_line, printable

from . import page
from .checker import Checked

_GRADE = {"error": "error", "warning": "warning", "info": "info", "hint": "hint"}
_STYLE = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan", "hint": "bold blue"}


def render_json(files: Iterable[Checked], out: TextIO, color: bool = False) -> None:
    """Positions from 0 in UTF-16 units, as in LSP."""
    known = list(files)
    said = coverage((file.record, file.text) for file in known)
    counts = {"judged": said.judged, "classes": said.total, "assumed": said.assumed, "notJudged": dict(said.reasons)}
    json.dump({"version": 1, "coverage": counts, "files": [json_file(file) for file in known]}, out, indent=2)
    out.write("\n")


def json_file(file: Checked) -> Mapping[str, object]:
    targets = [
        {
            "name": target["name"],
            **file.line_of(target["line"]),
            "status": target["status"],
            "nodes": file.costs[target["name"]].nodes,
            "reason": target["reason"],
            "role": target["role"],
            "why": target["why"],
            "construct": _json_origin(file, target["construct"]),
            "inputs": _json_origin(file, target["inputs"]),
            **_json_captures(target),
        }
        for target in file.record["targets"]
    ]
    return {"path": file.path, "targets": targets, "findings": [_json_finding(file, each) for each in file.findings]}


def _json_captures(target: Target) -> Mapping[str, object]:
    """The verdicts of other captures on a model, if they were run."""
    facts = ("outcome", "reason", "breaks", "graphs", "fullgraph")
    asked = {each["capture"]: {name: each[name] for name in facts} for each in target["captures"]}  # type: ignore[literal-required]
    return {"captures": asked} if asked else {}


def _json_origin(file: Checked, origin: Origin | None) -> Mapping[str, object] | None:
    """Its line is counted from 1."""
    if origin is None or file.notebook is None or origin["line"] is None:
        return origin
    if origin["file"] not in (None, file.record["path"]):
        return origin
    cell, line = file.notebook.place(origin["line"])
    return {**origin, "cell": cell, "line": line}


def _json_finding(file: Checked, finding: Finding) -> Mapping[str, object]:
    span = finding_place.in_file(file.record["path"], finding, file.record)
    return {
        "code": finding["code"],
        "severity": _GRADE[finding["severity"]],
        "message": finding["message"],
        "target": finding["target"],
        "captures": finding["captures"],
        **file.range_of(span),
        "related": [_json_related(file, related, span) for related in finding["related"]],
        "fixes": [
            {"title": fix["title"], "preferred": fix["preferred"] and fix["checked"]} for fix in finding["fixes"]
        ],
    }


def _json_related(file: Checked, related: Related, fallback: Span | None) -> Mapping[str, object]:
    span = related["span"] or fallback
    path = span["file"] if span else file.record["path"]
    if path == file.record["path"]:
        return {"message": related["message"], "path": file.path, **file.range_of(span)}
    lines = positions.lines_of(files.read_shown(path))
    return {"message": related["message"], "path": path, "range": positions.lsp_range(span, lines)}


def render_text(files: Iterable[Checked], out: TextIO, color: bool = False) -> None:
    """Each finding with its source line and a caret range under it, a line per model, and a summary."""
    console = terminal.console(out, color)
    counts: dict[str, int] = {}
    severities: dict[str, int] = {}
    replaced: dict[str, int] = {}
    seen: list[Checked] = []
    for file in files:
        seen.append(file)
        for target in file.record["targets"]:
            counts[target["status"]] = counts.get(target["status"], 0) + 1
        for finding in file.findings:
            severities[finding["severity"]] = severities.get(finding["severity"], 0) + 1
        assumed: set[str] = set()
        for finding in file.shown:
            if finding["code"] == "FX311":  # a package that imports something gives it to all of its files
                replaced[finding["message"]] = replaced.get(finding["message"], 0) + 1
            if replaced.get(finding["message"], 0) < 2:
                _text_finding(console, file, finding, assumed)
        _text_quiet(console, file)
        for target in file.record["targets"]:
            if target["status"] == "traced":
                where = _at(file, target["line"])
                nodes = file.costs[target["name"]].nodes
                console.print(f"{where}: {printable(target['name'])} traced, {nodes} nodes", style="green")
    _text_captures(console, seen)
    for message, count in replaced.items():
        if count > 1:
            console.print(f"FX311 in {_count(count - 1, 'more file')}: {printable(message)}", style="dim")
    tried = sum(counts.values()) - counts.get("skipped", 0)
    parts = [f"{counts[name]} {name}" for name in ("traced", "partial", "failed", "skipped") if counts.get(name)]
    if tried > 1:
        parts.append(f"{100 * counts.get('traced', 0) // tried} % of {tried} trace")
    found = [_count(severities[name], name) for name in ("error", "warning", "info", "hint") if severities.get(name)]
    console.print(
        f"{_count(len(seen), 'file')}, {_count(sum(counts.values()), 'model')}"
        f"{': ' + ', '.join(parts) if parts else ''}; {', '.join(found) or 'no findings'}",
        style="bold",
    )
    if said := coverage((file.record, file.text) for file in seen).sentence():
        console.print(said, style="bold")


def _text_quiet(console: Any, file: Checked) -> None:
    """One line, instead of obstacles, for each class that is not known to be captured."""
    quiet = file.quiet
    for target in file.record["targets"]:
        if count := quiet[target["name"]]:
            where = _at(file, target["line"])
            why = f"{_count(count, 'obstacle')} to capture, shown with --all ({printable(target['why'])})"
            console.print(f"{where}: {printable(target['name'])}: {why}", style="dim")


def _text_captures(console: Any, files: Sequence[Checked]) -> None:
    """A table with a row for each model and a column for each capture, if others than torch.fx were run."""
    asked = [(file, target) for file in files for target in file.record["targets"] if target["captures"]]
    if not asked:
        return
    others = {each["capture"] for _, target in asked for each in target["captures"]} | {"export", "compile", "shapes"}
    columns = [name for name in verdicts.NAMES if name in others]
    rows = [["model", verdicts.NAMES["fx"], *(verdicts.NAMES[name] for name in columns)]]
    for file, target in asked:
        said = {each["capture"]: verdicts.outcome(each) for each in target["captures"]}
        model = f"{_at(file, target['line'])} {printable(target['name'])}"
        rows.append([model, verdicts.of_fx(target), *(said.get(name, "") for name in columns)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        console.print("  ".join(padded).rstrip(), style="bold" if row is rows[0] else "")


def _text_finding(console: Any, file: Checked, finding: Finding, assumed: set[str]) -> None:
    """``assumed``: assumptions already stated for earlier findings of the file, which are not repeated."""
    from rich.text import Text

    span = finding_place.in_file(file.record["path"], finding, file.record)
    line, column = (span["line"], _text_column(file, span["line"], span["column"])) if span else (1, 0)
    grade = finding["severity"]
    head = Text(f"{_at(file, line)}:{column + 1}: ", style="bold")
    head.append(f"{grade} {finding['code']}", style=_STYLE[grade])
    head.append(f" {printable(finding['message'])}")
    console.print(head)
    if span and 0 < line <= len(file.lines):
        source = file.lines[line - 1].expandtabs(4)
        start = len(file.lines[line - 1][:column].expandtabs(4))
        if span["end_line"] > line:
            end = len(source.rstrip())
        else:
            end = len(file.lines[line - 1][: _text_column(file, line, span["end_column"])].expandtabs(4))
        console.print(f"{file.place(line)[1]:5d} | {printable(source)}")
        carets = " " * _width(source[:start]) + "^" * max(_width(source[start:end]), 1)
        console.print(Text("      | ").append(carets, style=_STYLE[grade]))
    for related in finding["related"]:
        if related["kind"] == "assumed":
            if related["message"] in assumed:
                continue
            assumed.add(related["message"])
        where = related["span"]
        if related["kind"] == "call" and where == span:
            continue  # the problem is within a package, and shown where that is called
        at = f" ({_related_place(file, where)})" if where and where != span else ""
        console.print(f"      = {printable(related['message'])}{at}", style="dim")
    for fix in best_fixes(finding):
        purpose = verdicts.PURPOSES.get(fix["capture"], "")
        why = verdicts.unchecked(fix)
        mark = " ".join(filter(None, ["fix", purpose, f"({printable(why)})" if why else ""]))
        console.print(f"      = {mark}: {printable(fix['title'])}", style="green" if fix["preferred"] else "dim")


def render_github(files: Iterable[Checked], out: TextIO, color: bool = False) -> None:
    """Workflow commands: GitHub shows them on the lines of a pull request."""
    for file in files:
        for finding in file.shown:
            span = finding_place.in_file(file.record["path"], finding, file.record)
            line, end = (span["line"], span["end_line"]) if span else (1, 1)
            kind = {"error": "error", "warning": "warning"}.get(finding["severity"], "notice")
            where = f"file={_property(_in_repository(file.record['path']))}"
            if file.notebook is None:
                where += f",line={line},endLine={end}"
            if file.notebook is None and span and end == line:
                first = _text_column(file, line, span["column"]) + 1
                where += f",col={first},endColumn={_text_column(file, line, span['end_column']) + 1}"
            said = _data(_in_cell(file, line) + finding["message"])
            out.write(f"::{kind} {where},title={_property(finding['code'])}::{said}\n")


def render_sarif(files: Iterable[Checked], out: TextIO, color: bool = False) -> None:
    """SARIF 2.1.0, columns in UTF-16 units."""
    results: list[Mapping[str, object]] = []
    codes: dict[str, None] = {}
    for file in files:
        for finding in file.shown:
            codes[finding["code"]] = None
            span = finding_place.in_file(file.record["path"], finding, file.record)
            found = positions.lsp_range(span, file.lines)
            region = {
                "startLine": found["start"]["line"] + 1,
                "startColumn": found["start"]["character"] + 1,
                "endLine": found["end"]["line"] + 1,
                "endColumn": found["end"]["character"] + 1,
            }
            place: dict[str, object] = {"artifactLocation": {"uri": _reference(file.record["path"])}}
            if file.notebook is None:  # lines of its file are those of JSON
                place["region"] = region
            location = {"physicalLocation": place}
            level = {"error": "error", "warning": "warning"}.get(finding["severity"], "note")
            message = {"text": _in_cell(file, found["start"]["line"] + 1) + finding["message"]}
            result = {"ruleId": finding["code"], "level": level, "message": message, "locations": [location]}
            properties = {"properties": {"captures": finding["captures"]}} if finding["captures"] else {}
            results.append({**result, **properties})
    driver = {
        "name": "fxlens",
        "version": __version__,
        "rules": [_sarif_rule(code) for code in sorted(codes)],
    }
    run = {"tool": {"driver": driver}, "columnKind": "utf16CodeUnits", "results": results}
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    json.dump(log, out, indent=2)
    out.write("\n")


def _reference(path: str) -> str:
    """A file as a URI reference, with characters such as a blank or ``#`` escaped."""
    shown = _in_repository(path)
    return Path(shown).as_uri() if os.path.isabs(shown) else quote(os.fsencode(shown))


def _in_repository(path: str) -> str:
    """A file as seen from the root of its repository, where GitHub looks for it; without one, from the current
    folder."""
    root = _repository(os.path.dirname(os.path.abspath(path)))
    return relative(path, root or os.curdir).replace(os.sep, "/")


@functools.lru_cache(maxsize=1024)
def _repository(folder: str) -> str | None:
    if os.path.exists(os.path.join(folder, ".git")):
        return folder
    parent = os.path.dirname(folder)
    return None if parent == folder else _repository(parent)


def _sarif_rule(code: str) -> Mapping[str, object]:
    """Includes the page's text, since a log is read on other machines, where local addresses are invalid."""
    rule: dict[str, object] = {"id": code, "shortDescription": {"text": rules.title(code)}}
    page = rules.text(code)
    if page:
        rule["help"] = {"text": page, "markdown": page}
    return rule


FORMATS: dict[str, Callable[[Iterable[Checked], TextIO, bool], None]] = {
    "text": render_text,
    "json": render_json,
    "github": render_github,
    "sarif": render_sarif,
    "html": page.render,
}


def finding_text(file: Checked, finding: Finding) -> str:
    """One finding in the text format, without colours."""
    out = io.StringIO()
    _text_finding(terminal.console(out, False), file, finding, set())
    return out.getvalue()


def _at(file: Checked, line: int) -> str:
    """``net.py:12``, or ``net.ipynb:cell 3:12``."""
    cell, line = file.place(line)
    return f"{one_line(file.path)}:{'' if cell is None else f'cell {cell}:'}{line}"


def _related_place(file: Checked, span: Span) -> str:
    own = file.notebook is not None and span["file"] == file.record["path"]
    return _at(file, span["line"]) if own else f"{_shown(span['file'])}:{span['line']}"


def _in_cell(file: Checked, line: int) -> str:
    """The place of a message in a notebook, for formats that have only lines of files."""
    cell, line = file.place(line)
    return "" if cell is None else f"Cell {cell}, line {line}: "


def _text_column(file: Checked, line: int, column: int) -> int:
    """Characters before a UTF-8 column."""
    content = file.lines[line - 1] if 0 < line <= len(file.lines) else ""
    return positions.character(content, column, "utf-32")


def _width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def _shown(path: str) -> str:
    near = relative(path)
    return one_line(path if near.startswith("..") else near)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 or noun == 'info' else 's'}"


def _data(text: str) -> str:
    return printable(text.replace("\r\n", "\n")).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
