"""The models of the whole workspace.

``fxlens/models`` ``{partialResultToken?}`` checks the Python files and notebooks of all folders as they are saved, and
answers ``{rows, notes}`` or ``{reason}``.  With a token the rows are sent as they become available, by ``$/progress``:
``{rows, done, files}``.  Cancelling the request ends it.  ``vscode-extension/src/protocol/models.ts`` and
``models_page.ts`` describe all of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fxlens.answers import ModelRow, ModelsAnswer, ModelsPart, Refusal
from fxlens.checking import models
from fxlens.checking.cache import Cache
from fxlens.checking.checker import Checked, Options, check
from fxlens.checking.files import python_files
from fxlens.ipc.request import Limits

from . import params
from .folders import folders
from .places import address_of

if TYPE_CHECKING:
    from fxlens.server import FxLensServer


def register(server: FxLensServer) -> None:
    @server.feature("fxlens/models")
    async def all_models(ls: FxLensServer, given: Any) -> ModelsAnswer | Refusal:
        if not ls.session.trusted:
            return {"reason": "The workspace is not trusted, so its models are not run."}
        roots = [each for each in folders(ls) if os.path.isdir(each)]
        if not roots:
            return {"reason": "No folder is open, so there is no workspace to look at."}
        token = params.of(given).get("partialResultToken")
        files = {folder: await asyncio.to_thread(python_files, [folder]) for folder in roots}
        rows: list[ModelRow] = []
        notes: dict[str, None] = {}
        done, total = 0, sum(map(len, files.values()))
        for folder, paths in files.items():
            async with aclosing(_checked(ls, folder, paths)) as results:
                async for file in results:
                    done += 1
                    notes.update(dict.fromkeys(file.record["notes"]))
                    uri = address_of(file.record["path"])
                    found: list[ModelRow] = [{**row, "uri": uri} for row in models.rows(file, folder)]
                    if token is None:
                        rows += found
                    else:
                        part: ModelsPart = {"rows": found, "done": done, "files": total}
                        ls.protocol.notify(types.PROGRESS, types.ProgressParams(token, part))
        return {"rows": rows, "notes": list(notes)}


async def _checked(ls: FxLensServer, folder: str, files: list[str]) -> AsyncGenerator[Checked]:
    """Check the files of a folder in separate processes, so that open documents do not wait for them."""
    settings, launch = ls.session.settings_for(folder), ls.session.launch_for(folder)
    cache = Cache(launch)
    options = Options(
        launch=launch,
        jobs=settings.jobs,
        limits=Limits(deadline=settings.deadline, memory=settings.memory << 20),
        settings=settings,
        verify=settings.verify,
        cache=cache,
        light=True,
    )
    async with aclosing(check(files, options)) as results:
        async for result in results:
            yield result
    cache.trim()
