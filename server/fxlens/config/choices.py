"""What the user's settings and a project's configuration say together about a file's findings and classes: in the
editor, in its table of models, to agents, and on the command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fxlens.sources.known import Known
from fxlens.sources.paths import is_named
from fxlens.sources.roles import Said

from .project import Project
from .selection import Selection
from .settings import Settings


def selection(settings: Settings, project: Project, accepted: Sequence[Sequence[str]] = ()) -> Selection:
    """Which findings of the project's files are shown, and with which severity."""
    return Selection(
        select=settings.select or project.select,
        ignore=settings.ignore + project.ignore,
        severity={**project.severity, **settings.severity},
        captures=settings.captures or project.captures or ("fx",),
        accepted=accepted,
    )


def said(
    settings: Settings,
    project: Project,
    path: str,
    folder: str | None,
    known: Mapping[str, Known],
    written: Collection[str],
    *,
    cursor: str | None = None,
    scope: str = "",
) -> Said:
    """What there is to say of the classes of a file in a folder. Settings are for every project, so its own scope goes
    first; a ``scope`` that was asked for just now goes before both."""
    watched = {
        name
        for file, _, name in (each.rpartition("::") for each in settings.watch)
        if is_named(file, folder or "", path)
    }
    written = {*written, *project.targets_of(path)}
    return Said(known, written, watched, cursor, scope or project.scope or settings.scope)
