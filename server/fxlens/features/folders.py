"""Addresses of documents as paths, and the workspace folders that contain them."""

from __future__ import annotations

import itertools
import os
import tempfile
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from pygls import uris

from fxlens.sources.notebook import is_notebook
from fxlens.sources.paths import is_below, is_within

if TYPE_CHECKING:
    from fxlens.server import FxLensServer


def roots(ls: FxLensServer) -> list[str | None]:
    """The workspace folders, or None alone where there is none."""
    return [*folders(ls)] or [None]


def folders(ls: FxLensServer) -> list[str]:
    """Paths of the workspace folders."""
    found = [path_of(folder.uri) for folder in ls.workspace.folders.values()]
    if not found and ls.workspace.root_path:
        found = [ls.workspace.root_path]
    return [os.path.normpath(path) for path in found if path and os.path.isabs(path)]


def path_of(uri: str) -> str | None:
    """The path of a ``file:`` document; that of an unsaved one, or a bare name if it has no path yet; None for
    documents that are not files (notebook cells, diffs)."""
    parts = _parts(uri)
    if parts.scheme == "file":
        path = uris.to_fs_path(uri)
        return path if path and "\0" not in path else None
    if parts.scheme == "untitled":
        name = _unsaved(parts) or "untitled"
        return name if name.endswith(".py") else f"{name}.py"
    return None


def _unsaved(parts: SplitResult) -> str:
    """The path that an editor has been given for a file that is not there yet, or else a name."""
    if parts.scheme == "untitled" and parts.path.startswith("/"):
        return uris.to_fs_path(f"file://{parts.path}") or ""
    return os.path.basename(unquote(parts.path))


def placed(ls: FxLensServer, path: str) -> tuple[str, str | None]:
    """The path and the workspace folder of a document that is opened. A bare name is in the first folder, and one that
    no other file has, whose place it would take."""
    folder = folder_of(ls, path)
    if os.path.isabs(path):
        return path, folder
    stem, suffix = os.path.splitext(os.path.join(folder or tempfile.gettempdir(), path))
    names = (f"{stem}{'_' * number}{suffix}" for number in itertools.count())
    free = next(each for each in names if not os.path.lexists(each) and ls.session.document_at(each) is None)
    return free, folder


def _parts(uri: str) -> SplitResult:
    """Empty for anything that is not an address."""
    try:
        return urlsplit(uri)
    except ValueError:
        return urlsplit("")


def notebook_path(uri: str) -> str | None:
    """The same for a notebook; VS Code's interactive window counts as an unsaved one."""
    parts = _parts(uri)
    if parts.scheme in ("untitled", "vscode-interactive"):
        return f"{os.path.splitext(_unsaved(parts))[0] or 'untitled'}.ipynb"
    path = path_of(uri)
    return path if path is not None and is_notebook(path) else None


def folder_of(ls: FxLensServer, path: str) -> str | None:
    """The innermost workspace folder that holds the path; the first folder for an unsaved document."""
    known = folders(ls)
    if not os.path.isabs(path):
        return known[0] if known else None
    holding = [folder for folder in known if is_below(path, folder)]
    if not holding:  # editors differ in which of both they write with its links resolved
        holding = [folder for folder in known if is_within(path, [folder])]
    return max(holding, key=len, default=None)


def regroup(ls: FxLensServer) -> None:
    """Tell the session which folders its documents are in. Files of no folder run only where the client asks its user
    about them, as it does about workspaces, or where there is no folder: the server was started for such a file."""
    paths = {uri: path_of(uri) or document.path for uri, document in ls.session.documents.items()}
    confined = bool(folders(ls)) and not ls.asks_for_trust
    ls.session.regroup({uri: folder_of(ls, path) for uri, path in paths.items()}, confined)
