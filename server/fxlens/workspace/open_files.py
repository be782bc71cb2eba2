"""What is open in the editor, and what each job on it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from fxlens.config.selection import apply
from fxlens.config.settings import CAPTURES, Settings
from fxlens.ipc.request import Limits, Request
from fxlens.record import Finding
from fxlens.sources.files import read_text
from fxlens.sources.paths import key

from .document import Document
from .environment import Environment


class OpenFiles:
    """The documents by their addresses, the environment of their folders, and whether their code may run."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self.environment = Environment()
        self.trusted = False
        self.configured = asyncio.Event()
        """Set once the client's settings are known."""

    def at(self, path: str) -> Document | None:
        wanted = key(path)
        return next((each for each in self.documents.values() if key(each.path) == wanted), None)

    def text_of(self, path: str) -> str | None:
        """The text of a file as it is now: in the editor where it is open there, else on disk."""
        document = self.at(path)
        return read_text(path) if document is None else document.text

    def settings(self, document: Document) -> Settings:
        return self.environment.settings(document.folder)

    def selected(self, document: Document, found: Iterable[Finding]) -> list[Finding]:
        """Those of the findings that settings, configuration and comments let through."""
        selection = self.environment.selection(document.folder, document.path)
        return apply(found, selection, document.text, document.path)

    def captures(self, document: Document) -> tuple[str, ...]:
        """The captures other than torch.fx that are asked about its models."""
        settings = self.settings(document)
        project = self.environment.project(document.folder, document.path)
        chosen = settings.captures or project.captures or CAPTURES
        return tuple(each for each in chosen if each != "fx")

    def request(self, document: Document) -> Request:
        settings = self.settings(document)
        project = self.environment.project(document.folder, document.path)
        overlays = {
            each.path: each.text for each in self.documents.values() if not each.saved and each.uri != document.uri
        }
        # A fix may extend one: the job proposes edits of the text that the editor has.
        overlays.update(self.environment.configurations)
        return Request(
            path=document.path,
            text=document.text,
            folder=document.folder,
            overlays=overlays,
            config_targets=project.targets_of(document.path),
            leaf_modules=project.leaf_modules,
            batch=settings.batch,
            device=settings.device,
            limits=Limits(deadline=settings.deadline, memory=settings.memory << 20),
        )
