"""Start and end: what the client says at the start, and that nothing outlives the server."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from .folders import roots

if TYPE_CHECKING:
    from fxlens.server import FxLensServer

_PARENT_CHECK_SECONDS = 5.0


def register(server: FxLensServer) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(ls: FxLensServer, params: types.InitializeParams) -> None:
        options: Any = params.initialization_options
        trusted = options.get("trusted", True) if isinstance(options, dict) else True
        ls.session.begin(trusted is True)
        if params.process_id:
            watch = asyncio.get_running_loop().create_task(_end_with(params.process_id, ls.views.close))
            ls.background.add(watch)

    @server.feature(types.SHUTDOWN)
    async def shutdown(ls: FxLensServer, params: None) -> None:
        await ls.model_jobs.release()
        await ls.agents.close()
        await ls.session.close()
        ls.views.close()

    @server.feature("fxlens/trusted")
    def trusted(ls: FxLensServer, params: Any) -> None:
        ls.session.trust()
        for folder in roots(ls):
            ls.session.prepare(folder)


async def _end_with(client: int, last: Callable[[], None]) -> None:
    """A client that was killed may leave the pipe open in another process: its process id shows that it is
    gone.  Does ``last`` before the end."""
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
