"""Attributes of modules by dotted path: copied, assigned, read, deleted."""

from typing import Any

import torch
from torch import nn

__all__: list[str] = []


def _copy_attr(from_module: nn.Module, to_module: nn.Module, target: str) -> None:
    """Install the attribute at a dotted path of one module in another; a tensor becomes a buffer.

    Raises:
        AttributeError: ``from_module`` has no such attribute.
    """
    *prefix, field = target.split(".")
    for item in prefix:
        source = getattr(from_module, item)
        there = getattr(to_module, item, None)
        if source is there:
            return
        if there is None:
            there = nn.Module()
            setattr(to_module, item, there)
        from_module, to_module = source, there
    value = getattr(from_module, field)
    _set_field(to_module, field, value)


def _assign_attr(from_obj: Any, to_module: nn.Module, target: str) -> None:
    """Install ``from_obj`` at a dotted path of a module, with plain modules in between where there are none."""
    *prefix, field = target.split(".")
    for item in prefix:
        there = getattr(to_module, item, None)
        if there is None:
            there = nn.Module()
            setattr(to_module, item, there)
        to_module = there
    _set_field(to_module, field, from_obj)


def _set_field(module: nn.Module, field: str, value: Any) -> None:
    if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
        module.register_buffer(field, value)
    else:
        setattr(module, field, value)


def _del_attr(model: nn.Module, attr_name: str) -> None:
    owner, _, field = attr_name.rpartition(".")
    delattr(_get_attr(model, owner) if owner else model, field)


def _has_attr(model: nn.Module, attr_name: str) -> bool:
    found: Any = model
    for item in attr_name.split("."):
        if not hasattr(found, item):
            return False
        found = getattr(found, item)
    return True


def _get_attr(model: nn.Module, attr_name: str) -> Any:
    return _get_attr_via_attr_list(model, attr_name.split("."))


def _get_attr_via_attr_list(model: nn.Module, attr_list: list[str]) -> Any:
    found: Any = model
    for item in attr_list:
        found = getattr(found, item)
    return found


def _has_module_attribute(root: nn.Module, path: str) -> bool:
    owner, _, name = path.rpartition(".")
    try:
        module = root.get_submodule(owner)
    except AttributeError:
        return False
    return hasattr(module, name)
