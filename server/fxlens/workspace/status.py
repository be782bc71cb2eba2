"""The state of the server, for the client's status item."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, TypedDict

from fxlens.views.coverage import count_unjudged, coverage
from fxlens.views.verdicts import named, summary

from .open_files import OpenFiles

State = Literal["untrusted", "error", "busy", "starting", "ready"]


class Verdicts(TypedDict):
    """The verdicts of captures on a model: short, and with the fixed sizes."""

    model: str
    short: str
    full: str


class Status(TypedDict):
    """The answer to ``fxlens/status``; ``python`` is the interpreter of the models, ``interpreter`` the same with the
    reason for it, even without torch, ``pending`` the number of running jobs, ``coverage`` the number of judged classes
    in open files, ``unjudged`` the number of others by URI, ``verdicts`` the captures' verdicts on the class at the
    cursor."""

    state: State
    message: str | None
    coverage: str | None
    verdicts: Verdicts | None
    unjudged: dict[str, int]
    python: str | None
    pythonVersion: str | None
    torch: str | None
    interpreter: str | None
    pending: int


class StatusReport:
    """Calls ``report`` with each new status."""

    def __init__(self, files: OpenFiles, report: Callable[[Status], None]) -> None:
        self._files = files
        self._report = report
        self._last: Status | None = None
        self._busy = 0

    def began(self) -> None:
        """Called once the started work is on its way."""
        self._busy += 1
        asyncio.get_running_loop().call_soon(self.update)

    def ended(self) -> None:
        self._busy -= 1
        self.update()

    def forget(self) -> None:
        """The next status is reported even if it is the same."""
        self._last = None

    def update(self) -> None:
        status = self.now()
        if status != self._last:
            self._last = status
            self._report(status)

    def now(self) -> Status:
        environment, here = self._files.environment, self._files.here
        # Folders may have different interpreters: that of the user's current file comes first.
        pools = sorted(environment.pools.items(), key=lambda each: here is None or each[0].folder != here.folder)
        problem = next((pool.problem for _, pool in pools if pool.problem), "")
        hello = next((pool.hello for _, pool in pools if pool.hello), {})
        state, message = self._state(problem, bool(hello))
        return {
            "state": state,
            "message": message,
            "coverage": self._coverage(),
            "verdicts": self._verdicts(),
            "unjudged": self._unjudged(),
            "python": hello.get("executable"),
            "pythonVersion": hello.get("python"),
            "torch": hello.get("torch"),
            "interpreter": environment.interpreter(pools[0][0].folder) if pools and self._files.trusted else None,
            "pending": self._busy,
        }

    def _coverage(self) -> str | None:
        documents = self._files.documents.values()
        return coverage((each.record, each.record_text) for each in documents if each.record).sentence() or None

    def _verdicts(self) -> Verdicts | None:
        document = self._files.here
        name = self._files.cursor(document) if document is not None else None
        if document is None or document.record is None or name is None:
            return None
        target = named(document.record, name)
        if target is None or not target["captures"]:
            return None
        return {"model": name, "short": summary(target, sizes=False), "full": summary(target)}

    def _unjudged(self) -> dict[str, int]:
        records = {uri: (each.record, each.record_text) for uri, each in self._files.documents.items()}
        counts = {uri: count_unjudged(record, text) for uri, (record, text) in records.items() if record is not None}
        return {uri: count for uri, count in counts.items() if count}

    def _state(self, problem: str, greeted: bool) -> tuple[State, str | None]:
        if not self._files.trusted:
            return "untrusted", "The workspace is not trusted, so no code is run."
        here = self._files.here
        if here is not None and (reason := self._files.why_not_run(here)) is not None:
            return "untrusted", reason
        if problem:
            return "error", problem
        if self._busy:
            return ("busy" if greeted else "starting"), None
        return ("ready" if greeted or not self._files.environment.pools else "starting"), None
