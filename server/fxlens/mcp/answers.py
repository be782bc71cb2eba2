"""The answers of tools: plain data from a record, cut to a number of bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fxlens.checking.checker import Checked
from fxlens.checking.files import CannotCheck
from fxlens.record import Finding, Fix, Located, Node, Target
from fxlens.sources import files, positions, targets
from fxlens.sources.cell import Nowhere, cells_of
from fxlens.sources.notebook import Notebook, line_of
from fxlens.sources.paths import key
from fxlens.syntax.recover import parse_tolerantly
from fxlens.views import finding_place
from fxlens.views.fixes import best_fixes

MOST_BYTES = 2000
_LONGEST = 300  # characters of a message
Answer = dict[str, Any]


def diagnosis(file: Checked, model: str | None, start: int) -> Answer:
    """The models of a file and their findings; from a ``start`` on only the latter. Findings of the whole file, such as
    a failed import, are those of each model.  Raises CannotCheck if there is no such model."""
    if model is not None:
        _demand(file, model)
    findings = [each for each in file.findings if model is None or each["target"] in (None, model)]
    models = [_model(file, each) for each in file.record["targets"] if model in (None, each["name"])]
    for each in models:
        if any(found["target"] == each["model"] for found in findings):
            each.pop("reason", None)  # a finding has it
    return {
        "models": [] if start else models,
        "findings": [_finding(file, each) for each in findings[start:]],
        "notes": [] if start else [_short(each) for each in file.record["notes"]],
    }


def captures(file: Checked, model: str | None, start: int) -> Answer:
    """The verdict of each capture on a model, and the findings with the captures that each affects."""
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
            raise CannotCheck(f"{file.path} is not a notebook: it has no cells, so leave out `cell`")
        return None if line is None else line + 1
    if cell is None and line is None:
        return None
    if cell is None or line is None:
        raise CannotCheck(f"{file.path} is a notebook: give both a `cell` (from 1) and a `line` of it (from 0)")
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
    """The changes of all proven fixes together, as a diff."""
    text = b"".join(file.patches.values()).decode("utf-8", "backslashreplace")
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
    rows = []
    for node in target["nodes"]:
        at = _own_line(file.record["path"], node)
        if at is not None and line in (None, at) and (value := _value(node)):
            rows.append({**file.line_of(at), "node": node["name"], "value": value})
    placeholders = [node for node in target["nodes"] if node["op"] == "placeholder"]
    inputs = [f"{node['name']}: {_value(node) or _cut(node['args'], 60)}" for node in placeholders]
    return {**_model(file, target), "inputs": inputs, "values": rows[start:]}


def cost(path: str, result: Mapping[str, Any], notebook: Notebook | None, start: int) -> Answer:
    """Operations, bytes and parameters, and the nodes with most operations."""
    nodes = sorted(result["nodes"], key=lambda node: -(node["flops"] or 0))
    places = _places(path, result, notebook)
    facts = ("name", "target", "flops", "read", "written", "parameters", "seconds")
    rows = [
        {**{name: node[name] for name in facts if node[name] is not None}, **places.get(node["name"], {})}
        for node in nodes
    ]
    return {"model": result["target"], "device": result["device"], **result["totals"], "nodes": rows[start:]}


def lowered(path: str, result: Mapping[str, Any], notebook: Notebook | None, start: int) -> Answer:
    """The parts of a model that an engine runs, and those that stay in PyTorch."""
    report = result["report"]
    places = _places(path, result, notebook)
    left = [layer for layer in report["layers"] if not layer["engine"]]
    rows = [
        {
            "node": layer["node"], "target": layer["target"], "code": layer["code"], "reason": layer["reason"],
            **places.get(layer["node"], {}),
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
    found = [each for each in file.record["targets"] if model in (None, each["name"])]
    if not found:
        raise _unknown(file, model, [each["name"] for each in file.record["targets"]])
    return ([each for each in found if each["nodes"]] or found)[-1]


def _demand(file: Checked, model: str) -> None:
    """Raises CannotCheck if a file has no such model. Of a file that was not executed, or whose execution failed, every
    class that may be a model counts."""
    known = [each["name"] for each in file.record["targets"]]
    if not known and (file.record["torch"] is None or any(each["target"] is None for each in file.findings)):
        tree, _ = parse_tolerantly(file.text)
        if tree is None:
            return
        known = [name for name, node in targets.classes(tree) if targets.may_be_model(node)]
    if model not in known:
        raise _unknown(file, model, known)


def _unknown(file: Checked, model: str | None, known: Sequence[str]) -> CannotCheck:
    name = f" {model}" if model else ""
    return CannotCheck(f"{file.path} has no model{name}; its models: {', '.join(known) or 'none'}")


def fitted(head: Answer, answer: Answer, most: int) -> str:
    """The answer as JSON of at most ``most`` bytes: entries at the end of its longest list are dropped and counted,
    until another list is the longest."""
    answer = {**head, **{name: value for name, value in answer.items() if value not in ([], None, "")}}
    lists = {name: list(value) for name, value in answer.items() if isinstance(value, list)}
    answer.update(lists)
    omitted: dict[str, int] = {}
    while (excess := len(_json(answer).encode()) - most) > 0 and any(lists.values()):
        sizes = {name: len(_json(entries).encode()) for name, entries in lists.items()}
        longest = max(sizes, key=lambda name: sizes[name])
        second = max((size for name, size in sizes.items() if name != longest), default=0)
        # At least one entry at a time, and as many as the excess suggests.
        count = len(lists[longest])
        count = max(1, min(count, int(min(excess, sizes[longest] - second) / sizes[longest] * count)))
        del lists[longest][-count:]
        if not lists[longest]:
            del answer[longest], lists[longest]  # an empty one would mean that there is nothing
        omitted[longest] = omitted.get(longest, 0) + count
        answer["omitted"] = omitted
    return _json(answer)


def _json(value: Any) -> str:
    """As JSON. Lone surrogates, as in file names that are not UTF-8, are replaced."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


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
    """None if it has an edit that does not fit into a notebook's cell."""
    edits: list[Answer] = []
    for edit in fix["edits"]:
        own = key(edit["file"]) == key(file.record["path"])
        lines = positions.lines_of(file.text if own else files.read_shown(edit["file"]))
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
    line = ""
    if (at := _own_line(file.record["path"], node)) is not None:
        cell, number = file.place(at)
        line = f"{'' if cell is None else f' cell {cell}'} line {number - 1}"
    value = f" -> {_value(node)}" if _value(node) else ""
    return f"{node['name']} = {node['op']} {node['target']}({_cut(node['args'], 60)}){value}{line}"


def _own_line(path: str, node: Located) -> int | None:
    """The line of the file (from 1) that a node comes from: that of its expression, or of the call that leads to
    another file."""
    steps = [each for each in [*node["call_path"], node["span"]] if each is not None and key(each["file"]) == key(path)]
    return steps[-1]["line"] if steps else None


def _places(path: str, result: Mapping[str, Any], notebook: Notebook | None) -> dict[str, Answer]:
    """Node name to its line, for nodes that have one in the file."""
    lines = {each["name"]: _own_line(path, each) for each in result["located"]}
    return {name: line_of(notebook, line) for name, line in lines.items() if line is not None}


def _value(node: Node) -> str:
    if node["shape"] is None:
        return _cut(node["value"], 60)
    return f"{node['dtype']}[{', '.join(map(str, node['shape']))}]"


def _short(text: str) -> str:
    return _cut(text, _LONGEST)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
