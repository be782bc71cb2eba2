"""Runs code that asks for a CUDA device where there is none: tensors stay on their device, and new ones are on the
default one."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["ABSENT_DEVICE", "Staying", "asks", "note", "requests", "tensor_types"]

ABSENT_DEVICE = (
    "not compiled with CUDA", "NVIDIA driver", "No CUDA GPUs", "not linked with support for cuda", "ATen_cuda",
    "deserialize object on a CUDA device", "'torch._C' has no attribute '_cuda_", "Cannot access accelerator device",
)  # fmt: skip
"""Torch's messages for it."""

_requests = 0


def requests() -> int:
    """How many requests for what is not there have been seen in this process."""
    return _requests


def note() -> None:
    """Counts one."""
    global _requests
    _requests += 1


class Staying(TorchFunctionMode):
    """While it is entered, requests for a CUDA device are ignored. Proxies record them as without it."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.Tensor.cuda:
            note()
            return args[0]
        if function is torch._C._nn._parse_to:  # type: ignore[attr-defined]  # parses the arguments of Module.to
            args = tuple(each for each in args if not _is_cuda(each))
            kwargs = {name: each for name, each in (kwargs or {}).items() if name != "device"}
            return function(*args, **kwargs) if args or kwargs else (None, None, False, None)
        if kwargs and _is_cuda(kwargs.get("device")):
            kwargs = {name: each for name, each in kwargs.items() if name != "device"}
        if function is torch.Tensor.type:
            args = tuple(map(_type_here, args))
        if function is torch.Tensor.to:
            args = tuple(args[0].device if _is_cuda(each) else each for each in args)
            if args[0].is_meta:  # it has no data to move
                args = (args[0], *(each for each in args[1:] if not _is_place(each)))
                kwargs = {name: each for name, each in (kwargs or {}).items() if name != "device"}
            if len(args) == 1 and not kwargs:
                return args[0]
        return function(*args, **(kwargs or {}))


@functools.cache
def tensor_types() -> dict[str, type]:
    """Types in place of ``torch.cuda.FloatTensor`` and the like, by name: they make tensors on the CPU."""
    names = [name for name in vars(torch.cuda) if name.endswith("Tensor") and hasattr(torch, name)]
    return {name: type(name, (), {"__module__": "torch.cuda", "__new__": _maker(name)}) for name in names}


def _maker(name: str) -> Any:
    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        note()
        return getattr(torch, name)(*args, **kwargs)

    return make


def _type_here(value: Any) -> Any:
    """The type on the CPU of one on a CUDA device."""
    if isinstance(value, str) and "torch.cuda." in value:
        note()
        return value.replace("torch.cuda.", "torch.")
    if isinstance(value, type) and value.__module__ == "torch.cuda":
        note()
        return getattr(torch, value.__name__, value)
    return value


def asks(graph: Any) -> bool:
    """Whether running a graph asks for a CUDA device."""
    for node in graph.nodes:
        if node.op == "call_module":
            continue
        method = node.target if node.op == "call_method" else None
        if method == "cuda" or (method == "to" and any(map(_is_cuda, node.args[1:]))):
            return True
        if method == "type" and any(_type_here(each) is not each for each in node.args[1:]):
            return True
        if node.kwargs and _is_cuda(node.kwargs.get("device")):
            return True
    return False


def _is_place(value: Any) -> bool:
    return isinstance(value, (str, torch.device))


def _is_cuda(value: Any) -> bool:
    # The number of a device; True is not one.
    found = (_is_place(value) and str(value).startswith("cuda")) or type(value) is int
    if found:
        note()
    return found
