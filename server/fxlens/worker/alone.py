"""Lets constructors that need a CUDA device or a process group run without them: values stay on their device, and the
process is alone in its group."""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from .errors import text_of

ABOUT = (
    "not compiled with CUDA", "NVIDIA driver", "No CUDA GPUs", "Default process group has not been initialized",
    "deserialize object on a CUDA device", "'torch._C' has no attribute '_cuda_", "Cannot access accelerator device",
    "parallel group is not initialized",
)  # fmt: skip
"""Messages of such failures."""


def is_about(error: BaseException | None) -> bool:
    try:
        return any(each in text_of(error) for each in ABOUT)
    except Exception:
        return False


_OF_GROUPS = ((re.compile(r"get_(\w+_)?world_size"), 1), (re.compile(r"get_(\w+_)?rank"), 0))
"""Names of functions that query process groups, and their answers for a group of one."""


def _asked(error: BaseException | None) -> Iterator[tuple[FunctionType, Any]]:
    """The functions about process groups in the file that raised this for lack of one, with their answers."""
    frames = list(traceback.walk_tb(error.__traceback__ if error is not None else None))
    if not frames or "parallel group" not in text_of(error):
        return
    names = frames[-1][0].f_globals
    for name, each in names.items():
        if isinstance(each, FunctionType) and each.__globals__ is names and each.__closure__ is None:
            for pattern, answer in (*_OF_GROUPS, (re.compile(r"get_(\w+_)?group"), None)):
                if pattern.fullmatch(name):
                    yield each, answer


_ANSWERS = {1: (lambda *_, **__: 1).__code__, 0: (lambda *_, **__: 0).__code__, None: (lambda *_, **__: None).__code__}


@contextlib.contextmanager
def alone(error: BaseException | None = None) -> Iterator[None]:
    """Ignore device requests, and let ``torch.distributed`` report one process, and so the user's functions that raised
    ``error`` for lack of process groups."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Staying(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.Tensor.cuda:
                return args[0]
            if function is torch._C._nn._parse_to:  # parses the arguments of Module.to
                args = tuple(each for each in args if not _is_cuda(each))
                kwargs = {name: each for name, each in (kwargs or {}).items() if name != "device"}
                return function(*args, **kwargs) if args or kwargs else (None, None, False, None)
            kwargs = {name: each for name, each in (kwargs or {}).items() if name != "device" or not _is_cuda(each)}
            if function is torch.Tensor.to:
                args = tuple(args[0].device if _is_cuda(each) else each for each in args)
                if args[0].is_meta:  # it has no data to move
                    args = (args[0], *(each for each in args[1:] if not _is_place(each)))
                    kwargs.pop("device", None)
            return (
                args[0] if len(args) == 1 and function is torch.Tensor.to and not kwargs else function(*args, **kwargs)
            )

    load = torch.load

    def load_here(f: Any, *_: Any, **kwargs: Any) -> Any:
        return load(f, **{**kwargs, "map_location": "cpu"})

    answers: list[tuple[Any, str, Any]] = [(torch.cuda, "current_device", 0), (torch.cuda, "set_device", None)]
    if torch.distributed.is_available():
        answers += [(torch.distributed, "get_world_size", 1), (torch.distributed, "get_rank", 0)]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in answers]
    for owner, name, answer in answers:
        setattr(owner, name, lambda *_, _answer=answer, **__: _answer)
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


def _is_place(value: Any) -> bool:
    import torch

    return isinstance(value, (str, torch.device))


def _is_cuda(value: Any) -> bool:
    import torch

    named = isinstance(value, (str, torch.device)) and str(value).startswith("cuda")
    return named or type(value) is int  # the number of a device; True is not one
