"""Hooks on ``torch.nn.Module.__call__`` and ``__getattr__`` for the time of a trace.

The functions keep their identity and only their code changes. Assigning to the class instead would make CPython
recompute the slots of every subclass, four times per trace: a fifth of a millisecond with torchvision imported, and
clear the attribute caches of all module classes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch

from fxlib.capture.bytecode import with_code
from fxlib.interop import torch_side

__all__ = ["installed", "original_call", "original_getattr", "uninstalled"]


_call: Any = torch.nn.Module.__call__
_getattr: Any = torch.nn.Module.__getattr__
# The original functions; the hooks call them.
original_call = with_code(_call, _call.__code__)
original_getattr = with_code(_getattr, _getattr.__code__)

_HOOK = "the hook goes here"


def _call_template(self: Any, *args: Any, **kwargs: Any) -> Any:
    hook: Any = "the hook goes here"
    return hook(self, args, kwargs)


def _getattr_template(self: Any, name: Any) -> Any:
    hook: Any = "the hook goes here"
    return hook(self, name)


def _submodule_first_template(self: Any, name: Any) -> Any:
    try:
        return self.__dict__["_modules"][name]
    except KeyError:
        hook: Any = "the hook goes here"
        return hook(self, name)


def _calling(template: Any, hook: Callable[..., Any]) -> CodeType:
    """Code that calls ``hook``; it has no closure, as the code it replaces has none."""
    code: CodeType = template.__code__
    return code.replace(co_consts=tuple(hook if constant == _HOOK else constant for constant in code.co_consts))


@contextlib.contextmanager
def installed(call: Callable[..., Any], getattr_: Callable[..., Any], submodules_too: bool) -> Iterator[None]:
    """Module calls go to ``call(module, args, kwargs)`` and missing attributes to ``getattr_(module, name)``.

    Submodules are found without asking ``getattr_`` unless ``submodules_too``.
    May be nested; the inner hooks then see the calls. A trace by torch.fx inside finds the functions as they were.
    """
    module = torch.nn.Module
    before = _call.__code__, _getattr.__code__
    # Another tracer, perhaps torch.fx around this trace, has installed its own functions.
    replaced = vars(module)["__call__"], vars(module)["__getattr__"]
    if replaced != (_call, _getattr):
        module.__call__, module.__getattr__ = _call, _getattr  # type: ignore[method-assign]
    with torch_side.foreign_originals(original_call, original_getattr):
        _call.__code__ = _calling(_call_template, call)
        _getattr.__code__ = _calling(_getattr_template if submodules_too else _submodule_first_template, getattr_)
        try:
            yield
        finally:
            _call.__code__, _getattr.__code__ = before
            if replaced != (_call, _getattr):
                module.__call__, module.__getattr__ = replaced  # type: ignore[method-assign]


@contextlib.contextmanager
def uninstalled() -> Iterator[None]:
    """Inside, modules behave as outside a trace."""
    before = _call.__code__, _getattr.__code__
    _call.__code__, _getattr.__code__ = original_call.__code__, original_getattr.__code__
    try:
        yield
    finally:
        _call.__code__, _getattr.__code__ = before
