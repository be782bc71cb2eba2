"""A normal run of a model without data, where a graph is refused that the model itself may not be."""

from __future__ import annotations

import contextlib
import inspect
import io
import warnings
from typing import Any

import torch
from torch import nn

from fxlib.diagnosis.engine.inputs import signature_of
from fxlib.diagnosis.engine.subject import Subject
from fxlib.diagnosis.engine.values import Unknown
from fxlib.ir.modules import hollow_copy
from fxlib.shapes import TensorMeta, map_values

__all__ = ["runs_on_meta"]


def runs_on_meta(subject: Subject) -> bool:
    """Whether the model, called with its example inputs, runs to its end on the meta device. False where that is not
    known, as where it reads data."""
    signature = signature_of(subject.root)
    if signature is None or not isinstance(subject.root, nn.Module):
        return False
    concrete = subject.concrete_args if isinstance(subject.concrete_args, dict) else {}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += subject.inputs.get(f"*{name}", ())
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs |= subject.inputs.get(f"**{name}", {})
        else:
            value = subject.inputs.get(name, concrete.get(name, inspect.Parameter.empty))
            if value is inspect.Parameter.empty or isinstance(value, Unknown):
                return False
            if parameter.kind is parameter.KEYWORD_ONLY:
                kwargs[name] = value
            else:
                args.append(value)
    try:
        silent = contextlib.redirect_stdout(io.StringIO())
        with torch.device("meta"), torch.no_grad(), silent, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hollow_copy(subject.root)(*map_values(args, _on_meta), **map_values(kwargs, _on_meta))
    except (Exception, SystemExit):
        return False
    return True


def _on_meta(value: Any) -> Any:
    if not isinstance(value, TensorMeta):
        return value
    return torch.empty_strided(value.shape, value.strides, dtype=value.dtype, requires_grad=value.requires_grad)
