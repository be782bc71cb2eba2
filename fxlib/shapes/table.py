"""The table of shape rules: operator -> function on metadata.

A rule answers only the ordinary case, from metadata to metadata, in plain Python; for anything else it returns None
and torch's own meta kernel decides (`kernel.py`), so a rule never decides what is an error. Rules are found by the
function object for ``call_function``, by name for ``call_method`` and by exact type for ``call_module``.

A rule applies to calls whose arguments have the types of its parameters; an exception in it is a bug. Torch then
decides instead, so that a user's program does not fail. With the environment variable ``FXLIB_STRICT``, which the tests
set, the exception is raised.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any, get_args, get_origin

import torch
import torch.nn.functional as F

from fxlib.ir.strict import STRICT

__all__ = ["FUNCTIONS", "METHODS", "MODULES", "answer", "function", "method", "module"]

Rule = Callable[..., Any]

_SPECIAL: Any = torch._C._special  # type: ignore[attr-defined]
_LINALG: Any = torch._C._linalg  # type: ignore[attr-defined]

FUNCTIONS: dict[Callable[..., Any], Rule] = {}
METHODS: dict[str, Rule] = {}
MODULES: dict[type, Rule] = {}


def answer(rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A rule's result for a call; None if it has none or does not apply to such a call."""
    try:
        return rule(*args, **kwargs)
    except Exception:
        if STRICT and _is_written_for(rule, args, kwargs):
            raise
        return None


def _is_written_for(rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the arguments have the types of the rule's parameters."""
    signature = inspect.signature(rule, eval_str=True)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return False
    return all(_is_a(value, signature.parameters[name]) for name, value in bound.items())


def _is_a(value: object, parameter: inspect.Parameter) -> bool:
    # Types with several possible classes; a module was already found by its exact type.
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or isinstance(value, torch.nn.Module):
        return True
    kinds = get_args(parameter.annotation) or (parameter.annotation,)
    return Any in kinds or isinstance(value, tuple(get_origin(kind) or kind for kind in kinds))


def function(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule under every ``torch.<name>``, ``torch.nn.functional.<name>`` and ``Tensor.<name>`` there is.

    The rule's parameters are named and ordered as torch's; the tensor comes first, so one rule serves the function
    and the method.
    """

    def register(rule: Rule) -> Rule:
        for name in names:
            for owner in (torch, F, torch._C._nn, _SPECIAL, _LINALG):
                attr = name
                if owner is _SPECIAL:
                    attr = f"special_{name}"
                elif owner is _LINALG:
                    attr = f"linalg_{name}"
                if callable(found := getattr(owner, attr, None)):
                    FUNCTIONS[found] = rule
            if hasattr(torch.Tensor, name):
                METHODS[name] = rule
                FUNCTIONS[getattr(torch.Tensor, name)] = rule
        return rule

    return register


def only_function(*names: str) -> Callable[[Rule], Rule]:
    """As `function`, without the methods (where their parameters differ)."""

    def register(rule: Rule) -> Rule:
        for name in names:
            for owner in (torch, F):
                if callable(found := getattr(owner, name, None)):
                    FUNCTIONS[found] = rule
        return rule

    return register


def method(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for tensor methods only (where the function's parameters differ or there is none)."""

    def register(rule: Rule) -> Rule:
        for name in names:
            METHODS[name] = rule
            if hasattr(torch.Tensor, name):
                FUNCTIONS[getattr(torch.Tensor, name)] = rule
        return rule

    return register


def python(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for functions of the ``operator`` module."""

    def register(rule: Rule) -> Rule:
        for name in names:
            FUNCTIONS[getattr(operator, name)] = rule
        return rule

    return register


def module(*types: type) -> Callable[[Rule], Rule]:
    """Register a rule for leaf modules of exactly these types; it is called with the module, then the inputs."""

    def register(rule: Rule) -> Rule:
        for each in types:
            MODULES[each] = rule
        return rule

    return register
