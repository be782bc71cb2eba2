"""The source of a function that makes a model and applies passes to it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from .table import PASSES, Choice, ordered


def construction(target: str, construct: str, inputs: str, choice: Choice, indent: str = "    ") -> str:
    """The function: ``construct`` makes the model, ``inputs`` are its example inputs as written after ``<-``.

    It needs only torch if torch has the passes, too; otherwise it says that it needs fxlib.
    """
    model, (inputs, concrete) = variable(choice.passes), _arguments(inputs)
    chosen = [PASSES[name] for name in ordered(choice.passes)]
    plain = not concrete and all(each.of_torch for each in chosen)
    calls, needs = [], set() if plain else {"from fxlib import symbolic_trace"}
    for each in chosen:
        module, _, function = (each.of_torch if plain else each.function).rpartition(".")
        needs.add(f"from {module} import {function}")
        given = each.arguments.format(inputs=inputs, old=choice.old, new=choice.new)
        calls.append(f"{model} = {function}({', '.join(filter(None, [model, given]))})")
    uses_torch = any("torch." in line for line in [construct, concrete, *calls])
    made = f"{construct}.eval()"
    body = [
        *([] if plain else ['"""Needs fxlib: pip install fxlens."""']),
        *(["import torch"] if uses_torch else []), *sorted(needs), "",
        f"{model} = {made}" if plain else f"{model} = symbolic_trace({made}{concrete})",
        *calls,
        f"return {model}",
    ]  # fmt: skip
    head = f"def {model}_{_snake(target)}():"
    return "\n".join([head, *(f"{indent}{line}".rstrip() for line in body)]) + "\n"


def variable(names: Iterable[str]) -> str:
    """The variable name of the changed model: ``fused``, ``quantized``, ``simplified``."""
    made = [PASSES[name].made for name in ordered(names)]
    return next((each for each in ("quantized", "fused") if each in made), made[0])


def _arguments(inputs: str) -> tuple[str, str]:
    """The positional example inputs, and the constants for ``symbolic_trace``."""
    call = ast.parse(f"f({inputs})", mode="eval").body
    assert isinstance(call, ast.Call)
    constants = [ast.unparse(each.value) for each in call.keywords if each.arg == "concrete_args"]
    given = ", ".join(ast.unparse(each) for each in call.args)
    return given, "".join(f", concrete_args={each}" for each in constants)


def _snake(name: str) -> str:
    """Snake case of a name; ``ResNet18`` and ``UNet`` count as one word."""
    words = name.replace(".", "_")  # a class in another one
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])(?!Net)|(?<=[A-Z])(?=[A-Z][a-z])(?!Net)", "_", words).lower()
