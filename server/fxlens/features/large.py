"""Large answers: made and encoded in a thread, in pieces, so that other requests are answered meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping

_LONG = 100
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Encoded(bytes):
    """A result that is JSON already."""


async def encoded(make: Callable[[], object]) -> Encoded:
    """The result of ``make`` as an answer."""
    return await asyncio.to_thread(lambda: Encoded("".join(_pieces(make())).encode()))


def _pieces(value: object) -> Iterator[str]:
    """The C encoder holds the GIL until it is done, so long values are encoded in parts."""
    mark = ""
    if isinstance(value, Mapping):
        yield "{"
        for name, each in value.items():
            yield f"{mark}{_encode(str(name))}:"
            yield from [_encode(each)] if len(value) > _LONG else _pieces(each)
            mark = ","
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for each in value:
            yield mark
            yield from [_encode(each)] if len(value) > _LONG else _pieces(each)
            mark = ","
        yield "]"
    else:
        yield _encode(value)
