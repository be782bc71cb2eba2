"""``fxlens check --format html``: the page that the real command writes, read without a browser.  The drive
``models.test.mjs`` uses one in a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fxlens.sources import positions
from warm_python import warm_fxlens

WARM = "captures"
HURT = "</script><script>window.hurt=1</script><img src=x onerror='window.hurt=1'><!--"
MODELS = f"""import torch
from torch import nn


# fxlens: Gate(4) <- torch.randn(2, 4)
class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor):
        label = "naïve 🙂"; n = len(x)
        return self.linear(x) * n


# fxlens: Outer() <- torch.randn(2, 4)
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate(4)

    def forward(self, x):
        return self.gate(x)


# fxlens: Clean({HURT!r}) <- torch.randn(2, 4)
class Clean(nn.Module):
    def __init__(self, label):
        super().__init__()
        self.linear = nn.Linear(4, 8)

    def forward(self, x):
        return torch.relu(self.linear(x))


# fxlens: Hostile() <- torch.randn(2, 4)
class Hostile(nn.Module):
    def __init__(self):
        super().__init__()
        raise ValueError({HURT!r})

    def forward(self, x):
        return x
"""


class Page(HTMLParser):
    """The elements of a page that hold text, and the addresses in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {}
        self.addresses: list[str] = []
        self.tags: set[str] = set()
        self.policy = ""
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.addresses += [given[name] or "" for name in ("src", "href", "action") if name in given]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        self._open = given.get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open, []).append(data)


def written(folder: Path, *arguments: str, **environment: str) -> Page:
    command = warm_fxlens("check", ".", "--format", "html", "--output", "page.html", *arguments)
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / ".cache"), **environment}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=250)
    assert done.returncode == 1 and not done.stdout, done.stderr
    return Page((folder / "page.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "models.py").write_text(MODELS, encoding="utf-8")
    (folder / "half<b>.py").write_text("class Net(:\n")
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return written(folder, "--captures", "fx,export")


@pytest.fixture(scope="module")
def report(page: Page) -> dict:
    return json.loads("".join(page.texts["report"]))


@pytest.fixture(scope="module")
def rows(report: dict) -> dict[str, dict]:
    return {row["name"]: row for row in report["rows"]}


def test_the_page_needs_nothing_else_and_allows_nothing_else(page: Page):
    assert page.addresses == []
    assert page.policy.startswith("default-src 'none'; ")
    for kind in ("script", "style"):
        (text,) = page.texts[kind]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in page.policy
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text


def test_each_class_has_a_row_with_its_construction_verdicts_and_costs(rows: dict[str, dict]):
    assert list(rows) == ["", "Gate", "Outer", "Clean", "Hostile"]
    clean = rows["Clean"]
    assert clean["place"] == "models.py:27" and clean["line"] == 26
    assert clean["construct"] == [f"Clean({HURT!r})", "comment"] and clean["inputs"] == ["torch.randn(2, 4)", "comment"]
    assert clean["role"].startswith("Meant to be captured")
    assert (clean["nodes"], clean["parameters"], clean["flops"]) == (4, 40, 128)
    assert [(each["capture"], each["tone"]) for each in clean["verdicts"]] == [
        ("torch.fx", "good"), ("torch.export", "good"), ("sizes", "good"),
    ]  # fmt: skip
    first = rows["Gate"]["verdicts"][0]
    assert (first["capture"], first["text"], first["tone"]) == ("torch.fx", "✗ 1", "bad")


def test_a_problem_has_its_place_and_the_proven_fix_as_a_diff(rows: dict[str, dict]):
    (problem,) = (each for each in rows["Gate"]["problems"] if each["code"] == "FX120")
    line = MODELS.splitlines()[11]
    start = len(line[: line.index("len(x)")].encode("utf-16-le")) // 2
    assert (problem["place"], problem["line"], problem["character"]) == ("models.py:12", 11, start)
    assert problem["severity"] == "error" and "torch.fx" in problem["captures"]
    (fix,) = problem["fixes"]
    assert (
        f"-{line}" in fix["diff"].splitlines()
        and f"+{line.replace('len(x)', 'x.shape[0]')}" in fix["diff"].splitlines()
    )


def test_a_problem_of_a_line_that_two_classes_run_through_is_in_both_rows(rows: dict[str, dict]):
    assert "FX120" in {each["code"] for each in rows["Outer"]["problems"]}


def test_what_is_of_no_class_has_a_row_of_its_own(rows: dict[str, dict]):
    assert rows[""]["place"] == "half<b>.py" and [each["code"] for each in rows[""]["problems"]] == ["FX308"]
    assert rows[""]["verdicts"] == []


def test_what_user_code_says_stays_text(page: Page, rows: dict[str, dict]):
    assert HURT in rows["Hostile"]["problems"][0]["message"]
    assert "<" not in "".join(page.texts["report"]), "nothing can end the element"
    assert page.tags == {"html", "head", "meta", "title", "style", "body", "noscript", "script", "h1", "main"}


def test_graphs_are_drawn(rows: dict[str, dict]):
    graph = zlib.decompress(base64.b64decode(rows["Clean"]["graph"])).decode()
    assert graph.startswith("<svg") and "Linear" in graph and "<!--" not in graph and "<title" not in graph
    assert rows["Hostile"]["graph"] == "" and rows["Gate"]["graph"]


def test_without_graphviz_the_page_says_so(folder: Path):
    found = json.loads("".join(written(folder, "--captures", "fx,export", PATH=str(folder)).texts["report"]))
    assert found["notes"] == [
        "The graphs are not drawn, because Graphviz's dot was not found where this page was made."
    ]
    assert {row["graph"] for row in found["rows"]} == {""} and len(found["rows"]) == 5


def test_edits_of_a_text_are_made_by_bytes_and_from_the_end():
    def edit(line: int, column: int, end_line: int, end_column: int, text: str) -> positions.Edit:
        return {
            "file": "",
            "line": line,
            "column": column,
            "end_line": end_line,
            "end_column": end_column,
            "text": text,
        }

    text = "é = 1\r\nb = 2\nlast"
    edits = [edit(1, 0, 1, 2, "a"), edit(2, 4, 3, 0, "3\n"), edit(3, 4, 3, 4, " line"), edit(9, 0, 9, 0, "\n")]
    assert positions.edited(text, edits) == "a = 1\r\nb = 3\nlast line\n"
