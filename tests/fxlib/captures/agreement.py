"""Where the verdicts on a model differ from torch's: both sides as plain data, so that they may come from two
processes."""

import linecache
from typing import Any

from fxlib.captures import Judgement

# FX614 and FX698 are errors, FX62x are about later calls.
_NO_BREAKS = ("FX614", "FX62", "FX698")
# Dynamo reports a whole statement if it cannot enter a block, and for an assertion with a message; the finding is at
# the condition.
_HEADS = ("if ", "for ", "while ", "assert ", "with ", "class ", "def ")


def answer(judgement: Judgement) -> dict[str, Any]:
    """The verdicts, in the form that `differences` compares."""
    export, compiled = judgement.verdicts["export"], judgement.verdicts["compile"]
    found: dict[str, Any] = {name: verdict.outcome for name, verdict in judgement.verdicts.items()}
    found["reasons"] = {name: verdict.reason for name, verdict in judgement.verdicts.items() if verdict.reason}
    found["fullgraph"], found["breaks"] = compiled.fullgraph, compiled.breaks
    found["graphs"] = len(compiled.parts)
    found["operators"] = sum(part.operators for part in compiled.parts)
    found["failures"] = [_plain(each) for each in export.findings if not each.code.startswith("FX55")]
    found["broken"] = [_plain(each) for each in compiled.findings]
    found["ends"] = [_plain_span(part.ended_by) for part in compiled.parts]
    found["findings"] = [_plain(each) for each in judgement.findings]
    return found


def _plain(finding: Any) -> dict[str, Any]:
    hidden = bool(finding.data.get("hidden"))
    return {"code": finding.code, "severity": finding.severity, "span": _plain_span(finding.span), "hidden": hidden}


def _plain_span(span: Any) -> list[Any] | None:
    return None if span is None else list(span)


def differences(real: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """The differences between `reference.py` and `answer` for a model; none if both agree."""
    wrong = []

    def same(what: str, theirs: Any, own: Any) -> None:
        if theirs != own:
            wrong.append(f"{what}: torch {theirs}, here {own}")

    for name in ("export", "compile", "strict"):
        if name in ours:
            same(f"{name} fails", real[name] is not None, ours[name] == "fails")
    same("fullgraph", real["fullgraph"] is None, ours["fullgraph"])
    same("graphs", real["graphs"], ours["graphs"])
    same("operators", real["operators"], ours["operators"])

    breaks = [each for each in ours["broken"] if not each["hidden"] and not each["code"].startswith(_NO_BREAKS)]
    spans = [each["span"] for each in breaks]
    same("lines of breaks", sorted(set(real["breaks"])), sorted({span[1] for span in spans if span}))
    if (ours["breaks"] > 0) != bool(real["breaks"]) or ours["breaks"] < len({tuple(span) for span in spans if span}):
        wrong.append(f"breaks: torch {len(real['breaks'])}, here {ours['breaks']}")
    # Dynamo knows the line and both columns; the exact expression starts and ends there. If it cannot continue after a
    # break, the graph ends earlier in the same statement, which `explain` reports.
    places = [each["span"] for each in ours["broken"] if each["span"]]
    places += [end for end in ours["ends"] if end and end[1] in {each[1] for each in places}]
    exact = {(line, column, end_column) for _, line, column, _, end_column in places}
    for line, column, end_column in known_ranges(real):
        heads = (linecache.getline(file, line)[column:] for file, at, *_ in places if at == line)
        if (line, column, end_column) not in exact and not any(head.startswith(_HEADS) for head in heads):
            wrong.append(f"range {line}:{column}-{end_column} is not among {sorted(exact)}")

    same("failures of export", real["export"] is not None, bool(ours["failures"]))
    first = ours["failures"][0]["span"] if ours["failures"] else None
    line = real.get("export_line")
    if line is not None and (first is None or not first[1] <= line <= first[3]):
        wrong.append(f"line of the failure: torch {line}, here {first}")
    return wrong


def known_ranges(real: dict[str, Any]) -> list[list[int]]:
    """Line and columns of every break that Dynamo gives some of."""
    return [*real["ranges"], *([real["fullgraph_place"]] if real.get("fullgraph_place") else [])]


def complaints(real: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """Codes of errors and warnings about a model that torch captures whole and does not recompile."""
    if any(real[name] is not None for name in ("export", "fullgraph", "compile")) or real["breaks"]:
        return []
    codes = [each["code"] for each in ours["findings"] if each["severity"] in ("error", "warning")]
    return [code for code in codes if not (real.get("compiled again") and code.startswith("FX62"))]
