"""The wire: invalid messages, in any order."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from lsp_client import MODEL, Client
from processes import at_rest, descendants, gone, settled, settled_at_rest, tree, zygotes
from servers import eventually, started
from wire import MALFORMED, SLOW, alive, raw


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_message(server: Client, workspace: Path, name: str, report):
    uri = (workspace / "warm.py").as_uri()
    raw(server, MALFORMED[name])
    taken = alive(server, uri)
    report(outcome="refused, the next edit is answered", recovered=taken)


WRONG_PLACES = [{"line": -1, "character": 0}, {"line": 0, "character": -1}, {"line": 5, "character": 1 << 40}, None, 3]


COMMANDS = ("showChange", "fixCapture", "writeDynamicShapes", "openView", "keepConstruction", "writeInputs")


def test_requests_with_wrong_parameters_are_answered(server: Client, workspace: Path, report):
    uri = (workspace / "warm.py").as_uri()
    tries = 0
    for method in ("hover", "definition", "implementation", "codeAction", "inlayHint"):
        for place in WRONG_PLACES:
            parameters = {"textDocument": {"uri": uri}, "position": place, "range": {"start": place, "end": place},
                          "context": {"diagnostics": []}}  # fmt: skip
            with pytest.raises(RuntimeError, match="not as LSP describes"):
                server.request(f"textDocument/{method}", parameters)
            tries += 1
    for name in COMMANDS:
        for arguments in (None, [], [3], [[uri], {}, 3, 4, 5]):
            with pytest.raises(RuntimeError, match=r"-32602.*Invalid Params"):
                server.request("workspace/executeCommand", {"command": f"fxlens.{name}", "arguments": arguments})
            tries += 1
    server.request("workspace/executeCommand", {"command": "fxlens.showChange", "arguments": [uri, -5]})
    report(tries=tries, outcome="refused with an error each", recovered=alive(server, uri))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_server_while_its_input_is_open(tmp_path: Path, how: signal.Signals, report):
    before = signal.signal(how, signal.SIG_DFL)  # nohup ignores one of them
    with Client(tmp_path, trusted=False, cold=True) as server:
        signal.signal(how, before)
        server.diagnostics(server.open(tmp_path / "model.py", MODEL))
        server.process.send_signal(how)
        assert server.process.wait(20) == 128 + how
    report(outcome="ended")


@pytest.mark.usefixtures("warm")
def test_truncated_and_garbled_frames(tmp_path: Path, report):
    """After an invalid frame the stream cannot be trusted: the server must continue or end, and leave no processes."""
    garbage = [b"Content-Length: 50\r\n\r\n{", b"Content-Length: x\r\n\r\n{}", b"\x00\xff" * 999,
               b"GET / HTTP/1.1\r\n\r\n", b"Content-Length: -5\r\n\r\n", b"Content-Length: 99999999999999\r\n\r\n{}",
               b"\r\n\r\n\r\n"]  # fmt: skip
    for data in garbage:
        with Client(tmp_path, trusted=data is garbage[0]) as server:
            if server.trusted:
                eventually(lambda server=server: zygotes(server.pid))
            pids = [server.pid, *descendants(server.pid)]
            raw(server, data)
            server.process.stdin.close()
            server.process.wait(60)
            assert gone(pids) == []
    report(tries=len(garbage), outcome="ends with its input")


def test_a_server_ends_while_it_is_asked(tmp_path: Path, report):
    """Its client ends it at once: requests of both sides have no answer yet."""
    hover = {"textDocument": {"uri": "file:///x.py"}, "position": {"line": 0, "character": 0}}
    for _ in range(5):
        with Client(tmp_path, trusted=False) as server:
            server._send({"jsonrpc": "2.0", "id": "asked", "method": "textDocument/hover", "params": hover})
            assert server.request("shutdown", None) is None
            server.notify("exit", None)
            assert server.process.wait(60) == 0
    report(tries=5, outcome="ends with status 0")


@pytest.mark.parametrize("head", [b"content-length:%d\r\n\r\n", b"CONTENT-LENGTH:  %d \r\n\r\n"])
def test_a_header_in_another_case(tmp_path: Path, head: bytes, report):
    with Client(tmp_path, trusted=False) as server:
        body = b'{"jsonrpc": "2.0", "id": 91, "method": "fxlens/status", "params": {}}'
        raw(server, head % len(body) + body)
        assert server.wait(lambda each: each.get("id") == 91, 30)["result"]
        assert server.request("fxlens/status", {}, 30)
    report(outcome="read as any other")


def test_enormous_message(server: Client, folder: Path, report):
    uri = server.open(folder / "enormous.py", MODEL + "#" + "é" * (8 << 20))
    assert server.diagnostics(uri) == []
    taken = alive(server, uri)
    server.close(uri)
    server.diagnostics(uri)
    report(outcome="16 MiB of text are traced", recovered=taken)


@pytest.mark.usefixtures("warm")
def test_requests_before_initialize_and_after_shutdown(tmp_path: Path, report):
    hover = {"textDocument": {"uri": "file:///x.py"}, "position": {"line": 0, "character": 0}}
    server = Client(tmp_path)
    try:
        server.notify("textDocument/didOpen", {"textDocument": {"uri": "file:///x.py"}})
        with pytest.raises(RuntimeError, match=r"-32002.*initialize was not sent yet"):
            server.request("textDocument/hover", hover)
        assert descendants(server.pid) == []
        server.initialize()
        uri = server.open(tmp_path / "model.py", MODEL)
        assert server.diagnostics(uri) == []
        server.request("shutdown", None)
        server._send({"jsonrpc": "2.0", "id": "late", "method": "fxlens/trace", "params": {"uri": uri}})
        late = server.wait(lambda each: each.get("id") == "late", 60)
        assert late["error"]["code"] == -32600, "InvalidRequest"
        with pytest.raises(RuntimeError, match="shutdown was sent before"):
            server.request("textDocument/hover", hover, 60)
        assert gone(descendants(server.pid)) == []
        server.notify("exit", None)
        assert server.process.wait(60) == 0
    finally:
        server.stop()
    report(tries=3, outcome="nothing is started, ends with status 0")


def test_requests_for_closed_documents(server: Client, folder: Path, report):
    uri = server.open(folder / "closed.py", MODEL)
    server.close(uri)
    at = {"textDocument": {"uri": uri}}
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
    assert server.request("textDocument/hover", {**at, "position": {"line": 1, "character": 1}}) is None
    assert server.request("textDocument/codeLens", at) in (None, [])
    assert server.request("textDocument/inlayHint", {**at, "range": whole}) in (None, [])
    assert server.request("textDocument/codeAction", {**at, "range": whole, "context": {"diagnostics": []}}) == []
    for method in ("record", "trace"):
        assert server.request(f"fxlens/{method}", {"uri": uri}) is None
    for method in ("graph", "code"):
        assert server.request(f"fxlens/{method}", {"uri": uri, "target": "Net", "view": "code"})["reason"]
    assert server.diagnostics(uri) == []
    report(tries=8, outcome="empty answers")


def test_messages_out_of_order(server: Client, workspace: Path, folder: Path, report):
    """Messages that arrive twice, too late or too early: the server continues with the latest one."""
    uri = (folder / "order.py").as_uri()
    identifier = {"textDocument": {"uri": uri}}

    def open_with(text: str, version: int) -> None:
        item = {"uri": uri, "languageId": "python", "version": version, "text": text}
        server.notify("textDocument/didOpen", {"textDocument": item})

    def change_to(text: str, version: int | None) -> None:
        changed = {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]}
        server.notify("textDocument/didChange", changed)

    server.notify("textDocument/didSave", identifier)
    server.notify("textDocument/didClose", identifier)
    change_to("(", 5)
    server.notify("$/cancelRequest", {"id": "of nothing"})
    server.notify("initialized", {})
    with pytest.raises(RuntimeError, match="initialize was sent before"):
        server.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    open_with("(", 9)
    open_with("((", 3)
    change_to("(((", 2)
    change_to("((((", None)
    server.notify("textDocument/didClose", identifier)
    server.notify("textDocument/didClose", identifier)
    change_to("(((((", 11)
    open_with(MODEL, 1)
    record = server.request("fxlens/record", {"uri": uri})["record"]
    assert [each["status"] for each in record["targets"]] == ["traced"]
    server.notify("textDocument/didClose", identifier)
    taken = alive(server, (workspace / "warm.py").as_uri())
    report(tries=15, outcome="the last state counts", recovered=taken)


def test_cancellation(server: Client, folder: Path, report):
    """Requests cancelled at once and after a while are answered (with a result or an error), and leave no job."""
    uri = server.open(folder / "cancelled.py", MODEL)
    server.diagnostics(uri)
    for n in range(30):
        server.change(uri, MODEL + f"# {n}\n")
        number = f"cancel-{n}"
        server._send({"jsonrpc": "2.0", "id": number, "method": "fxlens/record", "params": {"uri": uri}})
        time.sleep(0.01 * (n % 4))
        server.notify("$/cancelRequest", {"id": number})
        server.notify("$/cancelRequest", {"id": f"never-{n}"})
        answer = server.wait(lambda each, number=number: each.get("id") == number and "method" not in each)
        assert "error" in answer or "result" in answer
    taken = alive(server, uri)
    server.close(uri)
    server.diagnostics(uri)
    report(tries=30, outcome="each answered", recovered=taken)


def test_a_document_is_answered_while_it_is_traced(shared: Client, folder: Path, report):
    """A hover in it, and a request that is cancelled, do not wait for the trace."""
    with shared.lent(deadline=60, verify=False) as server:
        uri = server.open(folder / "slow.py", SLOW)
        began = time.monotonic()
        server.request("textDocument/hover", {"textDocument": {"uri": uri}, "position": {"line": 11, "character": 16}})
        hovered = time.monotonic() - began
        assert not [each for each in server.received if publishes(each, uri)], "the hover has waited for the trace"
        number = server.start("fxlens/record", {"uri": uri})
        server.notify("$/cancelRequest", {"id": number})
        began = time.monotonic()
        server.wait(lambda each: each.get("id") == number and "method" not in each)
        cancelled = time.monotonic() - began
        assert not [each for each in server.received if publishes(each, uri)], "the answer has waited for the trace"
    report(tries=2, outcome=f"hover after {hovered:.1f} s, cancelled after {cancelled:.1f} s")


def publishes(message: dict, uri: str) -> bool:
    """All findings in the document."""
    parameters = message.get("params", {})
    return (message.get("method"), parameters.get("uri")) == ("textDocument/publishDiagnostics", uri) and (
        parameters.get("version") is not None
    )


WRONG = [
    None, 3, "text", [], [None], {"deadline": "soon"}, {"deadline": -1}, {"deadline": float(10**300)}, {"memory": 0},
    {"debounce": None, "jobs": 1.5}, {"jobs": 10**9}, {"python": 3}, {"python": ["x"]}, {"python": "\0"},
    {"enable": "no"},
    {"select": "FX1"}, {"ignore": {"a": 1}}, {"severity": {"FX101": 3}}, {"worker": "thread"}, {"run": True},
    {"unknown": {}},
    {"select": ["FX1", "FX9x"], "ignore": ["fx"], "severity": {"QQ": "hint"}},
]  # fmt: skip


@pytest.mark.usefixtures("warm")
def test_configuration_of_wrong_types(tmp_path: Path, report):
    with started(tmp_path) as server:
        uri = (tmp_path / "warm.py").as_uri()
        for value in WRONG:
            server.settings = value
            server.notify("workspace/didChangeConfiguration", {"settings": value})
            server.notify("workspace/didChangeConfiguration", {"settings": {"fxlens": value}})
            assert server.request("fxlens/debugInfo", {})["text"]
        server.settings = {"debounce": 0}
        server.notify("workspace/didChangeConfiguration", {"settings": {}})
        began = time.monotonic()
        server.change(uri, MODEL)
        version = server.change(uri, MODEL + "\n")
        assert server.diagnostics(uri, version) == []
        said = [each["params"]["message"] for each in server.received if each.get("method") == "window/logMessage"]
        assert any("fxlens.deadline" in each for each in said) and any("fxlens.python" in each for each in said)
        for name, code in (("select", "FX9x"), ("ignore", "fx"), ("severity", "")):
            assert any(f"fxlens.{name}: no rule code begins with {code}" in each for each in said), name
        report(tries=len(WRONG), outcome="refused with a sentence", recovered=time.monotonic() - began)


def test_answers_about_settings_that_come_late(shared: Client, folder: Path, monkeypatch: pytest.MonkeyPatch, report):
    """Two changes of the settings, of which the client answers the second one first; then it gives no settings."""
    text = MODEL.replace("return ", "return len(x) * ")
    with shared.lent() as server:
        held: list[dict[str, Any]] = []
        usual = server._answer

        def hold(message: dict[str, Any]) -> None:
            (held.append if message["method"] == "workspace/configuration" else usual)(message)

        monkeypatch.setattr(server, "_answer", hold)

        def asked() -> dict[str, Any]:
            before = len(held)
            server.notify("workspace/didChangeConfiguration", {"settings": None})
            eventually(lambda: len(held) > before)
            return held[-1]

        def answer(message: dict[str, Any], result: Any) -> None:
            server._send({"jsonrpc": "2.0", "id": message["id"], "result": result})
            for _ in range(2):
                server.request("fxlens/status", {})

        first, second = asked(), asked()
        answer(second, [{**server.settings, "ignore": ["FX120"]}] * len(second["params"]["items"]))
        answer(first, [server.settings] * len(first["params"]["items"]))
        uri = server.open(folder / "net.py", text)
        assert server.diagnostics(uri) == []
        for odd in ([], 3, None):
            answer(asked(), odd)
        assert server.edit(uri, text + "\n") == []
        monkeypatch.undo()
        server.configure(**server.settings)
        assert [each["code"] for each in server.edit(uri, text)] == ["FX120"]
    report(tries=5, outcome="the last ones hold")


def test_1000_edits_in_pieces(server: Client, folder: Path, report):
    """Edits of ranges at random places: the server's text stays the client's."""
    choose = random.Random(5)
    lines, uri = MODEL.split("\n"), server.open(folder / "pieces.py", MODEL)
    for version in range(2, 1002):
        number = choose.randrange(len(lines))
        at = choose.randrange(len(lines[number]) + 1)
        piece = choose.choice(["x", "é", "𝄞", "(", " ", "\t"])
        position = {"line": number, "character": len(lines[number][:at].encode("utf-16-le")) // 2}
        lines[number] = lines[number][:at] + piece + lines[number][at:]
        change = [{"range": {"start": position, "end": position}, "text": piece}]
        server.notify(
            "textDocument/didChange", {"textDocument": {"uri": uri, "version": version}, "contentChanges": change}
        )
    server._versions[uri] = 1001
    began = time.monotonic()
    assert server.edit(uri, MODEL) == []
    taken = time.monotonic() - began
    server.close(uri)
    server.diagnostics(uri)
    report(tries=1000, outcome="no backlog", recovered=taken)


def test_many_documents_and_20_times_as_many_edits(
    shared: Client, folder: Path, request: pytest.FixtureRequest, report
):
    """All are traced; edits that come faster than traces end with the last text of each."""
    many = request.config.getoption("--documents")
    broken = MODEL.replace("        return torch", "        if x.sum() > 0:\n            x = -x\n        return torch")
    with shared.lent(debounce=20, verify=False) as server:
        before = psutil.Process(server.pid).memory_info().rss
        began = time.monotonic()
        uris = [server.open(folder / f"many{n}.py", MODEL) for n in range(many)]
        for uri in uris:
            assert server.diagnostics(uri) == []
        opened = time.monotonic() - began
        for number in range(20 * many):
            server.change(uris[number % many], (broken if number >= 19 * many else MODEL) + f"# {number}\n")
        # The last edits wait for their debounce first.
        states = (server.request("fxlens/status", {})["state"] for _ in range(200))
        assert any(state == "busy" or time.sleep(0.002) for state in states)
        began = time.monotonic()
        for uri in uris:
            found = server.diagnostics(uri, server._versions[uri])
            assert [each["code"] for each in found] == ["FX101"]
        edited = time.monotonic() - began
        taken = alive(server, uris[7])
        for uri in uris:
            server.close(uri)
        for uri in uris:
            assert server.diagnostics(uri) == []
        assert settled_at_rest(server), tree(server.pid)
        assert psutil.Process(server.pid).memory_info().rss - before < 150 << 20
    report(tries=21 * many, outcome=f"opened in {opened:.1f} s, edited in {edited:.1f} s", recovered=taken)


@pytest.mark.usefixtures("warm")
def test_restart_during_requests(tmp_path: Path, report):
    with started(tmp_path) as server:
        uri = server.open(tmp_path / "slow.py", SLOW)
        warm = (tmp_path / "warm.py").as_uri()
        server._send({"jsonrpc": "2.0", "id": "waiting", "method": "fxlens/record", "params": {"uri": warm}})
        before = [each for zygote in zygotes(server.pid) for each in (zygote, *descendants(zygote))]
        assert before
        server.request("fxlens/restart", {})
        server.wait(lambda each: each.get("id") == "waiting")
        began = time.monotonic()
        assert server.edit(uri, MODEL) == []
        taken = time.monotonic() - began
        assert gone(before) == []
        assert len(settled(server.pid, at_rest(2))) <= at_rest(2), tree(server.pid)
    report(tries=1, outcome="answered in the new worker", recovered=taken)


@pytest.mark.usefixtures("warm")
def test_worker_killed(tmp_path: Path, report):
    """The zygote, or a job, killed from outside at a random time."""
    choose, slowest = random.Random(2), 0.0
    with started(tmp_path) as server:
        uri = (tmp_path / "warm.py").as_uri()
        for n in range(4):
            server.change(uri, MODEL + f"#{n}\n")
            time.sleep(choose.random() * 0.1)
            victims = descendants(server.pid)
            if victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victims[0] if n % 2 else choose.choice(victims), signal.SIGKILL)
            slowest = max(slowest, alive(server, uri))
    report(tries=4, outcome="a new one takes over", recovered=slowest)


def test_changes_of_a_closed_document_and_without_a_version(server: Client, workspace: Path, report):
    uri = server.open(workspace / "changed.py", MODEL)
    assert server.diagnostics(uri) == []
    broken = MODEL.replace("relu(", "relu(len(x) * ")
    before = len([each for each in server.received if each.get("method") == "window/showMessage"])
    identifier = {"uri": uri, "version": None}
    server.notify("textDocument/didChange", {"textDocument": identifier, "contentChanges": [{"text": broken}]})
    assert "len(x)" in str(server.request("fxlens/record", {"uri": uri}))
    server.close(uri)
    server.notify("textDocument/didChange", {"textDocument": identifier, "contentChanges": [{"text": broken}]})
    server.request("fxlens/status", {})
    assert len([each for each in server.received if each.get("method") == "window/showMessage"]) == before
    report(tries=2, outcome="taken, passed over")
