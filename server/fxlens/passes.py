"""The passes that can be previewed on a model: their order, what each would find in a record, the code that applies
them.  Standard library only: the server offers them, the worker runs them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Node = dict[str, Any]


@dataclass(frozen=True)
class Pass:
    """One pass.  ``code`` is a line that applies it to the variable ``{model}``, ``needs`` the import for it."""

    label: str
    detail: str
    needs: str
    code: str


PASSES = {
    "fuse": Pass(
        "Fuse convolutions and batch norms", "A batch norm becomes part of the weights before it",
        "from fxlib.passes.fuse_conv_bn import fuse_conv_bn", "{model} = fuse_conv_bn({model})",
    ),
    "dropout": Pass(
        "Remove dropout", "In evaluation mode it does nothing",
        "from fxlib.passes.dropout import remove_dropout", "{model} = remove_dropout({model})",
    ),
    "activation": Pass(
        "Swap an activation…", "One activation for another, wherever the graph uses it",
        "from fxlib.passes.replace_activations import replace_activations",
        '{model} = replace_activations({model}, "{old}", torch.nn.{new}())',
    ),
    "dead-code": Pass(
        "Remove dead code", "Nodes whose result nobody uses",
        "from fxlib.passes.dead_code import eliminate_dead_code", "{model} = eliminate_dead_code({model})",
    ),
    "common": Pass(
        "Share common subexpressions", "What is computed twice is computed once",
        "from fxlib.passes.cse import eliminate_common_subexpressions",
        "{model} = eliminate_common_subexpressions({model})",
    ),
    "quantize": Pass(
        "Quantize to 8-bit integers", "Convolutions and linear layers on integers, with ranges from the example inputs",
        "from fxlib.passes.quantize import quantize_static", "{model} = quantize_static({model}, [({inputs},)])",
    ),
}  # fmt: skip
"""In the order in which several are applied: each leaves less to do for those after it."""

ACTIVATIONS = {
    "relu": "ReLU", "relu6": "ReLU6", "leaky_relu": "LeakyReLU", "hardtanh": "Hardtanh", "hardswish": "Hardswish",
    "hardsigmoid": "Hardsigmoid", "silu": "SiLU", "sigmoid": "Sigmoid", "tanh": "Tanh", "gelu": "GELU",
    "selu": "SELU", "elu": "ELU",
}  # fmt: skip
"""Common name to class in ``torch.nn``."""

_LAYERS = ("Conv1d", "Conv2d", "Conv3d", "Linear")


def ordered(names: Iterable[str]) -> list[str]:
    """These passes in the order of ``PASSES``; unknown names stay, last, for whoever refuses them."""
    known = list(PASSES)
    return sorted(dict.fromkeys(names), key=lambda name: known.index(name) if name in PASSES else len(known))


def problem(names: list[str], old: str | None, new: str | None) -> str | None:
    """Why these passes cannot be applied, or None."""
    unknown = [name for name in names if name not in PASSES]
    if unknown or not names:
        return f"there is no pass {''.join(unknown[:1])!r}; known are {', '.join(PASSES)}"
    if "activation" in names and (old not in ACTIVATIONS or new not in ACTIVATIONS.values()):
        return f"no activation {old!r} can be swapped for {new!r}: name one of {', '.join(ACTIVATIONS)}"
    return None


def places(target: dict[str, Any]) -> dict[str, int]:
    """How many nodes of a target each pass may change, as far as a record tells."""
    nodes = target["nodes"]
    used = {name for node in nodes for name in node["inputs"]}
    return {
        "fuse": sum(node["module_type"].startswith("BatchNorm") for node in nodes if node["op"] == "call_module"),
        "dropout": sum(_plain(node) in ("dropout", "alphadropout", "identity") for node in nodes),
        "activation": len(activations(target, every=True)),
        "dead-code": sum(node["name"] not in used and node["op"] not in ("placeholder", "output") for node in nodes),
        "common": _repeated(nodes),
        "quantize": sum(node["op"] == "call_module" and node["module_type"] in _LAYERS for node in nodes),
    }


def activations(target: dict[str, Any], every: bool = False) -> list[str]:
    """The common names of the activations in a target, in order, once each or as often as they are used."""
    known = {name.replace("_", ""): name for name in ACTIVATIONS}
    found = [known[_plain(node)] for node in target["nodes"] if _plain(node) in known]
    return found if every else list(dict.fromkeys(found))


def variable(names: Iterable[str]) -> str:
    """What the changed model is called: ``fused``, ``quantized``, ``changed``."""
    chosen = set(names)
    return "quantized" if "quantize" in chosen else "fused" if "fuse" in chosen else "changed"


def construction(
    target: str, construct: str, inputs: str, names: list[str], swap: tuple[str, str] | None, indent: str = "    "
) -> str:
    """The source of a function that makes the model and applies the passes."""
    model, (inputs, concrete) = variable(names), _arguments(inputs)
    values = {"model": model, "inputs": inputs, "old": swap[0] if swap else "", "new": swap[1] if swap else ""}
    chosen = ordered(names)
    calls = [PASSES[name].code.format(**values) for name in chosen]
    uses_torch = any("torch." in line for line in [construct, concrete, *calls])
    needs = sorted({PASSES[name].needs for name in chosen} | {"from fxlib import symbolic_trace"})
    body = [
        *(["import torch"] if uses_torch else []), *needs, "",
        f"{model} = symbolic_trace({construct}.eval(){concrete})",
        *calls,
        f"return {model}",
    ]  # fmt: skip
    head = f"def {model}_{_snake(target)}():"
    return "\n".join([head, *(f"{indent}{line}".rstrip() for line in body)]) + "\n"


def _arguments(inputs: str) -> tuple[str, str]:
    """The positional example inputs, and the constants of the graph as they are given to ``symbolic_trace``."""
    call = ast.parse(f"f({inputs})", mode="eval").body
    assert isinstance(call, ast.Call)
    constants = [ast.unparse(each.value) for each in call.keywords if each.arg == "concrete_args"]
    given = ", ".join(ast.unparse(each) for each in call.args)
    return given, "".join(f", concrete_args={each}" for each in constants)


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


def _repeated(nodes: list[Node]) -> int:
    marks = [
        (node["op"], node["target"], node["args"]) for node in nodes if node["op"] in ("call_function", "get_attr")
    ]
    return len(marks) - len(set(marks))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
