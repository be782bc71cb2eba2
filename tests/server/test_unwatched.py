"""Changes that the client does not tell as such: of files outside of the workspace, of all files where it watches none,
and of open files that it loads again."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
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


WIDE = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer, self.size = nn.Linear(4, size), size

    def forward(self, x):
        return self.layer(x) * (len(x) if self.size > 3 else 1)
"""
MAKES = "import torch\nfrom net import Net\n\nNet({})(torch.randn(2, 4))\n"


@pytest.mark.parametrize("case", ["watches nothing", "by a link", "open"])
def test_files_that_construct_a_model(tmp_path: Path, warm: None, case: str):
    """They are not executed, so that a record does not depend on them."""
    (root := tmp_path / "workspace").mkdir()
    caller = root / "train.py"
    if case == "by a link":
        (tmp_path / "other").mkdir()
        caller.symlink_to(tmp_path / "other" / "train.py")
    caller.write_text(MAKES.format(1))
    with Client(root, capabilities=WATCHES_NOTHING if case == "watches nothing" else CAPABILITIES) as client:
        if case == "open":
            other = client.open(caller)
        uri = client.open(root / "net.py", WIDE)
        wait_for(client, uri, [])
        caller.write_text(text := MAKES.format(5))
        if case == "open":
            client.change(other, text)
            client.save(other)
        wait_for(client, uri, ["FX120"])


def test_what_constructs_a_model_in_a_document_or_in_a_folder_that_goes(tmp_path: Path, warm: None):
    text, old = "# Net\n\n```python\n" + MAKES + "```\n", tmp_path / "exp-1.5"
    (readme := tmp_path / "README.md").write_text(text.format(1))
    with Client(tmp_path) as client:
        uri = client.open(tmp_path / "net.py", WIDE)
        wait_for(client, uri, [])
        assert ",md," in str([each["params"] for each in client.asked_for if "registerCapability" in each["method"]])
        readme.write_text(text.format(5))
        told(client, readme, 2)
        wait_for(client, uri, ["FX120"])
        readme.write_text(text.format(2))  # nobody tells: a restart looks at everything
        client.request("fxlens/restart", {})
        wait_for(client, uri, [])
        old.mkdir()
        (old / "train.py").write_text(MAKES.format(6))
        readme.unlink()
        for path, kind in ((old / "train.py", 1), (readme, 3)):
            told(client, path, kind)
        wait_for(client, uri, ["FX120"])
        shutil.rmtree(old)
        told(client, old, 3)  # of what was in it, VS Code tells nothing
        until = time.monotonic() + 60
        while client.request("fxlens/record", {"uri": uri})["record"]["targets"][0]["construct"]["text"] == "Net(6)":
            assert time.monotonic() < until
            time.sleep(0.1)


def test_a_document_that_is_traced_on_request_is_not_traced_since_others_change(tmp_path: Path, warm: None):
    (module := tmp_path / "inner.py").write_text(GOOD)
    with Client(tmp_path, settings={"run": "manual"}) as client:
        uri = client.open(tmp_path / "net.py", CALLS.format(module="inner"))
        wait_for(client, uri, [])
        module.write_text(BAD)
        told(client, module, 2)
        time.sleep(0.6)
        (found,) = client.request("fxlens/record", {"uri": uri})["record"]["targets"]
        assert not found["findings"]
        client.request("fxlens/trace", {"uri": uri})
        wait_for(client, uri, ["FX120"])


def test_a_new_file_takes_the_place_of_no_other(shared: Client, folder: Path):
    """One that is not saved yet, with a name or a path of its own."""
    (folder / "inner.py").write_text(GOOD)
    with shared.lent(deadline=30) as client:
        uri = client.open(folder / "net.py", CALLS.format(module="inner"))
        wait_for(client, uri, [])
        (shared.root / "lone.py").write_text(GOOD)
        for new, path in (
            (f"untitled:{folder}/later/inner.py", folder / "later" / "inner.py"),
            ("untitled:lone.py", shared.root / "lone_.py"),
        ):
            item = {"uri": new, "languageId": "python", "version": 1, "text": "# new\n"}
            client.notify("textDocument/didOpen", {"textDocument": item})
            assert str(path) in client.request("fxlens/debugInfo", {})["text"]
            client.close(new)


def test_a_configuration_beside_a_file_of_no_folder(tmp_path: Path, warm: None):
    for name in ("workspace", "elsewhere"):
        (tmp_path / name).mkdir()
    with Client(tmp_path / "workspace") as client:
        text = MODEL.replace("torch.relu(", "len(x) * torch.relu(")
        uri = client.open(tmp_path / "elsewhere" / "net.py", text)
        wait_for(client, uri, ["FX120"])
        (tmp_path / "elsewhere" / "fxlens.toml").write_text('ignore = ["FX120"]\n')
        wait_for(client, uri, [])


def test_what_comes_outside_or_lies_there_from_then_on(tmp_path: Path, warm: None):
    """A module of PYTHONPATH that comes, and a folder that becomes a link."""
    for name in ("workspace", "libraries", "other"):
        (tmp_path / name).mkdir()
    (folder := tmp_path / "workspace" / "kit").mkdir()
    (folder / "inner.py").write_text(GOOD)
    (tmp_path / "other" / "inner.py").write_text(GOOD)
    with Client(tmp_path / "workspace", environment={"PYTHONPATH": str(tmp_path / "libraries")}) as client:
        comes = client.open(client.root / "comes.py", CALLS.format(module="outer"))
        uri = client.open(client.root / "net.py", CALLS.format(module="kit.inner"))
        wait_for(client, uri, [])
        while not any(each["code"] == "FX311" for each in client.diagnostics(comes)):
            continue
        (tmp_path / "libraries" / "outer.py").write_text(BAD)
        wait_for(client, comes, ["FX120"])
        folder.rename(tmp_path / "before")
        folder.symlink_to(tmp_path / "other")
        told(client, folder, 1)
        client.request("fxlens/trace", {"uri": uri})
        (tmp_path / "other" / "inner.py").write_text(BAD)
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


LATIN = "# -*- coding: latin-1 -*-\n# \xe9\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_text_that_the_editor_has_loaded_again_counts_as_saved(tmp_path: Path, warm: None, encoding: str):
    """As after a checkout, where results are renewed when a file is saved."""
    head = LATIN if encoding == "latin-1" else ""
    (path := tmp_path / "inner.py").write_text(head + GOOD, encoding)
    with Client(tmp_path, settings={"run": "onSave"}) as client:
        inner = client.open(path, head + GOOD)
        uri = client.open(tmp_path / "net.py", CALLS.format(module="inner"))
        wait_for(client, uri, [])
        for text, codes in ((BAD, ["FX120"]), (GOOD, [])):
            path.write_text(head + text, encoding)
            client.change(inner, head + text)
            told(client, path, 2)
            wait_for(client, uri, codes)
        text = head + MODEL.replace("torch.relu(", "len(x) * torch.relu(")
        (net := tmp_path / "net.py").write_text(text, encoding)
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


def test_a_process_that_is_no_number_of_one_is_not_watched(tmp_path: Path):
    with Client(tmp_path, named=1 << 40) as client:
        assert client.request("fxlens/status", {})


def test_on_windows_the_client_gets_no_signal(tmp_path: Path):
    """Signal 0 is Ctrl+C there."""
    code = "import os; os.kill = None; from fxlens.features import lifecycle; os.name = 'nt'; lifecycle._is_there(1)"
    subprocess.run([sys.executable, "-c", code], check=True)
