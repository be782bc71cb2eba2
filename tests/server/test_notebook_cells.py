"""Notebooks in an editor: the cells of one, over LSP's notebook synchronisation, with the real server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fxlens.features.cells import Cells, Joined
from fxlens.features.large import encoded
from fxlens.sources.notebook import Notebook
from lsp_client import CAPABILITIES, Client
from test_notebooks import notebook

EDITOR = {
    **CAPABILITIES,
    "workspace": {"configuration": True, "workspaceEdit": {"documentChanges": True}},
    "notebookDocument": {"synchronization": {"dynamicRegistration": True}},
    "experimental": {"commands": ["fxlens.showGraph"]},
}
CELLS = [
    ("markdown", "# A study\nclass Net: prose"),
    ("python", "%matplotlib inline\nimport torch\nfrom torch import nn\n!rm -rf x\nopen('ran.txt', 'w').write('ran')"),
    (
        "python",
        "class Base(nn.Module):\n    def __init__(self, width=4):\n        super().__init__()\n"
        "        self.linear = nn.Linear(width, width)",
    ),
    (
        "python",
        "%%time\nclass Net(Base):\n    def forward(self, x):\n"
        '        label = "🙂"; n = x.sum() > 0\n'
        "        if n:\n            x = x + 1\n        return self.linear(x)",
    ),
    ("python", "Net(8)(torch.randn(3, 8))"),
]
NET = 3  # the cell of Net


class Book:
    """A notebook that is open in the client, as VS Code sends it."""

    def __init__(self, client: Client, path: Path, cells: list[tuple[str, str]], scheme: str = "file") -> None:
        self.client = client
        self.uri = path.as_uri() if scheme == "file" else f"{scheme}:{path.name}"
        self.version = 1
        self._made = 0
        self.cells: list[dict[str, Any]] = []
        self.versions: dict[str, int] = {}
        made = [self._cell(*each) for each in cells]
        self.cells = [cell for cell, _ in made]
        client.notify(
            "notebookDocument/didOpen",
            {
                "notebookDocument": {
                    "uri": self.uri, "notebookType": "jupyter-notebook", "version": 1, "cells": self.cells,
                },
                "cellTextDocuments": [item for _, item in made],
            },
        )  # fmt: skip

    def _cell(self, language: str, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
        uri = f"vscode-notebook-cell:{self.uri.partition(':')[2]}#W{self._made}"
        self._made += 1
        self.versions[uri] = 1
        cell = {"kind": 1 if language == "markdown" else 2, "document": uri}
        return cell, {"uri": uri, "languageId": language, "version": 1, "text": text}

    def at(self, number: int) -> str:
        """The address of a cell."""
        return self.cells[number]["document"]

    def _change(self, cells: dict[str, Any]) -> None:
        self.version += 1
        identifier = {"uri": self.uri, "version": self.version}
        parameters = {"notebookDocument": identifier, "change": {"cells": cells}}
        self.client.notify("notebookDocument/didChange", parameters)

    def type(self, number: int, text: str) -> None:
        """Another text of a cell."""
        uri = self.at(number)
        self.versions[uri] += 1
        document = {"uri": uri, "version": self.versions[uri]}
        self._change({"textContent": [{"document": document, "changes": [{"text": text}]}]})

    def insert(self, number: int, language: str, text: str) -> None:
        cell, item = self._cell(language, text)
        self.cells.insert(number, cell)
        self._change({"structure": {"array": {"start": number, "deleteCount": 0, "cells": [cell]}, "didOpen": [item]}})

    def delete(self, number: int) -> str:
        uri = self.cells.pop(number)["document"]
        structure = {"array": {"start": number, "deleteCount": 1}, "didClose": [{"uri": uri}]}
        self._change({"structure": structure})
        return uri

    def swap(self, number: int) -> None:
        """A cell and the next change places, without being closed."""
        self.cells[number : number + 2] = self.cells[number : number + 2][::-1]
        array = {"start": number, "deleteCount": 2, "cells": self.cells[number : number + 2]}
        self._change({"structure": {"array": array, "didOpen": [], "didClose": []}})

    def close(self) -> None:
        cells = [{"uri": cell["document"]} for cell in self.cells]
        parameters = {"notebookDocument": {"uri": self.uri}, "cellTextDocuments": cells}
        self.client.notify("notebookDocument/didClose", parameters)

    def problems(self, number: int) -> list[dict[str, Any]]:
        """The next that are all there is to say of a cell's text."""
        return self.client.diagnostics(self.at(number), self.versions[self.at(number)])

    def ask(self, method: str, number: int, **parameters: Any) -> Any:
        return self.client.request(f"textDocument/{method}", {"textDocument": {"uri": self.at(number)}, **parameters})


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Client(tmp_path_factory.mktemp("cells"), capabilities=EDITOR, settings={"deadline": 30}) as client:
        yield client


@contextmanager
def opened(client: Client, name: str, cells: list[tuple[str, str]] = CELLS, scheme: str = "file") -> Iterator[Book]:
    book = Book(client, client.root / name, cells, scheme)
    try:
        yield book
    finally:
        book.close()


def codes(diagnostics: list[dict[str, Any]]) -> set[str]:
    return {each["code"] for each in diagnostics if "code" in each}


def line(number: int, character: int = 0) -> dict[str, int]:
    return {"line": number, "character": character}


def applied(text: str, edits: list[dict[str, Any]]) -> str:
    """A cell's text with edits of it, which an editor refuses where they are not in it."""
    lines = text.split("\n")
    for edit in sorted(edits, key=lambda each: -each["range"]["start"]["line"]):
        start, end = edit["range"]["start"], edit["range"]["end"]
        assert end["line"] < len(lines), edit
        tail = lines[end["line"]][end["character"] :]
        made = f"{lines[start['line']][: start['character']]}{edit['newText']}{tail}"
        lines[start["line"] : end["line"] + 1] = made.split("\n")
    return "\n".join(lines)


def test_what_is_found_stands_in_its_cell_and_no_other_cell_is_run(client: Client):
    with opened(client, "study.ipynb") as book:
        (found,) = [each for each in book.problems(NET) if each["code"] == "FX101"]
        assert found["range"] == {"start": line(4, 11), "end": line(4, 12)}
        assert found["relatedInformation"][0]["location"]["uri"] == book.at(NET)
        assert book.problems(1) == book.problems(2) == book.problems(4) == []
        published = [each for each in client.received if each.get("method") == "textDocument/publishDiagnostics"]
        assert not {book.at(0), book.uri} & {each["params"]["uri"] for each in published}

        actions = client.actions(book.at(NET), found)
        fix = next(each for each in actions if each["title"].startswith("Replace the `if` with torch.where"))
        (change,) = fix["edit"]["documentChanges"]
        assert change["textDocument"] == {"uri": book.at(NET), "version": 1}
        assert "        x = torch.where(n != 0, x + 1, x)\n" in applied(CELLS[NET][1], change["edits"])

        (where,) = book.ask("hover", NET, position=line(6, 20))["contents"]["value"].splitlines()[:1]
        assert where.startswith("**`linear`**")
        assert "f32[3, 8] → f32[3, 8]" in book.ask("hover", NET, position=line(6, 20))["contents"]["value"]
        assert book.ask("hover", 4, position=line(0, 1)) is None

        hints = book.ask("inlayHint", NET, range={"start": line(0), "end": line(7)})
        assert ("f32[3, 8]", 6) in {(each["label"], each["position"]["line"]) for each in hints}
        assert book.ask("inlayHint", 2, range={"start": line(0), "end": line(4)}) == []

        lenses = book.ask("codeLens", NET)
        assert {each["range"]["start"]["line"] for each in lenses} == {1}
        titles = [each["command"]["title"] for each in lenses]
        assert "1 problem" in titles and "Net(8) · line 1 of cell 5" in titles
        assert book.ask("codeLens", 2) == []
        graph = next(each["command"] for each in lenses if each["command"]["title"] == "Graph")
        assert graph["arguments"] == [book.uri, "Net"]
        places = client.request("fxlens/graph", {"uri": book.uri, "target": "Net"})["places"]
        assert places["linear"] == [{"uri": book.at(NET), "range": {"start": line(6, 15), "end": line(6, 29)}}]

        # Lines of the joined text are nobody's.
        listing = client.request("fxlens/code", {"uri": book.uri, "target": "Net", "view": "graph"})["text"]
        assert "# linear: Linear\n" in listing and ".ipynb" not in listing

        # The views of a trace lead back into the cell, as does the cell into them.
        (view,) = book.ask("implementation", NET, position=line(6, 20))[:1]
        (source,) = client.request(
            "textDocument/definition", {"textDocument": {"uri": view["uri"]}, "position": view["range"]["start"]}
        )
        assert source["uri"] == book.at(NET)
        client.notify("fxlens/cursor", {"uri": book.at(NET), "line": 6})
        assert client.request("fxlens/record", {"uri": book.uri})["cursor"] == "Net"
        client.notify("fxlens/cursor", {"uri": book.at(4), "line": 0})
        assert client.request("fxlens/record", {"uri": book.uri})["cursor"] is None
    assert not (client.root / "ran.txt").exists()


def test_the_table_of_models_has_the_cells_of_a_notebook_that_is_open(client: Client):
    path = client.root / "table.ipynb"
    notebook(path, [(kind if kind == "markdown" else "code", text) for kind, text in CELLS])
    with opened(client, path.name):
        rows = client.request("fxlens/models", {})["rows"]
    path.unlink()
    (net,) = [each for each in rows if each["name"] == "Net"]
    assert (net["uri"], net["cell"], net["line"]) == (path.as_uri(), NET + 1, 1)
    assert [(each["cell"], each["line"]) for each in net["problems"]] == [(NET + 1, 4)]


def test_an_edit_a_move_and_a_deletion_of_cells(client: Client):
    with opened(client, "moved.ipynb") as book:
        assert codes(book.problems(NET)) == {"FX101"}
        book.type(NET, CELLS[NET][1].replace("        if n:\n            x = x + 1\n", ""))
        assert book.problems(NET) == []
        book.type(NET, CELLS[NET][1])
        assert codes(book.problems(NET)) == {"FX101"}
        # A cell above moves all of them in the joined text, and none in the cells.
        book.insert(1, "python", "import math\n\n\nWIDE = 2")
        moved = NET + 1
        assert client.request("fxlens/record", {"uri": book.uri})["version"] == 4
        hints = book.ask("inlayHint", moved, range={"start": line(0), "end": line(7)})
        assert ("f32[3, 8]", 6) in {(each["label"], each["position"]["line"]) for each in hints}
        # Base after Net: its name is not there when Net is defined, and the others go on.
        book.swap(moved - 1)
        problem = next(each for each in client.diagnostics(book.at(moved - 1)) if each["code"] == "FX301")
        assert problem["range"]["start"]["line"] == 1 and "in cell order" in problem["message"]
        book.swap(moved - 1)
        (problem,) = client.diagnostics(book.at(moved))
        assert problem["code"] == "FX101" and problem["range"]["start"] == line(4, 11)
        client._forget()
        gone = book.delete(moved)
        message = client.wait(
            lambda each: each.get("method") == "textDocument/publishDiagnostics" and each["params"]["uri"] == gone
        )
        assert message["params"]["diagnostics"] == []
        assert client.request("fxlens/record", {"uri": book.uri})["record"]["targets"] == []


def test_prose_is_nothing_and_a_cell_that_does_not_parse_leaves_the_others_alone(client: Client):
    broken = [*CELLS[:4], ("python", "def broken():\nx = 1")]
    with opened(client, "broken.ipynb", broken) as book:
        assert codes(book.problems(NET)) == {"FX101"}
        (problem,) = book.problems(4)
        assert problem["code"] == "FX308" and problem["range"]["start"] == line(1)
        assert problem["message"].endswith("after function definition on line 1")
        before = client.request("fxlens/record", {"uri": book.uri})["version"]
        book.type(0, "Other prose")
        assert client.request("fxlens/record", {"uri": book.uri})["version"] == before
        # Prose above gives the cells other numbers, and nothing is traced for it.
        client._forget()
        book.insert(0, "markdown", "Above")
        client.wait(lambda each: each.get("method") == "fxlens/recordChanged" and each["params"]["uri"] == book.uri)
        assert client.request("fxlens/record", {"uri": book.uri})["version"] == before
        book.delete(0)
        # Half-typed text keeps what was known of the lines that are as they were.
        book.type(NET, CELLS[NET][1] + "\n        return (")
        found = book.problems(NET)
        assert codes(found) == {"FX308", "FX101"}
        assert {each["range"]["start"]["line"] for each in found} == {4, 7}
        assert book.ask("codeLens", NET) != []
        book.type(NET, CELLS[NET][1])
        book.type(4, "Net(8)(torch.randn(3, 8))")
        assert book.problems(4) == []


def test_fixes_reach_the_cell_of_the_import_and_comments_stand_above_the_class(client: Client):
    cells = [
        ("python", "from torch import nn\nimport torch"),
        ("python", "# fxlens: Net() <- torch.randn(2, 4)\nclass Net(nn.Module):\n    def forward(self, x):\n"
                   "        return x * math.sqrt(2)"),
    ]  # fmt: skip
    with opened(client, "imports.ipynb", cells) as book:
        found = next(each for each in book.problems(1) if each["code"] == "FX199")
        fix = next(each for each in client.actions(book.at(1), found) if "import math" in each["title"])
        (change,) = fix["edit"]["documentChanges"]
        assert change["textDocument"]["uri"] == book.at(0)
        assert "import math" in applied(cells[0][1], change["edits"]).split("\n")
        # The comment of a class that has one is replaced in its cell.
        number = client.start(
            "workspace/executeCommand",
            {"command": "fxlens.writeInputs", "arguments": [book.uri, "Net", "Net() <- torch.randn(1, 4)"]},
        )
        asked = client.wait(lambda each: each.get("method") == "workspace/applyEdit")
        (change,) = asked["params"]["edit"]["documentChanges"]
        assert applied(cells[1][1], change["edits"]).startswith("# fxlens: Net() <- torch.randn(1, 4)\nclass Net")
        client._send({"jsonrpc": "2.0", "id": asked["id"], "result": {"applied": False}})
        client.wait(lambda each: each.get("id") == number and "method" not in each)
        # A function is inserted at the end of the class's cell.
        function = {"uri": book.uri, "target": "Net", "text": "def fused():\n    pass\n"}
        assert client.request("fxlens/insertPass", function) == {"uri": book.at(1), "line": 3}
        asked = client.wait(lambda each: each.get("method") == "workspace/applyEdit")
        (change,) = asked["params"]["edit"]["documentChanges"]
        assert applied(cells[1][1], change["edits"]) == f"{cells[1][1]}\n\n\ndef fused():\n    pass"


@pytest.mark.parametrize("ends", [["\r\n", "\r\n"], ["\n", "\r\n"]])
def test_a_fix_has_the_line_ends_of_its_cell(client: Client, ends: list[str]):
    texts = [
        "import torch\nfrom torch import nn\n",
        "# fxlens: Net() <- torch.randn(2, 4)\nclass Net(nn.Module):\n    def forward(self, x):\n        n = len(x)\n"
        "        if x.sum() > 0:\n            x = x + n\n        return x * math.sqrt(2)\n",
    ]
    texts = [text.replace("\n", end) for text, end in zip(texts, ends, strict=True)]
    with opened(client, "ends.ipynb", [("python", text) for text in texts]) as book:
        changed = set()
        for found in book.problems(1):
            for action in client.actions(book.at(1), found):
                for change in action.get("edit", {}).get("documentChanges", ()):
                    number = [book.at(0), book.at(1)].index(change["textDocument"]["uri"])
                    for each in change["edits"]:
                        assert "\n" not in each["newText"].replace(ends[number], ""), each
                        changed |= {number} if "\n" in each["newText"] else set()
        assert changed == {0, 1}


MADE = "class {name}(nn.Module):\n    def forward(self, x):\n        {line}\n        return x\n{name}()(randn(3, 8))"


def test_fix_all_is_of_one_cell_or_of_the_notebook(client: Client):
    """As VS Code asks on saving: all cells at once, of which it drops an answer that changes another, or the first cell
    for the notebook."""
    item, without = "x = x.view(*x.shape[:1], -1)", "x = x.view(x.shape[:1] + (-1,))"
    cells = [
        ("python", "from torch import nn, randn"),
        ("python", MADE.format(name="Net", line=item)),
        ("python", MADE.format(name="Signed", line="x = x + 1 if x.sum() > 0 else x")),
        ("python", MADE.format(name="Other", line=item)),
    ]
    with opened(client, "saved.ipynb", cells) as book:
        assert codes(book.problems(1)) == {"FX112"}

        def start(number: int, kind: str) -> int:
            context = {"diagnostics": [], "only": [kind], "triggerKind": 1}
            asked = {"textDocument": {"uri": book.at(number)}, "range": {"start": line(0), "end": line(4)}}
            return client.start("textDocument/codeAction", {**asked, "context": context})

        def answer(number: int) -> list[dict[str, Any]]:
            return client.wait(lambda each: each.get("id") == number and "method" not in each)["result"]

        def texts(action: dict[str, Any]) -> dict[int, str]:
            found = {each["document"]: number for number, each in enumerate(book.cells)}
            changes = action["edit"]["documentChanges"]
            assert all(each["textDocument"]["version"] == 1 for each in changes)
            numbers = [found[each["textDocument"]["uri"]] for each in changes]
            return {at: applied(cells[at][1], each["edits"]) for at, each in zip(numbers, changes, strict=True)}

        fixed = {at: cells[at][1].replace(item, without) for at in (1, 3)}
        each = [answer(number) for number in [start(at, "source.fixAll") for at in range(4)]]
        assert [[action["kind"] for action in actions] for actions in each] == [
            [], ["source.fixAll.fxlens"], [], ["source.fixAll.fxlens"],
        ]  # fmt: skip
        assert [texts(each[at][0]) for at in (1, 3)] == [{1: fixed[1]}, {3: fixed[3]}]
        (action,) = answer(start(0, "notebook.source.fixAll"))
        assert (action["kind"], action["title"]) == ("notebook.source.fixAll.fxlens", "Apply all checked fixes: 3")
        found = texts(action)
        assert 'torch.fx.wrap("_signed_x")' in found.pop(2)
        assert found == {0: f"import torch.fx\n{cells[0][1]}", **fixed}


@pytest.mark.parametrize("scheme", ["untitled", "vscode-interactive"])
def test_one_that_is_not_saved(client: Client, scheme: str):
    with opened(client, f"Untitled-{scheme}.ipynb", scheme=scheme) as book:
        assert codes(book.problems(NET)) == {"FX101"}


def test_nothing_is_run_before_trust(tmp_path: Path):
    cells = [*CELLS[:4], ("python", "import helper")]
    (tmp_path / "helper.py").write_text("open('trusted.txt', 'w')")
    with Client(tmp_path, capabilities=EDITOR, trusted=False) as client:
        book = Book(client, tmp_path / "study.ipynb", cells)
        (found,) = [each for each in book.problems(NET) if each["code"] == "FX101"]
        assert found["range"]["start"] == line(4, 11)
        assert client.request("fxlens/graph", {"uri": book.uri})["reason"].startswith("The workspace is not trusted")
        assert not (tmp_path / "trusted.txt").exists()


def test_a_client_without_notebooks_is_told_of_none(tmp_path: Path):
    plain = Client(tmp_path)
    try:
        assert "notebookDocumentSync" not in plain.initialize()["capabilities"]
    finally:
        plain.stop()


ENDS = ["a = 1\nb = '🙂'", "%%time\nc = 3\n%pwd", "%%bash\nls"]


def put(edits: list[dict[str, Any]]) -> list[str]:
    """The cells after edits of their notebook."""
    cells = Cells(lambda uri: 7, lambda: "utf-16")
    made = Notebook.joined(enumerate(ENDS, 1))
    cells.put(Joined("n", made, ["0", "1", "2"]))
    change = {"textDocument": {"uri": "n", "version": 3}, "edits": edits}
    (message,) = cells.outgoing({"id": 1, "result": [{"title": "T", "edit": {"documentChanges": [change]}}]}, dict)
    texts = list(ENDS)
    for action in message["result"]:
        for each in action["edit"]["documentChanges"]:
            assert each["textDocument"]["version"] == 7
            number = int(each["textDocument"]["uri"])
            texts[number] = applied(texts[number], each["edits"])
    return texts


def edit(first: int, start: int, last: int, end: int, text: str) -> dict[str, Any]:
    return {"range": {"start": line(first, start), "end": line(last, end)}, "newText": text}


def test_edits_at_the_ends_of_cells():
    # The joined text: a, b, pass, %%time, c, %pwd, pass, %%bash, ls, pass.
    assert put([edit(2, 0, 2, 0, "new = 1\n")])[0] == "a = 1\nb = '🙂'\nnew = 1"
    assert put([edit(1, 0, 2, 0, "d = 4\n")])[0] == "a = 1\nd = 4"
    assert put([edit(1, 0, 2, 0, "")])[0] == "a = 1"
    assert put([edit(1, 4, 1, 8, "2")])[0] == "a = 1\nb = 2"
    assert put([edit(0, 0, 0, 0, "new = 1\n"), edit(4, 0, 4, 0, "new = 2\n")])[:2] == [
        "new = 1\na = 1\nb = '🙂'",
        "%%time\nnew = 2\nc = 3\n%pwd",
    ]
    # What says how a cell is run stays its first line.
    assert put([edit(3, 0, 3, 0, "new = 1\n")])[1] == "%%time\nnew = 1\nc = 3\n%pwd"


@pytest.mark.parametrize("wrong", [edit(1, 0, 4, 0, ""), edit(4, 0, 6, 0, "c = 4\n"), edit(7, 0, 7, 0, "new = 1\n")])
def test_edits_that_no_cell_can_have_are_not_offered(wrong: dict[str, Any]):
    assert put([wrong]) == ENDS


def test_an_edit_that_no_cell_can_have_is_said_and_not_sent():
    cells = Cells(lambda uri: 7, lambda: "utf-16")
    cells.put(Joined("n", Notebook.joined(enumerate(ENDS, 1)), ["0", "1", "2"]))
    request = {"id": 1, "method": "workspace/applyEdit", "params": {"edit": {"changes": {"n": [edit(1, 0, 4, 0, "")]}}}}
    (message,) = cells.outgoing(request, dict)
    assert message["method"] == "window/showMessage" and "several cells" in message["params"]["message"]


def test_lines_in_sentences_are_those_of_cells():
    cells = Cells(lambda uri: 7, lambda: "utf-16")
    cells.put(Joined("n", Notebook.joined(enumerate(ENDS, 1)), ["0", "1", "2"]))
    cells.incoming({"id": 1, "method": "textDocument/hover", "params": {"textDocument": {"uri": "1"}}})
    said = "Net(8) · line 5; line 2; line 5 of net.py; (net.py, line 5) fails, at new line 9"
    (message,) = cells.outgoing({"id": 1, "result": {"contents": {"value": said}}}, dict)
    expected = "Net(8) · line 2; line 2 of cell 1; line 5 of net.py; (net.py, line 5) fails"
    assert message["result"]["contents"]["value"] == expected


def test_an_edit_of_a_forward_does_not_execute_the_cells_again(client: Client):
    noted = client.root / "noted.txt"
    cells = [
        ("python", f"import torch\nfrom torch import nn\ndef noted(kind):\n    open({str(noted)!r}, 'a').write('x')\n"
                   "    return kind\nprint(torch.zeros(1))"),
        ("python", "# fxlens: Net() <- torch.randn(2)\n@noted\nclass Net(nn.Module):\n    def forward(self, x):\n"
                   "        return x + 1"),
    ]  # fmt: skip
    with opened(client, "kept.ipynb", cells) as book:
        until = time.monotonic() + 60
        before, number = 0, 0
        while before != (before := noted.stat().st_size if noted.exists() else 0) or not number:
            assert time.monotonic() < until, f"executed {before} times by {number} edits"
            time.sleep(0.5)  # a file is kept once nothing happens
            number += 1
            book.type(1, cells[1][1].replace("x + 1", f"x + 1{number}"))
            assert client.request("fxlens/record", {"uri": book.uri})["version"] == number + 1


def of_three() -> Cells:
    cells = Cells(lambda uri: 7, lambda: "utf-16")
    cells.put(Joined("n", Notebook.joined(enumerate(ENDS, 1)), ["0", "1", "2"]))
    return cells


def test_what_was_asked_about_lines_that_have_moved_is_not_answered():
    hints = {"jsonrpc": "2.0", "id": 1, "result": [{"label": "f32[2]", "position": line(4)}]}
    for first, error in (("a = 2\nb = 3", None), ("a = 1", -32801)):
        cells = of_three()
        cells.incoming({"id": 1, "method": "textDocument/inlayHint", "params": {"textDocument": {"uri": "1"}}})
        cells.put(Joined("n", Notebook.joined(enumerate([first, *ENDS[1:]], 1)), ["0", "1", "2"]))
        (answer,) = cells.outgoing(hints, dict)
        if error is None:
            assert answer["result"] == [{"label": "f32[2]", "position": line(1)}]
        else:
            assert answer["error"]["code"] == error and "result" not in answer


def test_only_large_answers_about_a_notebook_are_read_again():
    cells = Cells(lambda uri: 7, lambda: "utf-16")
    cells.put(Joined("file:///ü.ipynb", Notebook.joined(enumerate(ENDS, 1)), ["0", "1", "2"]))
    cells.incoming({"id": 1, "method": "textDocument/hover", "params": {"textDocument": {"uri": "1"}}})
    place = {"uri": "file:///ü.ipynb", "range": {"start": line(4), "end": line(4)}}
    assert cells.speak_in(1, b"{}") and cells.speak_in(2, asyncio.run(encoded(lambda: {"places": [place]})))
    assert not cells.speak_in(2, asyncio.run(encoded(lambda: {"places": [{**place, "uri": "file:///net.py"}]})))


def test_places_of_other_files_stay_as_they_are():
    def related(uri: str) -> dict[str, Any]:
        return {"location": {"uri": uri, "range": {"start": line(1), "end": line(1, 2)}}, "message": "m"}

    known = [{"relatedInformation": [related("1"), related("0"), related("file:///net.py")]}]
    parameters = {"textDocument": {"uri": "1"}, "context": {"diagnostics": known}}
    said = of_three().incoming({"id": 1, "method": "textDocument/codeAction", "params": parameters})
    (found,) = said["params"]["context"]["diagnostics"]
    places = [each["location"] for each in found["relatedInformation"]]
    assert [(each["uri"], each["range"]["start"]["line"]) for each in places] == [
        ("n", 4), ("n", 1), ("file:///net.py", 1),
    ]  # fmt: skip
