"""What the captures do with a model, in words."""

from __future__ import annotations

from fxlens.record import Fix, Record, Target, Verdict

NAMES = {
    "fx": "torch.fx", "export": "torch.export", "compile": "torch.compile", "strict": "strict", "shapes": "sizes",
}  # fmt: skip
"""What a reader calls the captures; ``strict``: torch.export with ``strict=True``; ``sizes``: which sizes it lets
vary."""


PURPOSES = {"export": "for torch.export", "compile": "for torch.compile", "shapes": "for sizes that vary"}
"""What a fix is for, where it is not for torch.fx."""


def unchecked(fix: Fix) -> str:
    """``not checked: out of time``: that a fix was not compared with eager, with the reason where it is known, or what
    it assumes; empty where nothing speaks against it."""
    assumed = next((each for each in (fix["note"] or "").split("; ") if each.startswith("right only")), "")
    if fix["checked"]:
        return assumed
    reasons = [each for each in (fix["note"] or "").split("; ") if each.startswith(("not checked", "not compared"))]
    return next(iter(reasons), "not checked")


def of_fx(target: Target) -> str:
    """``✓``, or ``✗ 2`` with the number of places at which torch.fx raises."""
    if target["status"] == "traced":
        return "✓"
    loud = sum(each["code"].startswith("FX1") for each in target["findings"])
    return f"✗ {loud}" if loud else "✗"


def outcome(verdict: Verdict) -> str:
    """``✓``, ``✗``, ``2 breaks``, or what is fixed to one size."""
    if verdict["outcome"] == "parts":
        return f"{verdict['breaks']} break{'' if verdict['breaks'] == 1 else 's'}"
    if verdict["outcome"] == "pinned":
        return verdict["reason"]
    return {"captured": "✓", "fails": "✗"}.get(verdict["outcome"], "?")


def told(target: Target) -> list[Verdict]:
    """The verdicts of other captures that are worth a place: that of strict export where it is not that of export."""
    export = next((each["outcome"] for each in target["captures"] if each["capture"] == "export"), None)
    return [each for each in target["captures"] if each["capture"] != "strict" or each["outcome"] != export]


def summary(target: Target, sizes: bool = True) -> str:
    """``fx ✗ 2 · export ✓ · compile 1 break · dimension 0 of x fixed at line 14``; empty where only torch.fx was
    asked, and without the ``sizes`` that are fixed where they are not wanted."""
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
    """A target by its name, or what a capture makes of it by a name of `capture_names`."""
    for target in record["targets"]:
        if target["name"] == name:
            return target
        for other, verdict in _by_name(target).items():
            if other == name and verdict["graph"] is not None:
                return {**target, **verdict["graph"], "name": name, "status": "traced", "reason": None, "lowering": []}
    return None


def closest(record: Record, name: str) -> Target | None:
    """As `named`; the model itself as long as it is not known what a capture makes of it."""
    return named(record, name) or named(record, name.partition(" (")[0])


def capture_names(target: Target) -> list[str]:
    """What the captured graphs of a target are called in views: ``Net (torch.export)``."""
    return [*_by_name(target)]


def _by_name(target: Target) -> dict[str, Verdict]:
    return {f"{target['name']} ({NAMES[each['capture']]})": each for each in target["captures"] if each["graph"]}
