"""Lets code that needs a CUDA device or a process group run without them: values stay on their device, and the process
is alone in its group."""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, TypeVar
from weakref import WeakSet

from .errors import text_of

_T = TypeVar("_T")

_OF_GROUPS = ("Default process group has not been initialized", "parallel group is not initialized")
"""Messages for lack of one."""


def is_about(error: BaseException | None) -> bool:
    try:
        return is_told(text_of(error)) or _of_own_groups(error)
    except Exception:
        return False


def _of_own_groups(error: BaseException | None) -> bool:
    """Whether a function of the user's that queries process groups raised it: ``if not inited: raise ...``."""
    frames = list(traceback.walk_tb(error.__traceback__ if error is not None else None))
    if not frames or str(frames[-1][0].f_globals.get("__name__")).partition(".")[0] == "torch":
        return False
    name = frames[-1][0].f_code.co_name
    return "parallel group" in text_of(error) or any(pattern.fullmatch(name) for pattern, _ in _ANSWERING)


def is_told(text: str) -> bool:
    from fxlib.diagnosis.engine.absent_device import ABSENT_DEVICE

    return any(each in text for each in (*_OF_GROUPS, *ABSENT_DEVICE))


_ANSWERING = ((re.compile(r"get_(\w+_)?world_size"), 1), (re.compile(r"get_(\w+_)?rank"), 0))
"""Names of functions that query process groups, and their answers for a group of one."""


def _asked(error: BaseException | None) -> Iterator[tuple[FunctionType, Any]]:
    """The functions about process groups in the file that raised this for lack of one, with their answers."""
    frames = list(traceback.walk_tb(error.__traceback__ if error is not None else None))
    if not _of_own_groups(error):
        return
    names = frames[-1][0].f_globals
    for name, each in names.items():
        if isinstance(each, FunctionType) and each.__globals__ is names and each.__closure__ is None:
            for pattern, answer in (*_ANSWERING, (re.compile(r"get_(\w+_)?group"), None)):
                if pattern.fullmatch(name):
                    yield each, answer


_ANSWERS = {1: (lambda *_, **__: 1).__code__, 0: (lambda *_, **__: 0).__code__, None: (lambda *_, **__: None).__code__}


@contextlib.contextmanager
def alone(error: BaseException | None = None) -> Iterator[None]:
    """Ignore device requests, and let ``torch.distributed`` report one process, and so the user's functions that raised
    ``error`` for lack of process groups."""
    import torch

    from fxlib.diagnosis.engine.absent_device import Staying, note, tensor_types

    load = torch.load

    def load_here(f: Any, *_: Any, **kwargs: Any) -> Any:
        note()
        return load(f, **{**kwargs, "map_location": "cpu"})

    def answering(answer: Any) -> Callable[..., Any]:
        def answered(*_: Any, **__: Any) -> Any:
            note()
            return answer

        return answered

    answers = [("current_device", 0), ("set_device", None), ("synchronize", None)]
    changed: list[tuple[Any, str, Any]] = [(torch.cuda, name, answering(answer)) for name, answer in answers]
    changed += [(torch.cuda, name, kind) for name, kind in tensor_types().items()]
    if torch.distributed.is_available():
        changed += [
            (torch.distributed, name, answering(answer)) for name, answer in (("get_world_size", 1), ("get_rank", 0))
        ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changed]
    for owner, name, instead in changed:
        setattr(owner, name, instead)
    torch.load = load_here
    asked = [(function, function.__code__, answer) for function, answer in _asked(error)]
    for function, _, answer in asked:
        function.__code__ = _ANSWERS[answer]
    try:
        with Staying():
            yield
    finally:
        for function, code, _ in asked:
            function.__code__ = code
        for owner, name, function in before:
            setattr(owner, name, function)
        torch.load = load


_needing: WeakSet[type] = WeakSet()
"""Classes whose forward needs this, as this process has seen."""
_needed: WeakSet[type] = WeakSet()
"""Classes whose forward needed this in an earlier text."""


def needs(module: Any) -> bool:
    """Whether calls of this module were seen to need it."""
    return type(module) in _needing


def needed(module: Any) -> None:
    """From now on, calls of this module are made `alone` at once, since they needed it in an earlier text."""
    _needed.add(type(module))


def where(needed: bool) -> contextlib.AbstractContextManager[None]:
    return alone() if needed else contextlib.nullcontext()


def run(module: Any, call: Callable[[], _T]) -> _T:
    """What a call of the module's forward returns; made `alone` if it raises for lack of a device or process group."""
    try:
        with _as_known(module):
            return call()
    except Exception as error:
        if not is_about(error):
            raise
        lacking = error
    _needing.add(type(module))
    with alone(lacking):
        return call()


def trace(module: Any, diagnose: Callable[[], Any]) -> Any:
    """The report about a module; a second one, `alone`, if forward asks for a device or process group."""
    with _as_known(module) as is_alone:
        report = diagnose()
    if not _asks(report):
        return report
    _needing.add(type(module))
    if is_alone:
        return report
    with alone():
        return diagnose()


@contextlib.contextmanager
def _as_known(module: Any) -> Iterator[bool]:
    """Entered `alone` if the module needs it or did in an earlier text. Notes whether it still does."""
    from fxlib.diagnosis.engine import absent_device

    kind = type(module)
    is_alone = kind in _needing or kind in _needed
    with where(is_alone):
        before = absent_device.requests()
        try:
            yield is_alone
        finally:
            if is_alone and absent_device.requests() > before:
                _needing.add(kind)


def _asks(report: Any) -> bool:
    from fxlib.diagnosis.engine.absent_device import asks

    failed = any(each.code in ("FX190", "FX199") and is_told(each.message) for each in report.findings)
    return failed or (report.graph is not None and asks(report.graph))
