"""The registry of converters by target.

A converter is a function `(context, *torch_arguments) -> value` whose signature is that of the torch operator: binding
a node's arguments is then an ordinary Python call. `@op("relu")` registers it for every spelling of that name:
`torch.relu`, `torch.nn.functional.relu`, the method `x.relu()`, their in-place forms and `torch.ops.aten.relu.*`.
`@aten("copy")` registers one for ATen operators alone, and
`@module(nn.ReLU)` registers one for a module class, `(context, module, *inputs)`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

import torch
import torch.nn.functional as F

from fxlib.lowering.onnx.dtypes import Unsupported

Converter = Callable[..., Any]

FUNCTIONS: dict[Any, Converter] = {}
METHODS: dict[str, Converter] = {}
MODULES: dict[type, Converter] = {}
NAMED: dict[str, Converter] = {}
"""Functions of other libraries, by `module.qualname`: a table that imports none of them."""
ATEN: dict[str, Converter] = {}

_NAMESPACES = (torch, F, torch.special, torch.fft, torch.linalg)


def op(*names: str, functions: tuple = (), methods: bool = True) -> Callable[[Converter], Converter]:
    """Register a converter for operators by name, in all their spellings."""

    def register(converter: Converter) -> Converter:
        for name in names:
            for spelling in (name, name + "_"):
                for space in _NAMESPACES:
                    target = getattr(space, spelling, None)
                    if callable(target) and not isinstance(target, type):
                        FUNCTIONS.setdefault(target, converter)
                method = getattr(torch.Tensor, spelling, None)
                if methods and method is not None:
                    METHODS.setdefault(spelling, converter)
                    FUNCTIONS.setdefault(method, converter)
            ATEN.setdefault(name, converter)
        for target in functions:
            FUNCTIONS[target] = converter
        return converter

    return register


def method(name: str) -> Callable[[Converter], Converter]:
    """Register a converter for a method whose arguments are in another order than the function's."""

    def register(converter: Converter) -> Converter:
        METHODS[name] = FUNCTIONS[getattr(torch.Tensor, name)] = converter
        return converter

    return register


def aten(*names: str) -> Callable[[Converter], Converter]:
    """Register a converter for ATen operators that have no function of that name, or one with other arguments.

    torch's own builtin takes them in ATen's order, where the function of torch.nn.functional may have another:
    `torch.batch_norm` has the weight first, `F.batch_norm` the running mean.
    """

    def register(converter: Converter) -> Converter:
        ATEN.update(dict.fromkeys(names, converter))
        for name in names:
            builtin = getattr(torch, name, None)
            if isinstance(builtin, BuiltinFunctionType) and builtin is not getattr(F, name, None):
                FUNCTIONS[builtin] = converter
        return converter

    return register


def refused(reason: str, code: str, *names: str) -> None:
    """Register operators that must not be converted, with the reason and its rule."""

    def refuse(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        raise Unsupported(reason, code)

    op(*names)(refuse)


def named(*paths: str) -> Callable[[Converter], Converter]:
    """Register a converter for functions of libraries that need not be installed, by `module.qualname`."""

    def register(converter: Converter) -> Converter:
        NAMED.update(dict.fromkeys(paths, converter))
        return converter

    return register


def module(*classes: type) -> Callable[[Converter], Converter]:
    """Register a converter for module classes."""

    def register(converter: Converter) -> Converter:
        for cls in classes:
            MODULES[cls] = converter
        return converter

    return register


def of_module(converter: Converter, *attributes: str) -> Converter:
    """The converter of a module that calls its function with the input and these attributes of the module."""
    return lambda ctx, m, input: converter(ctx, input, *(getattr(m, name) for name in attributes))


def find(op: str, target: Any, owner: torch.nn.Module | None) -> Converter | None:
    """The converter of a node, or None. `owner` is the module of a `call_module` node."""
    if op == "call_module":
        # Exact classes only: a subclass may have another forward.
        return MODULES.get(type(owner))
    if op == "call_method":
        return METHODS.get(target)
    if op == "call_function":
        if isinstance(target, torch._ops.OpOverload):
            base = target._schema.name.split("::")
            return ATEN.get(base[1]) if base[0] in ("aten", "prims") else ATEN.get("::".join(base))
        try:
            found = FUNCTIONS.get(target)
        except TypeError:  # an unhashable callable
            return None
        return found or NAMED.get(f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', '')}")
    return None
