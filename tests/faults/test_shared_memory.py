"""Shared memory of jobs: it is given back, however they end, and by nothing that outlives them."""

from __future__ import annotations

import multiprocessing.shared_memory  # noqa: F401  (what the model below uses exists here)
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import processes_with
from servers import eventually

SHARING = """import torch
from multiprocessing import shared_memory
from torch import nn

block = shared_memory.SharedMemory(create=True, size=1 << 16, name={name!r})
{then}


class Net(nn.Module):
    def forward(self, x):
        return x
"""


OF_TORCH = """import ctypes, os, pathlib
import torch
import torch.multiprocessing
from torch import nn

torch.multiprocessing.set_sharing_strategy({strategy!r})
table = torch.zeros(1000).share_memory_()
if {strategy!r} == "file_system":
    with open(pathlib.Path(__file__).with_name("names"), "ab") as file:
        file.write(table.untyped_storage()._share_filename_cpu_()[1][1:] + b"\\n")
{then}


class Net(nn.Module):
    def forward(self, x):
        return x
"""
FAKE = f'''ctypes.CDLL(None).system(b"""exec </dev/null >/dev/null 2>&1; {sys.executable} -c "import os, time
while os.fork() == 0: time.sleep(0.1)" torch_shm_manager {{mark}} &""")'''
"""A process that looks like a tracker and forks itself again and again."""


@pytest.mark.parametrize("worker", ["fork", "spawn"])
def test_shared_memory_is_given_back(tmp_path: Path, worker: str, report, request: pytest.FixtureRequest):
    """That of multiprocessing, and that of torch, whose tracker takes two seconds."""
    if worker == "fork":  # of the other way the command adopts the trackers
        request.getfixturevalue("warm")
    name = f"fxlens-test-{os.getpid()}-{worker}"
    (tmp_path / "ends.py").write_text(SHARING.format(name=f"{name}-a", then=""))
    (tmp_path / "dies.py").write_text(SHARING.format(name=f"{name}-b", then="import os; os._exit(3)"))
    (tmp_path / "torch_ends.py").write_text(OF_TORCH.format(strategy="file_system", then=""))
    files = ["torch_ends.py", "ends.py"]
    if worker == "fork":  # whose zygote outlives the jobs
        files += ["dies.py", "torch_dies.py", "torch_default.py"]
        (tmp_path / "torch_dies.py").write_text(OF_TORCH.format(strategy="file_system", then="os._exit(3)"))
        then = FAKE.format(mark=name)
        (tmp_path / "torch_default.py").write_text(OF_TORCH.format(strategy="file_descriptor", then=then))
    command = [sys.executable, "-m", "fxlens", "check", "--quick", "--worker", worker, *files]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / ".cache")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
    of_torch = (tmp_path / "names").read_text().split()
    assert len(of_torch) >= len(files) // 2, done.stderr
    assert [left for each in [name, *of_torch] for left in taken_away(each)] == []
    assert not processes_with(name)
    report(tries=len(files), outcome="removed")


def shared(name: str) -> list[str]:
    return [each for each in os.listdir("/dev/shm") if each.startswith(name)]


def taken_away(name: str) -> list[str]:
    """The blocks that are left; then no more."""
    left = shared(name)
    for each in left:
        os.unlink(f"/dev/shm/{each}")
    return left


HANGING = {
    "stopped at its deadline": ("", None),
    "with a child that has a block too": ("os.fork() or os.setsid()", None),
    "its command ended": ("", signal.SIGTERM),
    "its command killed": ("", signal.SIGKILL),
}


@pytest.mark.parametrize(
    ("worker", "case"),
    [*(("fork", case) for case in HANGING), ("spawn", "stopped at its deadline"), ("spawn", "its command killed")],
)
def test_shared_memory_of_a_job_that_is_stopped(
    tmp_path: Path, worker: str, case: str, report, request: pytest.FixtureRequest
):
    """It hangs while it has blocks: they are removed though their processes are killed."""
    if worker == "fork":  # of the other way the guardian is watched, too
        request.getfixturevalue("warm")
    first, how = HANGING[case]
    name = f"fxlens-test-{os.getpid()}-{worker}-{list(HANGING).index(case)}"
    then = f"import os, time\n{first}\nmore = shared_memory.SharedMemory(create=True, size=1 << 16, name={name!r} + "
    then += "str(os.getpid()))\ntime.sleep(300)"
    (tmp_path / "hangs.py").write_text(SHARING.format(name=f"{name}-first", then=then))
    command = [sys.executable, "-m", "fxlens", "check", "--quick", "--worker", worker, "--deadline",
               "2" if how is None else "100", "hangs.py"]  # fmt: skip
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / ".cache")}
    try:
        with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as program:  # fmt: skip
            eventually(lambda: len(shared(name)) >= (3 if first else 2), 120)
            if how is not None:
                program.send_signal(how)
            program.wait(120)
        eventually(lambda: not shared(name))
    finally:
        taken_away(name)
    report(outcome="removed")
