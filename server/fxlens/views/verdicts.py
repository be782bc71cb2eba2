"""What the captures do with a model, in words."""

from __future__ import annotations

from fxlens.record import Target, Verdict


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


def summary(target: Target) -> str:
    """``fx ✗ 2 · export ✓ · compile 1 break · dimension 0 of x fixed at line 14``; empty where only torch.fx was
    asked."""
    if not target["captures"]:
        return ""
    parts = [f"fx {of_fx(target)}"]
    for each in target["captures"]:
        if each["capture"] != "shapes":
            parts.append(f"{each['capture']} {outcome(each)}")
        elif each["outcome"] == "pinned":
            parts.append(each["reason"])
    return " · ".join(parts)
