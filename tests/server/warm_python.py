"""An interpreter whose workers need not import torch, for tests that are not about their start.

``started`` makes a folder that looks like a virtual environment.  Its ``bin/python`` hands what it is asked for to a
process that has done all that a worker does before its hello, and waits for the end of the fork that this one makes.
Whatever is no worker of this tree, or could import something else, is left to the real interpreter.
"""

from __future__ import annotations

import contextlib
import importlib.util
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [str(ROOT / "server" / "fxlens"), str(ROOT / "fxlib")]
ZYGOTE = str(ROOT / "server" / "fxlens" / "worker" / "zygote.py")

# It imports only what is built in, since it is started hundreds of times.
ASKS = """#!{python} -ISE
import os, sys
given, environment = sys.argv[1:], dict(os.environ)
environment.pop("VIRTUAL_ENV", None)
ours = given[:1] == [{zygote!r}] and given[3:5] == {folders!r} and environment.get("OMP_NUM_THREADS") == "1"
if not ours or "PYTHONPATH" in environment or "FXLENS_COMPILER" in environment:
    os.execve({python!r}, [{python!r}, *given], environment)
import _socket, marshal
passed = [0, 1, 2, *map(int, given[2].split(","))]
asked = marshal.dumps((given[1:], environment, os.getcwd()))
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
numbers = b"".join(each.to_bytes(4, sys.byteorder) for each in passed)
server.sendmsg([len(asked).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
server.sendall(asked)
for each in passed:
    os.close(each)
status = int.from_bytes(server.recv(4), "big", signed=True)
if status < 0:
    os.kill(os.getpid(), -status)
os._exit(status)
"""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Path]:
    """The folder of a virtual environment with such an interpreter."""
    address = str(folder / "socket")
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(ASKS.format(python=sys.executable, zygote=ZYGOTE, folders=FOLDERS, address=address))
    python.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(16)
        process = subprocess.Popen(
            [sys.executable, __file__, str(listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,
        )
    try:
        yield folder
    finally:
        process.kill()
        process.communicate()


def main(listener: int) -> None:
    sys.path.pop(0)  # the tests' folder, whose names belong to nobody's code
    spec = importlib.util.spec_from_file_location("zygote", ZYGOTE)
    assert spec is not None and spec.loader is not None
    zygote = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(zygote)
    hello, put_off = preloaded(zygote)
    arguments = asked(socket.socket(fileno=listener))  # it returns in forks
    for each in put_off:
        each()
    zygote.load_package, zygote.preload = lambda *given: None, lambda: hello
    sys.modules["__main__"] = zygote
    zygote.main(arguments)


def preloaded(zygote: ModuleType) -> tuple[dict, list[Callable[[], None]]]:
    """What the zygote would say, and what has to wait for the environment that it will have."""
    zygote.load_package("fxlens", FOLDERS[0])
    finder = zygote._Located("fxlib", FOLDERS[1])
    sys.meta_path.insert(0, finder)
    from fxlens.worker import bytecode, forking, network, process  # noqa: F401

    put_off = [network.turn_off, bytecode.keep_elsewhere]
    network.turn_off = bytecode.keep_elsewhere = lambda: None
    hello = zygote.preload()
    network.turn_off, bytecode.keep_elsewhere = put_off
    sys.meta_path.remove(finder)
    return hello, put_off


def asked(listener: socket.socket) -> list[str]:
    """Forks for each that asks, and ends with its own input.  Returns in the forks: the arguments that they have."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(listener, select.POLLIN)
    forks: dict[int, tuple[int, int, socket.socket]] = {}  # by both descriptors: that of its end, and who waits for it
    while True:
        fd, _ = poll.poll()[0]  # the others are told again: what is done here may close and open them
        if fd == 0:
            os._exit(0)
        elif fd == listener.fileno():
            connection, _ = listener.accept()
            (arguments, environment, folder), passed = received(connection)
            pid = os.fork()
            if pid == 0:
                for each in (listener, connection, *{fork[2] for fork in forks.values()}):
                    each.close()
                for end in {fork[1] for fork in forks.values()}:
                    os.close(end)
                take(environment, folder, passed[:3])
                return [arguments[0], ",".join(map(str, passed[3:])), *arguments[2:]]
            for each in passed:
                os.close(each)
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
            with contextlib.suppress(OSError):
                connection.send(status.to_bytes(4, "big", signed=True))
            for each in (end, connection.fileno()):
                poll.unregister(each)
                del forks[each]
            os.close(end)
            connection.close()


def received(connection: socket.socket) -> tuple[tuple[list[str], dict[str, str], str], list[int]]:
    size, passed, _, _ = socket.recv_fds(connection, 4, 5)
    left, data = int.from_bytes(size, "big"), b""
    while len(data) < left:
        data += connection.recv(left - len(data))
    return marshal.loads(data), list(passed)


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
    main(int(sys.argv[1]))
