"""What an attribute of a module holds, by what its class assigns to it: a value of its constructor, or a tensor."""

from __future__ import annotations

import ast

from fxlib.diagnosis.fixes.given import to_attribute, to_name
from fxlib.diagnosis.fixes.members import self_name
from fxlib.diagnosis.fixes.source import FunctionNode, Source

__all__ = ["is_kept", "is_tensor_of"]

_NUMBERS = {"bool", "float", "int", "len", "max", "min", "round", "str"}


def is_tensor_of(source: Source, scopes: list[FunctionNode], attribute: ast.Attribute) -> bool:
    """Whether an attribute is a parameter or a buffer, by what the class assigns to it or by its usual name."""
    if attribute.attr in ("weight", "bias"):
        return True
    owner = source.class_of(scopes[-1]) if scopes else None
    values: list[ast.AST | None] = []
    for value, function in to_attribute(source, owner, attribute.attr):
        named = isinstance(value, ast.Name)
        values += [each for each, _ in to_name(source, value, function)] if named else [value]  # type: ignore[arg-type]
    made = [ast.unparse(value.func) if isinstance(value, ast.Call) else "" for value in values]
    return bool(made) and all(each.startswith("torch.") or each.endswith("Parameter") for each in made)


def is_kept(source: Source, scopes: list[FunctionNode], attribute: ast.Attribute) -> bool:
    """Whether the constructor of the class keeps arguments of its own, or numbers, in an attribute of its object: that
    is no property, and no parameter of the model."""
    owner = source.class_of(scopes[-1]) if scopes else None
    if not isinstance(attribute.value, ast.Name) or attribute.attr in source.defined:
        return False
    stored = (each for each in source.attributes.get(attribute.attr, ()) if isinstance(each.ctx, ast.Store))
    made_by = [source.function_of(each) for each in stored]
    values = list(to_attribute(source, owner, attribute.attr))
    return any(
        each is not None and each.name == "__init__" and source.class_of(each) is owner for each in made_by
    ) and all(_is_value(source, value, function) for value, function in values)


def _is_value(source: Source, node: ast.AST | None, constructor: FunctionNode | None) -> bool:
    """Whether what a constructor assigns is an argument, a number, or computed from these."""
    if node is None:
        return False
    me = self_name(source, constructor) if constructor is not None else None
    for each in ast.walk(node):
        name = ast.unparse(each.func) if isinstance(each, ast.Call) else "int"
        if name not in _NUMBERS and not name.startswith("math."):
            return False
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
            made = any(isinstance(value, ast.Call) for value, _ in to_name(source, each, constructor))
            if made or each.id == me:
                return False
    return True
