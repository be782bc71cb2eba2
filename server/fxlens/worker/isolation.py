"""Set-up of a job's process before any user code runs.

Afterwards the protocol has private descriptors, all output of user code is captured, and the process cannot outlive the
worker.
"""

from __future__ import annotations

import faulthandler
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable

from fxlens.ipc import protocol
from fxlens.ipc.processes import TRACKER_SECONDS
from fxlens.ipc.protocol import Data, Json

_NICE = 10
_PRIVATE_FD = 700  # far above what loops over small descriptors close, below the usual limit of 1024

_SAME_MOMENT = 0.02  # of the time to a stack
_hang_reported: tuple[float, float] | None = None
"""The time of the last request, and its number of seconds."""

# Stored now, since user code may replace them.
_exit = os._exit
_write = os.write
_read = os.read


def step_back() -> None:
    """Lower this process's priority, since nothing waits for it from here on."""
    if hasattr(os, "nice"):
        os.nice(_NICE)


class Channel:
    """The job's private way to the server: outgoing messages, and descriptors unknown to user code."""

    def __init__(self, read_fd: int, write_fd: int, stacks_fd: int) -> None:
        self._in = private(read_fd)
        self._out = private(write_fd)
        self.dump_fd = private(stacks_fd)
        self._lock = threading.Lock()
        self._inbox: queue.SimpleQueue[Json | None] | None = None
        self._pid = os.getpid()

    def receive(self) -> Json | None:
        """The next message; None if the server has ended."""
        return self._receive() if self._inbox is None else self._inbox.get()

    def _receive(self) -> Json | None:
        return protocol.read_blocking(lambda count: _read(self._in, min(count, 1 << 20)))

    def send(self, message: Data) -> None:
        """Sends one message whole.  A process that user code forked sends nothing."""
        if os.getpid() != self._pid:
            return
        data = memoryview(protocol.encode(message))
        with self._lock:
            while data:
                data = data[_write(self._out, data) :]

    def watch_for_end(self, last: Callable[[], None]) -> None:
        """Ends this process when the server has ended, if there is neither zygote nor guardian; runs ``last`` before. A
        loop in C delays it. From now on a thread receives the messages."""
        inbox = self._inbox = queue.SimpleQueue()

        def wait() -> None:
            while (message := self._receive()) is not None:
                inbox.put(message)
            try:
                last()
            finally:
                end_group()

        threading.Thread(target=wait, daemon=True, name="fxlens-parent").start()


def private(fd: int) -> int:
    """A copy of a descriptor with a high number, out of reach of loops that close small ones."""
    if os.name != "posix":
        return os.dup(fd)
    import fcntl

    for least in (_PRIVATE_FD, 64):
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least)
        except OSError:  # a low limit of descriptors
            continue
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def redirect_standard_streams(output_fd: int) -> None:
    """fd 0 reads nothing; fd 1 and 2 are captured together, to keep the order of output."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    if output_fd != 2:
        os.dup2(output_fd, 2)
    os.dup2(2, 1)
    stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    for name in ("stdin", "__stdin__"):
        setattr(sys, name, stdin)
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def own_process_group() -> None:
    if hasattr(os, "setpgid"):
        try:
            os.setpgid(0, 0)
        except OSError:
            # The parent set it first, or this process already leads a session.
            return


def end_group() -> None:
    """Kills this process and what it started."""
    if hasattr(os, "killpg") and os.getpgid(0) == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    _exit(1)


def no_core_files() -> None:
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def report_faults(dump_fd: int) -> None:
    """Write the Python stack to ``dump_fd`` on a crash, and on ``os._exit``, which leaves no other trace."""
    faulthandler.enable(file=dump_fd, all_threads=False)

    def exit_and_say_where(status: int) -> None:
        try:
            _write(dump_fd, b"\nfxlens: os._exit(%d)\n" % int(status))
            faulthandler.dump_traceback(file=dump_fd, all_threads=False)
        finally:
            _exit(status)

    exit_and_say_where.__name__ = "_exit"
    os._exit = exit_and_say_where  # type: ignore[assignment]


def report_hang(dump_fd: int, seconds: float) -> None:
    """Writes every thread's Python stack after each ``seconds``, also from inside a loop in C. Each call replaces the
    last one, unless that was a moment ago, since it restarts a thread. It repeats, since on a busy machine the process
    gets more time."""
    global _hang_reported
    now, before = time.monotonic(), _hang_reported
    if before is None or before[1] != seconds or now - before[0] > _SAME_MOMENT * seconds:
        _hang_reported = now, seconds
        faulthandler.dump_traceback_later(seconds, repeat=True, file=dump_fd, exit=False)


def report_no_hang() -> None:
    """Stop writing stacks while the process waits."""
    global _hang_reported
    _hang_reported = None
    faulthandler.cancel_dump_traceback_later()


def finish(status: int = 0) -> None:
    """Ends the process without user atexit handlers, which may hang."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # the user may have replaced or closed it
            continue
    _exit(status)


def release_shared_memory() -> None:
    """Close the pipe of multiprocessing's tracker, which then removes remaining files in /dev/shm, unless it is
    killed."""
    tracking = sys.modules.get("multiprocessing.resource_tracker")
    tracker = getattr(tracking, "_resource_tracker", None)
    try:
        if tracker is None or tracker._fd is None or not hasattr(os, "WNOHANG"):
            return
        os.close(tracker._fd)
        until = time.monotonic() + TRACKER_SECONDS
        while time.monotonic() < until and os.waitpid(tracker._pid, os.WNOHANG)[0] == 0:
            time.sleep(0.002)
    except Exception:  # user code may have replaced any of it
        return
