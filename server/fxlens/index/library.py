"""Functions of Python and of installed packages that are evaluated here, or kept as expressions; all others give holes.

An installed function is kept in an expression only if evaluating it later just makes tensors and modules: no file, no
network, no process group.
"""

from __future__ import annotations

import ast
import math
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from . import argparsers, builtin_functions, captures, configs, registries
from . import values as v
from .builtin_functions import ERRORS, Handler, first, nothing
from .machine import Machine
from .naming import name_of

_KEPT = re.compile(
    r"(torch(?!\.(load|save|hub|distributed|utils|optim|multiprocessing|cuda|backends|profiler|jit|onnx|export|manual)\b)"
    r"|torchvision\.(models|ops)|torchaudio\.(models|transforms)|numpy(?!\.(load|save|random\.seed|fromfile|genfromtxt))"
    r"|math|functools|einops|timm|transformers|collections|fractions|types|itertools|operator|enum|argparse)\b"
)
_DENIED = re.compile(
    r"(^|\.)(from_pretrained|load\w*|save\w*|download\w*|seed\w*|set_\w+|init_process\w*|get_rank|__\w+)$"
)
_MODEL_BACK = re.compile(
    r"(^|\.)(DataParallel|DistributedDataParallel|FullyShardedDataParallel|FSDP|DDP|convert_sync_batchnorm|prepare_model"
    r"|convert_syncbn_model|fully_shard|checkpoint_wrapper|DistributedDataParallelCPU|optimize)$"
)


def call(machine: Machine, name: str, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    """The value of a call to an installed function or class."""
    handler = _TABLE.get(name)
    if handler is None:
        short = name.rpartition(".")[2]
        handler = configs.BY_NAME.get(name) or configs.BY_LAST_NAME.get(short) or _SHORT.get(short)
        handler = handler or argparsers.BY_LAST_NAME.get(short)
    if handler is not None:
        found = handler(machine, args, keywords, node)
        if found is not None:
            return found
    how = captures.kind_of(name)
    if how is not None and (args or keywords):
        machine.note("capture", name, args, keywords, node)
        first = args[0] if args else next(iter(keywords.values()))
        return first if captures.gives_model(name) and _is_model(first) else v.Hole(name_of(node))
    if _MODEL_BACK.search(name) and (args or keywords):
        return args[0] if args else keywords.get("module", keywords.get("model", v.Hole("model")))
    module, _, short = name.partition(".")
    if module == "builtins":
        return builtin_functions.call(machine, short, args, keywords, node)
    if short in _MATH and module == "math" and not keywords:
        try:
            given = [v.literal(each) for each in args]
            most = _MOST_CHOSEN if short in ("factorial", "comb", "perm") else _LARGE
            if not any(_is_large(each, most) for each in given):
                return v.lift(getattr(math, short)(*given))
        except (v.Unknown, *ERRORS):
            pass
    if is_kept(name):
        return v.Apply(v.External(name), args, keywords)
    for each in (*args, *keywords.values()):
        if _is_model(each) or (isinstance(each, v.Sequence) and any(map(_is_model, each.items))):
            machine.note("call", v.External(name), args, keywords, node)
            break
    return v.Hole(name_of(node))


_MATH = {
    "acos", "asin", "atan", "atan2", "cbrt", "ceil", "copysign", "cos", "cosh", "degrees", "erf", "exp", "exp2", "fabs",
    "floor", "fmod", "gcd", "hypot", "isclose", "isfinite", "isinf", "isnan", "isqrt", "lcm", "log", "log10", "log1p",
    "log2", "pow", "prod", "radians", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
    "factorial", "comb", "perm",
}  # fmt: skip
"""Functions that are evaluated: no others, since a file is not trusted."""
_LARGE = 1 << 64
_MOST_CHOSEN = 1000


def _is_large(data: Any, most: int = _LARGE) -> bool:
    """Whether computing with it could take long, or need much memory."""
    if isinstance(data, (list, tuple)):
        return len(data) > 1000 or any(_is_large(each, most) for each in data)
    return isinstance(data, int) and abs(data) >= most


def is_kept(name: str) -> bool:
    """Whether evaluating a call of this function later is harmless."""
    return bool(_KEPT.match(name)) and not _DENIED.search(name)


def _is_model(value: v.Value) -> bool:
    return isinstance(value, (v.Object, v.Choice))


def _second(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    return args[1] if len(args) > 1 else v.Hole(name_of(node))


def _object(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    return machine.new_dict(dict(keywords), "namespace", whole=v.OPEN not in keywords)


def _param(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    return args[0] if len(args) == 1 else machine.new_list(args, "tuple")


def _repeated(times: int) -> Handler:
    """``to_2tuple(7)``: timm's and torch's helpers."""

    def make(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
        if not args or isinstance(args[0], (v.Sequence, v.Apply, v.Item, v.Attribute)):
            return args[0] if args else None
        return machine.new_list([args[0]] * times, "tuple")

    return make


def _divisible(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    """``make_divisible(channels, 8)``, which every package of models has."""
    try:
        number, divisor = v.literal(args[0]), v.literal(args[1]) if len(args) > 1 else 8
        return v.Const(max(divisor, int(number + divisor / 2) // divisor * divisor))
    except (v.Unknown, *ERRORS):
        return None


def _constant(value: Any) -> Handler:
    return lambda machine, args, keywords, node: v.Const(value)


# ---- copying, functools, paths


def _copied(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    if not args:
        return v.Hole("copy")
    if isinstance(args[0], v.Object) and machine.symbols.is_module(args[0].kind.symbol):
        return args[0]
    made = v.copied(args[0], {})
    if hasattr(made, "born") and made is not args[0]:
        made.born = machine.tick()
    return made


def _copied_once(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    if args and isinstance(args[0], v.Sequence):
        return machine.new_list(list(args[0].items), args[0].kind, args[0].whole)
    if args and isinstance(args[0], v.Mapping):
        return replace(args[0], items=dict(args[0].items), born=machine.tick())
    return _copied(machine, args, keywords, node)


def _literal(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    """``ast.literal_eval(text)``."""
    text = args[0].value if args and isinstance(args[0], v.Const) else None
    try:
        if isinstance(text, str) and len(text) < 1000:
            return v.lift(ast.literal_eval(text), machine.tick())
    except (v.Unknown, SyntaxError, MemoryError, *ERRORS):
        pass
    return v.Hole(name_of(node))


def _partial(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    if not args:
        return v.Hole("partial")
    return v.Partial(args[0], args[1:], keywords)


def _reduce(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    items = machine.items_of(args[1]) if len(args) >= 2 else None
    if not items:
        return None
    total = args[2] if len(args) > 2 else items.pop(0)
    for item in items[:256]:
        total = machine.call(args[0], [total, item], {}, node)
    return total


def _path(function: Callable[..., Any]) -> Handler:
    def call_it(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
        try:
            return v.lift(function(*[_text(v.literal(each)) for each in args]))
        except (v.Unknown, *ERRORS):
            return v.Hole("path")

    return call_it


def _text(data: Any) -> Any:
    return str(data) if isinstance(data, PurePath) else data


def _exists(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    if args and isinstance(args[0], v.Const) and isinstance(args[0].value, (str, PurePath)):
        found = configs.existing(machine, str(args[0].value))
        return v.Const(True) if found else v.Hole("exists")
    return v.Hole("exists")


def _getenv(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    return args[1] if len(args) > 1 else keywords.get("default", v.NONE)


def _device(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    return v.Apply(v.External("torch.device"), [v.Const("cpu")], {})


def _import_module(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    name = args[0] if args else v.Hole("module")
    if isinstance(name, v.Const) and isinstance(name.value, str) and name.value:
        text = name.value
        level = len(text) - len(text.lstrip("."))
        source = machine.symbols.modules.resolve(machine.frame.file, level, text.lstrip("."))
        return v.External(text) if source is None else v.Module(source)
    return v.Hole("module")


def _instantiate(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    config = args[0] if args else keywords.pop("config", v.Hole("config"))
    return configs.instantiate(machine, config, keywords, node)


def _build(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    for at, each in enumerate(args[:2]):
        other = args[1 - at] if len(args) > 1 else None
        state = other.state if isinstance(other, v.Tool) else None
        if isinstance(each, v.Mapping):
            return registries.built(machine, each, getattr(state, "table", None), node)
    return None


def _between(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    """One number in place of a random one: the same wherever the value is used."""
    limits = [each.value for each in args if isinstance(each, v.Const) and type(each.value) is int]
    if keywords or len(limits) != len(args) or not 1 <= len(limits) <= 2:
        return None
    return v.Const(sum(limits) // 2)


_SHORT: dict[str, Handler] = {
    "to_1tuple": _repeated(1), "to_2tuple": _repeated(2), "to_3tuple": _repeated(3), "to_4tuple": _repeated(4),
    "make_divisible": _divisible, "_make_divisible": _divisible, "_single": _repeated(1), "_pair": _repeated(2),
    "_triple": _repeated(3), "_quadruple": _repeated(4),
}  # fmt: skip
_TABLE: dict[str, Handler] = {
    **builtin_functions.TABLE,
    "random.randint": _between, "random.randrange": _between, "numpy.random.randint": _between,
    "copy.deepcopy": _copied, "copy.copy": _copied_once, "functools.partial": _partial, "functools.reduce": _reduce,
    "collections.OrderedDict": builtin_functions.TABLE["builtins.dict"],
    "ast.literal_eval": _literal, "typing.cast": _second, "types.SimpleNamespace": _object,
    "argparse.Namespace": _object, "collections.defaultdict": lambda m, a, k, n: m.new_dict({}, whole=False),
    "os.path.join": _path(os.path.join), "os.path.dirname": _path(os.path.dirname), "os.getenv": _getenv,
    "os.path.basename": _path(os.path.basename), "os.path.splitext": _path(os.path.splitext),
    "os.path.abspath": first, "os.path.realpath": first, "os.path.expanduser": first, "os.environ.get": _getenv,
    "os.path.exists": _exists, "os.path.isfile": _exists, "os.fspath": first, "os.path.normpath": first,
    "pathlib.Path": _path(PurePath), "pathlib.PurePath": _path(PurePath), "torch.cuda.is_available": _constant(False),
    "torch.backends.mps.is_available": _constant(False), "torch.cuda.device_count": _constant(1),
    "torch.device": _device, "torch.set_default_dtype": nothing, "torch.manual_seed": nothing,
    "importlib.import_module": _import_module, "hydra.utils.instantiate": _instantiate,
    "hydra.utils.call": _instantiate, "hydra.utils.get_class": lambda m, a, k, n: configs.target(m,
    a[0]) if a else None,
    "hydra.utils.get_method": lambda m, a, k, n: configs.target(m, a[0]) if a else None,
    "hydra.utils.to_absolute_path": first, "builtins.str": lambda m, a, k, n: (
        v.Const(str(a[0].value)) if a and isinstance(a[0], v.Const) and isinstance(a[0].value, PurePath) else None
    ),
    "mmcv.utils.build_from_cfg": _build, "mmcv.build_from_cfg": _build, "mmengine.registry.build_from_cfg": _build,
    "mmengine.build_from_cfg": _build, "absl.app.run": argparsers.run_main, "fire.Fire": argparsers.run_main,
    "typer.run": argparsers.run_main, "tyro.cli": argparsers.from_class, "pyrallis.parse": argparsers.from_class,
    "simple_parsing.parse": argparsers.from_class,
    "draccus.parse": argparsers.from_class, "pytest.param": _param, "fxlens.load_configuration": configs.load,
}  # fmt: skip


def _is_none(value: v.Value) -> bool:
    return isinstance(value, v.Const) and value.value is None
