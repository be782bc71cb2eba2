"""The classes of a checked file as rows of the table of models, which the page and the editor show."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from fxlens.answers import ModelRow, ModelVerdict, Problem, Tone
from fxlens.record import Finding, Origin, Target, Verdict
from fxlens.sources import positions
from fxlens.sources.paths import relative
from fxlens.views import descriptions, finding_place, verdicts
from fxlens.views.fixes import best_fixes, change, is_proven

from .checker import Checked

_TONES: dict[str, Tone] = {"captured": "good", "parts": "partly", "pinned": "partly", "fails": "bad"}


def rows(file: Checked, root: str) -> list[ModelRow]:
    """A row for each class, in the order of the file, preceded by one for the file if it has problems outside of them.
    ``root`` is the folder from which paths are shown."""
    shown = {_mark(each): each for each in file.findings}
    targets = file.record["targets"]
    # A problem on a line that several classes run is shown once for the file, but here for each class.
    marks: dict[str, dict[object, None]] = {
        each["name"]: {_mark(mine): None for mine in [*each["findings"], *each["lowering"], *each["captured"]]}
        for each in targets
    }
    for mark, found in shown.items():
        if not any(mark in known for known in marks.values()):
            marks.setdefault(found["target"] or "", {})[mark] = None
    known = {each["name"] for each in targets}
    rest = [shown[mark] for name, found in marks.items() if name not in known for mark in found]
    table = [_row(file, root, "", None, rest)] if rest else []
    for target in targets:
        problems = [shown[mark] for mark in marks[target["name"]] if mark in shown]
        table.append(_of_class(file, root, target, problems))
    return table


def _mark(finding: Finding) -> object:
    """A key that is equal for findings of the same problem (``overlays.groups``)."""
    span = finding["span"]
    return (finding["code"], tuple(span.values()) if span else finding["message"])


def _of_class(file: Checked, root: str, target: Target, problems: Iterable[Finding]) -> ModelRow:
    cost = file.costs[target["name"]]
    return {
        **_row(file, root, target["name"], target["line"], problems),
        "role": descriptions.role(target),
        "reason": target["reason"] or "",
        "construct": _origin(file, target["construct"]),
        "inputs": _origin(file, target["inputs"]),
        "verdicts": [_of_fx(target, cost.nodes), *(_verdict(each) for each in target["captures"])],
        "nodes": cost.nodes,
        "parameters": cost.parameters if cost.nodes else None,
        "flops": cost.flops,
    }


def _row(file: Checked, root: str, name: str, line: int | None, problems: Iterable[Finding]) -> ModelRow:
    cell, number = file.place(line or 1)
    return {
        "name": name, "place": _place(file, root, line), "uri": "", "cell": cell, "line": number - 1, "role": "",
        "reason": "", "construct": [], "inputs": [], "verdicts": [],
        "problems": [_problem(file, root, each) for each in problems],
        "nodes": 0, "parameters": None, "flops": None, "graph": "",
    }  # fmt: skip


def _problem(file: Checked, root: str, finding: Finding) -> Problem:
    span = finding_place.in_file(file.record["path"], finding, file.record)
    start = positions.lsp_range(span, file.lines)["start"]
    cell, line = file.place(start["line"] + 1)
    text = file.notebook.written if file.notebook else file.text
    return {
        "code": finding["code"],
        "severity": finding["severity"],
        "message": finding["message"],
        "place": _place(file, root, span["line"] if span else None),
        "cell": cell,
        "line": line - 1,
        "character": start["character"],
        "captures": [verdicts.NAMES.get(each, f"torch.{each}") for each in finding["captures"]],
        "notes": [each["message"] for each in finding["related"]],
        "fixes": [
            {"title": fix["title"], "diff": change(fix, {file.record["path"]: text})}
            for fix in best_fixes(finding)
            if is_proven(fix)
        ],
    }


def _place(file: Checked, root: str, line: int | None) -> str:
    """``models/net.py:12``, or ``net.ipynb:cell 3:12``; the file alone without a line."""
    path = relative(file.record["path"], root)
    path = file.record["path"] if path.startswith("..") else path.replace(os.sep, "/")
    if line is None:
        return path
    cell, line = file.place(line)
    return f"{path}:{line}" if cell is None else f"{path}:cell {cell}:{line}"


def _origin(file: Checked, origin: Origin | None) -> Sequence[str]:
    return [origin["text"], file.said(descriptions.where(origin))] if origin else []


def _of_fx(target: Target, nodes: int) -> ModelVerdict:
    name = verdicts.NAMES["fx"]
    if target["status"] == "skipped":
        return {"capture": name, "text": "not judged", "tone": "none", "reason": target["reason"] or ""}
    if target["status"] == "traced":
        return {"capture": name, "text": "✓", "tone": "good", "reason": f"captured in one graph of {nodes} nodes"}
    return {"capture": name, "text": verdicts.of_fx(target), "tone": "bad", "reason": target["reason"] or ""}


def _verdict(verdict: Verdict) -> ModelVerdict:
    return {
        "capture": verdicts.NAMES[verdict["capture"]],
        "text": verdicts.outcome(verdict),
        "tone": _TONES.get(verdict["outcome"], "none"),
        "reason": descriptions.verdict_text(verdict),
    }
