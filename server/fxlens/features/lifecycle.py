"""Start and end: the client's initialization, and the end of all processes with the server."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fxlens.ipc import temporary

from .folders import regroup, roots

if TYPE_CHECKING:
    from fxlens.server import FxLensServer

_PARENT_CHECK_SECONDS = 5.0


def register(server: FxLensServer) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(ls: FxLensServer, params: types.InitializeParams) -> None:
        ls.loop = asyncio.get_running_loop()
        options: Any = params.initialization_options
        trusted = options.get("trusted", True) if isinstance(options, dict) else True
        ls.session.begin(trusted is True)
        ls.asks_for_trust = isinstance(options, dict) and "trusted" in options
        regroup(ls)
        # A client outside of the server's container names a process that is not seen from inside.
        if params.process_id and _is_there(params.process_id):
            ls.tasks.start(_end_with(params.process_id))

    @server.feature(types.SHUTDOWN)
    async def shutdown(ls: FxLensServer, params: None) -> None:
        await ls.end()

    @server.feature("fxlens/trusted")
    def trusted(ls: FxLensServer, params: Any) -> None:
        ls.session.trust()
        for folder in roots(ls):
            ls.session.prepare(folder)


async def _end_with(client: int) -> None:
    """End with the client's process: if it was killed, another process may keep the pipe open."""
    while _is_there(client):
        await asyncio.sleep(_PARENT_CHECK_SECONDS)
    try:
        temporary.remove_all()
    finally:
        os._exit(1)


def _is_there(process: int) -> bool:
    """Whether a process can be seen to run: not on Windows, where signal 0 is Ctrl+C, so that the end of its pipe has
    to do there."""
    if os.name == "nt":
        return False
    try:
        os.kill(process, 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, PermissionError)
    return True
