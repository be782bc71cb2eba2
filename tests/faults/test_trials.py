"""Constructors that are tried with assumed arguments: nothing outside of the job changes, and no error is shown."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from pathlib import Path

from lsp_client import Client

HEAD = """import os, shutil, signal, socket, sqlite3, subprocess, sys, tempfile, threading
import torch
from torch import nn

PRECIOUS, PORT, VICTIM = {precious!r}, {port}, {victim}


def mine():
    return tempfile.mkstemp()[1]
"""
CLASS = """

class {name}(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        {do}

    def forward(self, x):
        return self.linear(x)
"""
REFUSED = {
    "Replacing": "os.replace(mine(), PRECIOUS)",
    "Renaming": "os.rename(mine(), PRECIOUS)",
    "Moving": "shutil.move(mine(), PRECIOUS)",
    "Touching": "os.utime(PRECIOUS, (0, 0))",
    "Owning": "os.chown(PRECIOUS, 12345, 12345)",
    "Noting": "os.setxattr(PRECIOUS, b'user.note', b'x')",
    "Storing": "sqlite3.connect(PRECIOUS + '.db')",
    "Sending": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))",
    "Killing": "os.kill(VICTIM, signal.SIGKILL)",
    "KillingGroups": "os.killpg(VICTIM, signal.SIGKILL)",
    "Linking": "os.link(PRECIOUS, tempfile.gettempdir() + '/link')",
}
ENDING = {
    "Exiting": "sys.exit(3)",
    "Interrupting": "raise KeyboardInterrupt",
    "Strange": "raise type('Strange', (BaseException,), {})",
    "Printing": "[print('x' * 1000) for _ in iter(int, 1)]",
}
COPIED = {  # what they write goes elsewhere
    "ByAnotherPath": "open(tempfile.gettempdir() + '/../../../../../..' + PRECIOUS, 'w')",
    "LikeBytecode": "open(PRECIOUS + '__pycache__', 'w')",
    "Truncating": "os.open(PRECIOUS, os.O_RDONLY | os.O_TRUNC)",
    "Saving": "torch.save({}, PRECIOUS)",
}
ALLOWED = {
    "Temporary": "open(mine(), 'w').write('x'); os.replace(mine(), mine()); torch.save({}, mine())",
    "InMemory": "sqlite3.connect(':memory:').execute('create table t (x)')",
}


def test_trials_change_nothing_outside(shared: Client, folder: Path, report):
    precious = folder / "precious"
    precious.write_text("kept")
    precious.chmod(0o640)
    before = os.stat(precious)
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.1", 0))
    listening.settimeout(0.1)
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as victim, listening:
        try:
            text = HEAD.format(precious=str(precious), port=listening.getsockname()[1], victim=victim.pid)
            text += "".join(
                CLASS.format(name=name, do=do) for name, do in {**REFUSED, **ENDING, **COPIED, **ALLOWED}.items()
            )
            with shared.lent(deadline=30, verify=False) as server:
                uri = server.open(folder / "trials.py", text)
                found = server.diagnostics(uri)
                record = server.request("fxlens/record", {"uri": uri})["record"]
            assert victim.poll() is None
        finally:
            victim.kill()
        with contextlib.suppress(TimeoutError):
            assert not listening.recv(10)
    after = os.stat(precious)
    same = ("st_ino", "st_size", "st_mode", "st_uid", "st_mtime_ns", "st_nlink")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    assert precious.read_text() == "kept" and sorted(each.name for each in folder.iterdir()) == ["precious"]
    status = {each["name"]: each["status"] for each in record["targets"]}
    assert {name: status[name] for name in (*COPIED, *ALLOWED)} == dict.fromkeys((*COPIED, *ALLOWED), "traced")
    assert {name: status[name] for name in (*REFUSED, *ENDING)} == dict.fromkeys((*REFUSED, *ENDING), "skipped")
    assert {each["severity"] for each in found} == {4}, found
    report(tries=len(status), outcome="refused, a hint each")
