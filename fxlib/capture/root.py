"""The traced module: the function to trace, and the names of its parameters, buffers, submodules and constants."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._library.fake_class_registry import FakeScriptObject
from torch._library.opaque_object import is_opaque_reference_type
from torch.utils import _pytree as pytree

from fxlib.interop import torch_side

__all__ = ["Root", "constant_prefix", "owned_values"]

_constant_attribute_types = (torch.Tensor, torch.ScriptObject, FakeScriptObject, pytree.TreeSpec)
# Types of module attributes that are never constants of a graph.
_NO_CONSTANT = frozenset(
    {bool, int, float, str, type(None), dict, OrderedDict, list, tuple, set, FunctionType, torch.Size, torch.dtype}
)
# The name prefix of a constant that becomes an attribute of the root; a number follows.
_PREFIXES: tuple[tuple[tuple[type, ...], str], ...] = (
    ((torch.Tensor,), "_tensor_constant"),
    ((FakeScriptObject, torch.ScriptObject), "_torchbind_obj"),
    ((pytree.TreeSpec,), "_tree_spec_constant"),
)


class Root(NamedTuple):
    """The starting point of a trace.

    Attributes:
        module: the module that the graph's targets refer to: the root itself, or an empty module for a function.
        function: what is traced.
        name: of the module's class, ``""`` for a function.
        paths: of every submodule, None for a function.
        constants: tensors and tensor-like objects that modules have as plain attributes -> path.
    """

    module: nn.Module
    function: Callable[..., Any]
    name: str
    paths: dict[nn.Module, str] | None
    constants: dict[Hashable, str]

    @classmethod
    def of(cls, traced: nn.Module | Callable[..., Any], method: str) -> Root:
        """The root for tracing a function, or the method of that name of a module.

        Raises:
            AssertionError: the module has no such method.
        """
        if not isinstance(traced, nn.Module):
            return cls(nn.Module(), traced, "", None, {})
        torch_side.force_recompile(traced)
        kind = type(traced)
        function = getattr(kind, method, None)
        if function is None:
            raise AssertionError(f"traced_func_name={method} doesn't exist in {kind.__name__}")
        return cls(traced, function, traced._get_name(), *_survey(traced))

    @property
    def place(self) -> dict[str, str | int]:
        """The function's place in the source, for profilers."""
        code = getattr(self.function, "__code__", None)
        fields = () if code is None else ("co_name", "co_filename", "co_firstlineno")
        return {field: getattr(code, field) for field in fields}


def constant_prefix(value: object) -> str | None:
    """The name prefix of a constant in the root; None if it is not a constant."""
    for kinds, prefix in _PREFIXES:
        if isinstance(value, kinds):
            return prefix
    return "_opaque_obj" if is_opaque_reference_type(type(value)) else None


def kind_of_attribute(value: object) -> str | None:
    """The dictionary of a module that a value belongs in; None if it is not a tensor."""
    if not isinstance(value, torch.Tensor):
        return None
    return "_parameters" if isinstance(value, nn.Parameter) else "_buffers"


def owned_values(root: nn.Module, kind: str) -> dict[int, tuple[dict[str, Any], str, str]]:
    """For each parameter or buffer: id -> (the dict that holds it, its key there, its qualified name).

    Args:
        kind: ``"_parameters"`` or ``"_buffers"``.
    """
    found: dict[int, tuple[dict[str, Any], str, str]] = {}
    for path, module in root.named_modules():
        holder = module.__dict__[kind]
        for key, value in holder.items():
            if value is not None and id(value) not in found:
                found[id(value)] = (holder, key, f"{path}.{key}" if path else key)
    return found


_named_modules = nn.Module.named_modules
_named_children = nn.Module.named_children


def _survey(root: nn.Module) -> tuple[dict[nn.Module, str], dict[Hashable, str]]:
    """The path of every module, and the path of every constant.

    One walk instead of ``named_modules()`` and another for the attributes: on a model of many small modules these two
    cost as much as the trace.
    """
    paths: dict[nn.Module, str] = {}
    usual: set[type] = set()
    plain = True
    no_constant = _NO_CONSTANT

    def enter(module: nn.Module, path: str) -> dict[str, Any] | None:
        """Visit one module; returns its attributes, or None if its class overrides how children are found, as scripted
        modules do."""
        nonlocal plain
        cls = type(module)
        if cls not in usual:
            if cls.named_modules is not _named_modules or cls.named_children is not _named_children:
                return None
            usual.add(cls)
        values = module.__dict__
        if "_modules" not in values:
            return None
        paths[module] = path
        if plain and not no_constant.issuperset(map(type, values.values())):
            plain = not any(isinstance(value, _constant_attribute_types) for value in values.values())
        return values

    def visit(children: dict[str, nn.Module | None], prefix: str) -> bool:
        for name, child in children.items():
            if child is None or child in paths:
                continue
            path = prefix + name
            values = enter(child, path)
            if values is None:
                return False
            inner = values["_modules"]
            if inner and not visit(inner, f"{path}."):
                return False
        return True

    values = enter(root, "")
    if values is None or not visit(values["_modules"], ""):
        return {module: name for name, module in root.named_modules()}, _constants(root)
    return paths, {} if plain else _constants(root)


def _constants(root: nn.Module) -> dict[Hashable, str]:
    """The path of every tensor, or tensor-like object, that a module has as a plain attribute; of several paths, the
    last."""
    found: dict[Hashable, str] = {}
    pending = [("", root)]
    while pending:
        prefix, module = pending.pop()
        values = vars(module).items()
        found.update((value, prefix + name) for name, value in values if isinstance(value, _constant_attribute_types))
        pending += [(f"{prefix}{name}.", child) for name, child in reversed(list(module.named_children()))]
    return found
