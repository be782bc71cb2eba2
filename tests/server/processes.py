"""Helpers for tests that watch processes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from fxlens.ipc.processes import children_of
from lsp_client import Client
from warm_python import work_of


def descendants(pid: int) -> list[int]:
    """All processes below this one. The fork of a warm interpreter counts as the process that requested it."""
    found, waiting = [], [work_of(pid)]
    while waiting:
        below = [work_of(each) for each in children_of(waiting.pop())]
        found += below
        waiting += below
    return found


def settled(pid: int, most: int, seconds: float = 60.0) -> list[int]:
    """The processes below this one, once there are at most so many or the time is over."""
    until = time.monotonic() + seconds
    while len(left := descendants(pid)) > most and time.monotonic() < until:
        time.sleep(0.05)
    return left


def tree(pid: int) -> str:
    """The processes below this one, a line for each: its parent, its threads, how long it has run, its command."""
    import psutil

    lines = []
    for each in descendants(pid):
        try:
            child = psutil.Process(each)
            seconds = time.time() - child.create_time()
            command = " ".join(child.cmdline())
            lines.append(f"{child.pid} of {child.ppid()}, {child.num_threads()} threads, {seconds:.0f} s: {command}")
        except psutil.NoSuchProcess:
            continue
    return "\n".join(lines)


def zygotes(pid: int) -> list[int]:
    """Workers that this server has started; not its index."""
    found = []
    for each in children_of(pid):
        try:
            if b"zygote.py" in Path(f"/proc/{each}/cmdline").read_bytes():
                found.append(work_of(each))
        except OSError:
            continue
    return found


def clock(server: Client) -> float:
    """Seconds of a clock that stops while a thread of the server, or of this process, waits for a processor: to measure
    answers independently of other load."""
    waited = 0
    for path in (*Path(f"/proc/{server.pid}/task").iterdir(), *Path("/proc/self/task").iterdir()):
        try:
            waited += int((path / "schedstat").read_text().split()[1])
        except OSError:
            continue
    return time.monotonic() - waited / 1e9


def settled_at_rest(client: Client, seconds: float = 60.0) -> bool:
    """Whether there are no more processes below a server that others use too than it has reasons for: the index; and
    for each interpreter a zygote, its branches, and open files that stay executed, with a spare of each."""
    until = time.monotonic() + seconds
    while True:
        said = json.loads(client.request("fxlens/debugInfo", {})["text"])
        most = 1
        for worker in said["workers"]:
            if worker["hello"]:
                branches = len(worker["preloaded"]) + (worker["captures"] is not None)
                most += 2 * (1 + branches + min(len(said["documents"]), 3))
        if len(descendants(client.pid)) <= most:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.1)


def at_rest(open_files: int = 1) -> int:
    """The most processes below a server to which nothing happens: the index, a zygote and a branch of it, their spares,
    and for each open file that stays executed, at most three, one with its spare."""
    return 5 + 2 * min(open_files, 3)


def gone(pids: list[int], seconds: float = 60.0) -> list[int]:
    """Those of these processes that are still alive after at most so many seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        alive = [pid for pid in pids if _alive(pid)]
        if not alive:
            return []
        time.sleep(0.05)
    return alive


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes_with(text: str) -> list[int]:
    """Processes whose environment or command line holds the text."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            for name in ("environ", "cmdline"):
                try:
                    with open(f"/proc/{entry}/{name}", "rb") as file:
                        if text.encode() in file.read():
                            found.append(int(entry))
                            break
                except OSError:
                    continue
    return found


def jobs_left(client: Client, most: int, seconds: float = 60.0) -> int:
    """Processes for jobs on a whole machine, once there are at most so many or the time is over."""
    until = time.monotonic() + seconds
    while (left := jobs_of(client)) > most and time.monotonic() < until:
        time.sleep(0.05)
    return left


def jobs_of(client: Client) -> int:
    """Processes below the server that were started for one job on a whole machine."""
    count, waiting = 0, [client.pid]
    while waiting:
        pid = waiting.pop()
        task = Path(f"/proc/{pid}")
        try:
            # Its guardian is of its session.
            count += b"zygote.py\0spare\0" in (task / "cmdline").read_bytes() and os.getsid(pid) == pid
            waiting += [int(each) for path in task.glob("task/*/children") for each in path.read_text().split()]
        except OSError:
            continue
    return count
