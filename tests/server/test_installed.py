"""What is installed for the user's interpreter changes while its processes run: nobody has to restart anything."""

from __future__ import annotations

import asyncio
import shutil
import sysconfig
import time
import venv
from pathlib import Path

import pytest
from fxlens.host.installed import Installed
from fxlens.host.launch import Launch
from fxlens.host.pool import Pool
from fxlens.mcp.asking import Asking, Folder
from lsp_client import MODEL, Client
from processes import zygotes

NET = """\
import torch
from torch import nn
import kit


class Net(nn.Module):
    def forward(self, x):
        return kit.act(x)
"""
ACTS = {"1.0": "def act(x):\n    return x\n", "1.1": "def act(x):\n    return x * len(x)\n"}
CODES = {None: ["FX311", "FX199"], "1.0": [], "1.1": ["FX198"]}


@pytest.fixture
def python(tmp_path: Path) -> Path:
    folder = tmp_path / "environment"
    venv.create(folder, symlinks=True)
    site(folder / "bin" / "python").joinpath("outer.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


def site(python: Path) -> Path:
    (found,) = python.parents[1].glob("lib/python*/site-packages")
    return found


def install(python: Path, version: str | None) -> None:
    """As pip does, whose packages have a folder that names their version."""
    for old in site(python).glob("kit*"):
        shutil.rmtree(old)
    if version is not None:
        for folder in ("kit", f"kit-{version}.dist-info"):
            (site(python) / folder).mkdir()
        (site(python) / "kit" / "__init__.py").write_text(ACTS[version])


def test_open_documents_follow_what_is_installed(tmp_path: Path, python: Path):
    with Client(tmp_path, settings={"python": str(python)}) as client:
        uri = client.open(tmp_path / "net.py", NET)
        for version in (None, "1.0", "1.1", "1.0", None):
            if version != "1.0":
                client.edit(uri, f"{NET}\n# before {version}\n")
            install(python, version)
            while [each["code"] for each in client.diagnostics(uri)] != CODES[version]:
                continue


def test_the_processes_of_an_interpreter_end_once_no_folder_uses_it(tmp_path: Path, python: Path):
    with Client(tmp_path, cold=True, environment={"VIRTUAL_ENV": ""}) as client:
        client.diagnostics(client.open(tmp_path / "net.py", MODEL))
        (former,) = zygotes(client.pid)
        python.parents[1].rename(tmp_path / ".venv")
        deadline = time.monotonic() + 100
        while former in (left := zygotes(client.pid)) or len(left) != 1:
            assert time.monotonic() < deadline, left
            time.sleep(0.1)


LEAF = """\
import kit
import torch
import torch.fx
from torch import nn


@torch.fx.wrap
def act(x):
    return kit.act(x)


# fxlens: Net() <- torch.randn(2)
class Net(nn.Module):
    def forward(self, x):
        return act(x)
"""
BRANCH = "def act(x):\n    return x if x.sum() > 0 else -x\n"


def test_other_captures_follow_what_is_installed(tmp_path: Path, python: Path):
    """The verdict of torch.fx stays the same."""
    with Client(tmp_path, settings={"python": str(python), "captures": ["fx", "export"]}) as client:
        install(python, "1.0")
        uri = client.open(tmp_path / "net.py", LEAF)
        client.notify("fxlens/cursor", {"uri": uri, "line": LEAF.count("\n") - 2})
        wait_for_export(client, uri, "captured")
        install(python, "1.1")
        (site(python) / "kit" / "__init__.py").write_text(BRANCH)
        wait_for_export(client, uri, "fails")


def wait_for_export(client: Client, uri: str, outcome: str) -> None:
    found = None
    while found != [("export", outcome)]:
        record = client.request("fxlens/record", {"uri": uri})["record"]
        found = [(each["capture"], each["outcome"]) for each in record["targets"][0]["captures"]]


def test_questions_of_agents_are_about_what_is_installed(tmp_path: Path, python: Path):
    (tmp_path / "net.py").write_text(NET)

    async def ask() -> None:
        pool, known = Pool(Launch(str(python), str(tmp_path))), Folder(str(tmp_path))
        asking = Asking(known, pool, True, "")
        try:
            for version in ("1.0", "1.1", None):
                install(python, version)
                checked, _ = await asking.check("net.py", None)
                assert [each["code"] for each in checked.findings] == CODES[version]
        finally:
            await known.close()
            await pool.close()

    asyncio.run(ask())


def test_an_environment_that_is_gone_is_none_that_has_changed(python: Path):
    installed = Installed(str(python))
    before = installed.look()
    (site(python) / "kit.pth").touch()
    assert installed.look() != before == installed.state
    (site(python) / "kit.pth").unlink()
    (site(python) / "__pycache__").mkdir()
    assert installed.look() == before, "Python's own files are no packages"
    shutil.rmtree(python.parents[1])
    assert installed.look() == before
