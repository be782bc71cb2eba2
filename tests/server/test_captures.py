"""The results of torch.export and torch.compile for the class at the cursor, as shown in an editor."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from lsp_client import Client, edited
from warm_python import warm_fxlens

WARM = "captures"
TEXT = """import torch
from torch import nn


# fxlens: Net() <- torch.randn(4, 3)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        x = self.fc(x)
        if x.sum() > 0:
            x = x + 1
        print("mean", x.shape)
        n = int(x.shape[0])
        return x.reshape(n, -1)


# fxlens: Hidden() <- torch.randn(4, 3)
class Hidden(nn.Module):
    def forward(self, x):
        scale = x.max().item()
        return x * scale
"""
NET, HIDDEN = 10, 22


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, list[dict]]]:
    """A server, and its workers before anything was asked of torch.export and torch.compile."""
    settings = {"captures": ["fx", "export", "compile"], "deadline": 30}
    with Client(tmp_path_factory.mktemp("captures"), settings=settings) as client:
        uri = client.open(client.root / "model.py", TEXT)
        client.diagnostics(uri)
        yield client, workers(client)


@pytest.fixture(scope="module")
def server(before: tuple[Client, list[dict]]) -> Client:
    return before[0]


@pytest.fixture
def session(server: Client, request: pytest.FixtureRequest) -> Iterator[tuple[Client, str]]:
    """The server, and a file of its own for each test."""
    uri = server.open(server.root / f"{request.node.name}.py", TEXT)
    yield server, uri
    server.notify("textDocument/didClose", {"textDocument": {"uri": uri}})


def go_to(client: Client, uri: str, line: int) -> None:
    """As an editor does that asks for the actions at its cursor."""
    at = {"line": line, "character": 0}
    context = {"diagnostics": [], "triggerKind": 2}
    client.request(
        "textDocument/codeAction", {"textDocument": {"uri": uri}, "range": {"start": at, "end": at}, "context": context}
    )


def lenses(client: Client, uri: str) -> list[str]:
    found = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}}) or []
    return [each["command"]["title"] for each in found]


def asked(client: Client, uri: str, text: str) -> str:
    """The lens that has a text, once it does."""
    until = time.monotonic() + 240
    while time.monotonic() < until:
        for title in lenses(client, uri):
            if text in title:
                return title
        time.sleep(0.2)
    raise AssertionError(lenses(client, uri))


def latest(client: Client, uri: str) -> list[dict]:
    return [
        each["params"]["diagnostics"]
        for each in client.received
        if each.get("method") == "textDocument/publishDiagnostics" and each["params"]["uri"] == uri
    ][-1]


def workers(client: Client) -> list[dict]:
    return json.loads(client.request("fxlens/debugInfo", {})["text"])["workers"]


def test_the_processes_are_made_with_the_first_question_only(before: tuple[Client, list[dict]]):
    client, workers_before = before
    assert [each["captures"] for each in workers_before] == [None]
    uri = (client.root / "model.py").as_uri()
    go_to(client, uri, HIDDEN)
    asked(client, uri, "compile")
    (worker,) = workers(client)
    assert 0 < worker["captures"] < 4 << 30


def test_the_class_at_the_cursor_is_asked_about_and_the_others_on_save(session):
    client, uri = session
    client.diagnostics(uri)
    assert not any("export" in title for title in lenses(client, uri))
    go_to(client, uri, NET)
    assert asked(client, uri, "fixed") == "fx ✗ 2 · export ✗ · compile 2 breaks · dimension 0 of x fixed at line 16"
    assert sum("export" in title for title in lenses(client, uri)) == 1
    status = client.request("fxlens/status", {})["verdicts"]
    assert (status["model"], status["short"]) == ("Net", "fx ✗ 2 · export ✗ · compile 2 breaks")
    by_line = {each["range"]["start"]["line"]: each for each in latest(client, uri) if "code" in each}
    related = [each["message"] for each in by_line[12]["relatedInformation"]]
    assert by_line[12]["code"] == "FX101"
    assert "also: torch.export fails here, GuardOnDataDependentSymNode" in related
    assert "also: torch.compile breaks the graph here, GB0170" in related
    client.save(uri)
    assert asked(client, uri, "compile 1 break") == "fx ✓ · export ✓ · compile 1 break"


def test_an_edit_ends_what_is_asked_and_undoing_it_knows_the_answer(session):
    client, uri = session
    client.diagnostics(uri)
    go_to(client, uri, HIDDEN)
    before = asked(client, uri, "compile")
    client.edit(uri, TEXT.replace("scale = x.max().item()", "scale = x.max()"))
    assert asked(client, uri, "compile ✓") == "fx ✓ · export ✓ · compile ✓"
    client.change(uri, TEXT)
    assert asked(client, uri, "1 break") == before


def test_the_captured_graphs_are_views_like_that_of_torch_fx(session):
    client, uri = session
    client.diagnostics(uri)
    go_to(client, uri, HIDDEN)
    asked(client, uri, "compile")
    drawn = client.request("fxlens/graph", {"uri": uri, "target": "Hidden (torch.compile)"})
    assert drawn["view"]["target"] == "Hidden (torch.compile)"
    assert {each["module"] for each in drawn["view"]["nodes"]} == {"graph 1", "graph 2"}
    places = {name: found[0]["range"]["start"]["line"] for name, found in drawn["places"].items() if found}
    assert places["g1_max_1"] == 22 and places["g2_mul"] == 23
    program = client.request("fxlens/code", {"uri": uri, "target": "Hidden (torch.export)", "view": "code"})
    assert "torch.ops.aten.item" in program["text"] or "_local_scalar_dense" in program["text"]
    assert program["lines"]


def commanded(client: Client, uri: str, text: str, title: str) -> str:
    """The text after an action on the class statement has been carried out."""
    at = {"line": next(n for n, line in enumerate(text.split("\n")) if "class Net" in line), "character": 0}
    place = {"textDocument": {"uri": uri}, "range": {"start": at, "end": at}}
    until = time.monotonic() + 60
    commands: list[dict] = []
    while not commands and time.monotonic() < until:  # the problems are shown before the record is complete
        found = client.request("textDocument/codeAction", {**place, "context": {"diagnostics": [], "triggerKind": 1}})
        commands = [each["command"] for each in found if each["title"] == title]
    (command,) = commands
    client.start("workspace/executeCommand", {key: command[key] for key in ("command", "arguments")})
    wanted = client.wait(lambda each: each.get("method") == "workspace/applyEdit", 240)
    (edits,) = wanted["params"]["edit"]["changes"].values()
    return edited(text, edits)


@pytest.fixture(scope="module")
def known(server: Client) -> tuple[Client, str]:
    """The server, and a file of which it knows what torch does with its first class."""
    uri = server.open(server.root / "known.py", TEXT)
    server.diagnostics(uri)
    go_to(server, uri, NET)
    asked(server, uri, "fixed")
    return server, uri


def test_a_class_is_made_exportable(known, tmp_path):
    client, uri = known
    module = load(tmp_path / "fixed.py", commanded(client, uri, TEXT, "Make Net exportable"))
    torch.export.export(module.Net(), (torch.randn(4, 3),))


def test_the_graph_breaks_of_a_class_are_removed(known, tmp_path):
    client, uri = known
    module = load(tmp_path / "fixed.py", commanded(client, uri, TEXT, "Remove the graph breaks of Net"))
    torch.compiler.reset()
    torch.compile(module.Net(), fullgraph=True, backend="eager")(torch.randn(4, 3))


def test_dynamic_shapes_are_written_and_kept(session, tmp_path):
    client, uri = session
    client.diagnostics(uri)
    text = TEXT.replace("        if x.sum() > 0:\n            x = x + 1\n", "").replace("int(x.shape[0])", "x.shape[0]")
    client.edit(uri, text)
    title = "Write dynamic_shapes for the export of Net"
    written = commanded(client, uri, text, title)
    assert 'NET_SHAPES = {"x": {0: torch.export.Dim("batch")}}' in written
    module = load(tmp_path / "written.py", written)
    program = torch.export.export(module.Net(), (torch.randn(4, 3),), dynamic_shapes=module.NET_SHAPES)
    assert program.module()(torch.randn(7, 3)).shape == (7, 3)
    client.edit(uri, written)
    assert commanded(client, uri, written, title) == written


def load(path: Path, text: str) -> ModuleType:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LARGE = """import torch
from torch import nn


# fxlens: Large() <- torch.randn(2, 4, 1500)
class Large(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(1500, 1500)

    def forward(self, x):
        return self.fc(x[:, [-1], :])
"""


TIMED = """import time

import torch
from torch import nn


# fxlens: Timed() <- torch.randn(4, 3)
class Timed(nn.Module):
    def forward(self, x):
        self.start = time.perf_counter()
        return torch.relu(x)


# fxlens: Plain() <- torch.randn(4, 3)
class Plain(nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""


def test_strict_export_is_asked_where_it_is_wanted_and_shown_where_it_differs(server: Client):
    folder = server.root / "strict"
    folder.mkdir()
    (folder / "timed.py").write_text(TIMED)
    with server.lent(captures=["fx", "export", "strict"], deadline=30) as client:
        uri = client.open(folder / "timed.py")
        client.diagnostics(uri)
        client.save(uri)
        assert asked(client, uri, "strict") == "fx ✓ · export ✓ · strict ✗"
        assert asked(client, uri, "fx ✓ · export ✓")  # torch.relu alone is no other program
        at = {"textDocument": {"uri": uri}, "position": {"line": 7, "character": 8}}
        rows = client.request("textDocument/hover", at)["contents"]["value"].splitlines()
        assert any(row.startswith("| torch.export, `strict=True` | line 10: ") for row in rows), rows
        titles = [each["title"] for each in client.request("textDocument/codeAction", on_class(uri, 7))]
        assert "Remove the graph breaks of Timed" not in titles


GATED = """import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self, gate):
        super().__init__()
        self.gate = gate

    def forward(self, x):
        if self.gate and x.sum() > 0:
            x = x + 1
        return torch.relu(x)
"""


def test_another_construction_in_another_file_is_asked_about_anew(server: Client):
    """The texts that its code reads are the same."""
    folder = server.root / "doors"
    folder.mkdir()
    (folder / "gated.py").write_text(GATED)
    made = "import torch\nfrom gated import Gated\n\nnet = Gated({})\nnet(torch.randn(2, 4))\n"
    with server.lent(captures=["fx", "export"], deadline=30) as client:
        (folder / "train.py").write_text(made.format(False))
        uri = client.open(folder / "gated.py")
        for gate, outcome in ((False, "fx ✓ · export ✓"), (True, "fx ✗ 1 · export ✗")):
            (folder / "train.py").write_text(made.format(gate))
            change = {"uri": (folder / "train.py").as_uri(), "type": 2}
            client.notify("workspace/didChangeWatchedFiles", {"changes": [change]})
            wait_for_construction(client, uri, f"Gated({gate})")
            go_to(client, uri, 6 if gate else 7)
            assert asked(client, uri, outcome) == outcome


def wait_for_construction(client: Client, uri: str, text: str) -> None:
    until = time.monotonic() + 60
    while text != (made := client.request("fxlens/record", {"uri": uri})["record"]["targets"][0]["construct"])["text"]:
        assert time.monotonic() < until, made
        time.sleep(0.1)


KEYWORDS = """import torch
from torch import nn


# fxlens: Given() <- torch.randn(4, 3), scale=torch.tensor(2.0)
class Given(nn.Module):
    def forward(self, x, *, scale):
        return torch.relu(x) * scale


class Called(nn.Module):
    def forward(self, x, *, scale, bias=0.5):
        return (x + bias) * scale


def use():
    return Called()(torch.randn(4, 3), scale=torch.tensor(2.0))


# fxlens: Counts() <- torch.randn(4, 3)
class Counts(nn.Module):
    seen = 0

    def forward(self, x):
        type(self).seen += 1
        return x * self.seen
"""


def test_the_command_line_has_a_column_for_each_capture(tmp_path: Path):
    """A large model that torch rejects without data is captured with data."""
    for name, text in (("model", TEXT), ("large", LARGE), ("timed", TIMED), ("keywords", KEYWORDS)):
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "fxlens.toml").write_text('captures = ["fx", "export", "compile", "strict"]\n')
    command = warm_fxlens("check", "--no-cache", "--quick", ".")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 1, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["model", "torch.fx", "torch.export", "torch.compile", "strict", "sizes"] in rows
    assert ["./model.py:21", "Hidden", "✓", "✓", "1", "break", "✓", "✓"] in rows
    assert ["./large.py:6", "Large", "✓", "✓", "✓", "✓", "✓"] in rows
    assert ["./timed.py:8", "Timed", "✓", "✓", "1", "break", "✗", "✓"] in rows
    assert ["./timed.py:15", "Plain", *"✓✓✓✓✓"] in rows
    assert ["./keywords.py:6", "Given", *"✓✓✓✓✓"] in rows
    assert ["./keywords.py:11", "Called", *"✓✓✓✓✓"] in rows
    assert "./keywords.py:25:9: warning FX208 " in done.stdout
    assert "also, with torch.export: The exported program does not update `type(self).seen`." in done.stdout


HANGING = """import ctypes
import torch
from torch import nn


# fxlens: Hanging() <- torch.randn(4, 3)
class Hanging(nn.Module):
    def forward(self, x):
        while torch.compiler.is_exporting():
            pass
        return torch.relu(x)


# fxlens: Crashing() <- torch.randn(4, 3)
class Crashing(nn.Module):
    def forward(self, x):
        if torch.compiler.is_exporting():
            ctypes.string_at(0)
        return torch.relu(x)


# fxlens: Next() <- torch.randn(4, 3)
class Next(nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""


IMPATIENT = """import sys
from fxlens.cli import main
from fxlens.jobs import captures

captures._LEAST_SECONDS = 3.0
sys.exit(main(sys.argv[1:]))
"""


def test_a_model_that_never_ends_under_a_capture_is_given_up_and_the_next_one_is_asked(tmp_path: Path):
    (tmp_path / "hanging.py").write_text(HANGING)
    arguments = ["check", "--no-cache", "--quick", "--deadline", "3", "--captures", "export", "--format", "json", "."]
    # In a process of its own: one that ends kills the children that it has, and here they are other tests' servers.
    command = [sys.executable, "-c", IMPATIENT, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    (file,) = json.loads(done.stdout)["files"]
    assert done.returncode == 1
    assert [(each["code"], each["target"]) for each in file["findings"]] == [
        ("FX304", "Hanging"),
        ("FX305", "Crashing"),
    ]
    models = {each["name"]: each for each in file["targets"]}
    assert models["Next"]["captures"]["export"]["outcome"] == "captured"
    hanging = models["Hanging"]["captures"]["export"]
    assert hanging["outcome"] == "unknown" and "stopped after 3 s while being exported at line" in hanging["reason"]


def on_class(uri: str, line: int) -> dict:
    at = {"line": line, "character": 0}
    return {
        "textDocument": {"uri": uri},
        "range": {"start": at, "end": at},
        "context": {"diagnostics": [], "triggerKind": 1},
    }


def test_a_project_that_exports_only_is_not_troubled_by_the_others(tmp_path: Path):
    (tmp_path / "model.py").write_text(TEXT)
    (tmp_path / "fxlens.toml").write_text('captures = ["export"]\n')
    command = warm_fxlens("check", "--no-cache", "--quick", "--format", "github", "model.py")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    found = {line.split("title=")[1].split("::")[0]: line.split()[0] for line in done.stdout.splitlines()}
    assert found["FX101"] == "::error" and found["FX205"] == "::notice"


COMPILED = """import torch
import torch.nn.functional as F
from torch import nn


class Compiled(nn.Module):
    @torch.compile
    def forward(self, batch):
        return F.gelu(batch.graph.rows["ids"].values)
"""


def test_a_compiled_forward_is_named_and_so_is_what_captures_were_not_run_on(tmp_path: Path):
    (tmp_path / "model.py").write_text(COMPILED)
    command = warm_fxlens("check", "--no-cache", "--quick", "--captures", "fx,export", "model.py")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert "model.py:7:6: error FX190 `forward` is compiled by torch.compile, and torch.fx refuses" in done.stdout
    assert "captures other than fx were not run on Compiled, since no example inputs are known" in done.stderr
