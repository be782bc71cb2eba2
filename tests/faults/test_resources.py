"""Files that take a port or a lock where they are imported: no two processes of one file hold it at once."""

from __future__ import annotations

import fcntl
import socket
import time
from pathlib import Path

import pytest
from lsp_client import MODEL, Client

TAKING = {
    "port": 'import socket\n\nheld = socket.socket()\nheld.bind(("127.0.0.1", {port}))\nheld.listen()\n',
    "lock": "import fcntl\n\nheld = open({path!r}, 'w')\nfcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
}


@pytest.mark.parametrize("what", TAKING)
def test_an_edit_does_not_find_its_own_resource_taken(server: Client, workspace: Path, what: str, report):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = TAKING[what].format(port=port, path=str(workspace / "lock")) + MODEL
    uri = server.open(workspace / f"{what}.py", text)
    found = [server.diagnostics(uri)]
    for number, rest in enumerate((0, 0.1, 0.2, 0, 0.3, 0)):
        time.sleep(rest)
        new = text.replace("torch.relu(", f"{number} + torch.relu(")
        found.append(server.edit(uri, new if number % 2 else f"{new}\nNUMBER = {number}\n"))
    server.close(uri)
    assert [[each["message"] for each in every] for every in found] == [[]] * len(found)
    report(tries=len(found), outcome="no finding")


def test_one_that_is_really_taken_is_said(server: Client, workspace: Path, report):
    text = TAKING["lock"].format(path=str(workspace / "other-lock")).replace("held", "first") + MODEL
    (workspace / "taken.py").write_text(text.replace("import fcntl", "import fcntl\nimport os"))
    with open(workspace / "other-lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        uri = server.open(workspace / "taken.py")
        codes = [[each["code"] for each in server.diagnostics(uri)]]
        codes.append([each["code"] for each in server.edit(uri, f"{text}# more\n")])
    server.close(uri)
    assert codes == [["FX301"]] * 2
    report(tries=2, outcome="FX301")
