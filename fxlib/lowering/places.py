"""The source of a node: from the trace, or from the stack trace that torch.export keeps."""

from __future__ import annotations

import linecache
import re
from functools import lru_cache

from fxlib.ir.node import Node
from fxlib.ir.span import Span, is_hidden

_FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in ', re.MULTILINE)


def span_of(node: Node) -> Span | None:
    """The expression that made a node; the whole line if only that is known."""
    if node._site is not None:
        return node.span
    path = _lines(node.meta.get("stack_trace") or "")
    return path[-1] if path else None


def path_of(node: Node) -> tuple[Span, ...]:
    """The calls from the root's forward to that expression, which comes last."""
    return tuple(node.call_path) if node._site is not None else _lines(node.meta.get("stack_trace") or "")


@lru_cache(maxsize=4096)
def _lines(stack_trace: str) -> tuple[Span, ...]:
    """The user's lines in a stack trace, without indentation."""
    found = []
    for frame in _FRAME.finditer(stack_trace):
        file, line = frame["file"], int(frame["line"])
        text = linecache.getline(file, line)
        if text and not is_hidden(file):
            begin = len(text.encode()) - len(text.encode().lstrip())
            found.append(Span(file, line, begin, line, len(text.encode().rstrip())))
    return tuple(found)
