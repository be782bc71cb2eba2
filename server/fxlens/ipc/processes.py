"""Processes of the system: their descendants, their use of resources, and how to end them.

Used by both sides, so standard library only. Functions that read Linux data return nothing on other systems.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import stat
import sys
import time
from typing import Any

__all__ = [
    "TRACKER_SECONDS",
    "adopt_orphans",
    "children_of",
    "descendants_of",
    "die_with_parent",
    "end",
    "end_around_trackers",
    "exact_memory",
    "group_of",
    "is_running",
    "is_tracker",
    "kill_around_trackers",
    "kill_below",
    "kill_group",
    "kill_job",
    "locks_files",
    "memory_of",
    "outlive_parent",
    "shared_by_forks",
    "threads_of",
    "unmapped_memory",
]  # fmt: skip

TRACKER_SECONDS = 4.0
"""Seconds for a tracker of shared memory to finish; it may have just started."""

_TRACKERS = (b"multiprocessing.resource_tracker", b"torch_shm_manager")
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MOST = 10_000
_ROUNDS = 1000
_exit = os._exit  # user code may replace it


def children_of(pid: int) -> list[int]:
    """Process ids whose parent is ``pid``."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            # A thread lists the children that it forked itself; orphans are listed at the first one.
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    except OSError:
        return []
    return found


def descendants_of(pid: int) -> list[int]:
    """Process ids below ``pid``, in any group and session."""
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) < _MOST:
        below = children_of(waiting.pop())
        found += below
        waiting += below
    return found


def memory_of(pid: int) -> int:
    """Bytes in memory that are not backed by a file, including shared memory; 0 if unknown. Shared memory counts for
    each process."""
    return _sum(f"/proc/{pid}/status", ("RssAnon:", "RssShmem:"))


def exact_memory(pid: int) -> int:
    """The same, but counting only its share of shared memory. This takes the system milliseconds."""
    return _sum(f"/proc/{pid}/smaps_rollup", ("Pss_Anon:", "Pss_Shmem:"))


def unmapped_memory(pid: int) -> int:
    """Bytes in unmapped memory files (memfd), which the system counts for no process."""
    held = 0
    try:
        for fd in os.listdir(f"/proc/{pid}/fd")[:_MOST]:
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("/memfd:"):
                    held += os.stat(f"/proc/{pid}/fd/{fd}").st_blocks * 512
    except OSError:
        return 0
    return max(held - _sum(f"/proc/{pid}/status", ("RssShmem:",)), 0) if held else 0


def shared_by_forks() -> set[str]:
    """What forks of this process use together, so that each changes it for the others: sockets, positions in files that
    are read, and memory, as of multiprocessing's locks."""
    import fcntl

    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            link = os.readlink(f"/proc/self/fd/{fd}")
            is_read = fcntl.fcntl(int(fd), fcntl.F_GETFL) & os.O_ACCMODE != os.O_WRONLY
            if link.startswith("socket:") or (is_read and stat.S_ISREG(os.fstat(int(fd)).st_mode)):
                found.add(f"{fd} {link}")
    with contextlib.suppress(OSError), open("/proc/self/maps") as file:
        found.update(line for line in file if line.split(" ", 2)[1] == "rw-s")
    return found


def locks_files() -> bool:
    """Whether this process holds a lock on a file."""
    try:
        with open("/proc/locks") as file:
            return any(line.split()[4:5] == [str(os.getpid())] for line in file)
    except OSError:
        return False


def is_running(pid: int | None) -> bool:
    """Whether there is such a process, and one of its threads, which share its files, has not ended; false if
    unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            first = file.read().rpartition(b")")[2].split()[0]
        return first not in (b"Z", b"X") or len(os.listdir(f"/proc/{pid}/task")) > 1
    except (OSError, IndexError):
        return False


def threads_of(pid: int) -> int:
    """The threads of a process; 0 if unknown."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("Threads:")), 0)
    except (OSError, ValueError, IndexError):
        return 0


def _sum(path: str, names: tuple[str, ...]) -> int:
    try:
        with open(path) as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith(names))
    except (OSError, ValueError, IndexError):
        return 0


def kill_group(pid: int) -> None:
    """Kills the processes of a group, if there are any."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def is_tracker(pid: int) -> bool:
    """Whether a process looks like a tracker of shared memory: multiprocessing's, or torch's for the strategy
    ``file_system``. It removes the remaining files in /dev/shm, and ends, once those that use them have ended: the
    former at once, the latter after two seconds. Anything may look so: do not wait for its end without a limit."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # empty after its end
            command = file.read(4096)
    except OSError:
        return False
    return any(name in command for name in _TRACKERS)


def kill_job(pid: int) -> None:
    """Kills a job with its group, except its trackers, which then finish and end by themselves."""
    if not kill_around_trackers(pid):
        kill_group(pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def end_around_trackers(pid: int) -> bool:
    """The same for a child of this process, for which it waits; false if there is none."""
    kill_job(pid)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        return False
    return True


def kill_around_trackers(pid: int) -> list[int]:
    """If there are trackers among its descendants or its group, kills the process and all of these except the trackers.
    Returns the trackers."""
    below = [*descendants_of(pid), *filter(lambda each: group_of(each) == pid, children_of(os.getpid()))]
    trackers = [each for each in below if each != pid and is_tracker(each)]
    for each in {pid, *below} - {*trackers} if trackers else ():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)
    return trackers


def kill_below(pid: int) -> None:
    """Stops a process that adopts orphans, and kills what is below it, in any group and session, except trackers. When
    it ends, the system would give them another parent, and nobody could find them any more."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGSTOP)
    for _ in range(_ROUNDS):  # those that are killed may have started others
        below = [each for each in descendants_of(pid) if is_running(each) and not is_tracker(each)]
        if not below:
            return
        for each in below:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        time.sleep(0.001)


def group_of(pid: int) -> int | None:
    """The process group of a process; None if there is none."""
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def end(pid: int) -> bool:
    """Kills a child of this process with its group and waits for it; false if there is none."""
    kill_group(pid)
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError, PermissionError):
        return False
    return True


def die_with_parent(parent: int, how: int = signal.SIGTERM) -> None:
    """Linux: the kernel sends a signal to this process when the parent thread ends."""
    if _prctl(_PR_SET_PDEATHSIG, how) and os.getppid() != parent:
        _exit(1)


def outlive_parent() -> None:
    """Takes `die_with_parent` back: this process notices the parent's end itself from now on."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def adopt_orphans() -> bool:
    """Linux: orphans among its descendants become children of this process, so that it can find and end them."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        return _libc().prctl(option, value, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


_libc_handle: Any = None


def _libc() -> Any:
    global _libc_handle
    if _libc_handle is None:
        _libc_handle = ctypes.CDLL(None, use_errno=True)
    return _libc_handle
