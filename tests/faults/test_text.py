"""Unusual texts: half-typed, odd characters, large, other encodings."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hostile import DEEP
from lsp_client import CAPABILITIES, MODEL, Client, edited
from processes import clock

pytestmark = pytest.mark.usefixtures("warm")

LAYER = """
class Layer{n}(nn.Module):
    \"\"\"A layer, number {n}.\"\"\"

    def __init__(self, width: int = {n}4):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        y = self.linear(x)
        return torch.relu(y) + x
"""
LONG = "import torch\nfrom torch import nn\n" + "".join(LAYER.format(n=n) for n in range(1, 28))
BROKEN = """import torch
from torch import nn


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def forward(self, x):
        PREFIX if x.sum() > 0 else -x
        return x
"""


def columns(server: Client, uri: str, text: str) -> tuple[int, int]:
    """Start and end character of the one error."""
    found = [each for each in server.edit(uri, text) if each["severity"] == 1]
    assert [each["code"] for each in found] == ["FX101"], found
    assert found[0]["range"]["start"]["line"] == found[0]["range"]["end"]["line"]
    return found[0]["range"]["start"]["character"], found[0]["range"]["end"]["character"]


def test_every_prefix_of_a_file(tmp_path: Path, report):
    """Before trust only the text is read: each prefix is an edit, and each gets an answer that fits the text."""
    assert 295 <= LONG.count("\n") <= 305
    tries = slowest = 0
    with Client(tmp_path, trusted=False) as server:
        uri = server.open(tmp_path / "typed.py", "")
        server.diagnostics(uri)
        for end in [*range(0, len(LONG), 11), len(LONG)]:
            text = LONG[:end]
            began = time.monotonic()
            found = server.edit(uri, text)
            slowest = max(slowest, time.monotonic() - began)
            lines = text.split("\n")
            assert len(found) < 40
            for each in found:
                at = each["range"]["end"]
                assert at["line"] < len(lines) and at["character"] <= len(lines[at["line"]])
            tries += 1
        assert found == []
        assert server.process.poll() is None
    report(tries=tries, outcome=f"each answered, the slowest in {slowest * 1000:.0f} ms")


def configure(server: Client, settings: dict) -> None:
    server.settings = settings
    server.notify("workspace/didChangeConfiguration", {"settings": {}})
    server.request("fxlens/debugInfo", {})


UNSAID = {"FX304", "FX305", "FX306", "FX307", "FX309"}  # of text that is only half-typed


def test_prefixes_of_a_file_traced(server: Client, folder: Path, request: pytest.FixtureRequest, report):
    """The same after trust, where each edit is executed: findings fit the text, nothing breaks, and the whole file is
    traced in the end."""
    stride = request.config.getoption("--stride")
    tries = slowest = 0
    patient = {**server.settings, "deadline": 30}  # allow for a busy machine
    request.addfinalizer(lambda settings=server.settings: configure(server, settings))
    configure(server, patient)
    uri = server.open(folder / "typed_and_traced.py", "")
    server.diagnostics(uri)
    for end in [*range(0, len(LONG), stride), len(LONG)]:
        text = LONG[:end]
        began = time.monotonic()
        found = server.edit(uri, text)
        slowest = max(slowest, time.monotonic() - began)
        lines = text.split("\n")
        assert len(found) < 40 and not UNSAID & {each["code"] for each in found}, (end, found)
        assert not [each for each in found if "FX Lens failed" in each["message"]], (end, found)
        for each in found:
            at = each["range"]["end"]
            assert at["line"] < len(lines) and at["character"] <= len(lines[at["line"]]), (end, each)
        tries += 1
    assert found == []
    targets = server.request("fxlens/record", {"uri": uri})["record"]["targets"]
    assert [each["status"] for each in targets] == ["traced"] * LONG.count("class ")
    server.close(uri)
    server.diagnostics(uri)
    report(tries=tries, outcome=f"each answered, the slowest in {slowest * 1000:.0f} ms")


def test_every_character_typed_without_waiting(server: Client, folder: Path, report):
    uri = server.open(folder / "typed.py", "")
    server.diagnostics(uri)
    for end in range(1, 1000):
        server.change(uri, LONG[:end])
    began = time.monotonic()
    version = server.change(uri, MODEL)
    assert server.diagnostics(uri, version) == []
    taken = time.monotonic() - began
    server.close(uri)
    assert server.diagnostics(uri) == []
    report(tries=1000, outcome="the last text is answered", recovered=taken)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_columns_after_odd_characters(tmp_path: Path, encoding: str, report):
    """Traced with the encoding of most clients, read only with the others: positions are made in one place."""
    capabilities = {**CAPABILITIES, "general": {"positionEncodings": [encoding]}}
    prefixes = ["x", "'é', x", "'e\u0301', x", "'𝄞👩‍👩‍👧‍👦', x", "'日本', x", "'\u202e', x", "'\t', x", "'ﷺ', x"]
    with Client(tmp_path, capabilities=capabilities, trusted=encoding == "utf-16") as server:
        uri = server.open(tmp_path / "odd.py", MODEL)
        server.diagnostics(uri)
        for prefix in prefixes:
            text = BROKEN.replace("PREFIX", f"x = {prefix}")
            line = text.splitlines()[7]
            start, end = columns(server, uri, text)
            unit = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
            codec = encoding if unit == 1 else f"{encoding}-le"
            seen = line.encode(codec)[start * unit : end * unit].decode(codec)
            assert seen == "x.sum() > 0", (prefix, seen)
            # The client's edits are applied as it means them.
            at = {"start": {"line": 7, "character": start}, "end": {"line": 7, "character": end}}
            server._versions[uri] += 1
            change = {"textDocument": {"uri": uri, "version": server._versions[uri]},
                      "contentChanges": [{"range": at, "text": "x.sum() < 1"}]}  # fmt: skip
            server.notify("textDocument/didChange", change)
            (found,) = [each for each in server.diagnostics(uri, server._versions[uri]) if each["severity"] == 1]
            assert found["range"] == at and "`x.sum() < 1`" in found["message"], (prefix, found)
    report(tries=2 * len(prefixes), outcome="the range is the expression, for an edit, too")


@pytest.mark.parametrize(
    "change", ["crlf", "cr", "tabs", "form feed", "byte order mark", "separators", "no last line end"]
)
def test_line_ends_and_blanks(server: Client, folder: Path, change: str, report):
    text, line = BROKEN.replace("PREFIX", "x = x"), 7
    if change == "crlf":
        text = text.replace("\n", "\r\n")
    elif change == "cr":
        text = text.replace("\n", "\r")
    elif change == "tabs":
        text = text.replace("    ", "\t")
    elif change == "form feed":
        text, line = text.replace("\n\n\n", "\n\x0c\n\x0c\n# \x0b\x1c\x85\n"), line + 1
    elif change == "byte order mark":
        text = "\ufeff" + text
    elif change == "separators":
        text = text.replace("\n\n\n", "\n'\u2028 \u2029 \x85 \x1d'\n\n")
    else:
        text = text.rstrip("\n")
    uri = server.open(folder / "lines.py", text)
    found = [each for each in server.diagnostics(uri) if each["severity"] == 1]
    assert [each["code"] for each in found] == ["FX101"], found
    assert found[0]["range"]["start"]["line"] == line
    server.close(uri)
    server.diagnostics(uri)
    report(outcome="one finding at its line")


@pytest.mark.parametrize("trusted", [False, True], ids=["text only", "traced"])
def test_texts_against_the_parser(shared: Client, folder: Path, trusted: bool, report):
    slowest, worst = 0.0, ""
    with shared.lent() if trusted else Client(folder, trusted=False) as server:
        uri = server.open(folder / "hostile.py", MODEL)
        server.diagnostics(uri)
        for name, text in DEEP.items():
            if trusted and name == "power":
                continue
            began = time.monotonic()
            server.edit(uri, text)
            if time.monotonic() - began > slowest:
                slowest, worst = time.monotonic() - began, name
        assert server.edit(uri, MODEL) == []
        assert server.process.poll() is None
    report(tries=len(DEEP), outcome=f"all answered, the slowest ({worst}) in {slowest:.1f} s")


def test_file_of_20_000_lines(server: Client, folder: Path, report):
    text = MODEL + "\n" + "".join(f"def f{n}(x):\n    return x + {n}\n" for n in range(10_000))
    assert text.count("\n") > 20_000
    uri = server.open(folder / "long.py", text)
    began = time.monotonic()
    server.diagnostics(uri)
    first = time.monotonic() - began
    began = time.monotonic()
    server.edit(uri, text + "# more\n")
    again = time.monotonic() - began
    began = time.monotonic()
    assert server.edit(uri, MODEL) == []
    report(outcome=f"first {first:.1f} s, after an edit {again:.1f} s", recovered=time.monotonic() - began)
    server.close(uri)
    server.diagnostics(uri)


def test_documents_that_are_no_files(server: Client, workspace: Path, report):
    """Other schemes and languages are left alone and harm nothing; unsaved files are traced."""
    uris = [
        "vscode-notebook-cell:/a/b.ipynb#X1",
        "git:/x.py?ref",
        "http://localhost/x.py",
        "output:x",
        "x.py",
        "",
        ":",
        "file://",
        "file://[x/y.py",
    ]
    for uri in uris:
        item = {"uri": uri, "languageId": "python", "version": 1, "text": MODEL}
        server.notify("textDocument/didOpen", {"textDocument": item})
        hover = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 0}}
        assert server.request("textDocument/hover", hover) is None
        assert server.request("fxlens/graph", {"uri": uri})["reason"]
        change = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": "("}]}
        server.notify("textDocument/didChange", change)
        server.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    item = {"uri": "untitled:Untitled-1", "languageId": "python", "version": 1, "text": MODEL}
    server.notify("textDocument/didOpen", {"textDocument": item})
    assert server.diagnostics("untitled:Untitled-1") == []
    record = server.request("fxlens/record", {"uri": "untitled:Untitled-1"})["record"]
    assert record["targets"][0]["status"] == "traced"
    server.notify("textDocument/didClose", {"textDocument": {"uri": "untitled:Untitled-1"}})
    report(tries=len(uris) + 1, outcome="left alone; an unsaved file is traced")


def test_links_and_odd_paths(server: Client, folder: Path, tmp_path: Path, report):
    outside = tmp_path / "out side é 👾 %41#?.py"
    outside.write_text(MODEL)
    link = folder / "link.py"
    link.symlink_to(outside)
    loop = folder / "loop.py"
    loop.symlink_to(loop)
    dangling = folder / "dangling.py"
    dangling.symlink_to(folder / "nowhere.py")
    paths = [outside, link, loop, dangling, folder / "never-saved" / "a.py", folder / ("n" * 200 + ".py")]
    for path in paths:
        uri = server.open(path, MODEL)
        assert server.diagnostics(uri) == [], path
        assert server.request("fxlens/record", {"uri": uri})["record"]["targets"][0]["status"] == "traced"
        server.close(uri)
        server.diagnostics(uri)
    report(tries=len(paths), outcome="traced")


def test_files_that_are_not_utf_8(folder: Path, server: Client, report):
    """A file that the open one imports: what is wrong with it is said at the import."""
    (folder / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nname = '\xe9'\n")
    (folder / "garbled.py").write_bytes(b"name = '\xff\xfe'\n")
    (folder / "nul.py").write_bytes(b"name = 1\0\n")
    good = server.open(folder / "uses_latin.py", "import latin\nassert latin.name == 'é'\n" + MODEL)
    assert server.diagnostics(good) == []
    for name in ("garbled", "nul"):
        uri = server.open(folder / f"uses_{name}.py", f"{MODEL}\nimport {name}\n")
        # Before Python 3.11.4 a zero is no error of the syntax, and the import is left out like one that raises.
        found = [each for each in server.diagnostics(uri) if each["severity"] < 3]
        assert [each["code"] for each in found] == ["FX301"], found
        assert found[0]["range"]["start"]["line"] == MODEL.count("\n") + 1
        server.close(uri)
    server.close(good)
    report(tries=3, outcome="latin-1 read, others named at the import")


SIZED = """# -*- coding: latin-1 -*-
import torch


def helper(x):
    "größe"; return torch.zeros(int(x.shape[0]), 4) + x
"""


def test_a_fix_of_a_helper_in_another_encoding(server: Client, folder: Path, report):
    """It is not open, so the places in it are those of the file as Python decodes it."""
    (folder / "sized.py").write_bytes(SIZED.encode("latin-1"))
    model = MODEL.split("\n\n\n")[0] + "\nfrom sized import helper\n\n\n# fxlens: Net() <- torch.randn(2, 4)\n"
    model += "class Net(nn.Module):\n    def forward(self, x):\n        return helper(x)\n"
    uri = server.open(folder / "uses_sized.py", model)
    (found,) = (each for each in server.diagnostics(uri) if each["code"] == "FX130")
    results = set()
    for action in server.actions(uri, found):
        for address, edits in action["edit"]["changes"].items():
            if address.endswith("/sized.py"):
                results.add(edited(SIZED, edits).splitlines()[-1])
    server.close(uri)
    assert '    "größe"; return torch.zeros(x.shape[0], 4) + x' in results, results
    assert all(each.startswith('    "größe"; return torch.zeros(') and each.endswith(", 4) + x") for each in results)
    report(tries=len(results), outcome="at their places")


ODD_LINES = ["\x0c", "\x0b", "\x1c", "\x85", "\u2028", "\u2029"]


def test_edits_after_characters_that_end_no_line(server: Client, folder: Path, report):
    """Python's own idea of lines has more ends than LSP's and the parser's: an edit below must not go elsewhere."""
    text = MODEL.replace("import torch\n", "import torch  # " + "".join(ODD_LINES) + "\n\x0c\n", 1)
    uri = server.open(folder / "odd_lines.py", text)
    assert server.diagnostics(uri) == []
    lines = text.split("\n")
    line = next(number for number, each in enumerate(lines) if "return torch" in each)
    start = {"line": line, "character": lines[line].index("torch.relu")}
    change = {"range": {"start": start, "end": {**start, "character": len(lines[line])}}, "text": "x * len(x)"}
    identifier = {"uri": uri, "version": 2}
    server.notify("textDocument/didChange", {"textDocument": identifier, "contentChanges": [change]})
    (found,) = server.diagnostics(uri, 2)
    assert found["code"] == "FX120" and found["range"]["start"]["line"] == line
    server._versions[uri] = 2
    assert server.edit(uri, MODEL) == []
    server.close(uri)
    server.diagnostics(uri)
    report(tries=len(ODD_LINES), outcome="at its place")


def test_thousands_of_edits_in_one_message(server: Client, folder: Path, report):
    """All occurrences of a word are replaced in a file of 20,000 lines: the next request is answered at once."""
    below = "# a line of text that is as long as usual\n" * 20_000
    uri = server.open(folder / "replaced.py", MODEL + below)
    assert server.diagnostics(uri) == []
    first = MODEL.count("\n")
    places = [{"line": first + 5 * number, "character": 2} for number in range(4000)]
    changes = [{"range": {"start": each, "end": {**each, "character": 3}}, "text": "some"} for each in places]
    server.notify("textDocument/didChange", {"textDocument": {"uri": uri, "version": 2}, "contentChanges": changes})
    began = clock(server)
    server.request("fxlens/status", {})
    taken = clock(server) - began
    assert taken < 3, taken
    assert server.diagnostics(uri, 2) == []
    server.close(uri)
    server.diagnostics(uri)
    report(tries=len(changes), outcome=f"answered after {taken:.2f} s")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_a_comment_is_replaced_where_it_stands(shared: Client, folder: Path, end: str, report):
    """It has characters that the client counts twice, and what takes its place would be two lines."""
    line = '# fxlens: Net() <- torch.randn(2, 4), "𝄞𝄞é"'
    text = MODEL.replace("# fxlens: Net() <- torch.randn(2, 4)", line).replace("(self, x)", '(self, x, s="")')
    text += (
        "# " + "\x0c" + "\u2028 end no line\n\n\nclass Other(nn.Module):\n    def forward(self, x):\n        return x\n"
    )
    with shared.lent() as server:
        uri = server.open(folder / "net.py", text.replace("\n", end))
        server.diagnostics(uri)
        server.request("fxlens/record", {"uri": uri})
        edits = []
        for name in ("Net", "Other"):
            arguments = [uri, name, f"{name}() <- torch.ones(1, 4)\nimport os"]
            server.request("workspace/executeCommand", {"command": "fxlens.writeInputs", "arguments": arguments})
            asked = server.wait(lambda each: each.get("method") == "workspace/applyEdit")
            edits += asked["params"]["edit"]["changes"][uri]
    last = {"line": 4, "character": len(line.encode("utf-16-le")) // 2}
    assert edits[0]["range"] == {"start": {"line": 4, "character": 0}, "end": last}
    assert edits[0]["newText"] == "# fxlens: Net() <- torch.ones(1, 4) import os"
    above = {"line": text.split("\n").index("class Other(nn.Module):"), "character": 0}
    assert edits[1]["range"] == {"start": above, "end": above}
    assert edits[1]["newText"] == f"# fxlens: Other() <- torch.ones(1, 4) import os{end}"
    report(tries=4, outcome="all of it, by one line")
