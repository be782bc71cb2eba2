"""Lets models that construct a tokenizer run without its file, since graphs do not depend on texts."""

from __future__ import annotations

import contextlib
import os
import re
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

from .stand_ins import NotInstalled

_NAMES = re.compile("tokenizer|vocab", re.I)
_FILE = re.compile(r"[/\\]|\.\w+$")
"""Characters that mark a string as the path of a file."""


def behind(error: BaseException | None) -> type | None:
    """The tokenizer class whose constructor raised this for lack of its file or package; None if there is none."""
    import torch

    for frame, _ in traceback.walk_tb(error.__traceback__ if error is not None else None):
        own = frame.f_locals.get("self") if frame.f_code.co_name == "__init__" else None
        if own is None or not _NAMES.search(type(own).__name__) or isinstance(own, torch.nn.Module):
            continue
        if isinstance(error, (OSError, NotInstalled)) or _lacks_file(frame):
            return type(own)
    return None


def _lacks_file(frame: FrameType) -> bool:
    """Whether an argument of this call is the path of a missing file."""
    code = frame.f_code
    given = [frame.f_locals.get(name) for name in code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]]
    paths = [each for each in given if isinstance(each, os.PathLike) or (isinstance(each, str) and _FILE.search(each))]
    return not all(map(os.path.exists, paths))


@contextlib.contextmanager
def without(kind: type) -> Iterator[None]:
    """Make objects of this class empty; using one raises NotInstalled."""

    def missing(self: Any, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotInstalled(f"{kind.__name__} was created without its file, but {name} of it is used here")

    empty = type(kind.__name__, (kind,), {"__slots__": (), "__getattr__": missing})

    def construct(self: Any, *_: Any, **__: Any) -> None:
        object.__setattr__(self, "__class__", empty)  # a frozen data class overrides __setattr__

    init = vars(kind).get("__init__")
    kind.__init__ = construct  # type: ignore[misc]
    try:
        yield
    finally:
        if init is None:
            del kind.__init__  # type: ignore[misc]
        else:
            kind.__init__ = init  # type: ignore[misc]
