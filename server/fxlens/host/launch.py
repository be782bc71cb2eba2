"""How the user's interpreter is found and started: command, environment, folders.  Nothing here runs user code."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fxlens.ipc import processes

from . import orphans
from .outcome import WorkerUnavailable

PACKAGE = Path(__file__).resolve().parents[1]
_ZYGOTE = PACKAGE / "worker" / "zygote.py"

log = logging.getLogger(__name__)

START_SECONDS = 120.0
"""Seconds from the start of a process to its hello."""
_SILENT_SECONDS = 10.0
"""Seconds without a hello after which the log says so."""
_LINUX = sys.platform == "linux"
EXIT_SECONDS = 5.0
"""Seconds from the end of a process's output to its end."""
_torch_seen = False

_ALWAYS = {
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "PYTHONIOENCODING": "utf-8",
    # Nothing is installed: some modules start pip if an import fails.
    "PIP_NO_INDEX": "1",
    "PIP_DRY_RUN": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "UV_OFFLINE": "1",
    "CONDA_OFFLINE": "true",
}
# No network: an edit must not start a download.
# One thread: a fork of a process that has run a two-thread operator hangs.  No device: a trace needs none, and a
# CUDA context does not survive a fork.  Large tensors in huge pages: the kernel clears those several times as fast.
_FIXED = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "THP_MEM_ALLOC_ENABLE": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "FXLENS_NETWORK": "off",
    "GIT_ALLOW_PROTOCOL": "file",
}


@dataclass(frozen=True)
class Launch:
    """One environment in which jobs run: which interpreter, in which folder, by fork or by fresh processes.

    ``whole`` gives jobs all threads and devices, in fresh processes started on request: for timed work, when nothing
    else of ours may run. With ``compiler`` its processes have torch's compiler imported. With ``ahead``, a zygote
    prepares a process for the next job, at the cost of other jobs.
    """

    python: str
    folder: str | None = None
    mode: str = "auto"
    whole: bool = False
    compiler: bool = False
    ahead: bool = True

    @property
    def forks(self) -> bool:
        if self.whole:
            return False
        if self.mode == "auto":
            return sys.platform == "linux"
        return self.mode == "fork"

    async def start(
        self, mode: str, *fds: int, environment: dict[str, str], folder: str = "", **streams: Any
    ) -> asyncio.subprocess.Process:
        """A process of the interpreter in its own session, with its standard error in a pipe.

        Args:
            mode: ``"fork"`` for a zygote, ``"spare"`` for a process that runs one job.
            fds: descriptors to pass to it.
            folder: the folder of temporary files that a zygote removes at its end.
            streams: further arguments of ``create_subprocess_exec``.

        Raises:
            WorkerUnavailable: it cannot be started.
        """
        try:
            ours = [",".join(map(str, fds)), str(PACKAGE), str(fxlib_folder()), folder]
            with orphans.starting() as own:
                process = await asyncio.create_subprocess_exec(
                    self.python,
                    str(_ZYGOTE),
                    mode,
                    *ours,
                    pass_fds=fds,
                    stderr=asyncio.subprocess.PIPE,
                    cwd=self.folder if self.folder and os.path.isdir(self.folder) else None,
                    env=environment,
                    start_new_session=os.name == "posix",
                    # Until our code runs in it, nothing in it would notice this process's end.
                    preexec_fn=partial(processes.die_with_parent, os.getpid()) if _LINUX else None,
                    **streams,
                )
                own.add(process.pid)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise WorkerUnavailable(f"{self.python} cannot be started: {reason}") from None
        return process

    def environment(self) -> dict[str, str]:
        """The user's environment, without variables that would expose this server's own packages."""
        environment = {**os.environ, **_ALWAYS, **({} if self.whole else _FIXED)}
        own = {os.path.realpath(each) for each in (PACKAGE.parent, PACKAGE.parent / "libs")}
        paths = environment.pop("PYTHONPATH", "").split(os.pathsep)
        kept = [each for each in paths if each and os.path.realpath(each) not in own]
        if kept:
            environment["PYTHONPATH"] = os.pathsep.join(kept)
        if self.compiler:
            environment["FXLENS_COMPILER"] = "on"
        for name in ("PYTHONHOME", "PYTHONINSPECT", "PYTHONSTARTUP", "PYTHONOPTIMIZE"):
            environment.pop(name, None)
        return environment


@contextmanager
def awaited(python: str) -> Iterator[None]:
    """While a hello is awaited: a line in the log if it takes long."""
    said = "%s has not imported torch after %.0f s; waiting for up to %.0f s"
    later = asyncio.get_running_loop().call_later(
        _SILENT_SECONDS, log.warning, said, python, _SILENT_SECONDS, START_SECONDS
    )
    try:
        yield
    finally:
        later.cancel()


def ended_at_start(python: str, printed: str, status: int | None) -> str:
    """Why an interpreter ended before its hello, from its output."""
    lines = [line for line in printed.splitlines() if line.strip()]
    reason = lines[-1] if lines else f"exit status {status}"
    if "is too old" in reason:
        return f"{python}: {reason}"
    if reason.startswith("SyntaxError"):  # our first file parses in every supported Python
        return f"{python} is too old: FX Lens needs Python 3.10 or newer"
    return f"{python} exited while starting: {reason}"


def fxlib_folder() -> Path:
    """The location of fxlib, without importing it: beside this package, in the tree above it, or where it is
    installed."""
    for folder in (PACKAGE.parent / "fxlib", PACKAGE.parents[1] / "fxlib"):
        if (folder / "__init__.py").is_file():
            return folder
    spec = importlib.util.find_spec("fxlib")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"fxlib is not installed beside {PACKAGE}; reinstall fxlens")
    return Path(next(iter(spec.submodule_search_locations)))


def _has_torch() -> bool:
    """Whether this process's interpreter has torch. Cached once found, since every status checks it."""
    global _torch_seen
    _torch_seen = _torch_seen or importlib.util.find_spec("torch") is not None
    return _torch_seen


def find_python(wanted: str, folder: str | None) -> str:
    """The interpreter for user code."""
    return choose_python(wanted, folder)[0]


def choose_python(wanted: str, folder: str | None) -> tuple[str, str]:
    """The interpreter for user code, and the reason for the choice, in a few words.

    ``wanted`` if given (a path, or a name on the search path; ``~`` and ``${workspaceFolder}`` are expanded); else the
    active virtual environment, ``.venv`` or ``venv`` in the folder, this process's interpreter if it has torch, and
    ``python3``.  The environment that pre-commit makes for a hook is active but not the user's.
    """
    if wanted:
        path = os.path.expanduser(wanted.replace("${workspaceFolder}", folder or ""))
        if os.sep in path and not os.path.isabs(path) and folder:
            path = os.path.join(folder, path)
        return shutil.which(path) or path, "the setting fxlens.python"
    tail = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    own = "PRE_COMMIT" in os.environ and os.environ.get("VIRTUAL_ENV") == sys.prefix
    roots = [(None if own else os.environ.get("VIRTUAL_ENV"), "the active environment")]
    roots += [(os.path.join(folder, name), f"the {name} of the folder") for name in (".venv", "venv") if folder]
    for root, why in roots:
        if root and os.path.isfile(candidate := os.path.join(root, *tail)):
            return candidate, why
    if _has_torch():
        return sys.executable, "the server's own, which has torch"
    paths = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(each for each in paths if not (own and os.path.dirname(each) == sys.prefix))
    found = shutil.which("python3", path=path) or shutil.which("python", path=path)
    return (found, "the first on the path") if found else (sys.executable, "the server's own")
