"""The verdicts of captures on a model, as text."""

from __future__ import annotations

from fxlens.record import Fix, Record, Target, Verdict

NAMES = {
    "fx": "torch.fx", "export": "torch.export", "compile": "torch.compile", "strict": "strict", "shapes": "sizes",
}  # fmt: skip
"""Display names of the captures; ``strict``: torch.export with ``strict=True``; ``sizes``: the sizes that may vary."""


PURPOSES = {"export": "for torch.export", "compile": "for torch.compile", "shapes": "for sizes that vary"}
"""The capture that a fix is for, if not torch.fx."""


def unchecked(fix: Fix) -> str:
    """``not checked: out of time``: says that a fix was not compared with eager, with the reason if known, or what it
    assumes; empty if nothing speaks against it."""
    if fix["checked"]:
        return fix["assumes"] or ""
    reasons = [each for each in (fix["note"] or "").split("; ") if each.startswith(("not checked", "not compared"))]
    return next(iter(reasons), "not checked")


def of_fx(target: Target) -> str:
    """``✓``, or ``✗ 2`` with the number of places at which torch.fx raises."""
    if target["status"] == "traced":
        return "✓"
    loud = sum(each["code"].startswith("FX1") for each in target["findings"])
    return f"✗ {loud}" if loud else "✗"


def outcome(verdict: Verdict) -> str:
    """``✓``, ``✗``, ``2 breaks``, or the sizes that are fixed."""
    if verdict["outcome"] == "parts":
        return f"{verdict['breaks']} break{'' if verdict['breaks'] == 1 else 's'}"
    if verdict["outcome"] == "pinned":
        return verdict["reason"]
    return {"captured": "✓", "fails": "✗"}.get(verdict["outcome"], "?")


def told(target: Target) -> list[Verdict]:
    """The verdicts of other captures worth showing: strict export only if it differs from export."""
    export = next((each["outcome"] for each in target["captures"] if each["capture"] == "export"), None)
    return [each for each in target["captures"] if each["capture"] != "strict" or each["outcome"] != export]


def summary(target: Target, sizes: bool = True) -> str:
    """``fx ✗ 2 · export ✓ · compile 1 break · dimension 0 of x fixed at line 14``; empty if only torch.fx was run;
    fixed ``sizes`` are optional."""
    if not target["captures"]:
        return ""
    parts = [f"fx {of_fx(target)}"]
    for each in told(target):
        if each["capture"] != "shapes":
            parts.append(f"{each['capture']} {outcome(each)}")
        elif sizes and each["outcome"] == "pinned":
            parts.append(each["reason"])
    return " · ".join(parts)


def named(record: Record, name: str) -> Target | None:
    """A target by its name, or its captured graph by a name of `capture_names`."""
    for target in record["targets"]:
        if target["name"] == name:
            return target
        for other, verdict in _by_name(target).items():
            if other == name and verdict["graph"] is not None:
                return {**target, **verdict["graph"], "name": name, "status": "traced", "reason": None, "lowering": []}
    return None


def closest(record: Record, name: str) -> Target | None:
    """As `named`; the model itself while the capture has no result yet."""
    return named(record, name) or named(record, name.partition(" (")[0])


def capture_names(target: Target) -> list[str]:
    """The names of a target's captured graphs in views: ``Net (torch.export)``."""
    return [*_by_name(target)]


def _by_name(target: Target) -> dict[str, Verdict]:
    return {f"{target['name']} ({NAMES[each['capture']]})": each for each in target["captures"] if each["graph"]}
