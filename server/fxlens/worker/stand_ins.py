"""Stand-ins for classes and functions of packages that cannot be imported: bases, layers and process groups, derived
from their names."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from fxlens.sources.targets import OTHER_FRAMEWORKS

from . import stand_in_helpers, stand_in_layers, stand_in_signals
from .assume.names import habit
from .scope import AttrDict
from .tracebacks import instruction_after

_BASES = (
    "Module", "LightningModule", "PreTrainedModel", "BaseModule", "ModelMixin", "BaseModel", "MessagePassing",
    "Metric",
)  # fmt: skip
_MAKES = re.compile(r"from_|load_from|build|create")
_OF_LAYERS = ("weight", "bias", "init_weights", "reset_parameters", "stands_for")
"""Attributes that code looks for in each layer of a model."""
_COMPUTING = [
    f"__{name}__"
    for name in ("index", "int", "float", "len", "iter", "getitem", "add", "radd", "sub", "rsub", "mul", "rmul",
                 "truediv", "rtruediv", "floordiv", "lt", "gt", "le", "ge")
]  # fmt: skip
_ENTERING = ("BEFORE_WITH", "SETUP_WITH")
"""The first instruction of a ``with`` statement: from Python 3.11 on, and before."""
_ONE = re.compile(r"get_(\w+_)?world_size$")
_FIRST = re.compile(r"get_(\w+_)?rank$")
_FETCHED = re.compile(r"(torch\.hub\.load|transformers\.\w+\.from_pretrained)\(")
_LAYERS = {
    "Linear": (("in_features", "input_size", "in_dim"), ("out_features", "output_size", "out_dim"), ("bias",)),
    "Embedding": (("num_embeddings", "vocab_size"), ("embedding_dim", "embed_dim", "hidden_size"), ("padding_idx",)),
    "LayerNorm": (("normalized_shape", "hidden_size", "dim"), ("eps",), ("elementwise_affine",)),
    "RMSNorm": (("normalized_shape", "hidden_size", "dim"), ("eps",), ("elementwise_affine",)),
}
"""Layers of torch, by the names of their parameters here and in other packages."""
_NEEDED = {"Linear": 2, "Embedding": 2, "LayerNorm": 1, "RMSNorm": 1}
_SAME = {
    "ColumnParallelLinear": "Linear", "RowParallelLinear": "Linear", "ParallelEmbedding": "Embedding",
    "VocabParallelEmbedding": "Embedding", "FusedLayerNorm": "LayerNorm", "MixedFusedLayerNorm": "LayerNorm",
    "FastLayerNorm": "LayerNorm", "FusedRMSNorm": "RMSNorm", "MixedFusedRMSNorm": "RMSNorm",
}  # fmt: skip
"""Classes of fairscale, apex and the like that compute what these layers do, in a group of one process. Others whose
names end the same way, such as `RotaryEmbedding`, do something else."""
_OF_PAIRS = ("megatron", "vllm")
"""Packages whose parallel layers return a pair."""


class NotInstalled(ImportError):
    """Code used something that could not be imported."""


class BaseNotInstalled(AttributeError):
    """Code used an attribute that a missing base may have."""


def lacking(name: str) -> NotInstalled:
    """The error for using this dotted name."""
    if _FETCHED.match(name):
        return NotInstalled(f"nothing is fetched, and {name} is used here")
    package = name.partition(".")[0]
    if getattr(sys.modules.get(package), "__file__", None):
        return NotInstalled(f"the installed {package} has no {name}, which is used here")
    return NotInstalled(f"{package} cannot be imported, and {name} is used here")


def base(name: str) -> type | None:
    """A base class if the dotted name surely derives from ``torch.nn.Module``, otherwise None."""
    last = name.rpartition(".")[2]
    if last not in _BASES or is_of_another_framework(name):
        return None
    return type(last, (module_base(),), {"stands_for": name})


def is_of_another_framework(name: str) -> bool:
    """Whether this dotted name belongs to another framework than torch."""
    return name.partition(".")[0] in OTHER_FRAMEWORKS


def called(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call outside of imports: the layer that the name describes, the result of a known helper, a
    process group of one, an unusable object, or None if the result is unused. Raises NotInstalled for other functions.
    """
    last = name.rpartition(".")[2]
    if _ONE.match(last):
        return 1
    if _FIRST.match(last):
        return 0
    known = stand_in_layers.function(name) or stand_in_helpers.function(name) or stand_in_signals.function(name)
    if known is not None:
        with contextlib.suppress(TypeError, AttributeError, KeyError):
            return known(*args, **kwargs)
    layer = _SAME.get(last) if name.partition(".")[0] not in _OF_PAIRS else None
    made = _layer(layer or last, args, kwargs) if layer or last in _LAYERS else None
    if made is not None:
        return made
    if last[:1].isupper() or (_MAKES.match(last) and name.rpartition(".")[0].rpartition(".")[2][:1].isupper()):
        return unusable(name)
    if not any(map(_computes, [*args, *kwargs.values()])):
        frame = sys._getframe(2)
        following = instruction_after(frame.f_code, frame.f_lasti)
        if following == "POP_TOP":  # the result is unused: logging, or a version check
            return None
        if following.startswith("FORMAT_"):  # part of a text
            return ""
        if _is_constructing(frame):
            return contextlib.nullcontext() if following in _ENTERING else unusable(f"{name}()")
    raise lacking(name)


def _is_constructing(frame: Any) -> bool:
    """Whether this is called from a module's constructor: the result may be a part that only a forward needs."""
    import torch

    while frame is not None:
        name = frame.f_code.co_name
        if name == "forward":
            return False
        if name == "__init__" and isinstance(frame.f_locals.get("self"), torch.nn.Module):
            return True
        frame = frame.f_back
    return False


def _computes(value: Any) -> bool:
    """Whether a function may affect the graph by changing this value."""
    import torch

    if isinstance(value, (tuple, set, frozenset)):
        return any(map(_computes, value))
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return False
    return hasattr(value, "__torch_function__") or isinstance(value, (torch.nn.Module, list, dict))


def keeping_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """A constructor that stores its arguments in ``self.config``, like ``register_to_config`` of diffusers."""

    @functools.wraps(function)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = inspect.signature(function).bind(self, *args, **kwargs)
        bound.apply_defaults()
        self.__dict__["config"] = SimpleNamespace(**dict(list(bound.arguments.items())[1:]))
        function(self, *args, **kwargs)

    return construct


def _layer(kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from torch import nn

    names = _LAYERS[kind]
    given = dict(zip([each[0] for each in names], args, strict=False))
    for first, *others in names:
        said = [kwargs[each] for each in (first, *others) if each in kwargs]
        if said:
            given.setdefault(first, said[0])
    if len(args) > len(names) or any(each[0] not in given for each in names[: _NEEDED[kind]]):
        return None
    if not isinstance(given.get("bias", True), bool):
        return None  # some other parameter
    try:
        return getattr(nn, kind)(**given)
    except TypeError:
        return None


@functools.cache
def module_base() -> type:
    """A subclass of ``torch.nn.Module`` for classes with a missing base."""
    from torch import nn

    class Base(nn.Module):
        """Takes any arguments; the first one is the configuration, if there is one."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__()
            if args:
                self.config = args[0]

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError as error:
                gone = getattr(type(self), "stands_for", "its base")
                raise BaseNotInstalled(f"{error}, and {gone}, which may define it, cannot be imported") from None

        @property
        def hparams(self) -> Any:
            return self.__dict__.setdefault("_hparams", AttrDict())

        @hparams.setter
        def hparams(self, value: Any) -> None:
            self.__dict__["_hparams"] = value

        @property
        def device(self) -> Any:
            """The device of its parameters, as in Lightning."""
            import torch

            tensor = next(iter(self.parameters()), None)
            return self.__dict__.get("_device", torch.device("cpu") if tensor is None else tensor.device)

        @device.setter
        def device(self, value: Any) -> None:
            self.__dict__["_device"] = value

        def save_hyperparameters(self, *chosen: Any, ignore: Any = (), **__: Any) -> None:
            """Stores the calling constructor's arguments: those of these names, or the given ones."""
            known = stand_in_helpers.arguments_of(sys._getframe(1))
            for each in chosen:
                if not isinstance(each, str):
                    self.hparams.update(each if isinstance(each, dict) else vars(each))
            names = [each for each in chosen if isinstance(each, str)] or ([] if chosen else [*known])
            left_out = [ignore] if isinstance(ignore, str) else ignore or ()
            self.hparams.update({name: known[name] for name in names if name in known and name not in left_out})
            self.__dict__["_hparams_initial"] = AttrDict(self.hparams)

        def post_init(self) -> None:
            """Initializes weights, on which graphs do not depend."""

        init_weights = post_init

        def add_state(self, name: str, default: Any, *_: Any, **__: Any) -> None:
            """Adds a state of a metric."""
            setattr(self, name, default)

    return Base


def _size(value: int, name: str) -> int:
    """A number that can also be called, or indexed."""

    class Size(int):
        def __getitem__(self, at: Any) -> Size:
            if not isinstance(at, int):
                raise lacking(name)
            return self

        def __call__(self, *_: Any, **__: Any) -> Any:
            raise lacking(name)

        __iter__ = __len__ = __call__

    return Size(value)


@functools.cache
def _unusable_class() -> type:
    from torch import nn

    class Unusable(nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.stands_for = name

        def __getattr__(self, name: str) -> Any:
            """Sizes, which layers are made from, get usual values; everything else is unusable."""
            if name.startswith("_") or name in _OF_LAYERS:
                return super().__getattr__(name)
            usual = habit(name)
            if usual is not None and usual.kind == "int":
                return _size(int(usual.values[0]), f"{self.stands_for}.{name}")
            return Unusable(f"{self.stands_for}.{name}")

        def children(self) -> Any:
            """Unknown for user code; torch itself sees the existing children."""
            if str(sys._getframe(1).f_globals.get("__name__")).partition(".")[0] != "torch":
                raise lacking(self.stands_for)
            return super().children()

        def forward(self, *_: Any, **__: Any) -> Any:
            raise lacking(self.stands_for)

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """``with get_rng_tracker().fork():`` in a constructor affects only random numbers."""
            frame = sys._getframe(1)
            if _is_constructing(frame) and instruction_after(frame.f_code, frame.f_lasti) in _ENTERING:
                return contextlib.nullcontext()
            if _is_constructing(frame) and not any(map(_computes, [*args, *kwargs.values()])):
                return Unusable(f"{self.stands_for}()")
            return super().__call__(*args, **kwargs)

    for each in _COMPUTING:
        setattr(Unusable, each, Unusable.forward)
    return Unusable


def unusable(name: str) -> Any:
    """An object that may be a part of a model, and raises when used."""
    return _unusable_class()(name)
