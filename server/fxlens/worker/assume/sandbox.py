"""Runs user code as a trial: it cannot fetch, write, print or leave changes, and its time is limited."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from ..errors import text_of
from ..keeping import CHANGES, Refused, watching, writing_copies
from ..tracebacks import instruction_after

_FORBIDDEN = {
    "socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname",
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.kill", "os.killpg", "urllib.Request",
}  # fmt: skip
_OWN = (__file__, contextlib.__file__)

PATIENCE = 5.0
"""Factor of clock time over processor time that a trial may take, so that sleeping code ends, too."""


MEMORY = 4 << 30
"""Bytes that a trial may take, at most a quarter of the machine, since its sizes can be arbitrary."""


class OutOfTime(BaseException):
    """A trial exceeded its time limit."""


def unhindered() -> float:
    """Clock time without waiting for a processor."""
    from fxlib.diagnosis.engine import search

    return search.unhindered()


@contextlib.contextmanager
def trial(seconds: float) -> Iterator[None]:
    """Raises OutOfTime after so many processor seconds, or `PATIENCE` times as many clock seconds without waiting for a
    processor, if the system has timers (not on Windows). Allocating more than `MEMORY` raises."""
    import torch

    random_state = random.getstate()
    torch_state = torch.random.get_rng_state()
    numpy = sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy is not None and hasattr(numpy, "random") else None
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    contexts = (
        without_weights(),
        watching(CHANGES | _FORBIDDEN),
        writing_copies(),
        _bounded(),
        _timer(seconds),
        scripting_anew(),
    )
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context)
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


@contextlib.contextmanager
def scripting_anew() -> Iterator[None]:
    """After an exception, forget types scripted meanwhile: if scripting a module fails, torch keeps its incomplete type
    and rejects every other module of that type."""
    from torch.jit import _recursive

    store = getattr(_recursive, "concrete_type_store", None)
    kept = {} if store is None else {name: copy.copy(value) for name, value in vars(store).items()}
    types = {kind: list(known) for kind, known in kept.get("type_store", {}).items()}
    try:
        yield
    except BaseException:
        if "type_store" in kept:
            vars(store).update({**kept, "type_store": types})
        raise


def is_about_inputs(error: BaseException | None) -> bool:
    """Whether other arguments may help; not for a missing package, device or implementation."""
    if error is None or isinstance(error, (ImportError, NameError, Refused)):
        return False
    try:
        message = text_of(error)
    except Exception:
        return True
    if isinstance(error, NotImplementedError) and not message:
        return False
    return not any(each in message for each in _NOT_HERE)


_NOT_HERE = (
    "CUDA", "cuda", "custom C++ ops", "NVIDIA", "process group", "triton", "No module named", "is not installed",
)  # fmt: skip


class NoWeights(dict):
    """A placeholder for a checkpoint, since the graph of a model does not depend on its weights."""

    def __missing__(self, key: Any) -> NoWeights:
        return NoWeights()

    def __getattr__(self, name: str) -> NoWeights:
        if name.startswith("__"):
            raise AttributeError(name)
        return NoWeights()


@contextlib.contextmanager
def without_weights() -> Iterator[None]:
    """Nothing is downloaded: missing weights are replaced by a placeholder, and loading that changes
    nothing."""
    import torch
    import torch.utils.model_zoo
    from torch.nn.modules.module import _IncompatibleKeys

    load, load_state, download = torch.load, torch.nn.Module.load_state_dict, torch.hub.download_url_to_file

    def load_what_is_there(file: Any, *args: Any, **kwargs: Any) -> Any:
        missing = isinstance(file, (str, os.PathLike)) and not os.path.exists(file)
        return NoWeights() if missing else load(file, *args, **kwargs)

    def keep(self: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
        nothing = isinstance(state, NoWeights)
        return _IncompatibleKeys([], []) if nothing else load_state(self, state, *args, **kwargs)

    folder = torch.hub._hub_dir
    torch.load, torch.nn.Module.load_state_dict = load_what_is_there, keep  # type: ignore[assignment, method-assign]
    torch.hub.download_url_to_file = lambda *args, **kwargs: None  # type: ignore[assignment]
    fetching = [(torch.hub, "load_state_dict_from_url"), (torch.utils.model_zoo, "load_url")]
    fetched = [getattr(owner, name) for owner, name in fetching]
    for owner, name in fetching:
        setattr(owner, name, lambda *args, **kwargs: NoWeights())
    torch.hub._hub_dir = os.path.join(tempfile.gettempdir(), "fxlens-no-weights")
    try:
        yield
    finally:
        torch.load, torch.nn.Module.load_state_dict = load, load_state  # type: ignore[method-assign]
        torch.hub.download_url_to_file = download
        for (owner, name), function in zip(fetching, fetched, strict=True):
            setattr(owner, name, function)
        torch.hub._hub_dir = folder


_LOADING = re.compile(
    r"_?load_(\w+_)?(pretrained|weights?|ckpt|checkpoint|state_dict)(_\w+)?|init_from_(ckpt|checkpoint)"
)


_OF_THE_CODE = (AttributeError, NameError, TypeError, SyntaxError)
_NOTHING = re.compile(rf"\b(NoneType|{NoWeights.__name__})\b")


def loading(error: BaseException | None) -> FunctionType | None:
    """The function or method that loads weights, by its name, in which this was raised for lack of them; None for a bug
    in its code, or if its result is used, which may be a model."""
    if isinstance(error, _OF_THE_CODE) and not _NOTHING.search(text_of(error)):
        return None  # errors about a None path or a placeholder are not bugs
    caller, at = None, error.__traceback__ if error is not None else None
    while at is not None:
        found = _running(at.tb_frame) if _LOADING.fullmatch(at.tb_frame.f_code.co_name) else None
        if found is not None and found.__closure__ is None:
            used = caller is None or instruction_after(caller.tb_frame.f_code, caller.tb_lasti) != "POP_TOP"
            return None if used else found
        caller, at = at, at.tb_next
    return None


def _running(frame: Any) -> FunctionType | None:
    """The function whose code a frame runs: one of the module, or a method of the frame's first argument."""
    code = frame.f_code
    owner = type(frame.f_locals.get(code.co_varnames[0])) if code.co_argcount else object
    places = (frame.f_globals, *(vars(each) for each in owner.__mro__))
    found = (place.get(code.co_name) for place in places)
    return next((each for each in found if isinstance(each, FunctionType) and each.__code__ is code), None)


@contextlib.contextmanager
def without_loading(function: FunctionType) -> Iterator[None]:
    """Replace the function by one that does nothing, wherever it was imported, since it needs the weights."""
    code, defaults, named = function.__code__, function.__defaults__, function.__kwdefaults__
    function.__defaults__, function.__kwdefaults__ = None, None
    function.__code__ = (lambda *args, **kwargs: None).__code__
    try:
        yield
    finally:
        function.__code__, function.__defaults__, function.__kwdefaults__ = code, defaults, named


@contextlib.contextmanager
def on_meta(counting: bool = False) -> Iterator[None]:
    """Tensors are made on meta. ``counting``: except those of ``torch.linspace``, which constructors read with
    ``.item()`` for per-block rates."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Counting(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if function is torch.linspace and kwargs.get("device") is None:
                kwargs["device"] = "cpu"
            return function(*args, **kwargs)

    with torch.device("meta"), Counting() if counting else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """Limit the process's memory where the system supports it (Linux), so that too large an allocation fails instead of
    ending the whole job."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as counts:
            taken = int(counts.read().split()[5]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = taken + min(MEMORY, os.sysconf("SC_PHYS_PAGES") * resource.getpagesize() // 4)
    resource.setrlimit(resource.RLIMIT_DATA, (most if soft == resource.RLIM_INFINITY else min(soft, most), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@contextlib.contextmanager
def _timer(seconds: float) -> Iterator[None]:
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    running = True
    began, clock, own = time.process_time(), time.monotonic(), unhindered()

    def end(signum: int, frame: Any) -> None:
        late = time.process_time() - began > seconds or unhindered() - own > PATIENCE * seconds
        # Interrupting an import would leave a broken module for the rest of the process; interrupting the end of a
        # trial, its timer.
        ending = frame is not None and frame.f_code.co_filename in _OWN
        if running and late and not ending and not importing(frame):
            raise OutOfTime(f"it took longer than {seconds:.1f} s")

    before = signal.signal(signal.SIGALRM, end)
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    # Repeatedly: a busy machine gives the process less time than passes, and code may swallow the first signal.
    signal.setitimer(signal.ITIMER_REAL, max(0.05, seconds), 0.1)
    try:
        yield
    finally:
        running = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(0.01, left - (time.monotonic() - clock)))


def importing(frame: Any) -> bool:
    """Whether this frame is part of an import."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
