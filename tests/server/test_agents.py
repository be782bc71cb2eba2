"""``fxlens/ask``: the tools of agents in the editor, on a real server. `test_mcp` tests the answers themselves."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from check_command import waits_for
from fxlens.host.launch import Launch, find_python
from fxlens.host.pool import Pool
from fxlens.index import files as indexed
from fxlens.mcp.asking import Asking, Folder
from fxlens.mcp.questions import QUESTIONS
from lsp_client import Client
from processes import gone, processes_with
from test_mcp import SMALL, ask
from test_notebook_cells import Book
from test_notebooks import notebook

ROOT = Path(__file__).parents[2]
HELPER = "def gate(x):\n    return x if True else -x\n"
NET = """import torch
from torch import nn

from {helper} import gate

open(__file__ + ".ran", "w").close()


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def forward(self, x):
        return gate(x) * 2
"""
BRANCH = "if x.max() > 0:\n            x = -x\n        return gate(x) * 2"


def asked(client: Client, tool: str, unsaved: tuple[str, ...] = (), **arguments: Any) -> dict[str, Any] | str:
    """The answer as data, or the reason why there is none."""
    said = client.request("fxlens/ask", {"tool": tool, "arguments": arguments, "unsaved": list(unsaved)})
    assert len(said.get("text", "").encode()) <= arguments.get("max_bytes", 2000)
    return json.loads(said["text"]) if "text" in said else said["reason"]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def codes(answer: Any) -> list[str]:
    return [each["code"] for each in answer.get("findings", ())]


def test_what_is_kept_of_a_folder_goes_with_it(tmp_path: Path):
    """The index of the agents' questions, and that of the editor's."""
    (root := tmp_path / "root").mkdir()
    (added := tmp_path / "added").mkdir()
    (added / "net.py").write_text(SMALL)
    capabilities = {"workspace": {"configuration": True, "workspaceFolders": True}}
    with Client(root, cold=True, capabilities=capabilities) as client:
        folder = {"uri": added.as_uri(), "name": "added"}
        client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [folder], "removed": []}})
        assert isinstance(asked(client, "diagnose", file=str(added / "net.py")), dict)
        assert processes_with(str(added))
        client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [], "removed": [folder]}})
        assert gone(processes_with(str(added))) == []


def test_the_open_text_is_judged_with_what_is_open_beside_it(shared: Client, folder: Path):
    helper = folder.name + "_helper"
    text = NET.format(helper=helper)
    (folder / "net.py").write_text(text)
    (folder / f"{helper}.py").write_text(HELPER)
    file = str(folder / "net.py")
    with shared.lent(deadline=60) as client:
        answer = asked(client, "diagnose", file=file)
        assert codes(answer) == [] and answer["fresh"] is True and answer["version"] == digest(text)
        assert answer["file"] == f"{folder.name}/net.py" and "unsaved" not in answer and answer["modified"]
        uri, other = client.open(folder / "net.py"), client.open(folder / f"{helper}.py")
        edited = text.replace("return gate(x) * 2", BRANCH)
        client.change(uri, edited)
        answer = asked(client, "diagnose", (uri,), file=f"{folder.name}/net.py")
        assert answer["unsaved"] is True and answer["version"] == digest(edited) and answer["fresh"] is True
        (found,) = answer["findings"]
        assert found["code"] == "FX101" and found["range"]["start"] == {"line": 11, "character": 11}
        # What another open file says counts unsaved, too.
        client.change(uri, text)
        client.change(other, HELPER.replace("True", "x.max() > 0"))
        answer = asked(client, "diagnose", (other,), file=uri)
        assert codes(answer) == ["FX101"] and answer["version"] == digest(text) and "unsaved" not in answer
        # The editor has not noticed yet that the file was written by another program: the file is newer.
        (folder / "net.py").write_text(edited)
        answer = asked(client, "diagnose", file=file)
        assert answer["version"] == digest(edited) and "FX101" in codes(answer)


def test_a_notebook_counts_as_it_is_saved(shared: Client, folder: Path):
    text = "from torch import nn\nclass Cell(nn.Module):\n    def forward(self, x):\n        return x"
    notebook(folder / "study.ipynb", [("code", text)])
    with shared.lent(deadline=60) as client:
        file = str(folder / "study.ipynb")
        book = Book(client, folder / "study.ipynb", [("python", text)])
        asking = client.start("fxlens/ask", {"tool": "diagnose", "arguments": {"file": file}, "unsaved": [book.uri]})
        book.type(0, text.replace("return x", "return x if x.max() > 0 else -x"))
        said = client.wait(lambda each: each.get("id") == asking and "method" not in each)["result"]
        answer = json.loads(said["text"])
        assert codes(answer) == [] and [each["model"] for each in answer["models"]] == ["Cell"]
        assert codes(asked(client, "diagnose", (book.uri,), file=file)) == []
        book.close()


def test_a_job_lets_other_questions_of_its_folder_be_answered(shared: Client, folder: Path):
    for name, text in (("slow.py", waits_for(folder / "go") + SMALL), ("small.py", SMALL)):
        (folder / name).write_text(text)
    with shared.lent(deadline=60) as client:
        assert asked(client, "graph", file=f"{folder.name}/small.py")["nodes"]
        job = client.start("fxlens/ask", {"tool": "cost", "arguments": {"file": f"{folder.name}/slow.py"}})
        assert asked(client, "graph", file=f"{folder.name}/small.py")["nodes"]
        refused = asked(client, "cost", file=f"{folder.name}/small.py")
        assert refused == "The agent's question cost is still running. Cancel it, or wait until it has finished."
        trace = client.start("fxlens/ask", {"tool": "diagnose", "arguments": {"file": f"{folder.name}/slow.py"}})
        assert asked(client, "graph", file=f"{folder.name}/small.py")["nodes"]
        assert not [each for each in client.received if each.get("id") == trace and "method" not in each]
        assert not [each for each in client.received if each.get("id") == job and "method" not in each]
        (folder / "go").touch()
        said = client.wait(lambda each: each.get("id") == job and "method" not in each)
        assert "flops" in said["result"]["text"]


def test_the_files_around_are_not_read_by_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    threads = []
    walk = indexed.walk
    monkeypatch.setattr(indexed, "walk", lambda folder: [threads.append(threading.current_thread()), *walk(folder)][1:])
    (tmp_path / "net.py").write_text(SMALL)
    known = Folder(str(tmp_path))
    asking = Asking(known, Pool(Launch(find_python("", None), str(tmp_path))), True, "")
    asyncio.run(asking._look_around(str(tmp_path / "net.py"), {}))
    assert [*known.seen] == [str(tmp_path / "net.py")] and threads
    assert threading.main_thread() not in threads


def test_an_edit_meanwhile_is_answered_or_admitted(shared: Client, folder: Path):
    helper = folder.name + "_helper"
    text = NET.format(helper=helper)
    (folder / "net.py").write_text(text)
    (folder / f"{helper}.py").write_text(HELPER)
    with shared.lent(deadline=60) as client:
        uri = client.open(folder / "net.py")
        question = {"tool": "diagnose", "arguments": {"file": uri}, "unsaved": []}
        for number in range(6):
            last = f"{text}\n# edit {number}\n" if number % 2 else text.replace("return gate(x) * 2", BRANCH)
            asking = client.start("fxlens/ask", question)
            client.change(uri, last)
            said = client.wait(lambda each, asking=asking: each.get("id") == asking and "method" not in each)
            answer = json.loads(said["result"]["text"])
            assert answer["version"] == digest(last) and answer["fresh"] is True, number
            assert codes(answer) == ([] if number % 2 else ["FX101"])


def test_answers_are_those_of_the_command(shared: Client, folder: Path):
    (folder / "small.py").write_text(SMALL)
    file = f"{folder.name}/small.py"
    questions: list[tuple[str, dict[str, Any]]] = [
        ("diagnose", {}), ("fix", {"line": 11}), ("graph", {}), ("shapes", {"line": 11}),
    ]  # fmt: skip
    with shared.lent(deadline=60) as client:
        here = [asked(client, tool, file=file, **more) for tool, more in questions]
    there = ask(shared.root, *((tool, {"file": file, **more}) for tool, more in questions))
    assert here == there and {each["version"] for each in here} == {digest(SMALL)}


def test_what_is_not_trusted_is_only_read(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory):
    text = NET.format(helper="helper").replace("return gate(x) * 2", BRANCH)
    outside = tmp_path_factory.mktemp("outside") / "net.py"
    for path in (tmp_path / "net.py", outside):
        path.write_text(text)
        (path.parent / "helper.py").write_text(HELPER)
    with Client(tmp_path, trusted=False) as client:
        assert codes(asked(client, "diagnose", file="net.py")) == ["FX101"]
        for tool in ("fix", "capture", "graph", "shapes", "cost", "lower"):
            assert "is not trusted" in asked(client, tool, file="net.py"), tool
        assert not (tmp_path / "net.py.ran").exists()
        with client.lent(ignore=["FX101"]):
            assert codes(asked(client, "diagnose", file="net.py")) == []
        client.notify("fxlens/trusted", {})
        assert asked(client, "diagnose", file="net.py")["models"] and (tmp_path / "net.py.ran").exists()
        with client.lent(severity={"FX101": "info"}):
            (found,) = asked(client, "diagnose", file="net.py")["findings"]
            assert found["severity"] == "info"
        # What lies outside of the workspace is not part of what the user trusts.
        assert codes(asked(client, "diagnose", file=str(outside))) == ["FX101"]
        assert "Open it in the workspace first" in asked(client, "graph", file=str(outside))
        assert not Path(f"{outside}.ran").exists()


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("draw", {"file": "net.py"}, "There is no tool draw; the tools: diagnose, fix, "),
        ("graph", {}, "graph needs a file"),
        ("graph", {"file": "nowhere.py"}, "nowhere.py cannot be read: No such file"),
        ("graph", {"file": "no\0where.py"}, "where.py cannot be read: embedded null byte"),
        ("graph", {"file": "net.py", "lines": 3}, "graph has no argument lines; it has file, "),
        ("shapes", {"file": "net.py", "line": "3"}, "line must be a whole number, not '3'"),
        ("graph", {"file": "net.py", "start": -1}, "start must be at least 0, not -1"),
        ("graph", {"file": "net.py", "max_bytes": 10**7}, "max_bytes must be at most 1000000, not 10000000"),
        ("lower", {"file": "net.py", "precision": "fp8"}, "precision must be one of fp32, fp16, bf16, not 'fp8'"),
        ("fix", {"file": "net.py", "code": "QQ"}, "no rule code begins with QQ"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(
    shared: Client, tool: str, arguments: dict[str, Any], reason: str
):
    assert reason in asked(shared, tool, **arguments)


def test_the_manifest_of_the_extension_has_the_same_tools():
    said = {
        name: each.schema()["properties"].get("model", {}).get("description", "") for name, each in QUESTIONS.items()
    }
    assert said["diagnose"].endswith("Without it, all.") and said["graph"].endswith("the last class that has a graph.")
    assert said["cost"].endswith("Without it, the last model.") and said["cost"] == said["lower"]
    done = subprocess.run([sys.executable, ROOT / "scripts" / "agent_tools.py", "--check"])
    assert done.returncode == 0, "run python scripts/agent_tools.py"
