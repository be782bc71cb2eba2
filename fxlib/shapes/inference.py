"""One node's result from its arguments' metadata, and a whole graph's, node by node.

`infer` tries in order: the rule table, cached results of calls with equal metadata, torch's kernels. `propagate`
applies it to a graph and sets ``node.meta["tensor_meta"]``, in torch.fx's form, on every node.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import nn

from fxlib.ir.arguments import Target
from fxlib.ir.modules import is_altered
from fxlib.ir.paths import read, submodule
from fxlib.ir.spelling import target_name
from fxlib.shapes import (  # noqa: F401  (they fill the tables)
    binary,
    conversion,
    convolution,
    factories,
    joining,
    normalisation,
    products,
    reductions,
    unary,
    views,
)
from fxlib.shapes.kernel import ShapeError, by_kernel, by_module, map_values
from fxlib.shapes.library import library_rule
from fxlib.shapes.likeness import frozen, likeness
from fxlib.shapes.table import FUNCTIONS, METHODS, MODULES, Rule, answer
from fxlib.shapes.tensor_meta import TensorMeta, described

__all__ = ["clear", "infer"]

_NO_GRAD = {torch.argmax, torch.argmin, torch.detach, "argmax", "argmin", "detach", "detach_"}
_PURE_OWNERS = ("torch", "_operator", "builtins", "math")
_IN_PYTHON = ("_operator", "builtins", "math")
_MISSING = object()
_remembered: dict[Hashable, Any] = {}
_REMEMBERED_MAX = 50_000


def clear() -> None:
    """Clear the cache of results."""
    _remembered.clear()


def infer(
    op: str,
    target: Any,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    root: nn.Module | None = None,
) -> Any:
    """What a node yields: `TensorMeta` for each tensor, plain Python values for the rest, nested as torch nests them.

    Args:
        op: one of ``get_attr``, ``call_function``, ``call_method``, ``call_module``.
        target: as in a node.
        args, kwargs: as in a node, with `TensorMeta` (or real tensors, of which only metadata is used) for tensors.
        root: the owner of ``call_module`` and ``get_attr`` targets.

    Raises:
        ShapeError: torch would refuse the call; the text is torch's.
        DataDependentError: the result depends on data.
    """
    kwargs = kwargs or {}
    if op == "call_module":
        return _module(submodule(root, target), *_described(args, kwargs))
    if op == "get_attr":
        return described(read(root, target))
    args, kwargs = _described(args, kwargs)
    if op == "call_method":
        return _method(target, args, kwargs)
    if op == "call_function":
        return _function(target, args, kwargs)
    raise ValueError(f"infer() has no answer for op {op!r}; placeholders and outputs have no operator")


def _described(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    for value in args:
        if isinstance(value, (torch.Tensor, list, tuple, dict)):
            args = map_values(tuple(args), described)
            break
    if kwargs:
        kwargs = map_values(dict(kwargs), described)
    return args, kwargs


def _tensors(args: Any, found: list[TensorMeta]) -> list[TensorMeta]:
    for value in args:
        if isinstance(value, TensorMeta):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            _tensors(value, found)
        elif isinstance(value, dict):
            _tensors(value.values(), found)
        elif type(value) is slice:
            _tensors((value.start, value.stop, value.step), found)
    return found


def _grad(out: Any, wanted: bool) -> Any:
    if type(out) is TensorMeta:
        if wanted is out.requires_grad:
            return out
        return out.with_grad(wanted and (out.dtype.is_floating_point or out.dtype.is_complex))
    if isinstance(out, (tuple, list, dict)):
        return map_values(out, lambda v: _grad(v, wanted) if type(v) is TensorMeta else v)
    return out


def _module(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    rule = MODULES.get(type(module))
    out = None
    if rule is not None and not is_altered(module):
        out = answer(rule, (module, *args), kwargs)
    if out is None:
        key = _key(likeness(module), args, kwargs)
        if key is None or (out := _remembered.get(key, _MISSING)) is _MISSING:
            out = by_module(module, args, kwargs)
            if key is not None:
                _remember(key, out)
    if not torch.is_grad_enabled():
        return _grad(out, False)
    own = module._parameters.values() if not module._modules else module.parameters()
    wanted = any([each is not None and each.requires_grad for each in own])
    return _grad(out, wanted or any([each.requires_grad for each in _tensors((args, kwargs), [])]))


def _method(target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    owner = args[0]
    if not isinstance(owner, TensorMeta):
        tensors = _tensors((args, kwargs), [])
        return by_kernel(_MethodCall(target), args, kwargs) if tensors else getattr(owner, target)(*args[1:], **kwargs)
    question = _QUESTIONS.get(target)
    found = None if question is None else answer(question, args, kwargs)
    if found is not None:
        return found
    rule = METHODS.get(target)
    return _call(rule, target, _MethodCall(target), args, kwargs)


def _function(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if target is builtins.getattr:
        return attribute(*args)
    tensors = _tensors((args, kwargs), [])
    if target is torch._assert and not tensors:
        if not args[0]:
            raise ShapeError(f"AssertionError: {args[1] if len(args) > 1 else ''}")
        return None
    if not tensors and getattr(target, "__module__", None) in _IN_PYTHON:
        try:
            return target(*args, **kwargs)
        except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError, AttributeError) as error:
            raise ShapeError(f"{target_name(target)}: {type(error).__name__}: {error}") from error
    if target in _PYTHON_CALLS and not isinstance(args[0], TensorMeta):
        return target(*args, **kwargs)
    try:
        rule = FUNCTIONS.get(target) or library_rule(target)
    except TypeError:
        rule = None
    return _call(rule, target, target, args, kwargs, tensors)


def _call(
    rule: Rule | None,
    target: Any,
    run: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tensors: list[TensorMeta] | None = None,
) -> Any:
    out = None if rule is None else answer(rule, args, kwargs)
    if out is None:
        key = _key((target,), args, kwargs)
        if key is None or (out := _remembered.get(key, _MISSING)) is _MISSING:
            out = by_kernel(run, args, kwargs, fake=not _pure(target))
            if key is not None:
                _remember(key, out)
    tensors = _tensors((args, kwargs), []) if tensors is None else tensors
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in tensors) and target not in _NO_GRAD
    return _grad(out, wanted)


class _MethodCall:
    """A method by name as a function, named for error texts."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self.__module__ = "torch.Tensor"

    def __call__(self, owner: Any, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(owner, self.__name__)(*args, **kwargs)


def _pure(target: Target) -> bool:
    if isinstance(target, str):
        return True
    module = getattr(target, "__module__", None)
    if module is None:
        return type(target).__name__ in ("builtin_function_or_method", "method_descriptor")
    return module.split(".")[0] in _PURE_OWNERS or module.startswith("torch._ops")


def _key(head: tuple[Hashable, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    try:
        key = (
            head,
            frozen(args),
            frozen(kwargs) if kwargs else None,
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
        )
        hash(key)
    except TypeError:
        return None
    return key


def _remember(key: Hashable, out: Any) -> None:
    if len(_remembered) >= _REMEMBERED_MAX:
        _remembered.clear()
    _remembered[key] = out


def attribute(owner: Any, name: str, *default: Any) -> Any:
    """``getattr`` on what a node yielded: a tensor's attributes from its metadata, anything else in Python."""
    if not isinstance(owner, TensorMeta):
        return getattr(owner, name, *default)
    if name in _ATTRIBUTES:
        return _ATTRIBUTES[name](owner)
    if name in ("T", "mT", "H", "mH", "real", "imag", "data"):
        if (name == "T" and owner.ndim == 2) or (name == "mT" and owner.ndim >= 2):
            return _grad(METHODS["transpose"](owner, -2, -1), owner.requires_grad)
        if name == "data":
            return owner.with_grad(False)
        return by_kernel(_AttributeRead(name), (owner,), {})
    if not hasattr(torch.Tensor, name):
        if default:
            return default[0]
        raise ShapeError(f"getattr: a tensor has no attribute {name!r}")
    value = getattr(owner.empty(), name)
    return map_values(value, described)


class _AttributeRead(_MethodCall):
    def __call__(self, owner: Any, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(owner, self.__name__)


_ATTRIBUTES: dict[str, Callable[[TensorMeta], Any]] = {
    "shape": lambda x: x.shape,
    "dtype": lambda x: x.dtype,
    "device": lambda x: x.device,
    "ndim": lambda x: x.ndim,
    "requires_grad": lambda x: x.requires_grad,
    "is_cuda": lambda x: x.device.type == "cuda",
    "layout": lambda x: torch.strided,
    "itemsize": lambda x: x.dtype.itemsize,
    "nbytes": lambda x: x.nbytes,
    "is_meta": lambda x: x.device.type == "meta",
    "is_sparse": lambda x: False,
    "is_quantized": lambda x: False,
    "is_cpu": lambda x: x.device.type == "cpu",
    "grad": lambda x: None,
}
_QUESTIONS: dict[str, Rule] = {
    "size": lambda x, dim=None: x.shape if dim is None else x.shape[dim],
    "dim": lambda x: x.ndim,
    "ndimension": lambda x: x.ndim,
    "numel": lambda x: x.numel(),
    "nelement": lambda x: x.numel(),
    "stride": lambda x, dim=None: x.strides if dim is None else x.strides[dim],
    "element_size": lambda x: x.dtype.itemsize,
    "is_floating_point": lambda x: x.dtype.is_floating_point,
    "is_complex": lambda x: x.dtype.is_complex,
    "get_device": lambda x: -1 if x.device.type == "cpu" else x.device.index or 0,
    "__len__": lambda x: x.shape[0],
}
_PYTHON_CALLS = {FUNCTION for FUNCTION in FUNCTIONS if getattr(FUNCTION, "__name__", "") == "getitem"}
