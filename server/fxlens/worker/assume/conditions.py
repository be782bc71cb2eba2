"""Finds values of names that flip the result of a test."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import Any

from . import blame

_NUMBERS = (1, 2, 3, 4, 6, 7, 8, 16, 24, 32, 48, 56, 64, 96, 112, 128, 192, 224, 256)
_PURE = {
    "len", "isinstance", "max", "min", "int", "float", "abs", "sum", "all", "any", "type", "range", "set",
}  # fmt: skip


def flips(test: ast.expr, wanted: bool, step: blame.Step) -> Iterator[tuple[blame.Chain, Any]]:
    """Names in a test, with values that give it the wanted result."""
    chains = [chain for chain in dict.fromkeys(_plain_chains(test))]
    pool = [*_constants(test, step)]
    count = 0
    for chain in chains[:6]:
        value = blame.value_of(step, chain)
        if isinstance(value, bool):
            candidates: list[Any] = [not value]
        elif isinstance(value, (int, float)):
            known = [v for c in chains if c != chain and type(v := blame.value_of(step, c)) is int and v > 0]
            near = [value * k for k in (2, 4) if isinstance(value, int)]
            multiples = [v * 8 for v in known]
            # Keep the larger one larger; use size 0 only if nothing else helps.
            relatives = [*multiples, *known] if any(value > v for v in known) else [*known, *multiples]
            constants = [v for v in pool if type(v) in (int, float)]
            candidates = [
                *[v for v in constants if v],
                *relatives,
                *near,
                *_NUMBERS,
                *[v for v in constants if not v],
            ]
        elif isinstance(value, str) or value is None:
            candidates = [v for v in pool if isinstance(v, str)]
            candidates += [True, 16] if value is None else []
        elif isinstance(value, (list, tuple)):
            lengths = [len(v) for c in chains if c != chain and isinstance(v := blame.value_of(step, c), (list, tuple))]
            candidates = [type(value)((list(value) * 8)[:n]) for n in [*lengths, 1, 2, 3, 4, 5, 6] if value]
        else:
            continue
        found = 0
        for candidate in candidates:
            count += 1
            if count > 150 or found >= 2:
                break
            if _answer(test, chain, candidate, step) is wanted:
                found += 1
                yield chain, candidate


def _plain_chains(test: ast.expr) -> Iterator[blame.Chain]:
    for node in ast.walk(test):
        chain = blame.chain_of(node)
        if chain is not None:
            yield chain


def _constants(test: ast.expr, step: blame.Step) -> Iterator[Any]:
    for node in ast.walk(test):
        if isinstance(node, ast.Constant):
            yield node.value
        elif isinstance(node, (ast.Name, ast.Attribute)) and (chain := blame.chain_of(node)):
            value = blame.value_of(step, chain)
            if isinstance(value, (list, tuple, set, frozenset, dict)):
                yield from (each for each in list(value)[:20] if isinstance(each, (str, int)))


class _Substitute(ast.NodeTransformer):
    def __init__(self, chain: blame.Chain) -> None:
        self.chain = chain

    def visit(self, node: ast.AST) -> Any:
        if blame.chain_of(node) == self.chain:
            return ast.copy_location(ast.Name("__fxlens_value__", ast.Load()), node)
        return self.generic_visit(node)


def _answer(test: ast.expr, chain: blame.Chain, value: Any, step: blame.Step) -> bool | None:
    """The test's result with another value for one of its names; None if it needs a call."""
    for node in ast.walk(test):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", None)
            if name not in _PURE:
                return None
    tree = ast.parse(ast.unparse(test), mode="eval")
    changed = ast.fix_missing_locations(_Substitute(chain).visit(tree))
    scope = {**vars(builtins), **step.frame.f_globals, **step.frame.f_locals, "__fxlens_value__": value}
    try:
        return bool(eval(compile(changed, "<fxlens test>", "eval"), scope))
    except Exception:
        return None
