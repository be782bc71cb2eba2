"""The language server as an editor drives it: real process, real worker."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from lsp_client import CAPABILITIES, MODEL, Client, edited

WITH_IF = MODEL.replace("        return torch", "        if x.sum() > 0:\n            x = -x\n        return torch")
HELPER = """import torch
from torch import nn


def flip(x):
    if x.sum() > 0:
        return -x
    return x


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def forward(self, x):
        return flip(x) + 1
"""


def codes(diagnostics: list[dict]) -> list[str]:
    return [each["code"] for each in diagnostics if "code" in each]


def at(diagnostic: dict) -> tuple[int, int, int, int]:
    start, end = diagnostic["range"]["start"], diagnostic["range"]["end"]
    return start["line"], start["character"], end["line"], end["character"]


@pytest.fixture
def document(client: Client, workspace: Path):
    uri = client.open(workspace / "model.py", MODEL)
    assert client.diagnostics(uri) == []
    yield uri
    client.close(uri)
    client.diagnostics(uri)


def test_an_unsaved_edit_shows_its_problem_and_the_next_removes_it(client: Client, document: str):
    (found,) = client.edit(document, WITH_IF)
    assert (found["code"], found["source"], found["severity"], at(found)) == ("FX101", "fxlens", 1, (11, 11, 11, 22))
    assert found["codeDescription"]["href"].endswith("FX101.md")
    assert any("symbolically traced variables" in each["message"] for each in found["relatedInformation"])
    assert client.edit(document, MODEL) == []


def test_ranges_count_utf16(client: Client, document: str):
    text = WITH_IF.replace("if x.sum()", 'if "🙂" and x.sum()')
    (found,) = client.edit(document, text)
    assert at(found) == (11, 20, 11, 31)


def test_positions_in_utf8_when_the_client_prefers_it(workspace: Path):
    capabilities = {**CAPABILITIES, "general": {"positionEncodings": ["utf-8"]}}
    with Client(workspace, capabilities=capabilities) as client:
        uri = client.open(workspace / "utf8.py", WITH_IF.replace("if x.sum()", 'if "🙂" and x.sum()'))
        (found,) = client.diagnostics(uri)
        assert at(found) == (11, 22, 11, 33)


def test_broken_syntax_keeps_what_is_known_of_other_lines(client: Client, document: str):
    client.edit(document, WITH_IF)
    assert client.request("fxlens/record", {"uri": document})["version"] == 2  # waits for the graph
    found = client.edit(document, WITH_IF + "\nclass Half(\n")
    assert sorted(codes(found)) == ["FX101", "FX308"]
    assert next(at(each) for each in found if each["code"] == "FX101") == (11, 11, 11, 22)
    record = client.request("fxlens/record", {"uri": document})["record"]
    assert record["targets"][0]["nodes"]  # the last good one
    assert client.edit(document, MODEL) == []


def test_broken_syntax_is_read_where_it_is_new(client: Client, document: str):
    client.edit(document, WITH_IF)
    assert client.request("fxlens/record", {"uri": document})["version"] == 2
    new = "\nclass New(nn.Module):\n    def forward(self, x):\n        y = x * len(x)\n        return y["
    for typed in ("", "0"):
        found = client.edit(document, WITH_IF + new + typed)
        assert sorted(codes(found)) == ["FX101", "FX120", "FX308"]
        line = WITH_IF.count("\n") + 3
        assert next(at(each) for each in found if each["code"] == "FX120") == (line, 16, line, 22)
    assert client.edit(document, MODEL) == []


def test_every_prefix_of_a_file_is_answered(client: Client, document: str):
    for end in range(0, len(WITH_IF), 23):
        found = client.edit(document, WITH_IF[:end])
        assert not {"FX199", "FX305"} & set(codes(found)), WITH_IF[:end]


def test_fast_edits_end_with_the_last_version(client: Client, document: str):
    for number in range(60):
        version = client.change(document, WITH_IF if number % 2 else MODEL + f"# {number}\n")
    (found,) = client.diagnostics(document, version)
    assert found["code"] == "FX101"


def test_the_proven_fix_is_preferred_and_mends(client: Client, document: str):
    (found,) = client.edit(document, HELPER)
    actions = client.actions(document, found)
    preferred = [each for each in actions if each.get("isPreferred")]
    assert len(preferred) == 1
    wrap = next(each for each in actions if 'torch.fx.wrap("flip")' in each["title"])
    for action in (preferred[0], wrap):
        mended = edited(HELPER, action["edit"]["changes"][document])
        assert client.edit(document, mended) == [], mended
        client.edit(document, HELPER)


def test_unsaved_text_of_an_imported_file_is_what_counts(client: Client, workspace: Path):
    helper, main = workspace / "layers_mod.py", workspace / "main_mod.py"
    helper.write_text("def scale(x):\n    return x * 2\n")
    main.write_text(MODEL.replace("import torch\n", "import torch\nfrom layers_mod import scale\n", 1))
    main.write_text(main.read_text().replace("return torch.relu(", "return torch.relu(scale(x) + "))
    uri = client.open(main)
    assert client.diagnostics(uri) == []
    other = client.open(helper)
    client.diagnostics(other)
    client.change(other, "def scale(x):\n    return x * len(x)\n")
    while not (diagnostics := client.diagnostics(uri)):  # what was on its way before may come first
        continue
    (found,) = diagnostics  # traced again, though itself not edited
    assert found["code"] == "FX120"
    assert found["range"]["start"]["line"] == main.read_text().splitlines().index(
        "        return torch.relu(scale(x) + self.linear(x))"
    )
    assert any(each["location"]["uri"] == other for each in found["relatedInformation"])
    client.close(uri)
    client.close(other)


def test_nothing_runs_before_trust(tmp_path: Path):
    tripwire = tmp_path / "ran"
    (tmp_path / "sitecustomize.py").write_text(f"open({str(tripwire)!r}, 'w')\n")
    text = f"open({str(tripwire)!r}, 'w')\n" + WITH_IF
    with Client(tmp_path, trusted=False, environment={"PYTHONPATH": str(tmp_path)}) as client:
        tripwire.unlink(missing_ok=True)  # the server's own interpreter read the search path of the test
        uri = client.open(tmp_path / "model.py", text)
        found = client.diagnostics(uri)
        assert codes(found) == ["FX101"]
        assert client.request("fxlens/status", {})["state"] == "untrusted"
        assert client.request("fxlens/trace", {"uri": uri}) is None
        assert not tripwire.exists()
        client.notify("fxlens/trusted", {})
        assert codes(client.diagnostics(uri)) == ["FX101"]
        assert tripwire.exists()
        assert client.request("fxlens/record", {"uri": uri})["record"]["targets"][0]["nodes"]


def test_a_file_of_no_folder_is_only_read_where_nobody_asks_about_it(tmp_path: Path):
    (work := tmp_path / "work").mkdir()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    tripwire = elsewhere / "ran"
    text = f"open({str(tripwire)!r}, 'w')\n" + WITH_IF
    (tmp_path / "link").symlink_to(work)
    with Client(tmp_path / "link", knows_trust=False) as client:
        client.diagnostics(inside := client.open(work / "model.py", WITH_IF))
        assert client.request("fxlens/record", {"uri": inside})["record"]["targets"][0]["nodes"]
        uri = client.open(elsewhere / "model.py", text)
        assert codes(client.diagnostics(uri)) == ["FX101"]
        said = client.wait(lambda each: each.get("method") == "window/showMessage")["params"]["message"]
        assert said.startswith("model.py: This file is outside of the workspace's folders")
        assert client.request("fxlens/trace", {"uri": uri}) is None
        assert "outside" in client.request("fxlens/graph", {"uri": uri})["reason"]
        client.notify("fxlens/cursor", {"uri": uri, "line": 3})
        status = client.request("fxlens/status", {})
        assert status["state"] == "untrusted" and "outside" in status["message"]
        client.edit(uri, text + "\n")
        assert not tripwire.exists()
        folder = {"uri": elsewhere.as_uri(), "name": "elsewhere"}
        client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [folder], "removed": []}})
        client.diagnostics(uri)
        assert client.request("fxlens/record", {"uri": uri})["record"]["targets"][0]["nodes"]
        assert tripwire.exists()


def test_a_file_that_the_code_reads_counts_as_one_that_it_imports(client: Client, folder: Path):
    (config := folder / "config.ini").write_text("false")
    text = WITH_IF.replace("import torch\n", "import json\nimport torch\n", 1)
    text = text.replace("class ", f"ASKS = json.load(open({str(config)!r}))\n\n\nclass ", 1).replace(
        "if x", "if ASKS and x"
    )
    client.diagnostics(uri := client.open(folder / "reads.py", text))
    for asks in ("true", "false", "true"):
        config.write_text(asks)
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": config.as_uri(), "type": 2}]})
        while ("FX101" in codes(client.diagnostics(uri))) is not (asks == "true"):
            continue  # those of the text before, once its fixes are proven; in the end it times out
    client.close(uri)


def test_settings_of_wrong_types_are_named_and_the_rest_is_used(shared: Client, folder: Path):
    with shared.lent(deadline="soon", ignore=["FX101"], jobs=None, worker=3) as client:
        uri = client.open(folder / "model.py", WITH_IF)
        assert client.diagnostics(uri) == []
        logged = [client.wait(lambda each: each.get("method") == "window/logMessage") for _ in range(2)]
        assert any("fxlens.deadline" in each["params"]["message"] for each in logged)
        client.configure()
        assert codes(client.diagnostics(uri)) == ["FX101"]


def test_an_interpreter_that_is_none_is_one_clear_finding(tmp_path: Path):
    with Client(tmp_path, settings={"python": "/no/such/python"}) as client:
        uri = client.open(tmp_path / "model.py", WITH_IF)
        for python in ("/no/such/python", "/bin/false", "/bin/cat"):
            client.configure(python=python)
            told: list[str] = []
            while not any(python in each for each in told):
                found = client.diagnostics(uri)
                assert "FX309" in codes(found)
                told = [each["message"] for each in found if each["code"] == "FX309"]
        client.configure(python=sys.executable)
        assert codes(client.diagnostics(uri)) == ["FX101"]


def test_an_environment_without_torch_is_named(tmp_path: Path):
    import subprocess
    import sysconfig

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "empty")], check=True)
    python = tmp_path / "empty" / "bin" / "python"
    able = {**CAPABILITIES, "experimental": {"commands": ["fxlens.chooseInterpreter"]}}
    with Client(tmp_path, settings={"python": str(python)}, capabilities=able) as client:
        uri = client.open(tmp_path / "model.py", MODEL)
        found = client.diagnostics(uri)
        assert codes(found) == ["FX309"] and "torch is not installed" in found[0]["message"]
        (offered,) = client.actions(uri, found[0])
        assert offered["title"] == "Choose Interpreter…" and offered["command"]["command"] == "fxlens.chooseInterpreter"
        status = client.request("fxlens/status", {})
        assert status["state"] == "error" and status["interpreter"] == f"{python} (the setting fxlens.python)"
        # It is installed, and nobody has to type or to restart anything.
        (site,) = (tmp_path / "empty").glob("lib/python*/site-packages")
        (site / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
        assert codes(client.diagnostics(uri)) == []


def test_restart_and_debug_information(client: Client, document: str):
    client.request("fxlens/restart", {})
    assert client.diagnostics(document) == []
    text = client.request("fxlens/debugInfo", {})["text"]
    assert '"torch": "2.' in text and "model.py" in text


def test_requests_for_documents_that_are_not_open(client: Client):
    parameters = {"uri": "file:///not/open.py"}
    assert client.request("fxlens/record", parameters) is None
    assert client.request("fxlens/trace", parameters) is None
    assert client.request("fxlens/record", None) is None
    nowhere = {
        "textDocument": parameters,
        "range": {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 9}},
    }
    assert client.request("textDocument/codeAction", {**nowhere, "context": {"diagnostics": []}}) == []


def test_notebook_cells_and_other_languages_are_left_alone(client: Client, document: str):
    for uri, language in (("vscode-notebook-cell:/x.ipynb#W0", "python"), ("file:///x.txt", "plaintext")):
        item = {"uri": uri, "languageId": language, "version": 1, "text": WITH_IF}
        client.notify("textDocument/didOpen", {"textDocument": item})
    assert client.edit(document, MODEL) == []
    open_documents = client.request("fxlens/debugInfo", {})["text"]
    assert "ipynb" not in open_documents and "x.txt" not in open_documents


def test_an_unsaved_new_file_is_traced(client: Client):
    uri = "untitled:Untitled-1"
    item = {"uri": uri, "languageId": "python", "version": 1, "text": WITH_IF}
    client.notify("textDocument/didOpen", {"textDocument": item})
    assert codes(client.diagnostics(uri)) == ["FX101"]
    client.close(uri)


def test_installed_packages_are_imported_once(tmp_path: Path):
    import time

    text = MODEL.replace("import torch\n", "import torch\nimport torchvision\n", 1)
    with Client(tmp_path) as client:
        uri = client.open(tmp_path / "model.py", text)
        client.diagnostics(uri)
        assert "torchvision" in client.request("fxlens/record", {"uri": uri})["record"]["third_party"]
        until = time.monotonic() + 120
        while '"torchvision"' not in client.request("fxlens/debugInfo", {})["text"]:
            assert time.monotonic() < until
            time.sleep(0.1)
        # The file may have been kept before: outside of functions, an edit has it executed again.
        assert client.edit(uri, text + "EDITED = 1\n") == []
        assert client.request("fxlens/record", {"uri": uri})["record"]["third_party"] == []
        assert codes(client.edit(uri, WITH_IF.replace("import torch\n", "import torch\nimport torchvision\n", 1))) == [
            "FX101"
        ]


def test_fix_all_is_one_edit_of_proven_fixes(client: Client, document: str):
    text = WITH_IF.replace("x = -x", "x = x * len(x)")
    assert sorted(codes(client.edit(document, text))) == ["FX101", "FX120"]
    everything = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    context = {"diagnostics": [], "only": ["source.fixAll"]}
    parameters = {"textDocument": {"uri": document}, "range": everything, "context": context}
    number = client.start("textDocument/codeAction", parameters)
    told = lambda each: each.get("params", {}).get("uri") == document and "diagnostics" in each["params"]  # noqa: E731
    client.request("fxlens/status", {})  # answered once the server works at the first; proofs may be over by then
    before = [each for each in client.received if told(each)]
    client.received = [each for each in client.received if not told(each)]
    first = client.wait(lambda each: told(each) or each.get("id") == number)
    # An editor drops its request where problems come meanwhile, such as after the proofs of fixes.
    assert first.get("id") == number, first
    (action,) = first["result"]
    assert action["kind"] == "source.fixAll.fxlens"
    if not before:
        client.diagnostics(document)  # which come when it is answered
    mended = edited(text, action["edit"]["changes"][document])
    assert client.edit(document, mended) == [], mended
    assert client.request("textDocument/codeAction", parameters) == []
