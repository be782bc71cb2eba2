"""The results of torch.export and torch.compile for a model, for an assertion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_NAMES = {"export": "torch.export", "compile": "torch.compile", "shapes": "torch.export with sizes that vary"}
_RECOMPILED = "FX62"


@dataclass(frozen=True)
class Wanted:
    """The requirements; see `assert_captures`."""

    export: bool
    breaks: int | None
    recompiles: int | None
    dynamic: bool | Mapping[str, Iterable[int]]

    @property
    def captures(self) -> list[str]:
        compiled = self.breaks is not None or self.recompiles is not None
        asked = {"export": self.export or self.dynamic, "compile": compiled, "shapes": self.dynamic}
        return [name for name, wanted in asked.items() if wanted]


def judge(model: Any, inputs: Any, more: Iterable[Any], wanted: Wanted) -> tuple[list[str], list[Any]]:
    """The violated requirements, in a few words each, and the findings that explain them."""
    from fxlib.captures import judge as ask

    if not wanted.captures:
        return [], []
    verdicts = ask(model, inputs, more=more, captures=wanted.captures).verdicts
    failures: list[str] = []
    findings: list[Any] = []
    for name, verdict in verdicts.items():
        if verdict.outcome == "unknown":
            if name == "shapes" and verdicts["export"].outcome != "captured":
                continue  # that it is not exported is said already
            failures.append(f"{_NAMES[name]} could not be run: {verdict.reason}")
            continue
        said, found = _CHECKS[name](verdict, wanted)
        failures += said
        findings += [each for each in found if (each.code, each.span) not in {(f.code, f.span) for f in findings}]
    return failures, findings


def _export(verdict: Any, wanted: Wanted) -> tuple[list[str], list[Any]]:
    if verdict.outcome == "captured":
        return [], []
    return ["torch.export does not accept it"], [each for each in verdict.findings if each.severity == "error"]


def _compile(verdict: Any, wanted: Wanted) -> tuple[list[str], list[Any]]:
    again = [each for each in verdict.findings if each.code.startswith(_RECOMPILED)]
    others = [each for each in verdict.findings if each not in again and each.severity in ("error", "warning")]
    if verdict.outcome == "fails":
        return [f"torch.compile fails: {verdict.reason}"], others
    failures, found = [], []
    if wanted.breaks is not None and verdict.breaks > wanted.breaks:
        failures.append(f"torch.compile: {_count(verdict.breaks, 'graph break')} instead of {wanted.breaks}")
        found += others
    if wanted.recompiles is not None and len(again) > wanted.recompiles:
        failures.append(f"torch.compile: {_count(len(again), 'recompilation')} instead of {wanted.recompiles}")
        found += again
    return failures, found


def _shapes(verdict: Any, wanted: Wanted) -> tuple[list[str], list[Any]]:
    pinned = [each for each in verdict.findings if each.data.get("dimensions")]
    failures = []
    if isinstance(wanted.dynamic, Mapping):
        named = {(name, dim) for name, dims in wanted.dynamic.items() for dim in dims}
        pinned = [each for each in pinned if named & {(name, dim) for name, dim in each.data["dimensions"]}]
        failures = [text for name, dim in sorted(named) if (text := _never(verdict.dimensions, name, dim))]
    elif verdict.outcome == "captured":
        return [], []
    return [*failures, *(["the exported program is valid for one size only"] if pinned else [])], pinned


def _never(known: Mapping[tuple[str, int], str], name: str, dim: int) -> str:
    """Why a named dimension cannot vary in the model itself; empty if it can."""
    if (name, dim) not in known:
        there = ", ".join(f"dimension {dim} of {name}" for name, dim in known) or "no tensors"
        return f"`dynamic` names dimension {dim} of {name}, but the inputs have {there}"
    return (
        f"the model itself accepts no other size for dimension {dim} of {name}" if known[name, dim] == "fixed" else ""
    )


_CHECKS = {"export": _export, "compile": _compile, "shapes": _shapes}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
