"""Names of earlier versions of Python, NumPy, torch, torchvision, timm and transformers, for workspace files that still
use them: ``np.float``, ``collections.Iterable``, ``torch._six``, ``torchvision.models.vgg.model_urls``,
``timm.models.layers.helpers``."""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import importlib
import inspect
import math
import re
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any


class _Addresses(dict[str, str]):
    """Former addresses of weights: any name has an address, which is never opened."""

    def __missing__(self, key: str) -> str:
        return f"https://download.pytorch.org/models/{key}.pth"


@functools.cache
def _table() -> dict[str, Callable[[], dict[str, Any]]]:
    """The former names of each module. Created on demand, since an interpreter may lack NumPy."""
    texts = {"string_classes": (str, bytes), "int_classes": int, "FileNotFoundError": FileNotFoundError, "PY3": True}
    urls = {"model_urls": _Addresses()}
    networks = ("alexnet", "densenet", "googlenet", "inception", "mobilenet", "resnet", "squeezenet", "vgg")
    return {
        "numpy": _of_numpy,
        "collections": lambda: {name: getattr(collections.abc, name) for name in collections.abc.__all__},
        "fractions": lambda: {"gcd": math.gcd},
        "inspect": lambda: {"getargspec": _getargspec},
        "time": lambda: {"clock": time.process_time},
        "torch._six": lambda: {"inf": math.inf, "nan": math.nan, "container_abcs": collections.abc, **texts},
        "torchvision.models.utils": _of_torchvision,
        "transformers.modeling_utils": _of_transformers,
        **{f"torchvision.models.{each}": lambda: urls for each in networks},
    }


@functools.cache
def _of_numpy() -> dict[str, Any]:
    try:
        import numpy as np
    except ImportError:
        return {}
    kinds = {each.__name__: each for each in (float, int, bool, object, complex, str)}
    numbers = {"Inf": np.inf, "Infinity": np.inf, "PINF": np.inf, "NINF": -np.inf, "infty": np.inf, "NaN": np.nan}
    widths = {"float_": np.float64, "complex_": np.complex128, "unicode_": np.str_, "string_": np.bytes_}
    functions = {"product": np.prod, "cumproduct": np.cumprod, "alltrue": np.all, "sometrue": np.any}
    renamed = {"in1d": np.isin, "trapz": getattr(np, "trapezoid", None), "row_stack": np.vstack, "long": int}
    return {**kinds, **numbers, **widths, **functions, **renamed}


def _of_torchvision() -> dict[str, Any]:
    import torch

    return {"load_state_dict_from_url": torch.hub.load_state_dict_from_url}


def _of_transformers() -> dict[str, Any]:
    try:
        import transformers.pytorch_utils as moved
    except ImportError:
        return {}
    names = ("Conv1D", "apply_chunking_to_forward", "prune_linear_layer")
    return {name: getattr(moved, name) for name in names if hasattr(moved, name)}


def _getargspec(function: Callable[..., Any]) -> Any:
    return inspect.getfullargspec(function)[:4]


_MOVED = (
    (r"timm\.models\.layers\.(\w+)", r"timm.layers.\1"),
    (r"torchvision\.transforms\.functional_tensor", "torchvision.transforms._functional_tensor"),
    (r"transformers\.((?:modeling|configuration|tokenization)_(\w+))", r"transformers.models.\2.\1"),
)
"""Patterns of modules that no longer exist, and where what they had is now."""


def moved(name: str) -> ModuleType | None:
    """The installed module that has what a module of this name had in earlier versions."""
    for pattern, now in _MOVED:
        if (found := re.fullmatch(pattern, name)) is not None:
            with contextlib.suppress(Exception):
                return importlib.import_module(found.expand(now))
    return None


def of(name: str) -> Any:
    """The former object of this dotted name; None if unknown."""
    module, _, last = name.rpartition(".")
    return _table().get(module, dict)().get(last)


def install(asked: Callable[[str, Any], bool]) -> bool:
    """Makes imported modules provide the names of their earlier versions.

    ``asked(name, frame)`` decides for each use: given the dotted name and the reading frame. Returns whether a module
    was changed."""
    new = [(module, had) for name, had in _table().items() if (module := sys.modules.get(name)) is not None]
    new = [(module, had) for module, had in new if not isinstance(vars(module).get("__getattr__"), _Former)]
    for module, had in new:
        vars(module)["__getattr__"] = _Former(module, had(), asked)
    models: Any = getattr(sys.modules.get("transformers.modeling_utils"), "PreTrainedModel", None)
    if models is not None and not hasattr(models, "all_tied_weights_keys"):
        models.all_tied_weights_keys = {}  # of constructors that end with `init_weights`, instead of `post_init`
    return _install_in_configurations(asked) or bool(new)


_OF_CONFIGURATIONS: dict[str, Any] = {
    "cross_attention_hidden_size": None, "finetuning_task": None, "gradient_checkpointing": False,
    "initializer_factor": 1.0, "is_decoder": False, "max_length": 20, "min_length": 0, "num_beams": 1,
    "position_embedding_type": "absolute", "pruned_heads": {}, "tie_encoder_decoder": False, "torchscript": False,
    "use_bfloat16": False,
}  # fmt: skip
"""Attributes that configurations of transformers had, with their defaults."""
_LENGTHS = ("n_positions", "max_position_embeddings")
"""Attributes that were ``n_ctx``, too."""


def _install_in_configurations(asked: Callable[[str, Any], bool]) -> bool:
    module: Any = sys.modules.get("transformers.configuration_utils")
    kind = getattr(module, "PreTrainedConfig", None) or getattr(module, "PretrainedConfig", None)
    if kind is None or "__getattr__" in vars(kind):
        return False

    def former(self: Any, name: str) -> Any:
        found = dict(_OF_CONFIGURATIONS)
        if name == "n_ctx":
            found.update((name, vars(self)[each]) for each in _LENGTHS if each in vars(self))
        if name in found and asked(f"transformers.{type(self).__name__}.{name}", sys._getframe(1)):
            return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    kind.__getattr__ = former
    return True


class _Former:
    """The ``__getattr__`` of a module."""

    def __init__(self, module: ModuleType, had: dict[str, Any], asked: Callable[[str, Any], bool]) -> None:
        self._name, self._had, self._asked = module.__name__, had, asked
        self._before = vars(module).get("__getattr__")

    def __call__(self, name: str) -> Any:
        value = self._had.get(name)
        if value is not None and self._asked(f"{self._name}.{name}", sys._getframe(1)):
            return value
        if self._before is not None:
            return self._before(name)
        raise AttributeError(f"module {self._name!r} has no attribute {name!r}")
