"""Normalising calls.

The same call can be written positionally, by keyword, or with defaults left out. ``normalize_function`` and
``normalize_module`` give one form.
"""

from __future__ import annotations

import inspect
import itertools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch
from torch._jit_internal import boolean_dispatched
from torch._ops import OpOverload, OpOverloadPacket

from fxlib.ir.paths import attribute_of_modules
from fxlib.ir.schemas import binds, get_signature_for_torch_op
from fxlib.ir.type_matching import type_matches

if TYPE_CHECKING:
    from fxlib.ir.node import Node

__all__ = ["ArgsKwargsPair", "normalize_function", "normalize_module"]


class ArgsKwargsPair(NamedTuple):
    """The arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


_BINDABLE = frozenset({inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY})
# The only operators with a positional-only parameter that must be named nevertheless.
_RANDOM_PARAMETERS = ["input", "from", "to", "generator"]


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call matched to the function's parameters, defaults filled in.

    Args:
        target: a function of torch or any function of Python without positional-only or variadic parameters.
        args, kwargs: what it is called with; values or nodes.
        arg_types, kwarg_types: their types, needed where the number of arguments does not decide between overloads.
        normalize_to_only_use_kwargs: pass everything by keyword; otherwise positional arguments stay positional.

    Returns:
        the new arguments; ``None`` when no signature fits or none is known.

    Raises:
        RuntimeError: several overloads fit and no types were given.
        TypeError: the arguments do not fit the signature of a Python function.
    """
    given = kwargs or {}
    if isinstance(target, (types.BuiltinFunctionType, OpOverload, OpOverloadPacket)):
        signature = _choose_overload(target, args, given, arg_types, kwarg_types)
    else:
        signature = _signature_of_function(target)
    return _bind(signature, args, given, normalize_to_only_use_kwargs)


def _normalize_function_or_error(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair:
    known = normalize_function(target, args, kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs)
    return known or _refuse(target, args, kwargs)


def _refuse(target: object, args: object, kwargs: object) -> NoReturn:
    raise RuntimeError(f"Failed to normalize function {target} with args {args} and kwargs {kwargs}")


def normalize_module(
    root: torch.nn.Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of a submodule, as ``normalize_function`` does. Only for the modules of ``torch.nn``.

    Raises:
        RuntimeError: ``root`` has no submodule ``target``.
    """
    layer = attribute_of_modules(root, target)
    if not isinstance(layer, torch.nn.Module):
        raise RuntimeError(f"Tried to normalize node with target {target} but root did not have that target!")
    public = getattr(torch.nn, type(layer).__name__, None) is type(layer)
    return (
        _bind(_signature_of_function(layer.forward), args, kwargs or {}, normalize_to_only_use_kwargs)
        if public
        else None
    )


def normalized_arguments(
    self: Node,
    root: torch.nn.Module,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments with defaults filled in and in the order of the callee's signature.

    Args:
        root: the module that ``call_module`` targets are looked up in.
        arg_types, kwarg_types: types that help to choose among overloads.
        normalize_to_only_use_kwargs: name every argument.

    Returns:
        An ``ArgsKwargsPair``, or None where no signature is known.
    """
    call, named = (self._target, self._args, self._kwargs), normalize_to_only_use_kwargs
    if self._op == "call_module":
        return normalize_module(root, *call, named)
    return normalize_function(*call, arg_types, kwarg_types, named) if self._op == "call_function" else None


def _signature_of_function(function: object) -> inspect.Signature | None:
    """The signature of a Python function; None if it depends on the value of a flag."""
    if not callable(function):
        raise AssertionError(f"target_for_analysis must be callable, got {type(function)}")
    cases: list[Callable[..., Any]] = [function]
    if function in boolean_dispatched:
        cases = [boolean_dispatched[function][case] for case in ("if_true", "if_false")]
    first, *others = (inspect.signature(inspect.unwrap(case)) for case in cases)
    return first if all(other.parameters == first.parameters for other in others) else None


def _choose_overload(
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    arg_types: tuple[Any, ...] | None,
    kwarg_types: dict[str, Any] | None,
) -> inspect.Signature | None:
    signatures = get_signature_for_torch_op(target) or []
    fitting = [signature for signature in signatures if binds(signature, args, kwargs)]
    if len(fitting) <= 1:
        return next(iter(fitting), None)
    if arg_types is None and kwarg_types is None:
        shown = "\n".join(map(str, fitting))
        raise RuntimeError(
            f"Tried to normalize arguments to {torch.typename(target)} but the schema match was ambiguous! "
            f"Please provide argument types to the normalize_arguments() call. Available schemas:\n{shown}"
        )
    kinds, named = arg_types or (), kwarg_types or {}
    typed = [signature for signature in signatures if binds(signature, kinds, named)]
    return next((signature for signature in typed if _takes(signature, kinds, named)), None)


def _takes(signature: inspect.Signature, kinds: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether the signature accepts arguments of these types."""
    bound, parameters = signature.bind(*kinds, **named).arguments, signature.parameters
    # All are checked, even after one has failed: each type that cannot be judged gives a warning.
    return all([type_matches(parameters[name].annotation, kind) for name, kind in bound.items()])


def _bind(
    signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any], only_kwargs: bool
) -> ArgsKwargsPair | None:
    if signature is None:
        return None
    parameters = signature.parameters
    names = list(parameters)
    if names != _RANDOM_PARAMETERS and any(p.kind not in _BINDABLE for p in parameters.values()):
        return None
    values = [*_bound_values(parameters, args, kwargs).items()]
    positional = 0 if only_kwargs else len(args)
    return ArgsKwargsPair(tuple(value for _, value in values[:positional]), dict(values[positional:]))


def _bound_values(
    parameters: Mapping[str, inspect.Parameter], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The value of every parameter, in the order of the parameters."""
    positional = [p.name for p in parameters.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(args) > len(positional):
        raise TypeError(f"Too many positional arguments: expected max {len(positional)}, got {len(args)}")
    defaults = {name: p.default for name, p in parameters.items() if p.default is not inspect.Parameter.empty}
    given = dict(zip(positional, args, strict=False))
    values = {**defaults, **kwargs, **given}
    _refuse_first("Multiple values for argument", filter(given.__contains__, kwargs))
    _refuse_first("Missing required argument", itertools.filterfalse(values.__contains__, parameters))
    _refuse_first("Got an unexpected keyword argument", itertools.filterfalse(parameters.__contains__, kwargs))
    return {name: values[name] for name in parameters}


def _refuse_first(problem: str, names: Iterator[str]) -> None:
    for name in names:
        raise TypeError(f"{problem} {name!r}")
