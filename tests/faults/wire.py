"""What is written to a server without the client of the other tests."""

from __future__ import annotations

import time

from lsp_client import MODEL, Client

SLOW = MODEL.replace("return torch", "import time; time.sleep(99); return torch")


def raw(server: Client, data: bytes) -> None:
    server.process.stdin.write(data)
    server.process.stdin.flush()


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def alive(server: Client, uri: str) -> float:
    """Seconds for an edit to be answered."""
    began = time.monotonic()
    assert server.edit(uri, MODEL + f"# {began}\n") == []
    return time.monotonic() - began


MALFORMED = {
    "no JSON": framed(b"{{{"),
    "not UTF-8": framed(b'{"jsonrpc": "2.0", "method": "\xff\xfe"}'),
    "an array": framed(b"[]"),
    "a number": framed(b"3"),
    "null": framed(b"null"),
    "empty object": framed(b"{}"),
    "another version": framed(b'{"jsonrpc": "1.0", "id": 1, "method": "shutdown"}'),
    "no method": framed(b'{"jsonrpc": "2.0", "id": 900}'),
    "method is a number": framed(b'{"jsonrpc": "2.0", "id": 901, "method": 3}'),
    "parameters are text": framed(b'{"jsonrpc": "2.0", "id": 902, "method": "textDocument/hover", "params": "x"}'),
    "parameters of other types": framed(
        b'{"jsonrpc": "2.0", "id": 903, "method": "textDocument/hover", "params": {"textDocument": 3, "position": []}}'
    ),
    "answer to nothing": framed(b'{"jsonrpc": "2.0", "id": 99999, "result": {}}'),
    "error to nothing": framed(b'{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "x"}}'),
    "id is an object": framed(b'{"jsonrpc": "2.0", "id": {"a": 1}, "method": "textDocument/hover", "params": {}}'),
    "unknown request": framed(b'{"jsonrpc": "2.0", "id": 904, "method": "no/such", "params": {}}'),
    "unknown notification": framed(b'{"jsonrpc": "2.0", "method": "no/such", "params": {}}'),
    "nested deep": framed(b'{"jsonrpc":"2.0","method":"x","params":' + b"[" * 5000 + b"]" * 5000 + b"}"),
    "great number": framed(b'{"jsonrpc":"2.0","method":"x","params":{"a":' + b"9" * 10_000 + b"}}"),
    "more headers": b"Content-Type: text/plain; charset=utf-8\r\nX-Other: 1\r\n" + framed(b"{}"),
    "change of no document": framed(
        b'{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":'
        b'{"uri":"file:///no.py","version":9},'
        b'"contentChanges":[{"text":"x"}]}}'
    ),
    "range out of the text": framed(
        b'{"jsonrpc":"2.0","id":905,"method":"textDocument/hover","params":{"textDocument":{"uri":"file:///no.py"},'
        b'"position":{"line":4294967295,"character":4294967295}}}'
    ),
}
