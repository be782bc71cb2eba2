"""``fxlens mcp`` through the client of the protocol's SDK."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from check_command import BROKEN
from processes import descendants, gone
from test_notebooks import notebook
from warm_python import warm_fxlens

WARM = "captures"
ROOT = Path(__file__).parents[2]
SMALL = """import torch
from torch import nn


# fxlens: Small() <- torch.randn(1, 3, 8, 8)
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return torch.relu(self.conv(x)).flatten(1)
"""
DEEP = (
    """import torch
from torch import nn


# fxlens: Deep() <- torch.randn(1, 8)
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(8, 8) for _ in range(40)))

    def forward(self, x):
"""
    + "".join(f"        if x.sum() > {number}:\n            x = x + {number}\n" for number in range(10))
    + ("        return self.layers(x)\n")
)
PARTS = """import torch
from torch import nn


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, scale=None):
        # Two lines that make this one
        # another than that of the call.
        return torch.bucketize(self.linear(x), x[0])
"""
HOLDER = """import torch
from torch import nn

from parts import Part


# fxlens: Holder() <- torch.randn(2, 4)
class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def forward(self, x, scale=None):
        return self.part(x)
"""
MANY = "import torch\nfrom torch import nn\n" + "".join(
    f"""

# fxlens: Kind{number}() <- torch.randn(1, 8, 16, 16)
class Kind{number}(nn.Module):
    def forward(self, x):
        return x if x.sum() > {number} else -x
"""
    for number in range(12)
)
MARKS = "from pathlib import Path\n\nPath(__file__).with_suffix('.ran').touch()\n" + BROKEN


def ask(folder: Path, *questions: tuple[str, dict[str, Any]], trust: bool = True) -> list[Any]:
    """What a server in this folder answers, one question after another: data, or the text of an error."""
    python, *arguments = warm_fxlens("mcp", *(["--trust"] if trust else []))
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / ".cache")}
    # Takes a second, and each worker of pytest imports each file of tests.
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(command=python, args=arguments, cwd=folder, env=environment)

    async def all_of_them() -> list[Any]:
        found = []
        async with Client(server, read_timeout_seconds=120) as client:
            for tool, given in questions:
                if tool == "tools":
                    found.append({each.name: each for each in (await client.list_tools()).tools})
                    continue
                result = await client.call_tool(tool, given)
                text = result.content[0].text
                assert len(text.encode()) <= given.get("max_bytes", 2000), (tool, given)
                found.append(text if result.is_error else json.loads(text))
        return found

    return asyncio.run(all_of_them())


FIXED = BROKEN.replace("len(x)", "4")
NET, OWN, LONG = {"file": "net.py"}, {"file": "small.py"}, {"file": "deep.py"}
HELD = {"file": "holder.py"}
STUDY = {"file": "study.ipynb"}
CELLS = [
    ("markdown", "# A study"),
    ("code", "%matplotlib inline\nimport torch\nfrom torch import nn"),
    ("code", "open('ran', 'w')\nNet()(torch.randn(3, 3))"),
    ("code", "class Net(nn.Module):\n    def forward(self, x):\n        y = torch.relu(x + 1)\n"
             "        y = torch.bucketize(y, x[0]) * torch.sigmoid(y)\n        return y * 2\n\nclass Last(nn.Module):\n"
             "    def forward(self, x):\n        n = len(x)\n        return x / n"),
    ("code", "Last()(torch.randn(3))\ndef broken(:"),
]  # fmt: skip
QUESTIONS = {
    "tools": ("tools", {}),
    "diagnosis": ("diagnose", NET),
    "unsaved": ("diagnose", {**NET, "text": "\ufeff" + FIXED}),
    "all fixes": ("fix", NET),
    "fixes of a line": ("fix", {**NET, "line": 12}),
    "captures": ("capture", NET),
    "graph": ("graph", OWN),
    "shapes": ("shapes", OWN),
    "shapes of a line": ("shapes", {**OWN, "line": 10}),
    "cost": ("cost", OWN),
    "lowered": ("lower", {**OWN, "engine": "onnxruntime"}),
    "nowhere": ("diagnose", {"file": "nowhere.py"}),
    "misspelt": ("diagnose", {**NET, "model": "Gatt"}),
    "half-typed": ("diagnose", {**NET, "model": "Gate", "text": BROKEN + "def broken(:\n"}),
    "misspelt, half-typed": ("diagnose", {**NET, "model": "Gatt", "text": BROKEN + "def broken(:\n"}),
    "raises": ("diagnose", {**NET, "model": "Gate", "text": BROKEN + "raise ValueError\n"}),
    "long": ("diagnose", LONG),
    "read on": ("diagnose", {**LONG, "start": 7}),
    "whole": ("diagnose", {**LONG, "max_bytes": 100_000}),
    "long graph": ("graph", LONG),
    "long diff": ("fix", {**LONG, "max_bytes": 1000}),
    "many models": ("diagnose", {"file": "many.py"}),
    "many models, read on": ("diagnose", {"file": "many.py", "start": 1}),
    "too many models": ("diagnose", {"file": "many.py", "max_bytes": 500}),
    "graph through a file": ("graph", HELD),
    "shapes through a file": ("shapes", HELD),
    "cost through a file": ("cost", HELD),
    "lowered through a file": ("lower", HELD),
    "of a notebook": ("diagnose", STUDY),
    "of a notebook that is not saved": ("diagnose", {**STUDY, "text": json.dumps({"cells": []})}),
    "of no notebook": ("cost", {**STUDY, "text": "x = 1"}),
    "captures in cells": ("capture", STUDY),
    "graph in cells": ("graph", {**STUDY, "model": "Net"}),
    "shapes in cells": ("shapes", {**STUDY, "model": "Net"}),
    "shapes of a line in a cell": ("shapes", {**STUDY, "model": "Net", "cell": 4, "line": 3}),
    "cost in cells": ("cost", {**STUDY, "model": "Net"}),
    "lowered in cells": ("lower", {**STUDY, "model": "Net"}),
    "fixes of a line in a cell": ("fix", {**STUDY, "cell": 4, "line": 8}),
    "fixes for a notebook": ("fix", STUDY),
    "a line of no cell": ("fix", {**STUDY, "line": 6}),
    "a cell of prose": ("shapes", {**STUDY, "cell": 1, "line": 0}),
    "a cell of a file": ("shapes", {**OWN, "cell": 1, "line": 3}),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One server, asked everything."""
    folder = tmp_path_factory.mktemp("asked")
    texts = {
        "net.py": BROKEN,
        "small.py": SMALL,
        "deep.py": DEEP,
        "many.py": MANY,
        "parts.py": PARTS,
        "holder.py": HOLDER,
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    notebook(folder / "study.ipynb", CELLS)
    found = dict(zip(QUESTIONS, ask(folder, *QUESTIONS.values()), strict=True))
    assert {name: (folder / name).read_text(encoding="utf-8") for name in texts} == texts
    return found


def test_tools_say_what_they_are_for(answers: dict[str, Any]):
    assert set(answers["tools"]) == {"diagnose", "fix", "capture", "graph", "shapes", "cost", "lower"}
    assert all(each.annotations.read_only_hint and "Use it" in each.description for each in answers["tools"].values())


def test_a_diagnosis_is_about_the_text_that_it_names(answers: dict[str, Any]):
    diagnosis = answers["diagnosis"]
    assert diagnosis["file"] == "net.py" and diagnosis["fresh"] is True and diagnosis["modified"]
    assert diagnosis["version"] == hashlib.sha256(BROKEN.encode()).hexdigest()[:12]
    found = {each["code"]: each for each in diagnosis["findings"]}
    assert set(found) == {"FX101", "FX120"} and "Replace the `if` with torch.where" in found["FX101"]["fixes"]
    assert found["FX101"]["range"] == {"start": {"line": 12, "character": 11}, "end": {"line": 12, "character": 22}}
    unsaved = answers["unsaved"]
    assert [each["code"] for each in unsaved["findings"]] == ["FX101"] and unsaved["unsaved"] is True
    assert unsaved["version"] == hashlib.sha256(FIXED.encode()).hexdigest()[:12] and "modified" not in unsaved
    assert "nowhere.py cannot be read: No such file" in answers["nowhere"]


def test_a_model_that_the_file_does_not_have_is_not_one_without_findings(answers: dict[str, Any]):
    """What is wrong with the whole file is so for each of its models."""
    for asked in ("misspelt", "misspelt, half-typed"):
        assert answers[asked].endswith("net.py has no model Gatt; its models: Gate"), answers[asked]
    assert [each["code"] for each in answers["half-typed"]["findings"]] == ["FX308"]
    assert {each["code"] for each in answers["raises"]["findings"]} == {"FX120", "FX101", "FX301"}


def test_fixes_are_a_proven_diff_or_the_edits_of_a_line(answers: dict[str, Any]):
    fixed = answers["all fixes"]
    assert '+torch.fx.wrap("_gate_x")\n' in fixed["diff"] and len(fixed["fixes"]) == 2
    (finding,) = answers["fixes of a line"]["findings"]
    (edits,) = [each["edits"] for each in finding["fixes"] if each["proven"]]
    (call,) = (each["newText"] for each in edits if each["range"]["start"] == {"line": 12, "character": 8})
    assert "_gate_x(x" in call and any("torch.fx.wrap" in each["newText"] for each in edits)


def test_three_captures(answers: dict[str, Any]):
    said = answers["captures"]
    assert (said["fx"]["outcome"], said["export"]["outcome"]) == ("fails", "fails")
    assert (said["compile"]["outcome"], said["compile"]["breaks"], said["compile"]["fullgraph"]) == ("parts", 1, False)
    (found,) = [each for each in said["findings"] if each["code"] == "FX101"]
    assert set(found["captures"]) >= {"fx", "export", "compile"}


def test_graph_shapes_cost_and_lowering(answers: dict[str, Any]):
    assert answers["graph"]["nodes"][1] == "conv = call_module conv(x) -> float32[1, 4, 6, 6] line 11"
    assert {"line": 11, "node": "flatten", "value": "float32[1, 144]"} in answers["shapes"]["values"]
    assert [each["node"] for each in answers["shapes of a line"]["values"]] == ["x"]
    cost, lowered = answers["cost"], answers["lowered"]
    assert cost["parameters"] == 112 and cost["nodes"][0]["name"] == "conv" and cost["nodes"][0]["line"] == 11
    assert lowered["engine"] == "onnxruntime" and lowered["in_engine"] == 3 and "in_pytorch" not in lowered


def test_a_long_answer_is_cut_counted_and_read_on(answers: dict[str, Any]):
    short, whole, graph = answers["long"], answers["whole"], answers["long graph"]
    shown = len(short["findings"])
    assert 2 <= shown < 10 and short["omitted"] == {"findings": 10 - shown}
    assert len(whole["findings"]) == 10 and "omitted" not in whole
    assert answers["read on"]["findings"][0] == whole["findings"][7]
    assert graph["omitted"]["nodes"] > 20 and len(graph["nodes"]) > 5
    assert "ask with max_bytes=" in answers["long diff"]["diff"]


def test_many_models_leave_room_for_their_findings(answers: dict[str, Any]):
    """What does not fit is left out on both sides, and what is read on has no models again."""
    said, then, least = answers["many models"], answers["many models, read on"], answers["too many models"]
    shown = len(said["findings"])
    assert shown >= 2 and len(said["models"]) >= 4 and said["omitted"]["findings"] == 12 - shown
    assert "models" not in then and len(then["findings"]) > shown and then["findings"][0] == said["findings"][1]
    assert "findings" not in least and least["omitted"]["findings"] == 12


def test_lines_are_those_of_the_file_that_was_asked_about(answers: dict[str, Any]):
    """A node of a part that another file defines stands at the call that leads there."""
    linear = next(each for each in answers["graph through a file"]["nodes"] if "call_module" in each)
    assert linear.endswith(" line 13")
    rows = answers["shapes through a file"]
    assert {each["line"] for each in rows["values"] if each["node"] != "x"} == {13}
    assert rows["inputs"] == ["x: float32[2, 4]", "scale: None"]
    costs = {each["name"]: each.get("line") for each in answers["cost through a file"]["nodes"]}
    assert costs["part_linear"] == costs["bucketize"] == 13
    assert [(each["node"], each["line"]) for each in answers["lowered through a file"]["in_pytorch"]][-1] == (
        "bucketize",
        13,
    )


def test_answers_about_a_notebook_are_in_its_cells(answers: dict[str, Any]):
    """The class `Net` begins at line 10 of the text of all cells, and at line 0 of the fourth."""
    diagnosis = answers["of a notebook"]
    assert [(each["model"], each["cell"], each["line"]) for each in diagnosis["models"]] == [
        ("Net", 4, 0),
        ("Last", 4, 6),
    ]
    found = {each["code"]: (each["cell"], each["range"]["start"]) for each in diagnosis["findings"]}
    assert found == {"FX120": (4, {"line": 8, "character": 12}), "FX308": (5, {"line": 1, "character": 11})}
    assert answers["captures in cells"]["shapes"]["reason"] == "dimension 0 of x fixed at line 9"
    assert answers["graph in cells"]["nodes"][1].endswith(" cell 4 line 2")
    rows = answers["shapes in cells"]["values"]
    assert {(each["cell"], each["line"]) for each in rows} == {(4, 1), (4, 2), (4, 3), (4, 4)}
    assert answers["shapes of a line in a cell"]["values"] == [each for each in rows if each["line"] == 3]
    assert {(each["cell"], each["line"]) for each in answers["cost in cells"]["nodes"]} == {(4, 2), (4, 3), (4, 4)}
    left = answers["lowered in cells"]["in_pytorch"]
    assert ("bucketize", 4, 3) in {(each["node"], each["cell"], each["line"]) for each in left}
    (finding,) = answers["fixes of a line in a cell"]["findings"]
    assert finding["fixes"][0]["proven"]
    assert {each["cell"] for each in finding["fixes"][0]["edits"]} == {2}, "where the imports are"
    assert [
        {"cell": 4, "range": {"start": {"line": 8, "character": 12}, "end": {"line": 8, "character": 18}},
         "newText": "x.shape[0]"}
    ] in [each["edits"] for each in finding["fixes"]]  # fmt: skip


def test_what_cannot_be_asked_of_a_notebook_is_refused(answers: dict[str, Any]):
    assert "models" not in answers["of a notebook that is not saved"]
    assert "study.ipynb is not a notebook: " in answers["of no notebook"]
    assert answers["fixes for a notebook"].endswith("for which there is no diff: ask for a `line` of a `cell`")
    assert answers["a line of no cell"].endswith("give both a `cell` (from 1) and a `line` of it (from 0)")
    assert answers["a cell of prose"].endswith("no line 0 in a code cell 1; its code cells: 2, 3, 4, 5")
    assert answers["a cell of a file"].endswith("is not a notebook: it has no cells, so leave out `cell`")


def test_what_is_not_trusted_is_only_read(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path
    (folder / "marks.py").write_text(MARKS, encoding="utf-8")
    outside = tmp_path_factory.mktemp("outside") / "marks.py"
    outside.write_text(MARKS, encoding="utf-8")
    marks = {"file": "marks.py"}
    others = ("fix", "capture", "graph", "shapes", "cost", "lower")
    diagnosis, *refused = ask(folder, ("diagnose", marks), *((name, marks) for name in others), trust=False)
    assert "FX101" in {each["code"] for each in diagnosis["findings"]} and "models" not in diagnosis
    assert all("is not trusted" in each for each in (*refused, *diagnosis["notes"]))
    assert not (folder / "marks.ran").exists()
    notebook(folder / "study.ipynb", [("markdown", "# Prose"), ("code", MARKS)])
    (diagnosis,) = ask(folder, ("diagnose", STUDY), trust=False)
    found = next(each for each in diagnosis["findings"] if each["code"] == "FX101")
    assert (found["cell"], found["range"]["start"]["line"]) == (2, 15) and not (folder / "marks.ran").exists()
    half = {"file": "net.py", "text": f"\ufeff# %%\n%time f()\n{BROKEN}def broken(:\n"}
    named = ({**half, "model": "Gate"}, {**half, "model": "Gatt"})
    whole, own, misspelt = ask(folder, *(("diagnose", each) for each in (half, *named)), trust=False)
    for diagnosis in (whole, own):
        assert {"FX308", "FX101"} <= {each["code"] for each in diagnosis["findings"]}
        assert all(each["range"]["start"]["line"] > 1 for each in diagnosis["findings"])
    assert misspelt.endswith("net.py has no model Gatt; its models: Gate")
    diagnosis, refused = ask(folder, ("diagnose", {"file": str(outside)}), ("graph", {"file": str(outside)}))
    assert diagnosis["findings"] and "the only folder that is trusted" in refused
    assert "the only folder that is trusted" in diagnosis["notes"][0]
    assert not outside.with_suffix(".ran").exists()


def test_no_answer_is_stale():
    """Fewer rounds of what ``benchmarks/agents.py`` does a thousand of."""
    command = [sys.executable, str(ROOT / "benchmarks" / "agents.py"), "--rounds", "8", "--seed", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.stdout.startswith("8 rounds of edit and ask: 0 stale answers\n"), done


def test_without_the_sdk_the_command_says_what_to_install(tmp_path: Path):
    (tmp_path / "mcp.py").write_text("raise ImportError('no SDK here')\n")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "fxlens", "mcp"]
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, env=environment)
    assert done.returncode == 2 and "pip install 'fxlens[mcp]'" in done.stderr


def messages(file: str) -> bytes:
    """The first lines of a client, which asks for a diagnosis of this file."""
    hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    asked = {"name": "diagnose", "arguments": {"file": file}}
    said = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked},
    ]
    return b"".join(json.dumps(each).encode() + b"\n" for each in said)


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_it_ends_when_it_is_interrupted_while_a_model_runs(tmp_path):
    (tmp_path / "net.py").write_text(f"open('runs', 'w')\nwhile True:\n    pass\n\n{SMALL}")
    command = [sys.executable, "-m", "fxlens", "mcp", "--trust"]
    heard = functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, preexec_fn=heard, start_new_session=True, **pipes) as process:
        try:
            process.stdin.write(messages("net.py"))
            process.stdin.flush()
            until = time.monotonic() + 60
            while not (tmp_path / "runs").exists() and time.monotonic() < until:
                time.sleep(0.05)
            started = descendants(process.pid)
            assert started and (tmp_path / "runs").exists()
            os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it
            assert process.wait(5) == 130 and process.stderr.read() == b""
            assert gone(started, 5) == []
        finally:
            process.kill()


def test_half_a_surrogate_in_a_question_has_an_answer(tmp_path):
    """The SDK drops messages that it cannot decode; a file name may contain a lone surrogate."""
    (tmp_path / "net.py").write_text(SMALL)
    with subprocess.Popen(warm_fxlens("mcp"), cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(messages("\ud800\U0001d11e.py"))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdin.close()
    assert answers[1]["id"] == 2 and "?𝄞.py cannot be read" in answers[1]["result"]["content"][0]["text"]


def test_where_its_input_is_closed_it_says_so(tmp_path):
    for name in ("mcp", "serve"):
        command = f"exec {sys.executable} -m fxlens {name} <&-"
        done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2 and done.stderr.endswith("which is closed\n"), done.stderr
