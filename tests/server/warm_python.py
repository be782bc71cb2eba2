"""Interpreters whose workers need not import torch, and whose ``fxlens`` need not import itself, for tests that are not
about their start.

``started`` makes folders that look like virtual environments.  The ``bin/python`` of each hands what it is asked for
to a process that has done the first part of it, and waits for the end of the fork that this one makes; `work_of` says
which fork that is.  In ``plain`` that process has done all that a worker does before its hello.  In ``captures`` it has
imported torch's compiler too, and all that the worker for torch.export and torch.compile has.  Jobs on one model, of
which many need the compiler, are forked from the second in both.  In ``command`` it has imported the commands of
fxlens and its index: `warm_fxlens` calls it, and the index that this one starts is a fork of it, too.  Whatever is none
of these, or could import something else, is left to the real interpreter.  All three processes wait until they are
asked before they import anything.

``python warm_python.py FOLDER FXLENS FXLIB`` keeps the workers' two until its input ends, for programs in other
languages.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import io
import json
import marshal
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, TextIO

ROOT = Path(__file__).resolve().parents[2]
OURS = (str(ROOT / "server" / "fxlens"), str(ROOT / "fxlib"))

# It imports only what is built in, since it is started hundreds of times.
ASKS = """#!{python} -ISE
import os, sys
given, environment = sys.argv[1:], dict(os.environ)
{ours}
if not ours:
    os.execve({python!r}, [{python!r}, *given], os.environ)
import _signal, _socket, marshal
_signal.signal(_signal.SIGTERM, _signal.SIG_IGN)  # the process that it stands for sees its parent's end itself
asked = marshal.dumps((given, environment, os.getcwd()))
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
try:
    server.connect(address)
except OSError:  # it has ended, and the tests say so at their end
    _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
    os.execve({python!r}, [{python!r}, *given], os.environ)
numbers = b"".join(each.to_bytes(4, sys.byteorder) for each in passed)
server.sendmsg([len(asked).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
server.sendall(asked)
for each in passed:
    os.close(each)
status = int.from_bytes(server.recv(4) or bytes((0, 0, 0, 1)), "big", signed=True)
if status < 0:
    os.kill(os.getpid(), -status)
os._exit(status)
"""
WORKER = """
for each in (environment, os.environ):
    each.pop("VIRTUAL_ENV", None)
ours = given[:1] == [{zygote!r}] and given[3:5] == {packages!r} and environment.get("OMP_NUM_THREADS") == "1"
ours = ours and "PYTHONPATH" not in environment
if ours:
    passed = [0, 1, 2, *map(int, given[2].split(","))]
    compiler = environment.pop("FXLENS_COMPILER", "") or "FXLENS_NETWORK" not in environment
    address = {captures!r} if compiler else {address!r}
"""
# Variables that an interpreter, or the C library, reads at its start.
COMMAND = """
read = {{name: value for name, value in environment.items() if name.startswith({prefixes!r})}}
ours = given[:2] == ["-m", "fxlens"] and read == {read!r} or given[:2] == ["-I", "-c"]
passed, address = [0, 1, 2], {address!r}
try:
    os.getcwd(), [os.fstat(each) for each in passed]
except OSError:
    ours = False
"""
PREFIXES = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "TZ")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


KINDS = ("plain", "captures", "command")
FORKS = "forks"
"""The folder with a link for each process that has asked: to the number of its fork."""

_folder: Path | None = None


def use(folder: Path) -> None:
    """`warm_fxlens` is that of these interpreters from now on."""
    global _folder
    _folder = folder


def warm_fxlens(*arguments: str | os.PathLike[str]) -> list[str]:
    """The command with these arguments, started warm where there are such interpreters.  It is another process that
    does the work (`work_of`), in a session of its own: tests of signals, limits and groups use the real interpreter."""
    python = sys.executable if _folder is None else str(_folder / "command" / "bin" / "python")
    return [python, "-m", "fxlens", *map(os.fspath, arguments)]


@contextlib.contextmanager
def started(folder: Path, packages: Sequence[str] = OURS) -> Iterator[None]:
    """The environments, in ``folder``, which is there and empty, for workers of these packages."""
    with contextlib.ExitStack() as stack:
        for kind in KINDS if packages == OURS else KINDS[:2]:
            stack.enter_context(_one(folder, kind, list(packages)))
        yield


@contextlib.contextmanager
def _one(folder: Path, kind: str, packages: list[str]) -> Iterator[None]:
    address, captures = (str(folder / each / "socket") for each in (kind, "captures"))
    read = {name: value for name, value in os.environ.items() if name.startswith(PREFIXES)}
    ours = (COMMAND if kind == "command" else WORKER).format(
        zygote=zygote_of(packages), packages=packages, address=address, captures=captures, prefixes=PREFIXES, read=read
    )
    python = folder / kind / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(ASKS.format(python=sys.executable, ours=ours))
    python.chmod(0o755)
    (folder / kind / FORKS).mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(16)
        process = subprocess.Popen(
            [sys.executable, __file__, kind, str(listener.fileno()), *packages],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env=dict(os.environ) if kind == "command" else {**os.environ, **ONE_THREAD},
            start_new_session=True,
        )
    try:
        yield
    finally:
        if process.poll() is not None:
            print(f"The warm process {kind!r} ended with {process.returncode} before the tests did.", file=sys.stderr)
        process.kill()
        process.communicate()


def zygote_of(packages: Sequence[str]) -> str:
    return str(Path(packages[0], "worker", "zygote.py"))


def work_of(pid: int) -> int:
    """The fork that does the work of a process, where that one is of an interpreter of these; else itself."""
    with contextlib.suppress(OSError, IndexError):
        script = Path(os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[2]))
        for kind in KINDS:
            with contextlib.suppress(OSError):
                return int(os.readlink(script.parents[2] / kind / FORKS / str(pid)))
    return pid


def main(kind: str, listener: socket.socket, packages: list[str]) -> None:
    sys.path.pop(0)  # the tests' folder, whose names belong to nobody's code
    if len(ready := select.select([0, listener], [], [])[0]) == 1 and ready[0] == 0:
        return
    if kind == "command":
        run, index = imported(Path(listener.getsockname()).parent / "bin" / "python")
        arguments = asked(listener)[0]  # it returns in forks
        open_streams()
        if arguments[0] == "-I":
            index(arguments[4], json.loads(arguments[5]), arguments[6])
            sys.exit()
        sys.argv = [__file__, *arguments[2:]]
        sys.exit(run())
    spec = importlib.util.spec_from_file_location("zygote", zygote_of(packages))
    assert spec is not None and spec.loader is not None
    zygote = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(zygote)
    hello, put_off = preloaded(zygote, packages, kind == "captures")
    arguments, descriptors = asked(listener)
    for each in put_off:
        each()
    zygote.load_package, zygote.preload = lambda *given: None, lambda: hello
    sys.modules["__main__"] = zygote
    zygote.main([arguments[1], ",".join(map(str, descriptors)), *arguments[3:]])


def imported(python: Path) -> tuple[Callable[[], int], Callable[[str, list[str], str], None]]:
    """The command, and the index, which it starts with that interpreter.  All that they may import is, but for what
    runs elsewhere."""
    from fxlens import cli, commands, server  # noqa: F401
    from fxlens.host import index_client
    from fxlens.index import service
    from fxlens.ipc import temporary
    from fxlens.mcp import tools  # noqa: F401
    from fxlens.worker import huge_pages

    for each in pkgutil.iter_modules(commands.__path__, "fxlens.commands."):
        importlib.import_module(each.name)
    gc.collect()
    gc.freeze()
    huge_pages.use()

    index_client.sys = SimpleNamespace(executable=str(python))

    def run() -> int:
        temporary._owner = os.getpid()
        return cli.main()

    return run, service.main


def preloaded(zygote: ModuleType, packages: list[str], captures: bool) -> tuple[dict, list[Callable[[], None]]]:
    """What the zygote would say, and what has to wait for the environment that it will have."""
    if captures:
        os.environ["FXLENS_COMPILER"] = "on"
    zygote.load_package("fxlens", packages[0])
    finder = zygote._Located("fxlib", packages[1])
    sys.meta_path.insert(0, finder)
    from fxlens.worker import bytecode, forking, guardian, huge_pages, network, process  # noqa: F401

    put_off = [network.turn_off, bytecode.keep_elsewhere]
    network.turn_off = bytecode.keep_elsewhere = lambda: None
    hello = zygote.preload()
    if captures:
        importlib.import_module("fxlens.worker.capturing")
        gc.collect()
        gc.freeze()
    huge_pages.use()
    network.turn_off, bytecode.keep_elsewhere = put_off
    sys.meta_path.remove(finder)
    return hello, put_off


def open_streams() -> None:
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        setattr(sys, name, opened(number, getattr(sys, name)))
        setattr(sys, f"__{name}__", getattr(sys, name))


def opened(number: int, before: TextIO) -> TextIO:
    """A standard stream as Python opens it at its start: what the descriptor is now may be no file, or no terminal."""
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED")) and number > 0
    stream = open(number, "wb" if number else "rb", 0 if unbuffered else -1, closefd=False)  # noqa: SIM115
    how: dict[str, Any] = {"encoding": before.encoding, "errors": before.errors, "newline": "\n"}
    return io.TextIOWrapper(stream, line_buffering=number == 2 or stream.isatty(), write_through=unbuffered, **how)


def asked(listener: socket.socket) -> tuple[list[str], list[int]]:
    """Forks for each that asks, and ends with its own input.  Returns in the forks: the arguments that they have, and
    the descriptors beside the first three."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(listener, select.POLLIN)
    links = Path(listener.getsockname()).parent / FORKS
    forks: dict[int, tuple[int, int, socket.socket]] = {}  # by both descriptors: that of its end, and who waits for it
    while True:
        fd, _ = poll.poll()[0]  # the others are told again: what is done here may close and open them
        if fd == 0:
            os._exit(0)
        elif fd == listener.fileno():
            connection, _ = listener.accept()
            try:
                (arguments, environment, folder), passed = received(connection)
            except (OSError, EOFError):  # who asked was killed before it had said for what
                connection.close()
                continue
            pid = os.fork()
            if pid == 0:
                for each in (listener, connection, *{fork[2] for fork in forks.values()}):
                    each.close()
                for end in {fork[1] for fork in forks.values()}:
                    os.close(end)
                take(environment, folder, passed[:3])
                return arguments, passed[3:]
            for each in passed:
                os.close(each)
            (links / str(asking(connection))).symlink_to(str(pid))
            end = os.pidfd_open(pid)
            for each in (end, connection.fileno()):
                forks[each] = (pid, end, connection)
                poll.register(each, select.POLLIN)
        else:
            pid, end, connection = forks[fd]
            if fd != end:  # who asked for it was killed
                for kill in (os.kill, os.killpg):
                    with contextlib.suppress(ProcessLookupError):
                        kill(pid, signal.SIGKILL)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            (links / str(asking(connection))).unlink()
            with contextlib.suppress(OSError):
                connection.send(status.to_bytes(4, "big", signed=True))
            for each in (end, connection.fileno()):
                poll.unregister(each)
                del forks[each]
            os.close(end)
            connection.close()


def asking(connection: socket.socket) -> int:
    """The process at the other end."""
    return int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)


def received(connection: socket.socket) -> tuple[tuple[list[str], dict[str, str], str], list[int]]:
    """What a process asks for.  Raises EOFError if it ends before it has said so."""
    size, passed, _, _ = socket.recv_fds(connection, 4, 5)
    left, data = int.from_bytes(size, "big"), b""
    while len(data) < left:
        if not (more := connection.recv(left - len(data))):
            break
        data += more
    try:
        return marshal.loads(data), list(passed)
    except EOFError:
        for each in passed:
            os.close(each)
        raise


def take(environment: dict[str, str], folder: str, streams: list[int]) -> None:
    """What a process has from who starts it."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)


if __name__ == "__main__":
    if sys.argv[1] in KINDS:
        main(sys.argv[1], socket.socket(fileno=int(sys.argv[2])), sys.argv[3:])
    else:
        with started(Path(sys.argv[1]), sys.argv[2:]):
            print("ready", flush=True)
            sys.stdin.read()
