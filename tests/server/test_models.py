"""``fxlens/models``: the classes of a whole workspace, from a real server."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fxlens import answers
from fxlens.config.settings import SEVERITIES
from lsp_client import MODEL, Client
from processes import descendants, gone
from test_notebooks import notebook
from test_record import wrong

BRANCH = """import torch
from torch import nn

open(__file__ + ".ran", "w").close()


# fxlens: Branch() <- torch.randn(2, 4)
class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return x
"""


PARTS = """from torch import nn


class Inner(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return len(x) * x


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x)
"""


@contextmanager
def server(factory: pytest.TempPathFactory, trusted: bool) -> Iterator[Client]:
    """A server of a workspace in which nothing is open."""
    root = factory.mktemp("workspace")
    (root / "deep").mkdir()
    (root / "net.py").write_text(MODEL)
    (root / "deep" / "branch.py").write_text(BRANCH)
    environment = {"XDG_CACHE_HOME": str(factory.mktemp("cache"))}
    with Client(root, trusted=trusted, environment=environment) as client:
        yield client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with server(tmp_path_factory, trusted=True) as client:
        yield client


def test_nothing_is_run_before_the_workspace_is_trusted(tmp_path_factory: pytest.TempPathFactory):
    with server(tmp_path_factory, trusted=False) as client:
        reason = "The workspace is not trusted, so its models are not run."
        assert client.request("fxlens/models", {}) == {"reason": reason}
        assert not (client.root / "deep" / "branch.py.ran").exists()
        client.notify("fxlens/trusted", {})
        answer = client.request("fxlens/models", {})
        assert {row["name"] for row in answer["rows"]} == {"Net", "Branch"}
        assert (client.root / "deep" / "branch.py.ran").exists()


def test_every_class_of_the_workspace_is_in_the_answer(client: Client):
    answer = client.request("fxlens/models", {})
    assert wrong(answer, answers.ModelsAnswer, "answer") == [] and answer["notes"] == []
    net, branch = sorted(answer["rows"], key=lambda row: row["place"], reverse=True)
    assert (net["name"], net["place"], net["line"]) == ("Net", "net.py:6", 5)
    assert net["uri"] == (client.root / "net.py").as_uri()
    assert (net["parameters"], net["flops"]) == (20, 64) and net["verdicts"][0]["tone"] == "good"
    assert (branch["name"], branch["place"]) == ("Branch", "deep/branch.py:8")
    (problem,) = branch["problems"]
    assert (problem["code"], problem["place"], problem["line"]) == ("FX101", "deep/branch.py:10", 9)
    assert problem["fixes"] and '+torch.fx.wrap("_branch_x")' in problem["fixes"][0]["diff"]


def test_a_class_of_a_notebook_is_in_its_cell(client: Client):
    path = client.root / "study.ipynb"
    notebook(
        path, [("markdown", "# Prose"), ("code", BRANCH.partition("open(")[0]), ("code", BRANCH.partition("\n\n\n")[2])]
    )
    row = next(each for each in client.request("fxlens/models", {})["rows"] if each["uri"] == path.as_uri())
    path.unlink()
    assert (row["name"], row["place"], row["cell"], row["line"]) == ("Branch", "study.ipynb:cell 3:2", 3, 1)
    (problem,) = row["problems"]
    assert (problem["place"], problem["cell"], problem["line"]) == ("study.ipynb:cell 3:4", 3, 3)


@pytest.mark.parametrize(("folder", "settings", "configuration"), [
    ("off", {"severity": {"FX101": "off"}}, ""),
    ("all", {"scope": "meant"}, 'scope = "all"\n'),
    ("watched", {"scope": "meant", "watch": ["watched/net.py::Outer"]}, ""),
    ("graded", {"scope": "meant"}, "[severity]\nFX120 = 'info'\n"),
])  # fmt: skip
def test_the_table_says_what_the_problems_say(client: Client, folder: str, settings: dict, configuration: str):
    own = client.root / folder
    own.mkdir()
    (own / "fxlens.toml").write_text(configuration)
    (own / "net.py").write_text(PARTS)
    try:
        with client.lent(**settings):
            problems = client.diagnostics(client.open(own / "net.py"))
            rows = [row for row in client.request("fxlens/models", {})["rows"] if row["place"].startswith(f"{folder}/")]
    finally:
        shutil.rmtree(own)
    shown = {(each["code"], SEVERITIES[each["severity"] - 1]) for each in problems}
    assert {(each["code"], each["severity"]) for row in rows for each in row["problems"]} == shown and rows
    assert len(shown) == (1 if "severity" in settings else 2)


def test_rows_are_sent_as_files_are_done_where_the_client_wants_them_so(client: Client):
    parts = []

    def part(message: dict) -> bool:
        if message.get("method") == "$/progress":
            parts.append(message["params"])
        return len(parts) == 2

    number = client.start("fxlens/models", {"partialResultToken": "models"})
    client.wait(part)
    answer = client.wait(lambda message: message.get("id") == number and "result" in message)["result"]
    assert answer == {"rows": [], "notes": []}
    assert {each["token"] for each in parts} == {"models"}
    assert [wrong(each["value"], answers.ModelsPart, "part") for each in parts] == [[], []]
    assert [(each["value"]["done"], each["value"]["files"]) for each in parts] == [(1, 2), (2, 2)]
    assert {row["name"] for each in parts for row in each["value"]["rows"]} == {"Net", "Branch"}


def test_a_cancelled_request_ends_its_processes(client: Client):
    client.request("fxlens/models", {})  # what the server itself has started stays
    (client.root / "slow.py").write_text(f"import time\ntime.sleep(60)\n{MODEL}")
    before = set(descendants(client.pid))
    number = client.start("fxlens/models", {})
    until = time.monotonic() + 60
    while not (started := set(descendants(client.pid)) - before) and time.monotonic() < until:
        time.sleep(0.05)
    assert started
    client.notify("$/cancelRequest", {"id": number})
    assert client.wait(lambda message: message.get("id") == number)["error"]["code"] == -32800
    assert gone(list(started)) == []
