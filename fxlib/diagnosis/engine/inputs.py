"""Example inputs and defaults, as values of a trace's placeholders."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from fxlib.diagnosis.engine.raised import text_of
from fxlib.diagnosis.engine.values import describe

__all__ = ["normalise", "placeholder_values", "signature_of", "without_self"]


def normalise(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Example inputs as ``(args, kwargs)``. A tensor is one argument, a dict keyword arguments, and a pair of a tuple
    and a dict both; None stays None."""
    if example_inputs is None:
        return None
    if isinstance(example_inputs, torch.Tensor):
        return (example_inputs,), {}
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    if not isinstance(example_inputs, Sequence) or isinstance(example_inputs, str):
        return (example_inputs,), {}
    return tuple(example_inputs), {}


def signature_of(root: Any) -> inspect.Signature | None:
    """The signature of the traced function, without ``self``; None if there is none."""
    try:
        function = type(root).forward if isinstance(root, nn.Module) else root
        signature = inspect.signature(inspect.unwrap(function))
    except (AttributeError, TypeError, ValueError):
        # Builtins and scripted modules have none.
        return None
    parameters = list(signature.parameters.values())
    # Of a decorated forward, `*args` takes the module as well.
    gathers = bool(parameters) and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL
    if isinstance(root, nn.Module) and not without_self(root) and not gathers:
        return signature.replace(parameters=parameters[1:])
    return signature


def without_self(root: Any) -> bool:
    """Whether forward is a static or class method, which receives no instance."""
    forward = inspect.getattr_static(type(root), "forward", None) if isinstance(root, nn.Module) else None
    return isinstance(forward, (staticmethod, classmethod))


def placeholder_values(
    root: Any, example_inputs: Any, concrete_args: Mapping[str, Any] | None
) -> tuple[dict[str, Any], str | None]:
    """Values by the target of the placeholder (``x``, ``*args``, ``**kwargs``), and a text about a misfit, if any.

    Defaults count as examples, since callers may leave such arguments out.
    """
    signature = signature_of(root)
    if signature is None:
        return {}, None
    examples = normalise(example_inputs)
    problem = None
    given: Mapping[str, Any] = {}
    concrete = concrete_args if isinstance(concrete_args, Mapping) else {}
    if examples is not None:
        args, kwargs = examples
        try:
            bound = signature.bind_partial(*args, **kwargs)
            given = bound.arguments
            missing = [
                name
                for name, parameter in signature.parameters.items()
                if name not in given
                and name not in concrete
                and parameter.default is parameter.empty
                and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            ]
            if missing:
                problem = f"missing {', '.join(missing)}"
        except TypeError as error:
            problem = text_of(error)
    values: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            if name in given or examples is not None:
                values["*" + name] = describe(tuple(given.get(name, ())))
        elif parameter.kind is parameter.VAR_KEYWORD:
            if name in given or examples is not None:
                values["**" + name] = describe(dict(given.get(name, {})))
        elif name in given:
            values[name] = describe(given[name])
        elif parameter.default is not parameter.empty and name not in concrete:
            values[name] = describe(parameter.default)
    return values, problem
