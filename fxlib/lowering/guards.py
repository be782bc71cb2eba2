"""The sizes for which an export is right: those for which forward takes the same branches as with the example."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._sympy.printers import PythonPrinter

_TORCH = os.path.dirname(torch.__file__) + os.sep
_PRINT = PythonPrinter().doprint
_FUNCTIONS = {"float": "float"}
"""torch's functions of sizes that are not in `math` -> Python's."""
_LAYERS = os.path.join(_TORCH, "nn") + os.sep


@dataclass(frozen=True)
class Guard:
    """A condition on the sizes of inputs."""

    code: str
    """Python; its names are those of `sizes`."""
    sizes: dict[str, tuple[int, int]]
    """Name -> the place of an input, and its dimension."""

    def holds(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether it is true of these inputs; it is of inputs that have too few dimensions."""
        if any(tensors[place].dim() <= dim for place, dim in self.sizes.values()):
            return True
        values = {name: tensors[place].shape[dim] for name, (place, dim) in self.sizes.items()}
        try:
            return bool(eval(self.code, {"math": math}, values))
        except ArithmeticError:  # forward fails with these sizes
            return False

    def shown(self, labels: Sequence[str]) -> str:
        """It as people write it."""
        names = {name: f"{labels[place]}.shape[{dim}]" for name, (place, dim) in self.sizes.items()}
        return re.sub(r"\b[a-z]\d+\b", lambda found: names.get(found[0], found[0]), self.code)


def guards_of(program: Any, dims: Sequence[Sequence[int]], decisions: dict[tuple[Any, str], Any]) -> list[Guard]:
    """What an exported program took from sizes: branches in the model's own code and in torch.nn, and numbers.

    What the shape rules of torch itself compare is left out: they distinguish sizes for which operators do the same.

    Args:
        program: the result of torch.export.
        dims: for each input, its dynamic dimensions.
        decisions: those of the export; see `size_decisions`.

    Raises:
        ValueError: one of them does not follow from the sizes of inputs.
    """
    names = program.graph_signature.user_inputs
    given = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    places: dict[Any, tuple[int, int]] = {}
    for place, (name, some) in enumerate(zip(names, dims, strict=True)):
        for dim in some:
            size = given[name].shape[dim].node
            places.update((symbol, (place, dim)) for symbol in (size.expr, size._expr) if symbol.is_Symbol)
    found: dict[str, Guard] = {}
    for (expression, file), value in decisions.items():
        if isinstance(value, bool) and file.startswith(_TORCH) and not file.startswith(_LAYERS):
            continue
        code = _python(~expression if value is False else expression)
        if not isinstance(value, bool):
            code = f"{code} == {value!r}"
        used = expression.free_symbols
        if not used <= places.keys():
            raise ValueError(f"forward depends on {code}, which does not follow from the sizes of inputs")
        found[code] = Guard(code, {str(symbol): places[symbol] for symbol in used})
    return list(found.values())


def _python(expression: Any) -> str:
    """An expression of sizes as Python with numbers and functions of `math`."""
    code = re.sub(r"torch\._?sym_(\w+)", lambda found: _FUNCTIONS.get(found[1], f"math.{found[1]}"), _PRINT(expression))
    return re.sub(r"\d+\.\d+", lambda found: repr(float(found[0])), code)
