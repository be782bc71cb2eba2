"""A fork copies in advance the pages that an earlier one recorded; on systems without support, forks work as before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, resource, sys
from fxlens.worker import pages

SIZE, COUNT = os.sysconf("SC_PAGE_SIZE"), 1000
memory = bytearray(b"a" * (COUNT * SIZE))


def forked(work):
    if not (pid := os.fork()):
        work()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def written():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for at in range(0, len(memory), SIZE):
        memory[at] += 1
    assert memory[:SIZE] == b"b" + b"a" * (SIZE - 1) and memory.count(b"b") == COUNT
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def noting():
    written()
    pages.note()


def copying():
    pages.copy()
    print(written(), flush=True)


pages.share()
if sys.argv[1:]:
    opened, pages.open = open, lambda *arguments, **named: opened("/proc/self/no-such-file")
for work in (copying, noting, copying):
    forked(work)
"""


def faults(*arguments: str) -> list[int]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "server")}
    command = [sys.executable, "-c", SCRIPT, *arguments]
    return [
        int(line) for line in subprocess.run(command, env=environment, check=True, capture_output=True).stdout.split()
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="pages are those of forks, which only Linux has")
def test_pages_that_an_earlier_fork_has_written_are_copied_before():
    before, after = faults()
    assert before > 900 and after < 100
    assert min(faults("without")) > 900
