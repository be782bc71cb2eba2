"""Untrusted folders: nothing in them runs before trust, and their contents are shown as text."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from lsp_client import MODEL, Client
from processes import descendants
from warm_python import warm_fxlens

pytestmark = pytest.mark.usefixtures("warm")

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "import pathlib; pathlib.Path({mark!r}).touch()\n"
# Names of modules that the server itself imports; those in its working folder must not shadow them.
SHADOWS = ("ast", "json", "typing", "logging", "asyncio", "fxlens_extra", "lsprotocol", "pygls", "torch", "numpy")


def trap(folder: Path) -> Path:
    """Fills a workspace with everything that could be run by mistake; returns the file whose existence proves that."""
    mark = folder.parent / "ran"
    text = PROGRAM.format(mark=str(mark))
    for name in ("sitecustomize", "usercustomize", "conftest", "setup", "__init__", "__main__", *SHADOWS):
        (folder / f"{name}.py").write_text(text)
    (folder / "evil.pth").write_text(text)
    shell = f"#!/bin/sh\ntouch '{mark}'\n"
    for environment in (".venv", "venv"):
        (folder / environment / "bin").mkdir(parents=True)
        site = folder / environment / "lib" / "python3.11" / "site-packages"
        site.mkdir(parents=True)
        (site / "evil.pth").write_text(text)
        (folder / environment / "pyvenv.cfg").write_text("home = /usr/bin\n")
        for name in ("python", "python3"):
            (folder / environment / "bin" / name).write_text(shell)
            (folder / environment / "bin" / name).chmod(0o755)
    for name in ("dot", "git", "python", "code"):
        (folder / name).write_text(shell)
        (folder / name).chmod(0o755)
    (folder / "pyproject.toml").write_text(
        f"[tool.fxlens]\npython = '{folder}/python'\ncommand = '{folder}/python'\nworker = 'spawn'\n"
        "trusted = true\nleaf-modules = ['a']\n[tool.fxlens.targets]\n"
        f"'model.py::Net' = '''__import__(\"os\").system(\"touch {mark}\")'''\n"
    )
    (folder / ".vscode").mkdir()
    (folder / ".vscode" / "settings.json").write_text(json.dumps({"fxlens.python": f"{folder}/python"}))
    (folder / "weights.pt").write_bytes(b"cposix\nsystem\n(S'touch %s'\ntR." % str(mark).encode())
    return mark


def test_nothing_runs_before_trust(tmp_path: Path, report):
    folder = tmp_path / "workspace"
    folder.mkdir()
    mark = trap(folder)
    text = f"{PROGRAM.format(mark=str(mark))}\n# fxlens: __import__('os').system('touch {mark}') <- eval('1')\n{MODEL}"
    command = [sys.executable, "-c", f"import os, sys; os.chdir({str(folder)!r}); "
               "os.execv(sys.executable, [sys.executable, '-m', 'fxlens', 'serve'])"]  # fmt: skip
    settings = {"python": str(folder / "python")}
    with Client(folder, trusted=False, settings=settings, command=command) as server:
        for name in ("model.py", "sitecustomize.py", "new.py"):
            uri = server.open(folder / name, text)
            server.diagnostics(uri)
            server.edit(uri, text + "# more\n")
            server.save(uri)
            at = {"textDocument": {"uri": uri}}
            assert server.request("textDocument/hover", {**at, "position": {"line": 8, "character": 8}}) is None
            whole = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
            server.request("textDocument/inlayHint", {**at, "range": whole})
            server.request("textDocument/codeLens", at)
            server.request("textDocument/codeAction", {**at, "range": whole, "context": {"diagnostics": []}})
            for method in ("trace", "record", "graph", "code", "lower", "bench", "estimate"):
                try:
                    server.request(f"fxlens/{method}", {"uri": uri, "target": "Net", "view": "code"})
                except RuntimeError:
                    continue
        server.request("fxlens/restart", {})
        server.notify("workspace/didChangeConfiguration", {"settings": {"fxlens": settings}})
        assert '"trusted": false' in server.request("fxlens/debugInfo", {})["text"]
        assert descendants(server.pid) == []
    assert not mark.exists()
    # The trap works: after trust, the interpreter in the settings is started.
    with Client(folder, trusted=True, settings=settings) as server:
        found = server.diagnostics(server.open(folder / "model.py", MODEL))
    assert mark.exists() and [each["code"] for each in found] == ["FX309"]
    report(tries=len(list(folder.rglob("*"))), outcome="no trap sprang, no process started")


@pytest.mark.parametrize("trusted", [None, "yes", 1, False, {}], ids=repr)
def test_trust_is_said_exactly(tmp_path: Path, trusted: object, report):
    mark = tmp_path / "ran"
    with Client(tmp_path, trusted=trusted) as server:  # type: ignore[arg-type]
        uri = server.open(tmp_path / "model.py", PROGRAM.format(mark=str(mark)) + MODEL)
        server.diagnostics(uri)
        assert server.request("fxlens/record", {"uri": uri}) is None
    assert not mark.exists()
    report(outcome="not run")


def test_configuration_files_that_are_traps(tmp_path: Path, report):
    """A pipe or a device in place of the project's configuration must not block the server."""
    kinds = {
        "pipe": lambda path: os.mkfifo(path),
        "endless device": lambda path: path.symlink_to("/dev/zero"),
        "loop": lambda path: path.symlink_to(path),
        "folder": lambda path: path.mkdir(),
        "large": lambda path: path.write_text("x = 1\n" * 400_000),
        "nested": lambda path: path.write_text("x = " + "[" * 20_000 + "]" * 20_000),
        "not text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
        "wrong types": lambda path: path.write_text("[tool.fxlens]\nselect = 3\nignore = {a = 1}\ntargets = [1]\n"),
        "not a table": lambda path: path.write_text("tool = 3\n"),
    }
    with Client(tmp_path, trusted=False) as server:
        for name, make in kinds.items():
            folder = tmp_path / name
            folder.mkdir()
            make(folder / "pyproject.toml")
            uri = server.open(folder / "model.py", MODEL)
            assert server.diagnostics(uri) == [], name
    report(tries=len(kinds), outcome="not read, the file is served")


def test_targets_of_a_configuration(shared: Client, folder: Path, report):
    """Thousands of them, and one that is not Python, which is reported at its class."""
    path = shared.root / "fxlens.toml"
    text = MODEL.replace("# fxlens: Net() <- torch.randn(2, 4)\n", "")
    many = "".join(f'"{folder.name}/{"deep/" * 8}net{n}.py::Net" = "Net()"\n' for n in range(3000))
    broken = {"Net(": "FX302", "1<-" * 40_000 + ")": "FX302", "Net(" + "-" * 50_000 + "1)": "FX307"}
    with shared.lent() as server:
        uri = server.open(folder / "model.py", text)
        server.diagnostics(uri)
        try:
            for each, code in broken.items():
                path.write_text(f'[targets]\n{many}"{folder.name}/model.py::Net" = "{each}"\n')
                server.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": 2}]})
                found = server.edit(uri, text + f"# {len(each)}\n", 30)
                while [one["code"] for one in found] != [code]:  # it may be read after the edit
                    found = server.diagnostics(uri, timeout=30)
                assert len(found[0]["message"]) < 5000
        finally:
            path.unlink()
            server.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": 3}]})
        assert server.edit(uri, MODEL, 30) == []
    report(tries=len(broken), outcome="said of the class, in time")


SCRIPT = "<img src=x onerror=alert(1)><script>alert(2)</script>"
MARKDOWN = "](command:evil) [x](javascript:alert(1)) `` ``` ![i](http://example.invalid/p.png) <b>"
ANSI = "\x1b[2J\x1b]0;title\x07\x1b]8;;http://example.invalid\x07\x9b31m\r\x08"


def test_names_and_messages_are_text_in_hover_and_graph(server: Client, folder: Path, report):
    text = f"""import torch
from torch import nn

class Layer(nn.Module):
    def forward(self, x):
        return torch.relu(x)

Layer.__name__ = Layer.__qualname__ = {SCRIPT + MARKDOWN!r}

# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module({(SCRIPT + "``").replace(".", "")!r}, Layer())

    def forward(self, x):
        for child in self.children():
            x = child(x)
        return x
"""
    uri = server.open(folder / "html.py", text)
    server.diagnostics(uri)
    record = server.request("fxlens/record", {"uri": uri})["record"]
    net = next(each for each in record["targets"] if each["name"] == "Net")
    assert net["status"] == "traced" and any("<script>" in each["module_path"] for each in net["nodes"])
    answers = []
    for line, content in enumerate(text.splitlines()):
        for character in range(0, len(content), 4):
            at = {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}
            answers.append(server.request("textDocument/hover", at))
    shown = {each["contents"]["value"] for each in answers if each}
    assert shown
    for each in shown:
        bare = without_code(each)
        assert "<" not in bare and "](" not in bare, each
    graph = server.request("fxlens/graph", {"uri": uri, "target": "Net"})
    dot = graph["view"]["dot"]
    assert "<script>" not in re.sub(r'"(\\.|[^"\\])*"', '""', dot)
    server.close(uri)
    server.diagnostics(uri)
    report(tries=len(answers), outcome="code or escaped")


def without_code(markdown: str) -> str:
    """Markdown without fenced blocks and code spans."""
    fenced = re.sub(r"(?ms)^(`{3,})[^`\n]*\n.*?^\1`*$", "", markdown)
    return re.sub(r"(?s)(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", "", fenced)


def test_terminal_gets_no_control_characters(tmp_path: Path, report):
    (tmp_path / "ansi.py").write_text(
        f"""import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        raise ValueError({ANSI!r})
        return x


class Printing(nn.Module):
    def __init__(self):
        raise TypeError({ANSI!r})

    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


print({ANSI!r})
"""
    )
    odd = tmp_path / "odd\x1b[31mname.py"
    odd.write_text(
        "import torch\nclass A(torch.nn.Module):\n    def forward(self, x):\n        return -x if x.sum() else x\n"
    )
    tries = 0
    for style in ("text", "concise", "json", "sarif", "github"):
        command = warm_fxlens("check", "--all", "--quick", "--format", style, str(tmp_path))
        done = subprocess.run(command, capture_output=True, timeout=100, cwd=ROOT)
        if b"invalid choice" in done.stderr:
            continue
        tries += 1
        output = done.stdout + done.stderr
        assert done.returncode == 1 and b"ansi.py" in output
        assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]", output), (style, output)
    assert tries >= 2
    report(tries=tries, outcome="control characters escaped")


SHELLS_AND_PICKLES = ("os.system", "os.popen", "pickle.load", "pickle.loads", "subprocess.getoutput")
SEALED = "fxlib/lowering/store.py"  # loads only what its seal proves to be the user's own


def test_no_shell_and_no_network_in_the_sources(report):
    """Calls that would start a shell or load a pickle, and imports that connect, do not occur."""
    found, files = [], 0
    for path in [*(ROOT / "server").rglob("*.py"), *(ROOT / "fxlib").rglob("*.py")]:
        files += 1
        where = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                given = {each.arg: ast.unparse(each.value) for each in node.keywords}
                unsafe = name == "torch.load" and given.get("weights_only", "True") != "True" and where != SEALED
                if unsafe or given.get("shell", "False") != "False" or name in SHELLS_AND_PICKLES:
                    found.append(f"{where}:{node.lineno} {name}")
            if where.startswith("server/") and isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [each.name for each in node.names] + [getattr(node, "module", None) or ""]
                if {"urllib.request", "http.client", "requests", "ftplib", "smtplib", "pickle"} & set(names):
                    found.append(f"{where}:{node.lineno} imports {names}")
    assert found == []
    report(tries=files, outcome="none")


def test_saved_model_of_somebody_else_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report):
    """A pickle is a program: without this user's seal over exactly these bytes it is not read."""
    from fxlib.lowering import store

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder, mark = tmp_path / "saved", tmp_path / "ran"
    folder.mkdir()
    files = ["manifest.json", "module.pt"]
    (folder / "manifest.json").write_text(json.dumps({"format": store.FORMAT, "engine": "onnxruntime", "parts": {}}))
    (folder / "module.pt").write_bytes(b"harmless")
    own = store._seal(folder, files)
    (folder / "module.pt").write_bytes(b"cposix\nsystem\n(S'touch %s'\ntR." % str(mark).encode())
    seals = [None, "", "[]", "{}", {"files": files, "seal": own}, {"files": files, "seal": "0" * 64},
             {"files": [], "seal": store._seal(folder, [])}, {"files": ["manifest.json"], "seal": "é"}]  # fmt: skip
    for seal in seals:
        if seal is not None:
            (folder / "seal.json").write_text(seal if isinstance(seal, str) else json.dumps(seal))
        with pytest.raises(store.UntrustedModel):
            store.read(folder, trusted=False)
    assert not mark.exists()
    assert (tmp_path / "cache" / "fxlens" / "keys" / "seal").stat().st_mode & 0o077 == 0
    report(tries=len(seals), outcome="refused before it is read")


def test_no_connection_is_opened(server: Client, folder: Path, report):
    """The running server and its workers have no sockets except their own pairs."""
    import psutil

    uri = server.open(folder / "model.py", MODEL)
    server.diagnostics(uri)
    seen = 0
    for pid in [server.pid, *descendants(server.pid)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            assert psutil.Process(pid).net_connections(kind="inet") == []
            seen += 1
    assert seen >= 2
    server.close(uri)
    server.diagnostics(uri)
    report(tries=seen, outcome="no internet socket")


def test_file_names_do_not_lead_out_of_a_folder(server: Client, workspace: Path, report):
    """Requests that carry paths write nothing; a name with dots stays a name."""
    before = {str(path) for path in workspace.parent.rglob("*")}
    for name in ("../../escape", "/etc/passwd", "..\\..\\x", "a\0b", "x" * 5000):
        for method in ("graph", "code", "record", "trace", "lower", "bench", "estimate"):
            parameters = {"uri": f"file:///{name}", "target": name, "view": name, "path": name, "output": name}
            try:
                server.request(f"fxlens/{method}", parameters)
            except RuntimeError:
                continue
    assert {str(path) for path in workspace.parent.rglob("*")} == before
    report(tries=35, outcome="nothing written")


LEADING_OUT = """
class Layer(nn.Sequential):
    pass


Layer.__name__ = Layer.__qualname__ = "../../x"


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        for name in NAMES:
            self.add_module(name, Layer(nn.Linear(4, 4)) if "/" in name else nn.Softplus())

    def forward(self, x):
        for child in self.children():
            x = child(x)
        return x
"""


def test_export_stays_in_its_folder_and_holds_no_code_but_the_model(shared: Client, folder: Path, report):
    """Modules whose names are paths and programs, exported through the server and loaded again."""
    ran, out = folder / "ran", folder / "it's out"
    names = [f"{folder}/absolute", f"x'); open('{ran}', 'w'); ('", f'x"); open("{ran}", "w"); ("', "new\nline", "é x"]
    text = MODEL.split("\n\n\n")[0] + "\n\n" + LEADING_OUT.replace("NAMES", repr(names))
    (folder / "model.py").write_text(text)
    with shared.lent(verify=False, lowering="off") as server:
        uri = server.open(folder / "model.py", text)
        assert server.diagnostics(uri) == []
        before = {path for path in folder.rglob("*") if "__pycache__" not in path.parts}
        asked = {"uri": uri, "target": "Net", "passes": ["dead-code"], "out": str(out)}
        answer = server.request("fxlens/pass", asked)
        assert "reason" not in answer, answer
    made = {path for path in folder.rglob("*") if "__pycache__" not in path.parts} - before
    assert made and all(path == out or path.parent == out for path in made), made
    program = "import torch, model, module; x = torch.randn(2, 4); assert module.Net()(x).shape == (2, 4)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(out), str(folder), str(ROOT)])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not ran.exists()
    report(tries=len(names), outcome=f"{len(made) - 1} files, all in the folder")
