"""Questions about files as they are at this moment, one after the other."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, TypeVar

from fxlens.checking import checker
from fxlens.checking.checker import Checked, Options
from fxlens.checking.files import CannotCheck
from fxlens.host import model_job
from fxlens.host.launch import Launch
from fxlens.host.outcome import WorkerUnavailable
from fxlens.host.pool import Pool
from fxlens.index import files as indexed
from fxlens.ipc.protocol import Data
from fxlens.ipc.request import Limits
from fxlens.record import empty_record
from fxlens.sources.files import read_source
from fxlens.sources.paths import is_within
from fxlens.syntax import analyse

_TRIES = 3  # of a file that is saved while it is being traced
_MODEL_SECONDS = 600.0
Answer = TypeVar("Answer")


class NotTrusted(Exception):
    """The folder's code may not be run."""


@dataclass(frozen=True)
class Version:
    """Which text an answer is about.  ``digest`` is the beginning of its SHA-256; ``fresh`` says that neither the file
    nor one that it imports was saved since the question was asked."""

    file: str
    digest: str
    modified: str
    unsaved: bool
    fresh: bool

    def as_dict(self) -> dict[str, Any]:
        state = {"unsaved": True} if self.unsaved else {"modified": self.modified}
        return {"file": self.file, "version": self.digest, **state, "fresh": self.fresh}


class Asking:
    """For one folder.  ``trusted``: its code may be run."""

    def __init__(self, launch: Launch, folder: str, trusted: bool, limits: Limits | None = None) -> None:
        self.folder, self.trusted = os.path.abspath(folder), trusted
        self._limits = limits or Limits(deadline=30.0)
        self._launch = replace(launch, folder=self.folder)
        self._pool = Pool(self._launch)
        self._around = checker.Surroundings()
        self._turn = asyncio.Lock()
        self._seen: dict[str, tuple[int, int]] = {}
        self._told: set[str] = set()  # files whose text the index was given

    async def warm(self) -> None:
        """Starts what the first question would wait for."""
        if self.trusted:
            with suppress(WorkerUnavailable):  # the first question says so
                await self._pool.ready()

    async def close(self) -> None:
        await self._pool.close()
        await self._around.close()

    async def check(
        self, file: str, text: str | None, *, read_only: bool = False, **options: Any
    ) -> tuple[Checked, Version]:
        """A file's record and findings; ``options`` are those of `Options`.

        ``read_only``: where it may not be run, the findings are those of the text alone.

        Raises:
            CannotCheck: there is no such file.
            NotTrusted: it may not be run.
        """

        async def trace(path: str, text: str) -> Checked:
            if read_only and not self._may_run(path):
                return Checked(path, text, empty_record(path), analyse(text, path))
            self._demand_trust(path)
            chosen = Options(self._launch, limits=self._limits, **{"verify": False, "scope": "all", **options})
            return await checker.check_file(self._pool, path, chosen, self._around, text)

        def read(checked: Checked) -> list[str]:
            return [*checked.record["files"]]

        return await self._ask(file, text, trace, read)

    async def run(
        self, kind: str, file: str, text: str | None, model: str | None, options: Data
    ) -> tuple[Data, Version]:
        """The result of a job that constructs one model with data.

        Raises:
            CannotCheck: there is no such file.
            NotTrusted: it may not be run.
            Failed: the model or the engine does not allow it, or the process died.
        """

        async def work(path: str, text: str) -> Data:
            self._demand_trust(path)
            request = await checker.request_for(path, text, self.folder, self._around, unsaved=True)
            request = replace(request, limits=replace(self._limits, deadline=_MODEL_SECONDS))
            launch = replace(self._launch, mode="spawn", whole=True)
            return await model_job.run(launch, kind, request, model, options, lambda text, fraction: None)

        return await self._ask(file, text, work, lambda answer: [])

    async def _ask(
        self,
        file: str,
        given: str | None,
        work: Callable[[str, str], Awaitable[Answer]],
        read: Callable[[Answer], list[str]],
    ) -> tuple[Answer, Version]:
        path = os.path.join(self.folder, os.path.expanduser(file))
        path = os.path.normpath(path)
        async with self._turn:
            for attempt in range(_TRIES):
                text = _text(path) if given is None else given
                self._look_around(path)
                answer = await work(path, text)
                imported = [each for each in read(answer) if each in self._seen and each != path]
                fresh = all(_stamp(each) == self._seen[each] for each in imported)
                fresh = fresh and (given is not None or _text(path) == text)
                if fresh or attempt == _TRIES - 1:
                    break
        stamp = _stamp(path)
        seconds = stamp[0] / 1e9 if stamp else 0.0
        modified = datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds") if stamp else ""
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        return answer, Version(os.path.relpath(path, self.folder), digest, modified, given is not None, fresh)

    def _look_around(self, path: str) -> None:
        """Tells the index what has changed in the folder since the last question."""
        now: dict[str, tuple[int, int]] = {}
        for entry in indexed.walk(self.folder):
            stamp = _stamp(entry.path)
            if stamp:
                now[entry.path] = stamp
        changed = {each for each in now.keys() | self._seen.keys() if now.get(each) != self._seen.get(each)}
        self._around.changed(changed | self._told | {path})
        self._seen, self._told = now, {path}

    def _may_run(self, path: str) -> bool:
        return self.trusted and is_within(path, [self.folder])

    def _demand_trust(self, path: str) -> None:
        if not self.trusted:
            raise NotTrusted("The folder is not trusted, so its models are not run. Start fxlens mcp with --trust.")
        if not self._may_run(path):
            raise NotTrusted(f"{path} is outside of {self.folder}, which alone is trusted. Its models are not run.")


def _text(path: str) -> str:
    try:
        return read_source(path)
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise CannotCheck(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return (state.st_mtime_ns, state.st_size)
