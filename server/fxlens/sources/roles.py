"""The part of a class in its workspace, which determines the severity of its findings.

A class is meant to be captured if it is passed to a capturing function, its construction is written down, or it is
watched.  Standard library only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fxlens.record import Role, Severity

from .known import Known

SCOPES = ("meant", "all")
"""Classes with findings of full severity: those meant to be captured, or all."""
WATCHED = "you watch it"
_LIMITS: dict[Role, Severity] = {"meant": "error", "root": "warning", "other": "hint", "aside": "hint"}


@dataclass(frozen=True)
class Part:
    """``limit`` is the highest severity of the class's shown findings."""

    role: Role
    why: str
    limit: Severity


@dataclass(frozen=True)
class Said:
    """All information about a file's classes: from the workspace (``known``; empty at first), from comments and the
    configuration (``written``), and from the user: watched classes, and the class at the cursor."""

    known: Mapping[str, Known]
    written: Collection[str] = ()
    watched: Collection[str] = ()
    cursor: str | None = None
    scope: str = "meant"

    def parts(self, names: Iterable[str]) -> dict[str, Part]:
        """The parts of the file's classes, and of all others mentioned, by name."""
        found = {}
        for name in {**dict.fromkeys(names), **dict.fromkeys(self.known), **dict.fromkeys(self.written)}:
            role, why = self._role(name)
            limit: Severity = "warning" if name == self.cursor and role != "meant" else _LIMITS[role]
            found[name] = Part(role, why, "error" if self.scope == "all" else limit)
        return found

    def _role(self, name: str) -> tuple[Role, str]:
        said = self.known.get(name, {})
        if captured := said.get("captured"):
            return "meant", captured
        if name in self.written:
            return "meant", "its construction is written down"
        if name in self.watched:
            return "meant", WATCHED
        if aside := said.get("aside"):
            return "aside", aside
        if said.get("root"):
            return "root", "scripts construct it"
        if holder := said.get("holder"):
            return "other", f"part of {holder}"
        return "root", "no other model contains it"
