"""Attributes of modules by dotted path: copied, assigned, read, deleted."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import _global_module_registration_hooks as _registration_hooks

__all__: list[str] = []


def _copy_attr(from_module: nn.Module, to_module: nn.Module, target: str) -> None:
    """Install the attribute at a dotted path of one module in another; a tensor becomes a buffer.

    Raises:
        AttributeError: ``from_module`` has no such attribute.
    """
    prefix, _, field = target.rpartition(".")
    owners = _owners(from_module, to_module, prefix)
    if owners is not None:
        _set_field(owners[1], field, getattr(owners[0], field))


def _copy_attrs(from_module: nn.Module, to_module: nn.Module, targets: Iterable[str]) -> None:
    """``_copy_attr`` for many paths in turn, each prefix being walked once.

    Raises:
        AttributeError: ``from_module`` lacks one of them.
    """
    # Prefix -> the modules there, or None where both have the same one and so everything below it.
    owners: dict[str, tuple[nn.Module, nn.Module] | None] = {}
    names_of_class: dict[type, set[str]] = {}
    for target in targets:
        prefix, _, field = target.rpartition(".")
        if prefix in owners:
            pair = owners[prefix]
        else:
            pair = owners[prefix] = _owners(from_module, to_module, prefix)
        if pair is None:
            continue
        source, there = pair
        cls = type(source)
        names = names_of_class.get(cls)
        if names is None:
            names = names_of_class[cls] = _names_of(cls)
        value: Any = None
        if field not in names and field not in source.__dict__:
            value = source.__dict__["_modules"].get(field)
        if (
            value is None
            or _registration_hooks
            or type(there).__setattr__ is not _plain_setattr
            or any([field in there.__dict__[kind] for kind in _OTHER_KINDS])
            or field in there.__dict__
        ):
            _set_field(there, field, getattr(source, field))
        else:
            # What setattr comes to for a module under a name that is no other attribute's.
            there.__dict__["_modules"][field] = value
        if target in owners:
            # A module made on the way has been replaced.
            owners.clear()


_plain_setattr, _plain_getattr = nn.Module.__setattr__, nn.Module.__getattr__
_OTHER_KINDS = ("_parameters", "_buffers", "_non_persistent_buffers_set")


def _names_of(cls: type) -> Any:
    """Names that an instance does not look for among its modules: those of its class."""
    if cls.__getattr__ is not _plain_getattr or cls.__getattribute__ is not object.__getattribute__:  # type: ignore[attr-defined]
        return _EVERY_NAME
    return set().union(*map(vars, cls.__mro__))


class _Everything:
    def __contains__(self, name: object) -> bool:
        return True


_EVERY_NAME = _Everything()


def _owners(source: nn.Module, there: nn.Module, prefix: str) -> tuple[nn.Module, nn.Module] | None:
    """The modules at a dotted path, empty ones being made in the second root; None where the two meet."""
    for item in prefix.split(".") if prefix else ():
        source, parent = getattr(source, item), there
        there = getattr(parent, item, None)  # type: ignore[assignment]
        if source is there:
            return None
        if there is None:
            there = nn.Module()
            setattr(parent, item, there)
    return source, there


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
