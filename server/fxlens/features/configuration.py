"""Settings: requested from the client for each workspace folder, at the start and whenever they change."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fxlens.config.settings import Settings, from_client

from . import watched_files
from .folders import folders, regroup, roots
from .watched_files import ANSWER_SECONDS

if TYPE_CHECKING:
    from fxlens.server import FxLensServer

log = logging.getLogger(__name__)


def register(server: FxLensServer) -> None:
    @server.feature(types.INITIALIZED)
    async def initialized(ls: FxLensServer, params: types.InitializedParams) -> None:
        await watched_files.watch(ls)
        await _open_configurations(ls)
        await load(ls)
        for folder in roots(ls):
            ls.session.prepare(folder)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def changed(ls: FxLensServer, params: types.DidChangeConfigurationParams) -> None:
        pushed = params.settings
        ls.pushed_settings = pushed.get("fxlens") if isinstance(pushed, dict) else None
        await load(ls)

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def folders_changed(ls: FxLensServer, params: types.DidChangeWorkspaceFoldersParams) -> None:
        regroup(ls)
        ls.tasks.start(ls.agents.leave_but(folders(ls)))
        await load(ls)


async def load(ls: FxLensServer) -> None:
    """Requests the section ``fxlens`` for each folder; for a client without support for this, the settings count that
    it has pushed last. Answers may arrive out of order: only those to the last request count. Without an answer, the
    old settings stay."""
    ls.settings_requests += 1
    request = ls.settings_requests
    roots: list[str | None] = [None, *folders(ls)]
    pushed = ls.pushed_settings
    values: list[Any] | None = [pushed] * len(roots)
    workspace = ls.client_capabilities.workspace
    if workspace and workspace.configuration:
        items = [types.ConfigurationItem(section="fxlens", scope_uri=_uri(root) if root else None) for root in roots]
        try:
            answer = ls.workspace_configuration_async(types.ConfigurationParams(items=items))
            given = list(await asyncio.wait_for(answer, ANSWER_SECONDS))
            if len(given) != len(roots):
                raise ValueError(f"{len(given)} sections in place of {len(roots)}")
            values = given
        except Exception as error:
            log.warning("the client did not give its configuration: %s", str(error) or "no answer")
            values = None if pushed is None else values
        if request != ls.settings_requests:
            return
    settings: dict[str | None, Settings] = {}
    refused: dict[str, None] = {}
    for at, root in enumerate(roots):
        known = ls.session.settings_for(root)
        settings[root], problems = (known, []) if values is None else from_client(values[at])
        refused.update(dict.fromkeys(problems))
    for problem in refused:
        ls.window_log_message(types.LogMessageParams(type=types.MessageType.Warning, message=problem))
    await ls.session.configure(settings)


async def _open_configurations(ls: FxLensServer) -> None:
    """Asks the client to send the text of project configurations while they are open: a fix may have changed them."""
    document = ls.client_capabilities.text_document
    known = document.synchronization if document else None
    if not (known and known.dynamic_registration):
        return
    selector = [types.TextDocumentFilterPattern(pattern=f"**/{name}") for name in ("pyproject.toml", "fxlens.toml")]
    options = {
        types.TEXT_DOCUMENT_DID_OPEN: types.TextDocumentRegistrationOptions(document_selector=selector),
        types.TEXT_DOCUMENT_DID_CHANGE: types.TextDocumentChangeRegistrationOptions(
            document_selector=selector, sync_kind=types.TextDocumentSyncKind.Incremental
        ),
        types.TEXT_DOCUMENT_DID_CLOSE: types.TextDocumentRegistrationOptions(document_selector=selector),
    }
    registrations = [
        types.Registration(id=f"fxlens-configuration-{number}", method=method, register_options=each)
        for number, (method, each) in enumerate(options.items())
    ]
    try:
        registering = ls.client_register_capability_async(types.RegistrationParams(registrations=registrations))
        await asyncio.wait_for(registering, ANSWER_SECONDS)
    except Exception as error:
        log.warning("the client does not give the text of configurations: %s", error)


def _uri(path: str) -> str:
    from pygls import uris

    return uris.from_fs_path(path) or ""
