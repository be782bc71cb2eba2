"""A file that is looked at starts no program."""

from __future__ import annotations

from typing import Any

import pytest
from strangers import HEAD, judged

FILES = {
    # a script that begins with a program, and lists of which an argument is one
    "begins.py": """import asyncio
import contextlib
import os
import pty
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "site-packages"))
import fxlens_beginning


def said_by(*command):
    return subprocess.check_output(command, text=True).strip()


os.system("touch begun.txt")
with subprocess.Popen(["touch", "begun.txt"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as touching:
    SAID = touching.communicate(b"much")
subprocess.run("touch begun.txt", shell=True, check=True)
with os.popen("touch begun.txt") as output:
    READ = output.read()
try:
    REVISION = said_by("git", "rev-parse", "HEAD")
except (OSError, subprocess.CalledProcessError):
    REVISION = "none"
with contextlib.suppress(FileNotFoundError):
    asyncio.run(asyncio.create_subprocess_exec("touch", "begun.txt"))
with contextlib.suppress(FileNotFoundError):
    pty.spawn(["touch", "begun.txt"])
VERSION = said_by("nvcc", "--version")
ENDED = touching.returncode == touching.poll() == touching.wait() == 0
assert (ENDED, SAID, READ, REVISION, VERSION) == (True, (b"", None), "", "none", ""), (SAID, READ, REVISION, VERSION)
fxlens_beginning.begin()
"""
    + HEAD
    + """

class Begins(nn.Module):
    def __init__(self, return_stages):
        super().__init__()
        assert return_stages in [[0, 1, 2], [1, 2], [2]]
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in return_stages])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
""",
    # a package starts what it needs
    "site-packages/fxlens_beginning.py": """import subprocess


def begin():
    subprocess.check_call(["touch", "begun_by_package.txt"])
""",
    # what is read of a program that is not started
    "version.py": "import subprocess\n\nMAJOR, MINOR = subprocess.check_output(['git', 'describe']).split(b'.')\n",
    "versioned.py": HEAD
    + """from version import MAJOR


class Versioned(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return self.layer(x)
""",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return judged(tmp_path_factory, FILES)


def test_a_file_that_is_looked_at_starts_no_program(checked: dict[str, Any]):
    """It has ended well and said nothing, or is missing where the code handles that. Packages start theirs."""
    assert checked["begins.py::Begins"]["status"] == "traced", checked["begins.py::Begins"]["reason"]
    assert checked["begun"] == ["begun_by_package.txt"]
    lines = FILES["begins.py"].splitlines()
    said = [(each["severity"], lines[each["range"]["start"]["line"]], each["message"]) for each in checked["begins.py"]]
    assert {each["code"] for each in checked["begins.py"]} == {"FX313"} and {each[0] for each in said} == {"info"}
    assert [line.split("(")[0].split()[-1] for _, line, _ in said].count("subprocess.check_output") == 1
    for start in ("asyncio.run(", "pty.spawn("):
        assert any(line.strip().startswith(start) for _, line, _ in said), said
    assert any(line.startswith("os.system(") and "`touch begun.txt` was not started" in text for _, line, text in said)


def test_what_is_not_started_is_no_fault_of_the_code(checked: dict[str, Any]):
    assert checked["versioned.py::Versioned"]["status"] == "traced"
    assert [(each["code"], each["severity"]) for each in checked["versioned.py"]] == [("FX311", "info")]


def test_an_argument_is_one_of_the_lists_that_the_code_names(checked: dict[str, Any]):
    assert checked["begins.py::Begins"]["construct"]["text"] == "Begins(return_stages=[0, 1, 2])"
