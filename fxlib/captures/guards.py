"""The guards in torch.export's errors, as conditions on a size."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

__all__ = ["around"]

_LARGEST = 8192  # largest size that is checked in an open range
_GUARD = re.compile(
    r"of (?P<root>\w+) = (?P<source>\S+) in the specified range.*? satisfy the generated guard (?P<guard>.+)\.$",
    re.MULTILINE,
)
_ARITHMETIC = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Name, ast.Constant,
    ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip


def around(text: str, root: str, low: int, high: int | None, example: int) -> tuple[int, int | None]:
    """The range around the example's size, within ``low`` and ``high``, in which all guards hold that torch reports as
    not always true. The given range if they depend on more than this size, or fail only beyond `_LARGEST`."""
    for match in _GUARD.finditer(text):
        holds = _guard(match["guard"].replace(match["source"], "size")) if match["root"] == root else None
        if holds is None or not holds(example):
            continue
        low = next((each + 1 for each in range(example, low - 1, -1) if not holds(each)), low)
        above = range(example, (_LARGEST if high is None else high) + 1)
        high = next((each - 1 for each in above if not holds(each)), high)
    return low, high


def _guard(text: str) -> Callable[[int], bool] | None:
    """``(1 + (((-1) + size) // 32)) != 1`` as a function; None if it is more than arithmetic on the size."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if not isinstance(node, _ARITHMETIC) or (isinstance(node, ast.Name) and node.id != "size"):
            return None
    code = compile(tree, "<guard>", "eval")

    def holds(size: int) -> bool:
        try:
            return bool(eval(code, {"__builtins__": {}, "size": size}))
        except ZeroDivisionError:
            return False

    return holds
