"""Arguments of a model's call in a form that can be evaluated: values from files and data sets become holes, sizes and
constants stay."""

from __future__ import annotations

import ast

from . import values as v
from .symbols import Symbol
from .workspace import Workspace

_MAKERS = {
    "randn", "rand", "zeros", "ones", "empty", "full", "randint", "arange", "linspace", "eye", "randperm", "normal",
    "bernoulli", "stack", "cat", "zeros_like", "ones_like", "randn_like", "rand_like",
}  # fmt: skip
"""Functions whose result is determined by shapes among the arguments."""


def parameters(workspace: Workspace, kind: Symbol) -> list[str]:
    """Names of the parameters of ``forward``, without ``self``."""
    method = workspace.symbols.method(kind, "forward") or workspace.symbols.method(kind, "__call__")
    node = workspace.node(method.file, method.name) if method else None
    if not isinstance(node, ast.FunctionDef):
        return []
    return [each.arg for each in (*node.args.posonlyargs, *node.args.args)][1:]


def usable(
    args: list[v.Value], keywords: dict[str, v.Value], names: list[str]
) -> tuple[list[v.Value], dict[str, v.Value]] | None:
    """The arguments with holes for data; None if nothing about them is known, or if they come from another model."""
    if any(_from_model(each) for each in (*args, *keywords.values())):
        return None
    made = [_settled(each, names[at] if at < len(names) else _name(each)) for at, each in enumerate(args)]
    named = {key: _settled(each, key) for key, each in keywords.items()}
    every = [*made, *named.values()]
    return (made, named) if any(not isinstance(each, v.Hole) for each in every) or len(every) > 1 else None


def _settled(value: v.Value, name: str) -> v.Value:
    if not v.has_hole(value):
        return value
    if isinstance(value, v.Sequence) and value.whole:
        return v.Sequence(value.kind, [_settled(each, f"{name}[{at}]") for at, each in enumerate(value.items)])
    if isinstance(value, v.Mapping) and value.kind == "dict" and value.whole:
        return v.Mapping({key: _settled(each, str(key)) for key, each in value.items.items()})
    return value if _is_made(value) else v.Hole(name)


def _is_made(value: v.Value) -> bool:
    """Whether a value is a tensor of which only sizes are unknown."""
    if isinstance(value, v.Apply):
        function = value.function
        if isinstance(function, v.External):
            return function.name.rpartition(".")[2] in _MAKERS and function.name.startswith("torch.")
        return isinstance(function, v.Attribute) and _is_made(function.base)
    if isinstance(value, (v.Attribute, v.Item)):
        return _is_made(value.base)
    if isinstance(value, v.Operation):
        return any(_is_made(each) for each in value.operands)
    return False


def _from_model(value: v.Value, depth: int = 12) -> bool:
    """Whether a value is, or contains, the result of a model."""
    if isinstance(value, v.Apply) and isinstance(value.function, v.Object):
        return True
    return depth > 0 and any(_from_model(part, depth - 1) for part in v.parts(value))


def _name(value: v.Value) -> str:
    return value.name if isinstance(value, v.Hole) else "x"
