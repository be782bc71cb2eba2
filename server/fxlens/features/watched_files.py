"""Files that the client watches: those with endings that code or we read, and others that the code of open documents
has read; and what changes on disk do."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lsprotocol import types

from fxlens.sources.files import without_content

from .folders import path_of

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0
"""How long the client may take to register something."""
_READ = (".py", ".ipynb", ".md", ".yaml", ".yml", ".json", ".toml")
"""Endings of the files that we read ourselves."""
_WATCHED = [each[1:] for each in _READ] + ["ini", "cfg", "conf", "env", "txt", "csv", "tsv", "xml"]
_MOST_NAMES = 1000
"""Of files with other endings."""
_AT_ONCE = 0.02
"""Seconds of work on file changes before requests get a turn."""


def register(server: FxLensServer) -> None:
    names: set[str] = set()
    seen: set[str] = set()

    def also_read(ls: FxLensServer, document: Document) -> None:
        record = document.record
        if record is None or not _may_register(ls):
            return
        # Imports are looked for at many more places.
        read = [each for each in record["files"] if not without_content(each) or each in record["looked_at"]]
        new = {name for path in read for name in _special(os.path.normpath(path), document.folder or "", seen)} - names
        if new and len(names) + len(new) <= _MOST_NAMES:
            names.update(new)
            ls.tasks.start(_register(ls, f"fxlens-files-{len(names)}", _named(sorted(new))))

    server.on_traced.append(also_read)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def on_disk(ls: FxLensServer, params: types.DidChangeWatchedFilesParams) -> None:
        began = time.monotonic()
        for change in params.changes:
            if time.monotonic() - began > _AT_ONCE:  # another branch was checked out
                await asyncio.sleep(0)
                began = time.monotonic()
            if (path := path_of(change.uri)) is not None:
                tell(ls, path)


def tell(ls: FxLensServer, path: str) -> None:
    """Traces again what depends on a file, or on what is in a folder, that has changed on disk."""
    if not _counts(path):
        if ls.session.is_read(path):
            ls.session.read_file_changed(path)
        if not os.path.lexists(path):
            ls.tasks.start(ls.session.gone(path))
    elif ls.session.document_at(path) is not None:
        ls.session.open_file_changed(path)
    elif ls.session.opened_configuration(path) is not None:
        ls.session.read_file_changed(path)  # its text in the editor counts for us, but not for code that reads it
    else:
        ls.session.changed_on_disk(path)


def _special(path: str, folder: str, seen: set[str]) -> Iterator[str]:
    """The names below a folder whose changes are not told otherwise: that of a file with another ending, and those of
    links on the way to it. A link that is made anew is one change, and no more a file that comes or goes."""
    if os.path.splitext(path)[1][1:] not in _WATCHED:
        yield os.path.basename(path)
    inside = os.path.join(folder, "")
    while path not in seen and path.startswith(inside):
        seen.add(path)
        if os.path.islink(path):
            yield os.path.basename(path)
        path = os.path.dirname(path)


async def watch(ls: FxLensServer) -> None:
    """Asks the client to watch files."""
    if _may_register(ls):
        usual = types.FileSystemWatcher(glob_pattern=f"**/*.{{{','.join(_WATCHED)}}}")
        # For a deleted or moved folder, VS Code reports only the folder itself.
        folders = types.FileSystemWatcher(glob_pattern="**/*", kind=types.WatchKind.Create | types.WatchKind.Delete)
        ls.watches_files = await _register(ls, "fxlens-files", [usual, folders])


def _may_register(ls: FxLensServer) -> bool:
    workspace = ls.client_capabilities.workspace
    watched = workspace.did_change_watched_files if workspace else None
    return bool(watched and watched.dynamic_registration)


async def _register(ls: FxLensServer, name: str, watchers: list[types.FileSystemWatcher]) -> bool:
    registration = types.Registration(
        id=name,
        method=types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
        register_options=types.DidChangeWatchedFilesRegistrationOptions(watchers=watchers),
    )
    try:
        registering = ls.client_register_capability_async(types.RegistrationParams(registrations=[registration]))
        await asyncio.wait_for(registering, ANSWER_SECONDS)
    except Exception as error:
        log.warning("the client does not watch files: %s", error)
        return False
    return True


def _named(names: Iterable[str]) -> list[types.FileSystemWatcher]:
    """Watchers for the files with these names, in any folder."""
    return [types.FileSystemWatcher(glob_pattern="**/" + re.sub(r"([][*?{}])", r"[\1]", name)) for name in names]


def _counts(path: str) -> bool:
    """Whether a change on disk may concern a file that we read, or a folder (perhaps deleted) with such files."""
    suffix = os.path.splitext(path)[1]
    return suffix in _READ or not suffix or os.path.isdir(path)
