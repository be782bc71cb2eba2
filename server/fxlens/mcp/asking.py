"""Questions about the current files, one after the other."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, TypeVar

from fxlens.checking import checker
from fxlens.checking.checker import Checked, Options
from fxlens.checking.files import CannotCheck
from fxlens.config import choices
from fxlens.config.selection import apply
from fxlens.config.settings import Settings
from fxlens.host import model_job
from fxlens.host.outcome import Failed, WorkerUnavailable
from fxlens.host.pool import Pool
from fxlens.index import files as indexed
from fxlens.ipc.protocol import Data
from fxlens.ipc.request import Limits
from fxlens.record import empty_record
from fxlens.sources.files import LONG, read_source
from fxlens.sources.notebook import Notebook, python_of
from fxlens.sources.parsing import without_magics
from fxlens.sources.paths import is_within, key
from fxlens.syntax import without_running

_TRIES = 3  # of a file that is saved while it is being traced
_MODEL_SECONDS = 600.0
Answer = TypeVar("Answer")
_Release = Callable[[], Awaitable[None]]


class NotTrusted(Exception):
    """The folder's code may not be run."""


@dataclass(frozen=True)
class Version:
    """The text that an answer is about. ``digest`` is the start of its SHA-256; ``fresh``: neither the file nor one
    that it imports was saved since the question."""

    file: str
    digest: str
    modified: str
    unsaved: bool
    fresh: bool

    def as_dict(self) -> dict[str, Any]:
        state = {"unsaved": True} if self.unsaved else {"modified": self.modified}
        return {"file": self.file, "version": self.digest, **state, "fresh": self.fresh}


class Folder:
    """A folder, with the knowledge of its files that questions share."""

    def __init__(self, path: str, top: str | None = None) -> None:
        """``top``: as for `Project.read`."""
        self.path = os.path.abspath(path)
        self.around = checker.Surroundings(top)
        self.turn = asyncio.Lock()
        self.seen: dict[str, tuple[int, int]] = {}
        self.told: set[str] = set()  # files whose text was passed to the index

    async def close(self) -> None:
        await self.around.close()


class Asking:
    """The context of one question about a folder. ``trusted``: its code may be run, by the workers of ``pool``;
    ``to_trust`` says how to trust it. ``unsaved`` returns the editor's unsaved texts, by path. ``alone()`` is entered
    while a model runs with data."""

    def __init__(
        self,
        folder: Folder,
        pool: Pool,
        trusted: bool,
        to_trust: str,
        limits: Limits | None = None,
        settings: Settings | None = None,
        unsaved: Callable[[], Mapping[str, str]] = dict,
        alone: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._known, self.folder = folder, folder.path
        self.pool, self.trusted, self.to_trust = pool, trusted, to_trust
        self.limits, self.settings = limits or Limits(deadline=30.0), settings or Settings()
        self.unsaved, self.alone = unsaved, alone

    async def warm(self) -> None:
        """Starts the processes that the first question would wait for."""
        if self.trusted:
            with suppress(WorkerUnavailable):  # the first question reports it
                await self.pool.ready()

    async def check(
        self,
        file: str,
        text: str | None,
        settings: Mapping[str, Any] | None = None,
        *,
        read_only: bool = False,
        **options: Any,
    ) -> tuple[Checked, Version]:
        """A file's record and findings; ``settings`` replace the user's, and ``options`` are those of `Options`.

        ``read_only``: if it may not be run, return only the findings from the text.

        Raises:
            CannotCheck: there is no such file.
            NotTrusted: it may not be run.
        """

        chosen = replace(self.settings, **(settings or {}))

        async def trace(path: str, text: str, asked: _Release) -> Checked:
            if read_only and (why := self._why_not_run(path)):
                if len(text) > LONG:
                    raise CannotCheck(f"{path} has more than {LONG:,} characters, too many to be read without running")
                python, notebook = _python(path, text)
                python = without_magics(python)
                found = [*without_running(python, path), *(notebook.problems(path) if notebook else ())]
                project = self._known.around.project(os.path.dirname(path))
                found = apply(found, choices.selection(chosen, project), python, path)
                said = f"{why} These findings, if any, are from its text alone."
                return Checked(path, python, {**empty_record(path), "notes": [said]}, found, notebook=notebook)
            self._demand_trust(path)
            launch = replace(self.pool.launch, folder=self.folder)
            how = Options(launch, limits=self.limits, settings=chosen, **{"verify": False, "scope": "all", **options})
            return await checker.check_file(self.pool, path, how, self._known.around, text, asked)

        def read(checked: Checked) -> list[str]:
            return [*checked.record["files"]]

        return await self._ask(file, text, trace, read)

    async def run(
        self, kind: str, file: str, text: str | None, model: str | None, options: Data
    ) -> tuple[tuple[str, Data, Notebook | None], Version]:
        """The file's path, the result of a job that constructs one model with data, and the notebook that its lines are
        of, if any.

        Raises:
            CannotCheck: there is no such file.
            NotTrusted: it may not be run.
            Failed: the model or the engine does not allow it, or the process died.
        """

        async def work(path: str, text: str, asked: _Release) -> tuple[str, Data, Notebook | None]:
            self._demand_trust(path)
            python, notebook = _python(path, text)
            request = await checker.request_for(path, python, self.folder, self._known.around, unsaved=True)
            request = replace(request, limits=replace(self.limits, deadline=_MODEL_SECONDS))
            launch = replace(self.pool.launch, folder=self.folder, mode="spawn", whole=True)
            await asked()
            with self.alone():
                try:
                    result = await model_job.run(launch, kind, request, model, options, lambda text, fraction: None)
                except Failed as error:
                    raise Failed(notebook.said(str(error)) if notebook else str(error)) from None
                return path, result, notebook

        return await self._ask(file, text, work, lambda answer: [])

    async def _ask(
        self,
        file: str,
        given: str | None,
        work: Callable[[str, str, _Release], Awaitable[Answer]],
        read: Callable[[Answer], list[str]],
    ) -> tuple[Answer, Version]:
        """The next question about the folder waits until ``work`` has ended, or has called its argument."""
        path = os.path.normpath(os.path.join(self.folder, os.path.expanduser(file)))
        given = given and given.removeprefix("\ufeff")  # as of a file that is read
        await self.pool.renew()
        for attempt in range(_TRIES):
            async with AsyncExitStack() as turn:
                await turn.enter_async_context(self._known.turn)
                unsaved = self._unsaved(path, given)
                path = next((each for each in unsaved if key(each) == key(path)), path)
                text = unsaved[path] if path in unsaved else _text(path)
                await self._look_around(path, unsaved)
                seen = dict(self._known.seen)
                answer = await work(path, text, turn.aclose)
                now = self._unsaved(path, given)
                others = [each for each in read(answer) if each != path]
                fresh = all(_stamp(each) == seen[each] for each in others if each in seen)
                fresh = fresh and all(now.get(each) == unsaved.get(each) for each in [path, *others])
                fresh = fresh and (path in unsaved or _text(path) == text)
                if fresh or attempt == _TRIES - 1:
                    break
        stamp = _stamp(path)
        seconds = stamp[0] / 1e9 if stamp else 0.0
        modified = datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds") if stamp else ""
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        return answer, Version(os.path.relpath(path, self.folder), digest, modified, path in unsaved, fresh)

    def _unsaved(self, path: str, given: str | None) -> Mapping[str, str]:
        return {**self.unsaved(), **({} if given is None else {path: given})}

    async def _look_around(self, path: str, unsaved: Mapping[str, str]) -> None:
        """Updates the index with changes in the folder since the last question."""
        if self._why_not_run(path):
            return
        now = await asyncio.to_thread(_stamps, self.folder)
        changed = {each for each in now.keys() | self._known.seen.keys() if now.get(each) != self._known.seen.get(each)}
        self._known.around.unsaved = unsaved
        self._known.around.changed(changed | self._known.told | {path})
        self._known.seen.clear()
        self._known.seen.update(now)
        self._known.told.clear()
        self._known.told.update({path, *unsaved})

    def _why_not_run(self, path: str) -> str:
        """A sentence; empty if it may be run."""
        if not self.trusted:
            return f"The folder is not trusted, so its models are not run. {self.to_trust}"
        if not is_within(path, [self.folder]):
            return f"{path} is not run: it is outside of {self.folder}, the only folder that is trusted."
        return ""

    def _demand_trust(self, path: str) -> None:
        if why := self._why_not_run(path):
            raise NotTrusted(why)


def _text(path: str) -> str:
    try:
        return read_source(path)
    except (OSError, SyntaxError, ValueError) as error:  # ValueError: a path with a zero byte, or no such encoding
        raise CannotCheck(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _python(path: str, text: str) -> tuple[str, Notebook | None]:
    try:
        return python_of(path, text)
    except ValueError as error:
        raise CannotCheck(f"{path} is not a notebook: {error}") from None


def _stamps(folder: str) -> dict[str, tuple[int, int]]:
    """The states of all files that the index reads; slow on a network file system."""
    found = ((each.path, _stamp(each.path)) for each in indexed.walk(folder))
    return {path: stamp for path, stamp in found if stamp}


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return (state.st_mtime_ns, state.st_size)
