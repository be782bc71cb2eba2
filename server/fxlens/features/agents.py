"""The questions of agents, about the files as they are in the editor.

``fxlens/ask`` ``{tool, arguments, unsaved}``, answer ``{text}`` or ``{reason}``: ``tool`` and its ``arguments`` are
those of ``fxlens mcp``, except ``text``; ``unsaved`` are the addresses of the documents with unsaved changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from fxlens.answers import AskAnswer, Refusal
from fxlens.ipc.request import Limits
from fxlens.mcp.asking import Asking, Folder
from fxlens.mcp.questions import NO_ANSWER, question
from fxlens.sources.files import read_text

from . import params
from .folders import folder_of, folders, path_of
from .model_jobs import NoAnswer

if TYPE_CHECKING:
    from fxlens.server import FxLensServer

_SECONDS = 30.0  # an agent waits longer than a user who types


def register(server: FxLensServer) -> None:
    @server.feature("fxlens/ask")
    async def ask(ls: FxLensServer, given: Any) -> AskAnswer | Refusal:
        plain = params.of(given)
        arguments, unsaved = plain.get("arguments"), plain.get("unsaved")
        try:
            asked = question(name := params.text(plain, "tool"))
            arguments = arguments if isinstance(arguments, dict) else {}
            await ls.session.configured()
            path = _path(ls, params.text(arguments, "file"))
            asking = ls.agents.asking(name, path, unsaved if isinstance(unsaved, list) else [])
            return {"text": await asked.answer(asking, {**arguments, "file": path})}
        except (*NO_ANSWER, NoAnswer) as error:
            return {"reason": str(error)}


class Agents:
    """Keeps knowledge of each workspace folder that was asked about; nothing for other folders.

    Its index is separate from that of the session (`workspace.environment`), which gets every edit: answers are about
    saved files, except for documents that the client lists as unsaved."""

    def __init__(self, ls: FxLensServer) -> None:
        self._ls = ls
        self._folders: dict[str, Folder] = {}

    def asking(self, name: str, path: str, dirty: list[Any]) -> Asking:
        """For one question about a file, with its folder's current interpreter and limits."""
        session, folder = self._ls.session, folder_of(self._ls, path)
        settings = session.settings_for(folder)
        if not settings.enable:
            raise NoAnswer("FX Lens is turned off for this folder by the setting fxlens.enable.")
        pool, home = session.pool_for(folder), folder or os.path.dirname(path)
        known = self._folders.get(home) or Folder(home, top=home)
        if folder is not None:
            self._folders[home] = known
        return Asking(
            known,
            pool,
            session.trusted and folder is not None,
            "Trust the workspace first." if folder else "Open it in the workspace first.",
            Limits(deadline=max(_SECONDS, settings.deadline), memory=settings.memory << 20),
            settings,
            self._unsaved(dirty),
            lambda: self._ls.model_jobs.alone(f"The agent's question {name}"),
        )

    def _unsaved(self, dirty: list[Any]) -> Callable[[], Mapping[str, str]]:
        """Returns the texts of the documents that the client lists as unsaved, and of those that change from now on:
        others may be older than their file. For a notebook only the file counts, since its documents are cells."""
        session = self._ls.session
        versions = {uri: each.version for uri, each in session.documents.items() if uri not in dirty}
        configurations = [path for uri in dirty if isinstance(uri, str) and (path := path_of(uri)) is not None]

        def texts() -> Mapping[str, str]:
            changed = [each for uri, each in session.documents.items() if versions.get(uri) != each.version]
            documents = [each for each in changed if self._ls.cells.get(each.uri) is None]
            opened = ((path, session.opened_configuration(path)) for path in configurations)
            found = {path: text for path, text in opened if text is not None}
            return {**found, **{each.path: each.text for each in documents if each.text != read_text(each.path)}}

        return texts

    async def leave_but(self, folders: Collection[str]) -> None:
        """Ends what is kept of folders that have left the workspace."""
        for left in [self._folders.pop(each) for each in self._folders.keys() - folders]:
            async with left.turn:  # a question may be under way
                await left.close()

    async def close(self) -> None:
        left, self._folders = [*self._folders.values()], {}
        for each in left:  # without waiting for a question: the server ends
            await each.close()


def _path(ls: FxLensServer, file: str) -> str:
    """A path in any folder of the workspace, or the address of a document."""
    document = ls.session.documents.get(file)
    if document is not None or not file:
        return document.path if document else ""
    path = path_of(file) or os.path.expanduser(file)
    known = [os.path.join(folder, path) for folder in folders(ls)]
    return os.path.normpath(next((each for each in known if os.path.exists(each)), next(iter(known), path)))
