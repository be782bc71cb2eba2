"""Start and end: the client's initialization, and the end of all processes with the server."""

from __future__ import annotations

import asyncio
import contextlib
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
        if params.process_id:
            watch = ls.loop.create_task(_end_with(params.process_id))
            ls.background.add(watch)

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
    while True:
        await asyncio.sleep(_PARENT_CHECK_SECONDS)
        with contextlib.suppress(PermissionError):
            try:
                os.kill(client, 0)
            except ProcessLookupError:
                try:
                    temporary.remove_all()
                finally:
                    os._exit(1)
