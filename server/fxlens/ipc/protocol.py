"""Messages between the server and the worker: a length, then JSON.

Used by both sides, so standard library only.  No pickle: the worker runs code that the server must not trust.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

VERSION = 1
"""Both sides must have the same number; the worker says its own in its first message."""

MAX_FRAME = 256 * 1024 * 1024
"""Bytes.  A longer frame can only be garbage on the pipe."""

Json = dict[str, Any]
"""A message as it was read, before anybody knows of which kind it is."""
Data = Mapping[str, object]
"""A message to be written."""

NO_CHANNEL_STATUS = 70
"""Exit status of a job that cannot speak to the server any more: user code closed its descriptors."""

_HEADER = struct.Struct(">I")
HEADER_SIZE = _HEADER.size

# Bound now: the worker's user may replace what the json module exports.
_encoder = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=str)
_decoder = json.JSONDecoder()


class ProtocolError(Exception):
    """The other side sent something that is no frame of this protocol."""


def mismatch(hello: Json) -> str | None:
    """A message for the user when the worker speaks another protocol; None when it is the same."""
    if hello.get("protocol") == VERSION:
        return None
    return f"the worker speaks protocol {hello.get('protocol')}, this server {VERSION}; reinstall fxlens"


def encode(message: Data) -> bytes:
    """One frame.  Values JSON does not know become their ``str``; NaN and infinities become ``NaN``, ``Infinity``."""
    body = _encoder.encode(message).encode("ascii")
    return _HEADER.pack(len(body)) + body


def body_size(header: bytes) -> int:
    """Bytes that follow this header.  Raises ProtocolError where no sane frame starts like this."""
    (size,) = _HEADER.unpack(header)
    if size > MAX_FRAME:
        raise ProtocolError(f"a frame of {size} bytes was announced; the limit is {MAX_FRAME}")
    return size


def decode(body: bytes) -> Json:
    """The message in a frame's body.  Raises ProtocolError for anything but a JSON object."""
    try:
        message = _decoder.decode(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {error}") from None
    if not isinstance(message, dict):
        raise ProtocolError(f"expected an object, got {type(message).__name__}")
    return message


def read_blocking(read: Callable[[int], bytes]) -> Json | None:
    """One message through ``read(n)``, which gives up to n bytes and ``b""`` at the end; None at a clean end."""

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
