"""Start and end: what the client says at the start, and that nothing outlives the server."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lsprotocol import types

if TYPE_CHECKING:
    from fxlens.server import FxLensServer

_PARENT_CHECK_SECONDS = 5.0


def register(server: FxLensServer) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(ls: FxLensServer, params: types.InitializeParams) -> None:
        options: Any = params.initialization_options
        trusted = options.get("trusted", True) if isinstance(options, dict) else True
        ls.session.trusted = trusted is True
        if params.process_id:
            watch = asyncio.get_running_loop().create_task(_end_with(params.process_id, ls.views.close))
            ls.session._tasks.add(watch)

    @server.feature(types.SHUTDOWN)
    async def shutdown(ls: FxLensServer, params: None) -> None:
        await ls.session.close()
        ls.views.close()

    @server.feature("fxlens/trusted")
    def trusted(ls: FxLensServer, params: Any) -> None:
        ls.session.trust()
        for folder in roots(ls):
            ls.session.prepare(folder)


async def _end_with(client: int, last: Callable[[], None]) -> None:
    """A client that was killed may leave the pipe open in another process: then its process id tells.  Does ``last``
    before the end."""
    while True:
        await asyncio.sleep(_PARENT_CHECK_SECONDS)
        with contextlib.suppress(PermissionError):
            try:
                os.kill(client, 0)
            except ProcessLookupError:
                try:
                    last()
                finally:
                    os._exit(1)


def roots(ls: FxLensServer) -> list[str | None]:
    """The workspace folders, or None alone where there is none."""
    return [*folders(ls)] or [None]


def folders(ls: FxLensServer) -> list[str]:
    """Paths of the workspace folders."""
    from .documents import path_of

    found = [path_of(folder.uri) for folder in ls.workspace.folders.values()]
    if not found and ls.workspace.root_path:
        found = [ls.workspace.root_path]
    return [path for path in found if path]
