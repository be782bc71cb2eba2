"""Models that make a tokenizer when they are constructed go without where its file is not here: graphs do not depend on
what texts are."""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Iterator
from typing import Any

from .stand_ins import NotInstalled

_NAMES = re.compile("tokenizer|vocab", re.I)


def behind(error: BaseException | None) -> type | None:
    """The tokenizer whose constructor raised this; None where none did."""
    import torch

    for frame, _ in traceback.walk_tb(error.__traceback__ if error is not None else None):
        own = frame.f_locals.get("self") if frame.f_code.co_name == "__init__" else None
        if own is not None and _NAMES.search(type(own).__name__) and not isinstance(own, torch.nn.Module):
            return type(own)
    return None


@contextlib.contextmanager
def without(kind: type) -> Iterator[None]:
    """Objects of this class are made without anything in them; who uses one gets NotInstalled."""

    def missing(self: Any, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotInstalled(f"{kind.__name__} was made without its file, and {name} of it is used here")

    empty = type(kind.__name__, (kind,), {"__getattr__": missing})

    def construct(self: Any, *_: Any, **__: Any) -> None:
        self.__class__ = empty

    init = kind.__init__  # type: ignore[misc]
    kind.__init__ = construct  # type: ignore[misc]
    try:
        yield
    finally:
        kind.__init__ = init  # type: ignore[misc]
