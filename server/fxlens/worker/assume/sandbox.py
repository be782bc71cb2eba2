"""Runs user code as a trial: nothing is fetched, written, printed or left changed, and it ends in time."""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

_FORBIDDEN = {
    "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "subprocess.Popen", "os.system", "os.remove",
    "os.rename", "os.mkdir", "os.rmdir", "os.exec", "os.posix_spawn", "os.fork", "shutil.rmtree", "os.truncate",
    "os.link", "os.symlink", "os.chmod", "urllib.Request",
}  # fmt: skip
_OF_FILES = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "shutil.rmtree"}
_active = 0
_hooked = False


class OutOfTime(BaseException):
    """A trial took longer than it may."""


class Refused(OSError):
    """A trial wanted to write a file, start a process or open a connection."""


@contextlib.contextmanager
def trial(seconds: float) -> Iterator[None]:
    """Raises OutOfTime after so many seconds of Python code, where the system has timers (not on Windows)."""
    import torch

    random_state = random.getstate()
    torch_state = torch.random.get_rng_state()
    numpy = sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy is not None and hasattr(numpy, "random") else None
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    quiet = contextlib.redirect_stdout(io.StringIO())
    try:
        with warnings.catch_warnings(), quiet, without_weights(), _guarded(), _timer(seconds):
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(random_state)
        torch.random.set_rng_state(torch_state)
        if numpy is not None and numpy_state is not None:
            numpy.random.set_state(numpy_state)
        if torch.get_default_dtype() is not dtype:
            torch.set_default_dtype(dtype)
        torch.set_grad_enabled(grad)


class NoWeights(dict):
    """What stands for a checkpoint: the graph of a model does not depend on its weights."""

    def __missing__(self, key: Any) -> NoWeights:
        return NoWeights()

    def __getattr__(self, name: str) -> NoWeights:
        if name.startswith("__"):
            raise AttributeError(name)
        return NoWeights()


@contextlib.contextmanager
def without_weights() -> Iterator[None]:
    """Nothing is downloaded: weights that are not on disk are none, and loading none changes nothing."""
    import torch

    load, load_state, download = torch.load, torch.nn.Module.load_state_dict, torch.hub.download_url_to_file

    def load_what_is_there(file: Any, *args: Any, **kwargs: Any) -> Any:
        missing = isinstance(file, (str, os.PathLike)) and not os.path.exists(file)
        return NoWeights() if missing else load(file, *args, **kwargs)

    def keep(self: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
        return None if isinstance(state, NoWeights) else load_state(self, state, *args, **kwargs)

    folder = torch.hub._hub_dir
    torch.load, torch.nn.Module.load_state_dict = load_what_is_there, keep  # type: ignore[assignment, method-assign]
    torch.hub.download_url_to_file = lambda *args, **kwargs: None  # type: ignore[assignment]
    torch.hub._hub_dir = os.path.join(tempfile.gettempdir(), "fxlens-no-weights")
    try:
        yield
    finally:
        torch.load, torch.nn.Module.load_state_dict = load, load_state  # type: ignore[method-assign]
        torch.hub.download_url_to_file = download
        torch.hub._hub_dir = folder


@contextlib.contextmanager
def _guarded() -> Iterator[None]:
    global _active, _hooked
    if not _hooked:
        sys.addaudithook(_refuse)
        _hooked = True
    _active += 1
    try:
        yield
    finally:
        _active -= 1


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    if not _active:
        return
    if event == "open":
        if _writes(args) and not _harmless(args[0]):
            raise Refused(f"writing {args[0]!r} is not allowed while a construction is searched")
    elif event in _FORBIDDEN and not (event in _OF_FILES and all(_harmless(each) for each in args[:1])):
        raise Refused(f"{event} is not allowed while a construction is searched")


def _writes(args: tuple[Any, ...]) -> bool:
    mode, flags = (*args, None, None)[1:3]
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _harmless(path: Any) -> bool:
    """Temporary files, bytecode of a module that is imported late, and devices."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return True
    text = os.fsdecode(path)
    return text.startswith((os.devnull, *_temporary())) or "__pycache__" in text


def _temporary() -> tuple[str, ...]:
    return tuple(os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)) or ("/tmp", "/var/tmp")


@contextlib.contextmanager
def _timer(seconds: float) -> Iterator[None]:
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    running = True

    def end(signum: int, frame: Any) -> None:
        # An import that is cut off would leave half a module to the rest of the process.
        if running and not _importing(frame):
            raise OutOfTime(f"it took longer than {seconds:.1f} s")

    before = signal.signal(signal.SIGALRM, end)
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    began = time.monotonic()
    # Again and again: code that swallows the first one hears the next.
    signal.setitimer(signal.ITIMER_REAL, max(0.05, seconds), 0.2)
    try:
        yield
    finally:
        running = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(0.01, left - (time.monotonic() - began)))


def _importing(frame: Any) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
