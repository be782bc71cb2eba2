"""Checking a file uses no network, and leaves nothing in the repository."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path

import pytest
from lsp_client import Client
from test_fixes import preferred

WEIGHTS = """import torch
from helper import SIZE
from torch import nn


# fxlens: Net() <- torch.randn(1, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(SIZE, SIZE)
        state = torch.hub.load_state_dict_from_url("https://download.pytorch.org/models/no-such-file.pth")
        self.load_state_dict(state)

    def forward(self, x: torch.Tensor):
        return self.linear(x)
"""
CONNECTS = """import socket

import torch
from torch import nn

ours, theirs = socket.socketpair()
local = socket.create_server(("127.0.0.1", 0))
socket.create_connection(local.getsockname()).close()
{line}


# fxlens: Net() <- torch.randn(1, 4)
class Net(nn.Module):
    def forward(self, x):
        return x + 1
"""


FOLDERS = """import os

os.makedirs("samples/deep", exist_ok=True)
os.makedirs("data", exist_ok=True)
os.mkdir("data/raw")
assert os.path.isdir("samples/deep")
"""


def test_weights_are_not_downloaded(tmp_path: Path):
    """The model is traced without them, bytecode is kept in the user's cache folder, and folders that a script makes
    when it begins are taken away again."""
    folder, cache = tmp_path / "repository", tmp_path / "cache"
    (folder / "data").mkdir(parents=True)
    (folder / "helper.py").write_text("SIZE = 4\n")
    time.sleep(2.2)  # there is none of a file that was saved just now
    model = folder / "net.py"
    model.write_text(FOLDERS + WEIGHTS)
    with Client(folder, environment={"XDG_CACHE_HOME": str(cache), "PYTHONDONTWRITEBYTECODE": ""}) as client:
        uri = client.open(model)
        assert client.diagnostics(uri) == []
        (target,) = client.request("fxlens/record", {"uri": uri})["record"]["targets"]
        assert target["status"] == "traced"
    assert sorted(each.name for each in folder.rglob("*")) == ["data", "helper.py", "net.py"]
    assert list((cache / "fxlens" / "__pycache__").rglob("helper.*.pyc"))


LACKING = {
    "weights": "self.load_state_dict(torch.hub.load_state_dict_from_url('https://pytorch.org/no-such-file.pth'))",
    "a device": "torch.cuda.set_device(0); nn.Linear(2, 2).to(0)",
}


@pytest.mark.parametrize("what", LACKING)
def test_fixes_are_proven_without_what_the_machine_has_not(client: Client, workspace: Path, what: str):
    """For the proof, the model is constructed as for the trace."""
    model = workspace / f"without_{what.split()[-1]}.py"
    text = WEIGHTS.replace("from helper import SIZE\n", "SIZE = 4\n").replace(
        "self.linear(x)", "self.linear(x) / len(x)"
    )
    begin, end = text.index("        state ="), text.index("\n    def forward")
    model.write_text(f"{text[:begin]}        {LACKING[what]}\n{text[end:]}")
    uri = client.open(model)
    (found,) = client.diagnostics(uri)
    assert found["code"] == "FX120"
    assert preferred(client, uri, found)["title"] == "Use x.shape[0]"
    client.close(uri)


def test_who_wants_the_network_is_told(client: Client, workspace: Path):
    model = workspace / "connects.py"
    for line in ('socket.create_connection(("pytorch.org", 443))', 'socket.gethostbyname("pytorch.org")'):
        model.write_text(CONNECTS.format(line=line))
        uri = client.open(model)
        (found,) = client.diagnostics(uri)
        assert found["code"] == "FX301" and found["range"]["start"]["line"] == 8
        assert "FX Lens runs code without network, so pytorch.org cannot be reached" in found["message"]
        client.close(uri)
        client.diagnostics(uri)


def test_connections_within_the_machine_work(client: Client, workspace: Path):
    model = workspace / "local.py"
    model.write_text(CONNECTS.format(line="pass"))
    assert client.diagnostics(client.open(model)) == []


INSTALLS = """import torch
from torch import nn

try:
    import fxlens_gadget
except ImportError:
    import os
    import sys

    os.system(f"{{sys.executable}} -m pip install --target {target} {wheel}")
    import fxlens_gadget

import wsgiref

wsgiref.headers.Headers()


# fxlens: Net() <- torch.randn(1, 4)
class Net(nn.Module):
    def forward(self, x):
        return x + 1
"""


def test_nothing_is_installed_where_an_import_fails(shared: Client, workspace: Path):
    """A submodule that only the missing package would have imported is there."""
    wheel, target = workspace / "fxlens_gadget-1.0-py3-none-any.whl", workspace / "installed"
    files = {
        "fxlens_gadget.py": "",
        "fxlens_gadget-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: fxlens-gadget\nVersion: 1.0\n",
        "fxlens_gadget-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "fxlens_gadget-1.0.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    model = workspace / "installs.py"
    model.write_text(INSTALLS.format(target=target, wheel=wheel))
    with shared.lent(deadline=30) as client:
        uri = client.open(model)
        assert sorted(each["code"] for each in client.diagnostics(uri)) == ["FX311", "FX313"]
        (traced,) = client.request("fxlens/record", {"uri": uri})["record"]["targets"]
    assert traced["status"] == "traced"
    assert not target.exists()
