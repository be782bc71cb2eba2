"""The passes that can be previewed, an entry each: name, number of matches, application, and report. An entry here
makes a pass of fxlib available."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fxlens.record import Node, Target


@dataclass(frozen=True)
class Choice:
    """Which passes, in their order, and their options: the activation to swap and its replacement, and whether the
    result is to be exported, for engines that have no kernels of ours."""

    passes: tuple[str, ...]
    old: str = ""
    new: str = ""
    export: bool = False


Apply = Callable[[Callable[..., Any], Any, tuple[Any, ...], Choice], Any]
"""(the pass's function, the traced model, its example inputs, the choice) -> the changed model."""


@dataclass(frozen=True)
class Pass:
    """One pass.

    ``function`` takes the traced model, and ``arguments`` as source text, with fields of the choice and ``{inputs}`` as
    placeholders. ``count`` estimates from a record how many nodes it may change. ``apply`` is given if calling the
    function with the model alone is not enough; ``left`` returns nodes left unchanged and why, ``notes`` further
    remarks for the user.
    """

    name: str
    label: str
    detail: str
    function: str
    count: Callable[[Target], int]
    arguments: str = ""
    apply: Apply = lambda function, model, inputs, choice: function(model)
    left: Callable[[Any], list[str]] = lambda model: []
    notes: Callable[[Any], list[str]] = lambda model: []
    in_menu: bool = True
    """Whether a code action offers it on classes with a match."""
    of_torch: str = ""
    """A function of torch that does the same, for generated code without fxlib."""
    made: str = "simplified"
    """The variable name of the changed model."""

    def run(self, model: Any, inputs: tuple[Any, ...], choice: Choice) -> Any:
        """The changed model; imports fxlib."""
        module, _, name = self.function.rpartition(".")
        return self.apply(getattr(importlib.import_module(module), name), model, inputs, choice)


ACTIVATIONS = {
    "relu": "ReLU", "relu6": "ReLU6", "leaky_relu": "LeakyReLU", "hardtanh": "Hardtanh", "hardswish": "Hardswish",
    "hardsigmoid": "Hardsigmoid", "silu": "SiLU", "sigmoid": "Sigmoid", "tanh": "Tanh", "gelu": "GELU",
    "selu": "SELU", "elu": "ELU",
}  # fmt: skip
"""Common name to class in ``torch.nn``."""

_LAYOUTS = ("view", "reshape", "flatten", "squeeze", "expand", "contiguous", "to", "float", "double", "half")
_LAYERS = ("Conv1d", "Conv2d", "Conv3d", "Linear")


# How many nodes a pass may change


def _batch_norms(target: Target) -> int:
    return sum(node["module_type"].startswith("BatchNorm") for node in target["nodes"] if node["op"] == "call_module")


def _dropouts(target: Target) -> int:
    return sum(_plain(node) in ("dropout", "alphadropout", "identity") for node in target["nodes"])


def _no_ops(target: Target) -> int:
    nodes = {node["name"]: node for node in target["nodes"]}

    def gives_back(node: Node) -> bool:
        source = nodes.get(node["inputs"][0]) if node["inputs"] else None
        alike = source is not None and all(node[each] == source[each] for each in ("shape", "dtype"))  # type: ignore[literal-required]
        neutral = re.search(r"(^|, )[01](\.0)?$", node["args"])
        name = _plain(node)
        return alike and bool(name in _LAYOUTS or (name in ("mul", "truediv", "div", "sub", "pow") and neutral))

    return sum(node["op"] in ("call_function", "call_method") and gives_back(node) for node in target["nodes"])


def activations(target: Target) -> list[str]:
    """The common names of the activations in a target, in order, with repetitions."""
    known = {name.replace("_", ""): name for name in ACTIVATIONS}
    return [known[_plain(node)] for node in target["nodes"] if _plain(node) in known]


def _unused(target: Target) -> int:
    nodes = target["nodes"]
    used = {name for node in nodes for name in node["inputs"]}
    return sum(node["name"] not in used and node["op"] not in ("placeholder", "output") for node in nodes)


def _repeated(target: Target) -> int:
    nodes = [node for node in target["nodes"] if node["op"] in ("call_function", "get_attr")]
    return len(nodes) - len({(node["op"], node["target"], node["args"]) for node in nodes})


def _layers(target: Target) -> int:
    return sum(node["op"] == "call_module" and node["module_type"] in _LAYERS for node in target["nodes"])


def _plain(node: Node) -> str:
    """``relu`` for ``nn.ReLU``, ``torch.relu``, ``F.relu_`` and ``x.relu()``."""
    if node["op"] == "call_module":
        name = node["module_type"]
    elif node["op"] in ("call_function", "call_method"):
        name = node["target"].rpartition(".")[2]
    else:
        return ""
    name = name.lower().replace("_", "")
    return "dropout" if re.fullmatch(r"(feature)?(alpha)?dropout[123]?d?", name) else name


# Reports of passes


def _not_fused(model: Any) -> list[str]:
    return [f"{each.norm}: {each.reason}" for each in model.meta["fuse_conv_bn"].refused]


def _swap(function: Callable[..., Any], model: Any, inputs: tuple[Any, ...], choice: Choice) -> Any:
    import torch

    return function(model, choice.old, getattr(torch.nn, choice.new)())


def _swapped(model: Any) -> list[str]:
    places = counted(model.meta["replace_activations"], "place")
    return [f"{places} swapped; the new activation computes other values."]


def _erased(model: Any) -> list[str]:
    return [f"{counted(model.meta['remove_no_ops'], 'operation')} removed."]


def _quantize(function: Callable[..., Any], model: Any, inputs: tuple[Any, ...], choice: Choice) -> Any:
    return function(model, [inputs], form="qdq" if choice.export else "kernels")


def _quantized(model: Any) -> list[str]:
    layers = [each for each in model.meta["quantize"].layers if each.quantized]
    text = f"{counted(len(layers), 'layer')} on integers, with ranges of the example inputs"
    worst = max(layers, key=lambda each: each.error, default=None)
    return [f"{text}; {worst.path} has the largest error, {worst.error:.1e}." if worst else f"{text}."]


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_TABLE = (
    Pass(
        "fuse", "Fuse convolutions and batch norms", "Folds each batch norm into the weights of the layer before it",
        "fxlib.passes.fuse_conv_bn.fuse_conv_bn", _batch_norms, left=_not_fused,
        of_torch="torch.fx.experimental.optimization.fuse", made="fused",
    ),
    Pass(
        "dropout", "Remove dropout", "Dropout does nothing in evaluation mode",
        "fxlib.passes.dropout.remove_dropout", _dropouts,
        of_torch="torch.fx.experimental.optimization.remove_dropout",
    ),
    Pass(
        "no-ops", "Remove operations without effect", "Such as x * 1, or a view to the shape that a value has already",
        "fxlib.passes.no_ops.remove_no_ops", _no_ops,
        arguments="{inputs}", apply=lambda function, model, inputs, choice: function(model, *inputs), notes=_erased,
    ),
    Pass(
        "activation", "Swap an activation…", "Replaces one activation by another in the whole graph",
        "fxlib.passes.replace_activations.replace_activations", lambda target: len(activations(target)),
        arguments='"{old}", torch.nn.{new}()', apply=_swap, notes=_swapped, made="swapped",
    ),
    Pass(
        "dead-code", "Remove dead code", "Removes nodes whose result is not used",
        "fxlib.passes.dead_code.eliminate_dead_code", _unused,
    ),
    Pass(
        "common", "Share common subexpressions", "Computes equal expressions only once",
        "fxlib.passes.cse.eliminate_common_subexpressions", _repeated, in_menu=False,
    ),
    Pass(
        "quantize", "Quantize to 8-bit integers",
        "Runs convolutions and linear layers on integers; value ranges come from the example inputs",
        "fxlib.passes.quantize.quantize_static", _layers,
        arguments="[({inputs},)]", apply=_quantize, notes=_quantized, made="quantized",
    ),
)  # fmt: skip

PASSES = {each.name: each for each in _TABLE}
"""In the order in which several are applied: each leaves less work for the next."""


def ordered(names: Iterable[str]) -> tuple[str, ...]:
    """These passes in the order of ``PASSES``; unknown names stay, last."""
    known = list(PASSES)
    order = sorted(dict.fromkeys(names), key=lambda name: known.index(name) if name in PASSES else len(known))
    return tuple(order)


def problem(choice: Choice) -> str | None:
    """Why these passes cannot be applied, or None."""
    unknown = [name for name in choice.passes if name not in PASSES]
    if unknown or not choice.passes:
        return f"There is no pass {''.join(unknown[:1])!r}; choose from {', '.join(PASSES)}."
    if "activation" in choice.passes and (choice.old not in ACTIVATIONS or choice.new not in ACTIVATIONS.values()):
        return f"No activation {choice.old!r} can be swapped for {choice.new!r}: name one of {', '.join(ACTIVATIONS)}."
    return None


def counts(target: Target) -> dict[str, int]:
    """The number of nodes of a target that each pass may change."""
    return {name: each.count(target) for name, each in PASSES.items()}


def replacements(present: Sequence[str]) -> dict[str, list[str]]:
    """For each of these activations, the classes that can replace it."""
    return {old: [new for other, new in ACTIVATIONS.items() if other != old] for old in present}
