"""The index on untrusted workspaces, and the file of recorded examples."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fxlens.host import index_client
from fxlens.host.index_client import IndexClient
from lsp_client import MODEL, Client
from processes import clock, descendants, gone, processes_with
from servers import eventually

NET = """from torch import nn


class Net(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, x):
        return self.linear(x)
"""
HYDRA = """import hydra
from {name}.net import Net

@hydra.main(config_path='.', config_name='c')
def main(cfg):
    Net(**cfg)
"""
AGAIN = "a0: &a0 [1, 1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
MERGED = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 6)}], y{n}: 1}}\n" for n in range(1, 40)
)
CELLS = [{"cell_type": "code", "source": [1, 2]}, 3, {"cell_type": "code", "source": {"a": 1}}]
HOSTILE = {
    "aliases of aliases": {"t.py": HYDRA, "c.yaml": AGAIN},
    "merges of merges": {"t.py": HYDRA, "c.yaml": MERGED},
    "an anchor in itself": {"t.py": HYDRA, "c.yaml": "loop: &l {a: *l, b: *l, c: *l}\n"},
    "references to each other": {"t.py": HYDRA, "c.yaml": "a: ${b}${b}\nb: ${a}${a}\n"},
    "defaults that name themselves": {"t.py": HYDRA, "c.yaml": "defaults: [c, c, c, c, c, c, c, c]\n"},
    "defaults of other types": {"t.py": HYDRA, "c.yaml": "defaults: [3, null, {a: [c]}, {'': c}, {' ': c}]\n"},
    "brackets": {"t.py": HYDRA, "c.yaml": "dim: " + "[" * 20_000 + "]" * 20_000},
    "dots": {"t.py": HYDRA, "c.toml": ".".join(["a"] * 50_000) + " = 1\n"},
    "JSON nested deep": {"t.py": HYDRA, "c.json": "[" * 100_000 + "]" * 100_000},
    "a list added to itself": {"t.py": "from {name}.net import Net\nx = [1]\n" + "x = x + x\n" * 60 + "Net(x)\n"},
    "a number times itself": {"t.py": "from {name}.net import Net\nx = 3\n" + "x = x * x\n" * 60 + "Net(x)\n"},
    "wide formats": {"t.py": "from {name}.net import Net\nNet('%99999999999d' % 3)\n"},
    "calls of calls": {"t.py": "from {name}.net import Net\nNet(a" + "()" * 5000 + ")\n"},
    "a notebook of other types": {"n.ipynb": json.dumps({"cells": CELLS})},
    "a notebook nested deep": {"n.ipynb": '{"cells":' + "[" * 100_000 + "]" * 100_000 + "}"},
    "a text that doubles": {"t.py": "from {name}.net import Net\nx = 'a'\n" + "x = x + x\n" * 31 + "Net(x, max(x))\n"},
    "a wide format of bytes": {"t.py": "from {name}.net import Net\nNet(b'%2000000000d' % 3)\n"},
    "widths among the arguments": {
        "t.py": "from {name}.net import Net\nNet('{:{w}}'.format(3, w=2 * 10**9), '%*d' % (2 * 10**9, 3))\n"
    },
    "rounding to a power": {"t.py": "from {name}.net import Net\nNet(round(5, -(10**9)))\n"},
    "lists of lists added": {"t.py": "from {name}.net import Net\nNet(sum([[1] * 4096] * 4096, []))\n"},
    "a number of a megabyte": {"t.py": "from {name}.net import Net\nx = 0x" + "f" * 900_000 + "\nNet(x // 7, x)\n"},
    "a long list repeated": {
        "t.py": "from {name}.net import Net\nx = [1] * 4096\ny = []\n" + "y.extend(x)\n" * 15 + "Net(y * 4096)\n"
    },
    "a list that grows in place": {
        "t.py": "from {name}.net import Net\nx = [1]\n" + "x += x\n" * 40 + "x *= 4096\nNet(x)\n"
    },
    "a list put into itself": {"t.py": "from {name}.net import Net\nx = [1]\n" + "x[0:0] = x\n" * 40 + "Net(x)\n"},
    "a list displayed twice": {"t.py": "from {name}.net import Net\nx = [1]\n" + "x = [*x, *x]\n" * 40 + "Net(x)\n"},
    "arguments passed on twice": {
        "t.py": "from {name}.net import Net\ndef f(*a):\n    return a\nx = [1]\n" + "x = f(*x, *x)\n" * 40 + "Net(x)\n"
    },
    "a module of Python that is changed": {
        "t.py": "import math\nfrom {name}.net import Net\nNet(math.__delattr__('inf'), math.__setattr__('pi', 3))\n"
    },
    "a factorial": {"t.py": "import math\nfrom {name}.net import Net\nNet(math.factorial(10_000_000) % 7)\n"},
    "surrogates": {"t.py": "from {name}.net import Net\nNet('\\ud800')\n"},
}


def hostile(root: Path) -> None:
    for number, files in enumerate(HOSTILE.values()):
        folder = root / f"p{number}"
        folder.mkdir()
        for name, text in {"__init__.py": "", "net.py": NET, **files}.items():
            (folder / name).write_text(text.replace("{name}", folder.name) if name.endswith(".py") else text)
    (root / "good.py").write_text(NET)
    (root / "train.py").write_text("from good import Net\n\nnet = Net(7)\n")


def _most_memory(pid: int) -> int:
    """Bytes that a process has had at once."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


WAITING = """import time
from fxlens.index import bounded

bounded._TICK, bounded._STUCK = 0.005, 3.0
bounded.begin()
bounded.watch()
until = time.monotonic() + 4
while time.monotonic() < until:
    pass
print("goes on", flush=True)
sum(iter(int, 1))
"""


def test_an_index_that_waits_for_a_processor_is_not_taken_for_stuck(report):
    """Running Python code is not interrupted, however slow the machine; a loop in C ends the process."""
    done = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, timeout=60)
    assert done.stdout == "goes on\n" and done.returncode == 1, done.stderr
    report(tries=2, outcome="goes on, ended")


QUICK = """
from fxlens.index import answers, configs, index, workspace
for each in (service, answers, configs, index, workspace):
    for name in [name for name in vars(each) if name.startswith("_SECONDS")]:
        setattr(each, name, getattr(each, name) / 5)
"""


@pytest.mark.timeout(300)
def test_no_text_stops_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report):
    """All of them in one folder: each is asked about, and a good file keeps its answers. With a fifth of the time."""
    hostile(tmp_path)
    monkeypatch.setattr(index_client, "_START", index_client._START.replace("service.main", f"{QUICK}service.main"))

    async def ask() -> tuple[list[str], bool]:
        client = IndexClient(str(tmp_path))
        await client.start()
        try:
            process = client._process
            for number in range(len(HOSTILE)):
                answer = await asyncio.wait_for(client.answers(str(tmp_path / f"p{number}" / "net.py")), 60)
                assert answer is not None, list(HOSTILE)[number]
                assert _most_memory(process.pid) < 600 << 20, list(HOSTILE)[number]
            (tmp_path / "folder.py").mkdir()
            client.update(str(tmp_path / "folder.py"), "from good import Net\n")
            client.update(str(tmp_path / "folder.py"), None)
            answer = await asyncio.wait_for(client.answers(str(tmp_path / "good.py")), 60)
            return [each["text"] for each in answer["answers"]["Net"]["constructions"]], client._process is process
        finally:
            await client.close()

    texts, same = asyncio.run(ask())
    assert texts[0] == "Net(7)" and same
    report(tries=len(HOSTILE), outcome="passed over, the others are answered")


SLOW = """
read = index.read

def slowly(workspace, entry):
    while entry.file.endswith("slow.py"):
        pass
    return read(workspace, entry)

index.read = slowly
"""


def test_what_is_known_of_a_class_by_the_time_that_is_left_counts(tmp_path: Path, monkeypatch, report):
    """Two scripts that take too long, one before and one after the one that says how the class is constructed."""
    for name in ("a_slow.py", "b.py", "c_slow.py"):
        (tmp_path / name).write_text("from good import Net\n\nnet = Net(7)\n")
    (tmp_path / "good.py").write_text(NET)
    start = index_client._START.replace("service.main", f"{QUICK}{SLOW}service.main")
    monkeypatch.setattr(index_client, "_START", start)

    async def ask() -> list[str]:
        client = IndexClient(str(tmp_path))
        await client.start()
        try:
            answer = await asyncio.wait_for(client.answers(str(tmp_path / "good.py")), 60)
            return [each["text"] for each in answer["answers"]["Net"]["constructions"]]
        finally:
            await client.close()

    assert asyncio.run(ask()) == ["Net(7)"]
    report(tries=2, outcome="the third script counts")


def test_the_index_is_started_again_and_what_waits_for_it_is_bounded(tmp_path: Path, report):
    (tmp_path / "good.py").write_text(NET)
    (tmp_path / "train.py").write_text("from good import Net\n\nnet = Net(7)\n")

    async def ask() -> int:
        client = IndexClient(str(tmp_path))
        await client.start()
        try:
            await client.ready()
            client._process.kill()
            while not (answer := await client.answers(str(tmp_path / "good.py"))):
                await asyncio.sleep(0.05)
            assert answer["answers"]["Net"]["constructions"][0]["text"] == "Net(7)"
            os.kill(client._process.pid, signal.SIGSTOP)
            for number in range(60):
                client.update(str(tmp_path / "large.py"), f"x = {number}\n" + "#" * (1 << 20))
            waiting = client._process.stdin.transport.get_write_buffer_size()
            os.kill(client._process.pid, signal.SIGCONT)
            assert await asyncio.wait_for(client.answers(str(tmp_path / "good.py")), 60)
            return waiting
        finally:
            await client.close()

    assert asyncio.run(ask()) < 8 << 20
    report(tries=60, outcome="one text of each file waits")


@pytest.mark.usefixtures("warm")
def test_the_index_ends_with_a_server_that_is_killed_while_it_is_at_work(tmp_path: Path, report):
    hostile(tmp_path)
    server = Client(tmp_path, cold=True)
    try:
        server.initialize()
        uri = server.open(tmp_path / "p0" / "net.py")
        server.diagnostics(uri)
        pids = descendants(server.pid)
        assert len(pids) >= 2
    finally:
        server.kill()
    assert gone(pids) == []
    report(outcome="ended with it")


def test_indexes_of_folders_that_are_gone_end(shared: Client, folder: Path, report):
    added = [folder / "one", folder / "two"]
    with shared.lent() as server:
        change = "workspace/didChangeWorkspaceFolders"
        for each in added:
            each.mkdir()
            server.notify(change, {"event": {"added": [{"uri": each.as_uri(), "name": each.name}], "removed": []}})
            uri = server.open(each / "model.py", MODEL)
            eventually(lambda at=each: _indexing(at))
            server.close(uri)
            server.notify(change, {"event": {"added": [], "removed": [{"uri": each.as_uri(), "name": each.name}]}})
        eventually(lambda: not any(map(_indexing, added)))
    report(tries=2, outcome="ended")


def _indexing(folder: Path) -> list[int]:
    found = []
    for pid in processes_with(str(folder)):
        with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
            if b"fxlens.index" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


ODD_EXAMPLES = {
    "other types": '"model.py::Net" = [3]\n',
    "nested deep": "a = " + "[" * 20_000,
    "not text": "\udcff\udcfe",
    "a statement": '[["model.py::Net"]]\nconstruct = "x = 3"\ntrain = [")("]\n',
    "brackets": '[["model.py::Net"]]\nconstruct = "' + "(" * 3000 + '"\n',
}


def test_files_in_place_of_recorded_examples(shared: Client, report):
    """Neither a pipe nor any file content must block the server."""
    path = shared.root / "fxlens.examples.toml"
    with shared.lent() as server:
        uri = server.open(shared.root / "examples_model.py", MODEL)
        assert server.diagnostics(uri) == []
        try:
            os.mkfifo(path)
            assert server.edit(uri, MODEL + "# pipe\n") == []
            path.unlink()
            for name, text in ODD_EXAMPLES.items():
                path.write_text(text, errors="surrogateescape")
                assert server.edit(uri, MODEL + f"# {name}\n") == []
        finally:
            path.unlink(missing_ok=True)
        assert server.edit(uri, MODEL + "# gone\n") == []
    report(tries=len(ODD_EXAMPLES) + 1, outcome="not read, the file is served")


ENTRY = '[["m{file}.py::C{n}"]]\nconstruct = "C{n}(1)"\neval = ["x"]\n'
TARGET = '"m{file}.py::C{n}" = "C{n}(1)"\n'
LARGE = {
    "fxlens.examples.toml": "".join(ENTRY.format(file=n % 500, n=n) for n in range(60_000)),
    "fxlens.toml": "[targets]\n" + "".join(TARGET.format(file=n % 500, n=n) for n in range(30_000)),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_files_beside_the_models_are_read_while_others_are_served(shared: Client, name: str, report):
    path = shared.root / name
    own = {"fxlens.examples.toml": '[["large_model.py::Net"]]\nconstruct = "Net(7)"\neval = ["torch.randn(2, 7)"]\n',
           "fxlens.toml": '"large_model.py::Net" = "Net(7) <- torch.randn(2, 7)"\n'}  # fmt: skip
    text = MODEL.replace("# fxlens: Net() <- torch.randn(2, 4)\n", "").replace("(self)", "(self, n)", 1)
    changed = {"changes": [{"uri": path.as_uri(), "type": 2}]}
    with shared.lent() as server:
        elsewhere = server.open(shared.root / "elsewhere.py", MODEL)
        assert server.diagnostics(elsewhere) == []
        try:
            path.write_text(LARGE[name] + own[name])
            if name == "fxlens.toml":
                server.notify("workspace/didChangeWatchedFiles", changed)
            uri = server.open(shared.root / "large_model.py", text.replace("Linear(4, 4)", "Linear(n, n)"))
            slowest, asked = 0.0, {"textDocument": {"uri": elsewhere}, "position": {"line": 11, "character": 22}}
            while not [each for each in server.received if each.get("params", {}).get("uri") == uri]:
                began = clock(server)
                assert "relu" in server.request("textDocument/hover", asked)["contents"]["value"]
                slowest = max(slowest, clock(server) - began)
            assert server.diagnostics(uri) == []
            made = server.request("fxlens/record", {"uri": uri})["record"]["targets"][0]["construct"]
            assert made["text"] == "Net(7)"
        finally:
            path.unlink(missing_ok=True)
            server.notify("workspace/didChangeWatchedFiles", changed)
    assert slowest < 0.5
    report(outcome=f"hovers elsewhere at most {slowest * 1000:.0f} ms meanwhile")


def test_many_files_change_at_once(shared: Client, folder: Path, report):
    """A checkout of another branch: the open documents are served meanwhile."""
    with shared.lent() as server:
        uri = server.open(folder / "model.py", MODEL)
        assert server.diagnostics(uri) == []
        names = [f"other{n}.py" for n in range(14_000)] + [f"sub{n}/pyproject.toml" for n in range(6000)]
        changes = [{"uri": (folder / name).as_uri(), "type": 2} for name in names]
        server.notify("workspace/didChangeWatchedFiles", {"changes": changes})
        began = clock(server)
        assert server.request("fxlens/status", {})
        assert clock(server) - began < 3
        assert server.edit(uri, MODEL + "# after\n") == []
    report(tries=20_000, outcome="answered meanwhile")


def test_a_large_configuration_that_is_open(shared: Client, folder: Path, report):
    """An editor's text counts like the file, and is not read if it is too large."""
    text = "[severity]\n" + "".join(f'FX{number:07d} = "off"\n' for number in range(300_000))
    uri = (folder / "fxlens.toml").as_uri()
    asked = {"textDocument": {"uri": (folder / "elsewhere.py").as_uri()}, "position": {"line": 11, "character": 22}}
    with shared.lent() as server:
        assert server.diagnostics(server.open(folder / "elsewhere.py", MODEL)) == []
        item = {"uri": uri, "languageId": "toml", "version": 1, "text": text}
        server.notify("textDocument/didOpen", {"textDocument": item})
        model = server.open(folder / "net.py", MODEL)
        slowest = 0.0
        while not [each for each in server.received if each.get("params", {}).get("uri") == model]:
            began = clock(server)
            assert "relu" in server.request("textDocument/hover", asked)["contents"]["value"]
            slowest = max(slowest, clock(server) - began)
        server.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    assert slowest < 2
    report(outcome=f"not read; hovers elsewhere at most {slowest * 1000:.0f} ms meanwhile")
