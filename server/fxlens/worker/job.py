"""One job in its process: its request, and its ways to report.

Every step is announced before it starts, so that the server knows where a process hung or died.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from fxlens import jobs
from fxlens.ipc.protocol import Json
from fxlens.sources import files
from fxlens.sources.paths import key

from . import compiler, isolation, own_tracer
from .errors import brief

if TYPE_CHECKING:
    from fxlens.sources.targets import Target

    from .isolation import Channel

_LONGEST_TRACEBACK = 6000


def run(message: Json, channel: Channel) -> None:
    """Does the job and sends ``done`` last.  ``message["kind"]`` is a module of ``fxlens.jobs``."""
    job = Job(message, channel)
    if message.get("background"):
        isolation.step_back()
    before = compiler.there()
    try:
        jobs.named(message["kind"]).work(job)
    except BaseException as error:
        # Exceptions of user code are handled at its calls. This one is ours, or user code has replaced a function that
        # we call, or handles a signal.
        job.send("failed", message=brief(error), detail=_trace(), line=_line_in(error, job.path))
    # The reader of the next message may kill this process and its children.
    isolation.release_shared_memory()
    if compiler.there() and not before:
        job.send("compiler")
    job.send("done")


class Job:
    """A job's request: the fields of a ``Request``, and in ``message`` those of its kind."""

    def __init__(self, message: Json, channel: Channel) -> None:
        self.message = message
        self.channel = channel
        self.path: str = message["path"]
        self.text: str = message["text"]
        self.folder: str | None = message["folder"]
        self.overlays: dict[str, str] = message["overlays"]
        self.config_targets: dict[str, str] = message["config_targets"]
        self.leaf_modules: tuple[str, ...] = tuple(message["leaf_modules"])
        self.tracer = own_tracer.of(message.get("tracer"))
        self.known: dict[str, Any] = message["known"]
        self.deadline: float = message["deadline"]
        self.stack_after: float = message.get("stack_after", 0.9 * self.deadline)
        self.assumed = False
        """Whether the current model is constructed on assumptions, so that failures are not the user's errors."""
        self.incomplete = False
        """Whether a statement of the file was left out, so that names may be missing."""
        self._texts = {key(path): text for path, text in self.overlays.items()}
        self._texts[key(self.path)] = self.text

    def read(self, path: str) -> str | None:
        """The text of a file for this job, or None if it cannot be read."""
        known = self._texts.get(key(path))
        if known is not None:
            return known
        try:
            return files.read_source(path)
        except (OSError, SyntaxError, UnicodeDecodeError):
            return None

    def send(self, event: str, **fields: Any) -> None:
        """Sends an event to the answer part of this kind of job."""
        self.channel.send({"event": event, **fields})

    def step(self, name: str, target: Target | None = None) -> None:
        """Announces what happens next. The deadline counts from here; the stack is written shortly before it, or at the
        server's request."""
        self.announce(name, target.name if target else None, target.line if target else None)

    def announce(self, name: str, target: str | None, line: int | None) -> None:
        """The same for a model of which only the name and the line are known."""
        self.send("step", step=name, target=target, line=line, assumed=self.assumed)
        isolation.report_hang(self.channel.dump_fd, max(0.05, self.stack_after))

    def next_request(self) -> Json | None:
        """The server's next request, for kinds that wait for it; None at the end."""
        isolation.report_no_hang()
        self.send("idle")
        return self.channel.receive()


def _line_in(error: BaseException, path: str) -> int | None:
    """The last line of the file that ran before this was raised; None if it was not running."""
    line, at = None, error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == path:
            line = at.tb_lineno
        at = at.tb_next
    return line


def _trace() -> str:
    try:
        return _cut(traceback.format_exc())
    except Exception:  # user code may have replaced something needed here
        return ""


def _cut(text: str) -> str:
    half = _LONGEST_TRACEBACK // 2
    return text if len(text) <= 2 * half else f"{text[:half]}\n…\n{text[-half:]}"
