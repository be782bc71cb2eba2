"""What tools answer: plain data of a record, cut to a number of bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fxlens.checking.checker import Checked
from fxlens.checking.files import CannotCheck
from fxlens.checking.formats import diff
from fxlens.record import Finding, Fix, Node, Target
from fxlens.sources import files, positions
from fxlens.sources.cell import Nowhere, cells_of
from fxlens.sources.notebook import Notebook, line_of
from fxlens.sources.paths import key
from fxlens.views import finding_place
from fxlens.views.fixes import best_fixes

MOST_BYTES = 2000
_LONGEST = 300  # characters of a message
Answer = dict[str, Any]


def diagnosis(file: Checked, model: str | None, start: int) -> Answer:
    """The models of a file and what stops their capture."""
    targets = [each for each in file.record["targets"] if model in (None, each["name"])]
    findings = [each for each in file.findings if model in (None, each["target"])]
    return {
        "models": [_model(file, each) for each in targets],
        "findings": [_finding(file, each) for each in findings[start:]],
        "notes": [_short(each) for each in file.record["notes"]],
    }


def captures(file: Checked, model: str | None, start: int) -> Answer:
    """What each capture does with a model, and the findings with the captures that each stops."""
    target = named(file, model)
    found: Answer = _model(file, target)
    found["fx"] = {"outcome": "captured" if found.pop("status") == "traced" else "fails"}
    facts = ("outcome", "reason", "breaks", "graphs", "fullgraph")
    for each in target["captures"]:
        said = {name: each[name] for name in facts if each[name] not in ("", None)}  # type: ignore[literal-required]
        found[each["capture"]] = said
    findings = [each for each in file.findings if each["target"] == target["name"]]
    rows = [{**_finding(file, each), "captures": dict(each["captures"])} for each in findings]
    return {**found, "findings": rows[start:], "notes": [_short(each) for each in file.record["notes"]]}


def line_in(file: Checked, cell: int | None, line: int | None) -> int | None:
    """The line of the file's text (from 1) that a question names.  Raises CannotCheck."""
    if file.notebook is None:
        if cell is not None:
            raise CannotCheck(f"{file.path} is no notebook: it has no cells, so ask without `cell`")
        return None if line is None else line + 1
    if cell is None and line is None:
        return None
    if cell is None or line is None:
        raise CannotCheck(f"{file.path} is a notebook: ask for a `line` (from 0) of a `cell` (from 1), with both")
    found = file.notebook.line(cell, line + 1)
    if found is None:
        known = ", ".join(map(str, file.notebook.cells)) or "none"
        raise CannotCheck(f"{file.path} has no line {line} in a code cell {cell}; its code cells: {known}")
    return found


def fixes(file: Checked, line: int | None, code: str | None) -> Answer:
    """The fixes of the findings, or of those on a line (from 1), each as edits, the proven ones first."""
    found = []
    for each in file.findings:
        span = finding_place.in_file(file.record["path"], each, file.record)
        if span is None or code not in (None, each["code"]):
            continue
        if line is not None and not span["line"] <= line <= span["end_line"]:
            continue
        shown = [made for fix in best_fixes(each, 3) if (made := _fix(file, fix))]
        found.append({"code": each["code"], "fixes": shown})
    return {"findings": found}


def fixed(file: Checked, most: int) -> Answer:
    """What all proven fixes together change, as a diff."""
    text = diff(file)
    titles = [fix["title"] for fix in file.fixed.applied]
    if len(text) > most:
        text = (
            f"The diff has {len(text)} characters: ask with max_bytes={len(text) + 1500}, or for the fixes of a line."
        )
    return {"fixes": titles, "diff": text}


def graph(file: Checked, model: str | None, start: int) -> Answer:
    """A line for each node, and the modules' classes."""
    target = named(file, model)
    return {**_model(file, target), "nodes": [_node(file, each) for each in target["nodes"][start:]]}


def shapes(file: Checked, model: str | None, line: int | None, start: int) -> Answer:
    """The value of each node that was written in this file, by line; those of one ``line`` (from 1)."""
    target = named(file, model)
    own = key(file.record["path"])
    rows = []
    for node in target["nodes"]:
        steps = [each for each in [*node["call_path"], node["span"]] if each is not None and key(each["file"]) == own]
        span = steps[-1] if steps else None
        if span is not None and line in (None, span["line"]) and (value := _value(node)):
            rows.append({**file.line_of(span["line"]), "node": node["name"], "value": value})
    inputs = [f"{node['name']}: {_value(node)}" for node in target["nodes"] if node["op"] == "placeholder"]
    return {**_model(file, target), "inputs": inputs, "values": rows[start:]}


def cost(result: Mapping[str, Any], notebook: Notebook | None, start: int) -> Answer:
    """Operations, bytes and parameters, and the nodes with most operations."""
    nodes = sorted(result["nodes"], key=lambda node: -(node["flops"] or 0))
    facts = ("name", "target", "line", "flops", "read", "written", "parameters", "seconds")
    rows = [{name: node[name] for name in facts if node[name] is not None} for node in nodes]
    rows = [{**row, **(line_of(notebook, row["line"]) if "line" in row else {})} for row in rows]
    return {"model": result["target"], "device": result["device"], **result["totals"], "nodes": rows[start:]}


def lowered(result: Mapping[str, Any], notebook: Notebook | None, start: int) -> Answer:
    """What an engine takes of a model, and what stays in PyTorch."""
    report = result["report"]
    left = [layer for layer in report["layers"] if not layer["engine"]]
    rows = [
        {
            "node": layer["node"], "target": layer["target"], "code": layer["code"], "reason": layer["reason"],
            **(line_of(notebook, layer["span"][1]) if layer["span"] else {}),
        }
        for layer in left
    ]  # fmt: skip
    facts = ("model", "engine", "precision", "captured_by", "not_traced", "max_abs_error", "max_rel_error")
    return {
        **{name: report[name] for name in facts}, "parts": len(report["parts"]),
        "in_engine": len(report["layers"]) - len(left), "in_pytorch": rows[start:],
    }  # fmt: skip


def named(file: Checked, model: str | None) -> Target:
    """The model of this name, or the last one that has a graph.  Raises CannotCheck."""
    targets = [each for each in file.record["targets"] if model in (None, each["name"])]
    if not targets:
        known = ", ".join(each["name"] for each in file.record["targets"]) or "none"
        raise CannotCheck(f"{file.path} has no model{f' {model}' if model else ''}; its models: {known}")
    return ([each for each in targets if each["nodes"]] or targets)[-1]


def fitted(head: Answer, answer: Answer, most: int) -> str:
    """The answer as JSON of at most ``most`` bytes: of its longest lists the end is left out, and counted."""
    answer = {**head, **{name: value for name, value in answer.items() if value not in ([], None, "")}}
    lists = {name: list(value) for name, value in answer.items() if isinstance(value, list)}
    answer.update(lists)
    omitted: dict[str, int] = {}
    while len(text := _json(answer).encode()) > most and any(lists.values()):
        longest = max(lists, key=lambda name: len(_json(lists[name])))
        # At least one entry at a time, and as many as the excess suggests.
        size = len(_json(lists[longest]).encode()) / len(lists[longest])
        count = max(1, min(len(lists[longest]), int((len(text) - most) / size)))
        del lists[longest][-count:]
        omitted[longest] = omitted.get(longest, 0) + count
        answer["omitted"] = omitted
    return _json(answer)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _model(file: Checked, target: Target) -> Answer:
    found: Answer = {"model": target["name"], **file.line_of(target["line"]), "status": target["status"]}
    if target["reason"]:
        found["reason"] = _short(target["reason"])
    for name in ("construct", "inputs"):
        if origin := target[name]:  # type: ignore[literal-required]
            found[name] = _short(origin["text"])
    return found


def _finding(file: Checked, finding: Finding) -> Answer:
    span = finding_place.in_file(file.record["path"], finding, file.record)
    found = {
        "code": finding["code"], "severity": finding["severity"], "message": _short(finding["message"]),
        "model": finding["target"], **file.range_of(span),
    }  # fmt: skip
    titles = [fix["title"] for fix in best_fixes(finding)]
    return {**found, "fixes": titles} if titles else found


def _fix(file: Checked, fix: Fix) -> Answer | None:
    """None where it has an edit that no cell of a notebook can have."""
    edits: list[Answer] = []
    for edit in fix["edits"]:
        own = key(edit["file"]) == key(file.record["path"])
        lines = positions.lines_of(file.text if own else files.read_text(edit["file"], "replace") or "")
        where = {} if own else {"file": edit["file"]}
        edits.append({**where, "range": positions.lsp_range(edit, lines), "newText": edit["text"]})
        if own and file.notebook is not None:
            cell = cells_of(file.notebook)[file.notebook.holding(edit["line"]) or 0]
            try:
                edits[-1] = {"cell": cell.number, **cell.edit(edits[-1], "utf-16")}
            except Nowhere:
                return None
    note = {"note": fix["note"]} if fix["note"] else {}
    return {"title": fix["title"], "proven": fix["preferred"] and fix["checked"], **note, "edits": edits}


def _node(file: Checked, node: Node) -> str:
    span = node["span"]
    own = span is not None and key(span["file"]) == key(file.record["path"])
    cell, number = file.place(span["line"]) if span and own else (None, span["line"] if span else 0)
    line = f"{'' if cell is None else f' cell {cell}'} line {number - 1}" if span else ""
    value = f" -> {_value(node)}" if _value(node) else ""
    return f"{node['name']} = {node['op']} {node['target']}({_cut(node['args'], 60)}){value}{line}"


def _value(node: Node) -> str:
    if node["shape"] is None:
        return _cut(node["value"], 60)
    return f"{node['dtype']}[{', '.join(map(str, node['shape']))}]"


def _short(text: str) -> str:
    return _cut(text, _LONGEST)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
