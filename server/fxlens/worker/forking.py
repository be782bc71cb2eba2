"""Forks a process for each job, and other zygotes with more modules imported; kills the processes that they leave.

A zygote runs no operators and no user code, so that a fork of it is a clean start.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import time
import traceback
from collections.abc import Callable

from fxlens.ipc import processes, protocol, temporary
from fxlens.ipc.processes import children_of, kill_group
from fxlens.ipc.protocol import Data, Json

from . import compiler, huge_pages, isolation, made_folders, process

_COMMAND_BYTES = 1 << 18
_CLEARING_SECONDS = 2.0
_LOOK = 10  # milliseconds between two checks of trackers
_BRANCH_SECONDS = 0.5  # for a branch to end its own kept files at the end
_exit = os._exit  # user code may replace it


class Zygote:
    """Serves one control socket: ``run`` forks a job, ``branch`` forks another zygote with more modules imported."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.jobs: dict[int, int] = {}  # pid -> job id
        self.folders: dict[int, str] = {}  # pid -> folder of its temporary files, or of its jobs' ones
        self.made: list[tuple[str, str]] = []  # folders that ended jobs have made, to be removed
        self.parents: set[str] = set()  # the parent folders of those, for this zygote and its branches
        self.branches: set[int] = set()
        self.ended: set[int] = set()  # jobs and branches that are not cleared up yet
        self.trackers: set[int] = set()  # those of ended jobs that are still running
        self._own: set[int] = set()  # what the imports before the first job have started
        self._huge = False  # whether the memory has been put into huge pages
        self._clear_at = 0.0  # when trackers are killed, too
        self._wake_read = self._wake_write = -1

    def say(self, message: Data) -> None:
        self.control.send(json.dumps(message).encode())

    def serve(self) -> None:
        """Serves until the server closes its end."""
        processes.adopt_orphans()
        self._own = {*children_of(os.getpid())}
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self.control.fileno(), select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        try:
            while True:
                ready = dict(poll.poll(_LOOK if self.ended or self.trackers else None))
                if self._wake_read in ready:
                    os.read(self._wake_read, 4096)
                    self.notice()
                self.clear_up()
                if self.control.fileno() in ready and not self.command():
                    return
        finally:
            self.end_all()

    def use_huge_pages(self) -> None:
        """Before what lives long is forked, and shares them."""
        if not self._huge:
            huge_pages.use()
            self._huge = True

    def command(self) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(self.control, _COMMAND_BYTES, 4)
        except ConnectionError:
            return False
        if not data:
            return False
        message = json.loads(data)
        if message["do"] == "run":
            self.fork_job(message["job"], fds, message["warm"], message["folder"])
        elif message["do"] == "kill":
            self.kill_job(message["job"])
        elif message["do"] == "branch":
            self.parents.add(message["folder"])
            self.use_huge_pages()
            self.fork_branch(message["modules"], message["folder"], fds)
        elif message["do"] == "keep":
            self.parents.add(message["folder"])
            self.use_huge_pages()
            self.fork_keeper(message["folder"], fds)
        elif message["do"] == "compiler":
            compiler.imported()
            gc.collect()
            gc.freeze()
            self._huge = False  # there is new memory
            self.say({"compiler": True})
        for fd in fds:
            os.close(fd)
        return True

    def fork_job(self, job: int, fds: list[int], warm: bool, folder: str) -> None:
        parent = os.getpid()
        temporary.prepare(folder)
        try:
            pid = os.fork()
        except OSError as error:
            self.say({"job": job, "exit": None, "error": error.strerror or str(error)})
            return
        if pid == 0:
            try:
                self.become_child(parent)
                processes.adopt_orphans()
                temporary.enter(folder)
                channel_fd, output_fd, stacks_fd = fds
                process.run_job(channel_fd, channel_fd, output_fd, stacks_fd, warm=warm)
            except BaseException:
                traceback.print_exc()
            finally:
                _exit(protocol.NO_CHANNEL_STATUS)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self.jobs[pid] = job
        self.folders[pid] = folder
        self.parents.add(os.path.dirname(folder))
        self.say({"job": job, "pid": pid})

    def kill_job(self, job: int) -> None:
        for pid, number in self.jobs.items():
            if number == job:
                processes.kill_job(pid)

    def fork_branch(self, modules: list[str], folder: str, fds: list[int]) -> None:
        """Forks another zygote with these modules imported."""

        def begin() -> Zygote:
            branch = Zygote(socket.socket(fileno=os.dup(fds[0])))
            for fd in fds:
                os.close(fd)
            isolation.redirect_standard_streams(os.open(os.devnull, os.O_RDWR))
            branch.say({"branch": os.getpid()})
            before = resident()
            import_modules(modules)
            threads = len(os.listdir("/proc/self/task"))
            branch.say({"hello": {"threads": threads, "memory": resident() - before}})
            return branch

        self.fork_zygote(begin, folder)

    def fork_keeper(self, folder: str, fds: list[int]) -> None:
        """Forks another zygote, in which a file is executed and its models are constructed (``kept``): the second
        descriptor has the request, and the third receives the output of user code."""

        temporary.prepare(own := temporary.of_job(folder, 0))

        def begin() -> Zygote:
            processes.adopt_orphans()
            keeper = Zygote(socket.socket(fileno=isolation.private(fds[0])))
            keeper.say({"branch": os.getpid()})
            with open(os.dup(fds[1]), "rb") as file:
                request = json.load(file)
            output = os.dup(fds[2])
            for fd in fds:
                os.close(fd)
            temporary.enter(own)
            isolation.redirect_standard_streams(output)
            isolation.no_core_files()
            keeper.say({"hello": _keep(request)})
            return keeper

        self.fork_zygote(begin, folder)

    def fork_zygote(self, begin: Callable[[], Zygote], folder: str) -> None:
        """Forks a zygote; ``begin`` sets it up in the child. Its jobs have their folders in ``folder``."""
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            return  # the closed socket tells the server
        if pid:
            self.branches.add(pid)
            self.folders[pid] = folder
            return
        try:
            self.become_child(parent)
            begin().serve()
        finally:
            _exit(0)

    def become_child(self, parent: int) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.close(self._wake_read)
        os.close(self._wake_write)
        self.control.close()
        isolation.own_process_group()
        processes.die_with_parent(parent, signal.SIGKILL)

    def notice(self) -> None:
        """Reports ended jobs. Their process ids stay reserved, since they are not reaped yet."""
        for pid in [*self.jobs, *self.branches]:
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                continue
            self._clear_at = time.monotonic() + processes.TRACKER_SECONDS
            self.ended.add(pid)
            self.branches.discard(pid)
            if (job := self.jobs.pop(pid, None)) is not None:
                status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                self.say({"job": job, "exit": status})
        for pid in self.strays():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def clear_up(self) -> None:
        """Cleans up after ended jobs and branches. One whose group has a tracker waits until that has removed its files
        in /dev/shm; other jobs do not wait for that."""
        if not self.ended and not self.trackers:
            return
        self.end_strays()
        cleared = self.ended - {processes.group_of(pid) for pid in self.trackers}
        for pid in cleared:
            kill_group(pid)
            os.waitpid(pid, 0)
        self.ended -= cleared
        self.end_strays()
        for pid in cleared:
            self.remove_folder(pid)

    def strays(self) -> list[int]:
        """Processes left by ended jobs. Those of running jobs stay below them, since each job adopts its orphans."""
        children = children_of(os.getpid())
        self._own &= {*children}
        known = {*self.jobs, *self.branches, *self.ended, *self._own}
        return [pid for pid in children if pid not in known]

    def end_strays(self) -> None:
        """Ends them, since they may hold the trackers' pipes; trackers only if their time is over."""
        for _ in range(100):
            strays = self.strays()
            in_time = time.monotonic() < self._clear_at
            self.trackers = {pid for pid in strays if in_time and processes.is_tracker(pid)}
            if not any([processes.end_around_trackers(pid) for pid in strays if pid not in self.trackers]):
                return

    def end_all(self) -> None:
        last = {*self.jobs, *self.branches}
        for pid in self.jobs:
            processes.kill_job(pid)
        until = time.monotonic() + _BRANCH_SECONDS
        while any(map(_is_running, self.branches)) and time.monotonic() < until:  # their sockets are closed, too
            time.sleep(_LOOK / 1000)
        for pid in self.branches:
            processes.kill_job(pid)
        for pid in last:  # the children of one are adopted by this process at its end
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        self.ended |= last
        self.jobs.clear()
        self.branches.clear()
        self._clear_at = time.monotonic() + processes.TRACKER_SECONDS
        while self.ended or self.trackers:
            self.clear_up()
            time.sleep(_LOOK / 1000 if self.trackers else 0)
        self.end_strays()
        for folder in self.parents:
            self.made = made_folders.remove([*self.made, *made_folders.noted_below(folder)])
            temporary.remove(temporary.ours(folder))

    def remove_folder(self, pid: int) -> None:
        # A folder that takes longer is removed with the parent folder; otherwise the next job would wait.
        if folder := self.folders.pop(pid, ""):
            noted = made_folders.noted_below if folder in self.parents else made_folders.noted_by
            self.made = made_folders.remove([*self.made, *noted(folder)])
            temporary.remove(folder, _CLEARING_SECONDS)


def _is_running(child: int) -> bool:
    """Whether a child has not ended; it is not reaped."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _keep(request: Json) -> Data:
    from . import kept

    try:
        kept.prepare(request)
    except BaseException as error:
        return {"error": f"{type(error).__name__}"}
    return {"threads": len(os.listdir("/proc/self/task"))}


def import_modules(names: list[str]) -> None:
    """Imports third-party modules that coming jobs need; failing imports are left to the jobs."""
    for name in names:
        with contextlib.suppress(BaseException):
            importlib.import_module(name)
    importlib.import_module("fxlib.diagnosis.fixes.loaded").note()
    gc.collect()
    gc.freeze()


def resident() -> int:
    """Resident bytes of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
