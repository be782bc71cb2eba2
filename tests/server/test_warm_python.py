"""The processes that other tests fork from outlive whoever asks them, and no test fails without them."""

import socket
import subprocess
from pathlib import Path

import warm_python as interpreters
from fxlens import __version__


def version() -> str:
    return subprocess.run(interpreters.warm_fxlens("--version"), capture_output=True, text=True, check=True).stdout


def test_they_outlive_those_that_are_killed_while_they_ask(warm_python: Path):
    for said in (b"", b"\0\0\0\4", b"\0\0\0\4["):
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(warm_python / "command" / "socket"))
            asking.sendall(said)
    assert version() == f"fxlens {__version__}\n"


def test_without_them_the_real_interpreter_starts(tmp_path: Path, warm_python: Path):
    with interpreters.started(tmp_path):
        interpreters.use(tmp_path)
        (tmp_path / "command" / "socket").unlink()
        try:
            assert version() == f"fxlens {__version__}\n"
        finally:
            interpreters.use(warm_python)
