"""A method's object: its name, and what code reaches through it."""

from __future__ import annotations

import ast

from fxlib.diagnosis.fixes.source import FunctionNode, Source

__all__ = ["inputs_of", "is_member_call", "self_chain", "self_name"]


def self_name(source: Source, function: FunctionNode) -> str | None:
    """The name that a method gives its object (`self`), or None for a plain function or a static or class method."""
    if not isinstance(source.parents.get(function), ast.ClassDef) or not function.args.args:
        return None
    decorators = {ast.unparse(d) for d in function.decorator_list}
    return None if decorators & {"staticmethod", "classmethod"} else function.args.args[0].arg


def inputs_of(source: Source, function: FunctionNode) -> list[str]:
    """The parameters of a function that may be given by position or keyword, less the object of a method."""
    me = self_name(source, function)
    return [each.arg for each in function.args.args if each.arg != me]


def self_chain(node: ast.AST, me: str | None) -> str | None:
    """The dotted path of ``self.part.name`` without its first name; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return ".".join(parts) if parts and me is not None and isinstance(node, ast.Name) and node.id == me else None


def is_member_call(function: ast.Attribute, self_name: str) -> bool:
    """Whether a call goes to `self.x(...)`, `self.x.y(...)` or `self.x[i](...)`."""
    node: ast.AST = function
    depth = 0
    while isinstance(node, ast.Attribute | ast.Subscript):
        depth += isinstance(node, ast.Attribute)
        node = node.value
    if not (isinstance(node, ast.Name) and node.id == self_name):
        return False
    # A method of a tensor attribute (`self.weight.t()`) is no member call: in `self.a.b()`, `b` is a method of a
    # tensor.
    return depth == 1 or function.attr in ("forward", "__call__")
