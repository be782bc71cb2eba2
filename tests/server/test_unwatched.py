"""Changes that the client does not tell as such: of files outside of the workspace, of all files where it watches none,
and of open files that it loads again."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from lsp_client import CAPABILITIES, MODEL, Client
from test_loading import told, wait_for

CALLS = """\
from torch import nn

from {module} import act


class Net(nn.Module):
    def forward(self, x):
        return act(x)
"""
GOOD, BAD = "def act(x):\n    return x * 2\n", "def act(x):\n    return x * len(x)\n"
READS = """\
from pathlib import Path

from torch import nn

SIZE = len(Path({path!r}).read_text())


class Net(nn.Module):
    def forward(self, x):
        return x / len(x) if SIZE > 3 else x
"""


WATCHES_NOTHING = {**CAPABILITIES, "workspace": {"configuration": True}}


@pytest.mark.parametrize("capabilities", [CAPABILITIES, WATCHES_NOTHING], ids=["watches", "watches nothing"])
def test_files_outside_of_the_workspace(tmp_path: Path, warm: None, capabilities: dict[str, Any]):
    """A module that PYTHONPATH leads to, a file that the code reads there, and one that a link leads to."""
    (root := tmp_path / "workspace").mkdir()
    (libraries := tmp_path / "libraries").mkdir()
    (module := libraries / "outer.py").write_text(GOOD)
    (read := tmp_path / "sizes.yaml").write_text("abc")
    (linked := libraries / "linked.txt").write_text("abc")
    (root / "linked.txt").symlink_to(linked)
    with Client(root, capabilities=capabilities, environment={"PYTHONPATH": str(libraries)}) as client:
        opened = {
            module: client.open(root / "calls.py", CALLS.format(module="outer")),
            read: client.open(root / "reads.py", READS.format(path=str(read))),
            linked: client.open(root / "follows.py", READS.format(path=str(root / "linked.txt"))),
        }
        for uri in opened.values():
            wait_for(client, uri, [])
        module.write_text(BAD)
        read.write_text("abcd")
        linked.write_text("abcd")
        for uri in opened.values():
            wait_for(client, uri, ["FX120"])
        module.write_text(GOOD)
        read.write_text("abc")
        for changed in (module, read):
            wait_for(client, opened[changed], [])


def test_files_of_the_workspace_in_a_client_that_watches_none(tmp_path: Path, warm: None):
    (module := tmp_path / "inner.py").write_text(GOOD)
    configuration = tmp_path / "fxlens.toml"
    with Client(tmp_path, capabilities=WATCHES_NOTHING) as client:
        uri = client.open(tmp_path / "net.py", CALLS.format(module="inner"))
        wait_for(client, uri, [])
        module.write_text(BAD)
        wait_for(client, uri, ["FX120"])
        configuration.write_text('ignore = ["FX120"]\n')
        wait_for(client, uri, [])
        configuration.unlink()
        wait_for(client, uri, ["FX120"])


@pytest.mark.parametrize("is_open", [False, True])
def test_code_may_read_the_configuration(shared: Client, folder: Path, is_open: bool):
    (read := folder / "pyproject.toml").write_text("abc")
    with shared.lent(deadline=60) as client:
        uri = client.open(folder / "net.py", READS.format(path=str(read)))
        wait_for(client, uri, [])
        if is_open:
            client.open(read)
        read.write_text("abcd")
        told(client, read, 2)
        wait_for(client, uri, ["FX120"])
        if is_open:
            client.close(read.as_uri())


def test_text_that_the_editor_has_loaded_again_counts_as_saved(tmp_path: Path, warm: None):
    """As after a checkout, where results are renewed when a file is saved."""
    (path := tmp_path / "inner.py").write_text(GOOD)
    with Client(tmp_path, settings={"run": "onSave"}) as client:
        inner = client.open(path)
        uri = client.open(tmp_path / "net.py", CALLS.format(module="inner"))
        wait_for(client, uri, [])
        for text, codes in ((BAD, ["FX120"]), (GOOD, [])):
            path.write_text(text)
            client.change(inner, text)
            told(client, path, 2)
            wait_for(client, uri, codes)
        (net := tmp_path / "net.py").write_text(text := MODEL.replace("torch.relu(", "len(x) * torch.relu("))
        client.change(uri, text)
        told(client, net, 2)
        wait_for(client, uri, ["FX120"])


def test_a_client_outside_of_the_servers_container_is_served(tmp_path: Path):
    """It names a process that is not seen from inside."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    with Client(tmp_path, named=gone.pid) as client:
        uri = client.open(tmp_path / "net.py", MODEL)
        wait_for(client, uri, [])
        with pytest.raises(subprocess.TimeoutExpired):
            client.process.wait(7)
