"""Names for holes, taken from the text."""

from __future__ import annotations

import ast

from .values import Attribute, Hole, Value

_SAME_NAME = {
    "to", "cuda", "cpu", "float", "half", "double", "long", "int", "bool", "detach", "clone", "contiguous", "numpy",
    "squeeze", "unsqueeze", "view", "reshape", "permute", "transpose", "type", "item", "flatten", "requires_grad_",
    "get",
    "astype", "copy", "bfloat16", "repeat", "expand", "mean", "sum", "pop", "split", "strip", "tolist", "resolve",
}  # fmt: skip


def name_of(node: ast.AST) -> str:
    """The name for an expression: the last name in it."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        index = node.slice
        if isinstance(index, ast.Constant) and isinstance(index.value, str):
            return index.value
        return name_of(node.value)
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Attribute) and (function.attr in _SAME_NAME or not node.args):
            return name_of(function.value) if function.attr in _SAME_NAME else function.attr
        if isinstance(function, ast.Name) and function.id in ("int", "float", "str", "len", "list", "tuple", "Tensor"):
            return name_of(node.args[0]) if node.args else function.id
        return name_of(function)
    if isinstance(node, ast.BinOp):
        return name_of(node.left)
    if isinstance(node, ast.Tuple) and node.elts:
        return name_of(node.elts[0])
    return "value"


def text_name(base: Value) -> str:
    return base.name if isinstance(base, (Hole, Attribute)) else "item"
