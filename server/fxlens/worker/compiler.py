"""Keeps torch from importing its compiler where nobody asked for it.

``torch._dynamo`` takes as long to import as torch does.  Many operators on meta, the initialization of ``nn.Embedding``
among them, import it for nothing but to be left out of what it compiles.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from types import FunctionType
from typing import Any

NAME = "torch._dynamo"
_CALLER = "__dynamo_disable"


def there() -> bool:
    return NAME in sys.modules


def imported() -> bool:
    """Imports it; whether that worked."""
    with contextlib.suppress(BaseException):
        importlib.import_module(NAME)
    return there()


def put_off() -> None:
    """From now on such functions of torch run as they are until the compiler is imported, and then as torch has it.

    Each keeps in an attribute what calls it with the compiler off.  A torch that does it otherwise is left as it is.
    """
    import torch

    decorated = getattr(torch, "_disable_dynamo", None)
    if decorated is None or there():
        return
    code = decorated(lambda: None).__code__
    if "fn" in code.co_freevars:
        at = code.co_freevars.index("fn")
        for each in gc.get_referrers(code):
            if isinstance(each, FunctionType) and each.__closure__ is not None:
                _put_off(each, each.__closure__[at].cell_contents)


def _put_off(decorated: FunctionType, function: Any) -> None:
    def alone(*args: Any, **kwargs: Any) -> Any:
        if not there():
            return function(*args, **kwargs)
        if vars(function).get(_CALLER) is alone:
            delattr(function, _CALLER)
        return decorated(*args, **kwargs)

    if isinstance(function, FunctionType) and not hasattr(function, _CALLER):
        setattr(function, _CALLER, alone)
