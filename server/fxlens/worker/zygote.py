"""The process that has torch imported and forks one child per job.

Started as a script by the user's interpreter: ``python zygote.py fork|spare <fds> <fxlens> <fxlib> <jobs>``, the last
three being folders: two of packages, one of temporary files.
It runs no operator and holds no user code, so that a fork of it is a clean start; it reads commands from a socket
(``fork``), or does one job itself and ends (``spare``, for systems where a fork with torch is not safe).

Standard library, torch and fxlib only.  The folders need not be on the user's path, and no name but ``fxlens`` and
``fxlib`` is added to what user code can import.
"""

import sys

# As a script, the folder of this file comes first on the path, with names like "job" that belong to the user.
if __name__ == "__main__":
    sys.path.pop(0)

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import select
import signal
import socket
import traceback

_COMMAND_BYTES = 1 << 18
_NO_CHANNEL = 70  # protocol.NO_CHANNEL_STATUS, which is not loaded yet
_exit = os._exit


def load_package(name: str, folder: str) -> None:
    """Makes the package importable from ``folder`` without touching ``sys.path``."""
    init = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[folder])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def preload() -> dict:
    """Imports what every job needs; says what is there, or what is wrong in ``"error"``."""
    hello = {"python": "{}.{}.{}".format(*sys.version_info[:3]), "executable": sys.executable, "torch": None}
    if sys.version_info < (3, 10):  # noqa: UP036
        return {**hello, "error": f"Python {hello['python']} is too old: FX Lens needs 3.10 or newer"}
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            return {**hello, "error": f"torch is broken in {sys.executable}: {type(error).__name__}: {error}"}
        return {**hello, "error": f"torch is not installed in {sys.executable}"}
    except BaseException as error:
        return {**hello, "error": f"torch is broken in {sys.executable}: {type(error).__name__}: {error}"}
    version = getattr(torch, "__version__", None)
    if version is None:
        return {**hello, "error": f"torch in {sys.executable} is an empty package: its installation is damaged"}
    hello["torch"] = str(version)
    numbers = tuple(int(part) for part in str(version).split("+")[0].split(".")[:2] if part.isdigit())
    if numbers < (2, 13):
        return {**hello, "error": f"torch {version} in {sys.executable} is too old: FX Lens needs 2.13 or newer"}
    for name in ("fxlens.worker.job", "fxlib", "fxlib.diagnosis"):
        try:
            importlib.import_module(name)
        except Exception as error:
            return {**hello, "error": f"{name} cannot be imported in {sys.executable}: {type(error).__name__}: {error}"}
    try:
        # The first nn.Embedding on meta would import these in every job, for a second each time.
        importlib.import_module("torch._inductor.decomposition")
    except Exception as error:
        hello["note"] = f"not preloaded: {type(error).__name__}: {error}"
    warm_up()
    gc.collect()
    gc.freeze()
    return hello


def warm_up() -> None:
    """Traces a small model: fills caches, and in a fork takes the copies of the pages that a trace writes to."""
    from fxlens.worker import warmup

    try:
        warmup.run()
    except Exception:
        traceback.print_exc()


def import_modules(names: list) -> list:
    """Imports third-party modules that coming jobs need; gives the names that did not import."""
    failed = []
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException:
            failed.append(name)
    gc.collect()
    gc.freeze()
    return failed


class Zygote:
    """Serves one control socket: ``run`` forks a job, ``branch`` forks another zygote with more modules imported."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.jobs: dict = {}  # pid -> job id
        self.folders: dict = {}  # pid -> folder of its temporary files
        self.parents: set = set()  # the folders of those, this zygote's and its branches'
        self.branches: set = set()
        self._wake_read = self._wake_write = -1

    def say(self, message: dict) -> None:
        self.control.send(json.dumps(message).encode())

    def serve(self) -> None:
        """Until the server closes its end."""
        from fxlens.worker import isolation

        isolation.adopt_orphans()
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
                ready = dict(poll.poll())
                if self._wake_read in ready:
                    os.read(self._wake_read, 4096)
                    self.reap()
                if self.control.fileno() in ready and not self.command():
                    return
        finally:
            self.end_all()

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
            self.fork_branch(message["modules"], fds)
        for fd in fds:
            os.close(fd)
        return True

    def fork_job(self, job: int, fds: list, warm: bool, folder: str) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self.say({"job": job, "exit": None, "error": error.strerror or str(error)})
            return
        if pid == 0:
            try:
                self.become_child()
                from fxlens.ipc import temporary
                from fxlens.worker import isolation

                isolation.own_process_group()
                isolation.die_with_parent(parent)
                temporary.enter(folder)
                channel_fd, output_fd, stacks_fd = fds
                run_job(channel_fd, channel_fd, output_fd, stacks_fd, warm=warm)
            except BaseException:
                traceback.print_exc()
            finally:
                _exit(_NO_CHANNEL)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self.jobs[pid] = job
        self.folders[pid] = folder
        self.parents.add(os.path.dirname(folder))
        self.say({"job": job, "pid": pid})

    def kill_job(self, job: int) -> None:
        for pid, number in self.jobs.items():
            if number == job:
                kill_group(pid)
                os.kill(pid, signal.SIGKILL)

    def fork_branch(self, modules: list, fds: list) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            return  # its socket closes, which says enough
        if pid:
            self.branches.add(pid)
            return
        try:
            self.become_child()
            from fxlens.worker import isolation

            isolation.own_process_group()
            isolation.die_with_parent(parent)
            branch = Zygote(socket.socket(fileno=os.dup(fds[0])))
            for fd in fds:
                os.close(fd)
            isolation.redirect_standard_streams(os.open(os.devnull, os.O_RDWR))
            failed = import_modules(modules)
            branch.say({"hello": {"failed": failed, "threads": len(os.listdir("/proc/self/task"))}})
            branch.serve()
        finally:
            _exit(0)

    def become_child(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.close(self._wake_read)
        os.close(self._wake_write)
        self.control.close()

    def reap(self) -> None:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            # Still a zombie: its number cannot be another group's yet.
            kill_group(ended.si_pid)
            pid, status = os.waitpid(ended.si_pid, 0)
            self.branches.discard(pid)
            job = self.jobs.pop(pid, None)
            if job is not None:
                self.say({"job": job, "exit": os.waitstatus_to_exitcode(status)})
                self.end_strays()
                self.remove_folder(pid)

    def end_strays(self) -> None:
        """Kills what finished jobs left behind: a process with a session of its own survives the kill of the group."""
        for _ in range(100):
            strays = [pid for pid in children_of(os.getpid()) if pid not in self.jobs and pid not in self.branches]
            if not strays:
                return
            for pid in strays:
                kill_group(pid)
                try:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                except (ProcessLookupError, ChildProcessError):
                    continue

    def end_all(self) -> None:
        for pid in [*self.jobs, *self.branches]:
            kill_group(pid)
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                continue
        self.jobs.clear()
        self.branches.clear()
        self.end_strays()
        from fxlens.ipc import temporary

        for folder in self.parents:
            temporary.remove(temporary.ours(folder))

    def remove_folder(self, pid: int) -> None:
        from fxlens.ipc import temporary

        temporary.remove(self.folders.pop(pid, ""))


def kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def children_of(pid: int) -> list:
    """Process ids whose parent is ``pid``, zombies left out; Linux only, elsewhere empty."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        pass
    found = []
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry))
    return found


def run_job(
    read_fd: int,
    write_fd: int,
    output_fd: int,
    stacks_fd: int,
    *,
    warm: bool = False,
    hello: "dict | None" = None,
    folder: str = "",
    guarded: bool = False,
) -> None:
    """Takes one job from the channel, does it in this process and ends the process.

    ``folder`` is where its temporary files are, if it is to remove them itself when the server is gone.  While a job
    runs, that is so only where it is not ``guarded``."""
    from fxlens.ipc import temporary
    from fxlens.worker import isolation

    channel = isolation.Channel(read_fd, write_fd, stacks_fd)
    isolation.redirect_standard_streams(output_fd)
    for fd in {read_fd, write_fd, output_fd, stacks_fd} - {0, 1, 2}:
        os.close(fd)
    isolation.no_core_files()
    if hello is not None:
        channel.send({"hello": hello})
    if warm:
        warm_up()
    message = channel.receive()
    if message is None:
        temporary.remove(temporary.ours(folder))
        isolation.finish()
        return
    if hello is not None and not guarded:
        channel.watch_for_end(lambda: temporary.remove(temporary.ours(folder)))
    isolation.report_faults(channel.dump_fd)
    # A job is short and its process ends with it: collecting its garbage early is work for nothing.
    gc.set_threshold(100_000, 20, 20)
    from fxlens.worker import job

    job.run(message, channel)
    isolation.finish()


def main(arguments: list) -> None:
    mode, given, fxlens_folder, fxlib_folder, jobs_folder = arguments
    fds = [int(each) for each in given.split(",") if each]
    load_package("fxlens", fxlens_folder)
    from fxlens.ipc import protocol

    # The package runs code when loaded, fxlib most of all: preload() catches what that raises.
    sys.meta_path.insert(0, _Located("fxlib", fxlib_folder))
    if mode == "spare":
        folder, stacks = os.environ.get("TMPDIR", ""), 2
        if fds:
            from fxlens.worker import guardian

            stacks, lifeline = fds
            guardian.start(lifeline, folder, others=(0, 1, 2, stacks))
        channel = (os.dup(0), os.dup(1))
        os.dup2(2, 1)
        try:
            hello = {**preload(), "protocol": protocol.VERSION}
            run_job(*channel, 2, stacks, hello=hello, folder=folder, guarded=bool(fds))
        except BrokenPipeError:  # the server went
            from fxlens.ipc import temporary

            temporary.remove(temporary.ours(folder))
        except OSError:  # user code closed our descriptors
            traceback.print_exc()
            _exit(_NO_CHANNEL)
        return
    control = socket.socket(fileno=fds[0])
    zygote = Zygote(control)
    zygote.parents.add(jobs_folder)
    hello = {**preload(), "protocol": protocol.VERSION}
    try:
        zygote.say({"hello": hello})
    except OSError:  # the server went while torch was imported
        zygote.end_all()
        return
    zygote.serve()


class _Located:
    """An import finder for one package at a known place."""

    def __init__(self, name: str, folder: str) -> None:
        self.name, self.folder = name, folder

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        init = os.path.join(self.folder, "__init__.py")
        return importlib.util.spec_from_file_location(name, init, submodule_search_locations=[self.folder])


if __name__ == "__main__":
    main(sys.argv[1:])
