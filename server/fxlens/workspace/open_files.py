"""The documents open in the editor, and the requests for jobs on them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from fxlens.config import choices
from fxlens.config.selection import apply
from fxlens.config.settings import USUAL_CAPTURES, Settings
from fxlens.ipc.request import Limits, Request
from fxlens.overlays import Part
from fxlens.record import Finding
from fxlens.sources import known, targets
from fxlens.sources.files import read_text
from fxlens.sources.known import Known
from fxlens.sources.notebook import is_notebook
from fxlens.sources.paths import key

from .document import Document
from .environment import Environment


class OpenFiles:
    """The documents by their addresses, the environment of their folders, and whether their code may run.
    ``reconfigured`` is that of `Environment`."""

    def __init__(self, reconfigured: Callable[[str | None, str], None]) -> None:
        self.documents: dict[str, Document] = {}
        self.environment = Environment(lambda path: self.at(path) is not None, reconfigured)
        self.trusted = False
        self.confined = False
        """Whether documents outside of the workspace's folders are only read: nobody has asked about them."""
        self.configured = asyncio.Event()
        """Set once the client's settings are known."""
        self.here: Document | None = None
        """The user's current document: the last one edited, or the one named by the client."""

    def at(self, path: str) -> Document | None:
        wanted = key(path)
        return next((each for each in list(self.documents.values()) if key(each.path) == wanted), None)

    def text_of(self, path: str) -> str | None:
        """The text of a file as it is now: in the editor if it is open there, otherwise on disk."""
        document = self.at(path)
        return read_text(path) if document is None else document.text

    def why_not_run(self, document: Document) -> str | None:
        """Why the document's code may not run; None if it may."""
        if not self.trusted:
            return "The workspace is not trusted, so its models are not run."
        if self.confined and document.folder is None:
            return (
                "This file is outside of the workspace's folders, so its models are not run. "
                "To run them, open its folder in the editor."
            )
        return None

    def may_run(self, document: Document) -> bool:
        return self.why_not_run(document) is None

    def settings(self, document: Document) -> Settings:
        return self.environment.settings(document.folder)

    def selected(self, document: Document, found: Iterable[Finding]) -> list[Finding]:
        """The findings selected by settings, configuration and comments."""
        selection = self.environment.selection(document.folder, document.path)
        return apply(found, selection, document.text, document.path)

    def known(self, document: Document) -> dict[str, Known]:
        """The current knowledge of the document's classes, without waiting."""
        assumed = known.from_record(document.record["targets"]) if document.record else {}
        knowledge = self.environment.knowledge(document.folder)
        said = document.known
        if said is None:
            said = knowledge.recorded_for(document.path) if knowledge else {}
        return known.merged(said, assumed)

    def parts(self, document: Document, names: Iterable[str]) -> dict[str, Part]:
        """The parts of the document's classes, as far as known now."""
        settings = self.settings(document)
        project = self.environment.project(document.folder, document.path)
        written = frozenset() if document.is_long else targets.written(document.text)
        of = settings, project, document.path, document.folder, document.known or {}, written
        return {**choices.said(*of, cursor=self.cursor(document)).parts(names)}

    def cursor(self, document: Document) -> str | None:
        """The class of the document at the user's cursor."""
        return document.class_here() if document is self.here else None

    def captures(self, document: Document) -> tuple[str, ...]:
        """The captures other than torch.fx that are run on its models."""
        settings = self.settings(document)
        project = self.environment.project(document.folder, document.path)
        chosen = settings.captures or project.captures or USUAL_CAPTURES
        return tuple(each for each in chosen if each != "fx")

    def request(self, document: Document) -> Request:
        settings = self.settings(document)
        project = self.environment.project(document.folder, document.path)
        overlays = {
            each.path: each.text
            for each in self.documents.values()
            if not each.saved and each.uri != document.uri and not is_notebook(each.path)
        }
        # A fix may extend one: the job proposes edits of the editor's text.
        overlays.update(self.environment.configurations)
        return Request(
            path=document.path,
            text=document.text,
            folder=document.folder,
            overlays=overlays,
            config_targets=project.targets_of(document.path),
            leaf_modules=project.leaf_modules,
            tracer=project.tracer,
            known=self.known(document),
            cursor=self.cursor(document) or "",
            batch=settings.batch,
            device=settings.device,
            limits=Limits(deadline=settings.deadline, memory=settings.memory << 20),
        )
