"""Implementations of common helpers from packages that are not installed: rounding of channel numbers, copying of
attributes, coloured texts, logs, versions, weights, options of the command line as a data class."""

from __future__ import annotations

import inspect
import logging
import math
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .assume import sandbox
from .scope import AttrDict

_WEIGHTS = re.compile(r"load_(\w+_)?(checkpoint|state_dict)")
_WEIGHTS_OR_MODEL = re.compile(r"load_(\w+_)?(weights|pretrained)")
_VERSIONS = ("parse_version", "LooseVersion", "StrictVersion", "Version")
_OMEGACONF = "omegaconf.OmegaConf"
_OF_COMMAND_LINE = ("tyro.cli", "simple_parsing.parse", "pyrallis.parse", "draccus.parse")


def serves_imports(name: str) -> bool:
    """Whether a function of this dotted name makes options or a version, which are also needed during imports."""
    owner, _, last = name.rpartition(".")
    return name in _OF_COMMAND_LINE or last in _VERSIONS or (owner == _OMEGACONF and last in _OF_OMEGACONF)


def function(name: str) -> Callable[..., Any] | None:
    """The implementation of a function of this dotted name; None if unknown."""
    last = name.rpartition(".")[2].lstrip("_")
    if name.startswith(f"{_OMEGACONF}."):
        return _OF_OMEGACONF.get(last)
    if last == "make_divisible":
        return _next_multiple if name.startswith("ultralytics.") else _near_multiple
    if name in _OF_COMMAND_LINE:
        return lambda kind=None, *_, config_class=None, **__: (kind or config_class)()
    if last == "get_init_args" and name.split(".")[0] in ("lightning", "pytorch_lightning"):
        return arguments_of
    if name.startswith("ultralytics.") and last == "model_info":
        return lambda *_, **__: None
    if last.startswith("check_"):
        return lambda: True  # `assert check_argument_types()`
    if _WEIGHTS.fullmatch(last):
        return lambda *_, **__: sandbox.NoWeights()
    if _WEIGHTS_OR_MODEL.fullmatch(last):
        return _weights_for
    known: dict[str, Callable[..., Any]] = {
        **dict.fromkeys(_VERSIONS, _version),
        "copy_attr": _copy_attributes, "colorstr": _last_text, "get_logger": _logger, "get_root_logger": _logger,
    }  # fmt: skip
    return known.get(last)


def _config(value: Any = None, *_: Any, **__: Any) -> Any:
    """Data whose dicts have attribute access. Raises TypeError for a string, which may be a file name."""
    if isinstance(value, str):
        raise TypeError("a file may be meant")
    if isinstance(value, (list, tuple)):
        return [each if isinstance(each, str) else _config(each) for each in value]
    if isinstance(value, SimpleNamespace):
        value = vars(value)
    if not isinstance(value, dict):
        return value
    return AttrDict({key: each if isinstance(each, str) else _config(each) for key, each in value.items()})


def _merged(*values: Any) -> Any:
    """The first merged with the others, recursively."""
    made = AttrDict()
    for value in map(_config, values):
        for key, each in value.items():
            both = isinstance(each, dict) and isinstance(made.get(key), dict)
            made[key] = _merged(made[key], each) if both else each
    return made


_OF_OMEGACONF: dict[str, Callable[..., Any]] = {
    "create": lambda value=None, *_, **__: _config({} if value is None else value), "merge": _merged,
    "to_container": lambda value, *_, **__: value, "to_object": lambda value, *_, **__: value,
    **{name: lambda *_, **__: None for name in ("set_readonly", "set_struct", "resolve", "register_new_resolver")},
}  # fmt: skip


def _weights_for(*args: Any, **kwargs: Any) -> Any:
    """Raises TypeError if no module is passed for the weights, since the result may then be the model."""
    import torch

    if not any(isinstance(each, torch.nn.Module) for each in (*args, *kwargs.values())):
        raise TypeError("a model may be what this loads")
    return sandbox.NoWeights()


def _next_multiple(value: float, divisor: Any) -> int:
    step = int(getattr(divisor, "max", lambda: divisor)())
    return math.ceil(value / step) * step


def _near_multiple(
    value: float,
    divisor: int = 8,
    min_value: int | None = None,
    min_ratio: float = 0.9,
    round_limit: float | None = None,
) -> int:
    """The nearest multiple, but at least a given fraction of the value, whose parameter timm and mmcv name
    differently."""
    least = min_ratio if round_limit is None else round_limit
    near = max(min_value or divisor, int(value + divisor / 2) // divisor * divisor)
    return near if near >= least * value else near + divisor


def _copy_attributes(to: Any, origin: Any, include: Any = (), exclude: Any = ()) -> None:
    for name, value in vars(origin).items():
        if not name.startswith("_") and name not in exclude and (not include or name in include):
            setattr(to, name, value)


def arguments_of(frame: Any) -> dict[str, Any]:
    """The arguments of the constructor that runs in this frame."""
    names = inspect.getargvalues(frame)
    keywords = frame.f_code.co_varnames[len(names.args) : len(names.args) + frame.f_code.co_kwonlyargcount]
    given = {name: names.locals[name] for name in (*names.args[1:], *keywords)}
    return {**given, **(names.locals[names.keywords] if names.keywords else {})}


def _version(text: Any, *_: Any) -> tuple[int, ...]:
    """The numbers of a version, for comparisons."""
    return tuple(map(int, re.findall(r"\d+", str(text))))


def _logger(*_: Any, **__: Any) -> logging.Logger:
    return logging.getLogger("fxlens.ignored")


def _last_text(*words: Any) -> str:
    return str(words[-1]) if words else ""
