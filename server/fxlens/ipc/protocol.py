"""Messages between the server and the worker: a length, then JSON.

Used by both sides, so standard library only.  No pickle, since the worker runs untrusted code.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

VERSION = 1
"""Both sides must have the same number; the worker says its own in its first message."""

MAX_FRAME = 64 << 20
"""Bytes. Larger messages are neither sent nor read."""
LARGE = 1 << 20
"""Bytes.  Larger frames are decoded in a thread (`decode`)."""

Json = dict[str, Any]
"""A message as read, of unknown kind."""
Data = Mapping[str, object]
"""A message to be written."""

NO_CHANNEL_STATUS = 70
"""Exit status of a job that cannot reach the server because user code closed its descriptors."""

_HEADER = struct.Struct(">I")
HEADER_SIZE = _HEADER.size

# Bound now, since user code may replace what the json module exports.
_encoder = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=str)
_decoder = json.JSONDecoder()
# A C scanner holds the GIL; one that calls Python now and then lets other threads run.
_patient = json.JSONDecoder(
    object_hook=lambda found: found, parse_int=lambda text: int(text), parse_float=lambda text: float(text)
)
_MOST_LISTS = 1 << 20  # these call no Python, so their number is limited; a graph of 64 MiB has half of that


class ProtocolError(Exception):
    """The other side sent an invalid frame."""


class TooLarge(Exception):
    """A message is larger than a frame may be."""


def mismatch(hello: Json) -> str | None:
    """A message for the user when the worker speaks another protocol; None if it is the same."""
    if hello.get("protocol") == VERSION:
        return None
    return f"the worker speaks protocol {hello.get('protocol')}, this server {VERSION}; reinstall fxlens"


def encode(message: Data) -> bytes:
    """One frame.  Values unknown to JSON become their ``str``; NaN and infinities become ``NaN``, ``Infinity``. Raises
    TooLarge."""
    body = _encoder.encode(message).encode("ascii")
    if len(body) > MAX_FRAME:
        raise TooLarge(f"it takes {len(body) >> 20} MiB, and at most {MAX_FRAME >> 20} MiB are shown")
    return _HEADER.pack(len(body)) + body


def body_size(header: bytes) -> int:
    """The number of bytes after this header. Raises ProtocolError if it is invalid."""
    (size,) = _HEADER.unpack(header)
    if size > MAX_FRAME:
        raise ProtocolError(f"it announced a message of {size >> 20} MiB; at most {MAX_FRAME >> 20} MiB are read")
    return size


def decode(body: bytes, patient: bool = False) -> Json:
    """The message in a frame's body; a ``patient`` decoder lets other threads run, and takes a little longer. Raises
    ProtocolError for anything but a JSON object."""
    if patient and body.count(b"[") > _MOST_LISTS:
        raise ProtocolError("it has millions of lists")
    try:
        message = (_patient if patient else _decoder).decode(body.decode("utf-8"))
    except (ValueError, RecursionError, MemoryError) as error:
        raise ProtocolError(f"not JSON: {error}") from None
    if not isinstance(message, dict):
        raise ProtocolError(f"expected an object, got {type(message).__name__}")
    return message


def read_blocking(read: Callable[[int], bytes]) -> Json | None:
    """One message through ``read(n)``, which returns up to n bytes, and ``b""`` at the end; None at a clean end."""

    def exactly(count: int) -> bytes:
        parts = []
        while count:
            part = read(count)
            if not part:
                return b""
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    header = exactly(HEADER_SIZE)
    if not header:
        return None
    body = exactly(body_size(header))
    if not body:
        raise ProtocolError("the frame ends before its announced length")
    return decode(body)
