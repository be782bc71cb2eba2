"""Calls of graph modules: an error raised by a line of generated code is shown with the lines around it."""

import linecache
import sys
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from torch import nn

from fxlib.codegen.compile import is_generated

__all__: list[str] = []


class _WrappedCall:
    """Calls an instance of ``cls``: by ``cls_call``, or by what the classes above say.

    An error of generated code is printed with its place there, and raised without the frames that led to it.
    """

    def __init__(self, cls: type, cls_call: Callable[..., Any] | None) -> None:
        self.cls = cls
        self.cls_call = cls_call

    def __call__(self, obj: nn.Module, *args: Any, **kwargs: Any) -> Any:
        # Looked up now, because Module.__call__ is patched while a model is traced.
        call: Callable[..., Any] = self.cls_call or super(self.cls, self.cls).__call__  # type: ignore[arg-type]
        try:
            return call(obj, *args, **kwargs)
        except Exception as error:
            place = _place_in_generated_code(error.__traceback__)
            if place is None:
                raise
            print(_message(*place), file=sys.stderr)
            raise error.with_traceback(None)  # noqa: B904


def _place_in_generated_code(trace: TracebackType | None) -> tuple[str, int] | None:
    """File name and line of the innermost frame, if its code was generated."""
    frames = [*traceback.walk_tb(trace)]
    frame, line = frames[-1]
    return (frame.f_code.co_filename, line) if is_generated(frame.f_code) else None


def _message(file: str, line: int) -> str:
    # Numbered from 1.
    lines = ["", *linecache.getlines(file)]
    return "\n".join(
        [
            traceback.format_exc(),
            f"Call using an FX-traced Module, line {line} of the traced Module's generated forward function:",
            "".join(lines[max(line - 1, 0) : line + 1]),
            "~" * len(linecache.getline(file, line).strip()) + "~~~ <--- HERE",
            "\n".join(lines[line + 1 : line + 3]),
        ]
    )


def _call_wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self._wrapped_call(self, *args, **kwargs)


def wrap_calls(cls: Any) -> None:
    """Make calls of a graph module's class go through a ``_WrappedCall``, if they do not yet."""
    if "_wrapped_call" not in vars(cls):
        cls._wrapped_call = _WrappedCall(cls, vars(cls).get("__call__"))
        cls.__call__ = _call_wrapped
