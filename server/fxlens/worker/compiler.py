"""Keeps torch from importing its compiler where nobody asked for it.

``torch._dynamo`` takes as long to import as torch does.  Many operators on meta, the initialization of ``nn.Embedding``
among them, import it for nothing but to be left out of what it compiles, and fake tensors for three of its settings.
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
    """Stands for ``torch._dynamo`` where only its settings are read; whatever else is asked for imports it."""

    def __init__(self, config: ModuleType) -> None:
        self.config = config

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(NAME), name)


def _settings_alone(torch: ModuleType) -> None:
    """The compiler's module of settings is loaded without the compiler, which takes it over once it is imported."""
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
