"""Operands that a branch guards: `torch.where` computes both sides, and the gradient of `log` at zero is then NaN.

`torch.where(c, torch.log(x), y)` gives the right value where `c` does not hold, but zero times infinity as the gradient
of `x`. So the operand of such an operator is replaced with 1 there: `torch.where(c, torch.log(torch.where(c, x, 1)),
y)`.
"""

from __future__ import annotations

import ast

from fxlib.diagnosis.fixes.fix import Site
from fxlib.diagnosis.fixes.members import self_name

__all__ = ["SIZES", "guarded", "is_guarded"]

SIZES = {"shape", "size", "dim", "ndim", "dtype", "device", "is_cuda", "numel", "training", "ndimension", "stride"}
"""Attributes and methods of a tensor that do not read its values."""

# Functions, with the position of the argument (for a method, the tensor counts) for which 1 gives a finite gradient.
_FIRST = {
    "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "pow", "float_power", "exp", "exp2", "expm1",
    "sinh", "cosh", "lgamma", "digamma", "xlogy",
}  # fmt: skip
_SECOND = {"div", "divide", "true_divide", "floor_divide", "remainder", "fmod"}
# Functions whose gradients can be infinite or NaN at 1, too, or for a reason that one argument alone does not show.
_OTHER = {
    "acos", "arccos", "asin", "arcsin", "acosh", "arccosh", "atanh", "arctanh", "atan2", "arctan2", "logit", "erfinv",
    "std", "std_mean", "logsumexp", "softmax", "log_softmax", "cosine_similarity", "inverse",
    "inv", "pinv", "solve", "cholesky", "svd", "eigh", "eig", "qr", "slogdet", "logdet", "det", "prod", "cumprod",
    "tan", "polygamma", "renorm", "hypot",
}  # fmt: skip


def guarded(site: Site, side: ast.expr, tests: list[ast.expr], before: str, after: str) -> tuple[str, bool] | None:
    """The text of a side of `torch.where` with ``before`` and ``after`` around each operand that the branch may guard,
    and whether there is one; None if an operand cannot be guarded this way.

    ``tests`` are the conditions of the branch: a number of the module's is guarded only where one reads it.
    """
    operands = _operands(site, side, {ast.unparse(part) for test in tests for part in ast.walk(test)})
    if operands is None:
        return None
    start = site.source.range_of(side)[0]
    places: list[tuple[int, str]] = []
    for operand in operands:
        first, last = site.source.range_of(operand)
        places += [(site.source.offset(*first), before), (site.source.offset(*last), after)]
    raw, origin = site.text(side).encode(), site.source.offset(*start)
    # An operand may hold another: if both start, or end, at one place, the order of the equal texts does not matter.
    for offset, text in sorted(places, reverse=True):
        raw = raw[: offset - origin] + text.encode() + raw[offset - origin :]
    return raw.decode(), bool(operands)


def is_guarded(site: Site, operand: ast.expr, tests: list[ast.expr]) -> bool:
    """Whether the branch may be there to exclude this divisor."""
    return not _harmless(site, operand, {ast.unparse(part) for test in tests for part in ast.walk(test)})


def _operands(
    site: Site, side: ast.AST, known: set[str], seen: frozenset[ast.AST] = frozenset()
) -> list[ast.expr] | None:
    """The operands of a side whose values decide whether its gradient is finite."""
    found: list[ast.expr] = []
    for node in ast.walk(side):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):
            found.append(node.right)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            whole = isinstance(node.right, ast.Constant) and isinstance(node.right.value, int) and node.right.value > 0
            found += [] if whole else [node.left]
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            given = _arguments(site, node)
            helper = _helper(site, node)
            if helper is not None and helper not in seen:
                inside = _operands(site, helper, known, seen | {helper})
                if inside is None or any(not _harmless(site, each, set()) for each in inside):
                    return None
            elif name in _FIRST or name in _SECOND:
                place = int(name in _SECOND)
                if len(given) <= place:
                    return None
                found.append(given[place])
            elif name in _OTHER:
                return None
    return [each for each in found if not _harmless(site, each, known)]


def _arguments(site: Site, call: ast.Call) -> list[ast.expr]:
    """The arguments of a function, or of a method with its tensor first."""
    if isinstance(call.func, ast.Attribute) and not (site.call_name(call) or "").startswith("torch."):
        return [call.func.value, *call.args]
    return list(call.args)


def _helper(site: Site, call: ast.Call) -> ast.AST | None:
    """The function of the file, or the method of the class, that is called."""
    function, owner, around = call.func, site.source.class_of(site.node), site.function
    if isinstance(function, ast.Name):
        body, name = site.source.tree.body, function.id
    elif owner is not None and around is not None and isinstance(function, ast.Attribute):
        if ast.unparse(function.value) != self_name(site.source, around):
            return None
        body, name = owner.body, function.attr
    else:
        return None
    return next((each for each in body if isinstance(each, ast.FunctionDef) and each.name == name), None)


def _harmless(site: Site, operand: ast.expr, known: set[str]) -> bool:
    """Whether an operand is a number: a constant, a size, or a number of the module that no condition reads."""
    if isinstance(operand, ast.Call) and getattr(operand.func, "attr", "") in ("clamp", "clamp_min"):
        return True
    me = self_name(site.source, site.function) if site.function is not None else None
    for node in ast.walk(operand):
        if isinstance(node, ast.Attribute) and node.attr in SIZES:
            return True
        if isinstance(node, ast.Attribute) and ast.unparse(node) in known:
            return False
    names = {node.id for node in ast.walk(operand) if isinstance(node, ast.Name)}
    return names <= {me, "math", "len"} and not any(isinstance(node, ast.Call) for node in ast.walk(operand))
