"""Keeps torch from importing its compiler when it is not needed.

``torch._dynamo`` takes as long to import as torch does. Many operators on meta, such as the initialization of
``nn.Embedding``, import it only to disable it for themselves, and fake tensors only to read three of its settings.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

NAME = "torch._dynamo"
_CONFIG = f"{NAME}.config"
_CALLER = "__dynamo_disable"


def there() -> bool:
    return NAME in sys.modules


def imported() -> bool:
    """Imports it; returns whether that worked."""
    with contextlib.suppress(BaseException):
        importlib.import_module(NAME)
    return there()


def put_off() -> None:
    """Until the compiler is imported, such functions of torch run without disabling it; afterwards as before.

    Each stores its disabled version in an attribute. Other versions of torch are left unchanged.
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
    _settings_alone(torch)


def _put_off(decorated: FunctionType, function: Any) -> None:
    def alone(*args: Any, **kwargs: Any) -> Any:
        if not there():
            return function(*args, **kwargs)
        if vars(function).get(_CALLER) is alone:
            delattr(function, _CALLER)
        return decorated(*args, **kwargs)

    if isinstance(function, FunctionType) and not hasattr(function, _CALLER):
        setattr(function, _CALLER, alone)


class _Settings:
    """Replaces ``torch._dynamo`` as long as only its settings are read; any other attribute imports it."""

    def __init__(self, config: ModuleType) -> None:
        self.config = config

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(NAME), name)


def _settings_alone(torch: ModuleType) -> None:
    """Load the compiler's settings module without the compiler, which reuses it once imported."""
    path = Path(torch.__path__[0], "_dynamo", "config.py")
    spec = importlib.util.spec_from_file_location(_CONFIG, path)
    if spec is None or spec.loader is None or not path.is_file():
        return
    module = sys.modules[_CONFIG] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception:
        del sys.modules[_CONFIG]
    else:
        vars(torch)["_dynamo"] = _Settings(module)
