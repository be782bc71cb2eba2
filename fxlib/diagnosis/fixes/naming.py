"""Names of new functions, from what they compute."""

from __future__ import annotations

import ast
import re

from fxlib.diagnosis.fixes.source import FunctionNode, Source

__all__ = ["name_of_block", "name_of_value", "snake_case"]

_SHORT = 2
# Functions whose name adds nothing to that of the operand.
_SILENT = {
    "list", "tuple", "dict", "set", "map", "zip", "filter", "range", "enumerate", "contiguous", "reversed", "sorted",
    "item", "items", "keys", "values", "super", "isinstance", "getattr", "type", "bool", "detach", "clone", "forward",
}  # fmt: skip
_CONVERSIONS = {"int", "float", "complex", "str"}


def name_of_block(source: Source, block: list[ast.stmt], results: list[str], function: FunctionNode) -> str:
    """A name for the function that a block of ``function`` becomes: ``_hidden_shape`` for one that binds that name,
    ``_pad_x`` where the name says little, and that of a helper method where the block returns its value."""
    inside = [node for statement in block for node in ast.walk(statement)]
    if not results and function.name not in ("forward", "__call__"):
        return _joined(function.name)
    if not results:
        returned = [node.value for node in inside if isinstance(node, ast.Return) and node.value is not None]
        if not isinstance(returned[-1], ast.Name):
            return name_of_value(source, returned[-1], function)
        results = [returned[-1].id]
    telling = [name for name in results if len(name.strip("_")) > _SHORT]
    if telling:
        return _joined("_and_".join(telling[:2]))
    values = [value for node in inside if (value := _bound_value(node, results[0])) is not None]
    verbs = [verb for verb in map(_verb, values) if verb]
    return _joined(verbs[-1] if verbs else "", "_".join(results[:3]), otherwise=_owner(source, function))


def name_of_value(source: Source, node: ast.expr, function: FunctionNode) -> str:
    """A name for the function that an expression becomes: ``_cat_inputs`` for ``torch.cat(inputs, 1)``."""
    statement = source.statement_of(node)
    if isinstance(statement, ast.Assign) and statement.value is node and isinstance(statement.targets[0], ast.Name):
        target = statement.targets[0].id
        return _joined(target) if len(target.strip("_")) > _SHORT else _joined(_verb(node), target, otherwise="new")
    verb, operand = _verb(node), _operand(node)
    if verb and operand:
        return _joined(verb, operand)
    return _joined(verb or operand or "output", otherwise=_owner(source, function))


def _bound_value(statement: ast.AST, name: str) -> ast.expr | None:
    """What a statement binds to ``name``."""
    if isinstance(statement, ast.Assign):
        names = [n.id for target in statement.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
        return statement.value if name in names else None
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name) and statement.target.id == name:
        return statement.value
    return None


def _verb(node: ast.expr) -> str:
    """What the outermost call of a value does; empty if there is no telling name."""
    while isinstance(node, ast.Subscript | ast.Starred):
        node = node.value
    if not isinstance(node, ast.Call):
        return ""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _CONVERSIONS:
        return f"to_{name}"
    if name not in _SILENT:
        return name
    inner = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0] if node.args else None
    return _verb(inner) if inner is not None else ""


def _operand(node: ast.expr) -> str:
    """The first value that an expression reads: ``x`` of ``F.pad(x, ...)``, ``weight`` of ``self.weight.t()``."""
    if isinstance(node, ast.Call):
        candidates: list[ast.expr] = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Attribute) and not _is_library(node.func.value):
            candidates.insert(0, node.func.value)
    elif isinstance(node, ast.Name):
        return node.id
    elif isinstance(node, ast.Attribute):
        return node.attr if isinstance(node.value, ast.Name) and node.value.id == "self" else _operand(node.value)
    elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp):
        candidates = [node.generators[0].iter]
    else:
        candidates = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return next((name for name in map(_operand, candidates) if name), "")


def _is_library(node: ast.expr) -> bool:
    return ast.unparse(node).split(".")[0] in ("torch", "nn", "F", "np", "numpy", "math", "einops")


def _owner(source: Source, function: FunctionNode) -> str:
    """The class or function that contains the code."""
    owner = source.class_of(function)
    return owner.name if owner is not None else function.name


def snake_case(name: str) -> str:
    """``FixedNormal`` as ``fixed_normal``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _joined(*parts: str, otherwise: str = "") -> str:
    """The non-empty parts as one private name; ``otherwise`` precedes a single part."""
    words = [snake_case(part.strip("_")) for part in parts if part.strip("_")]
    if (len(parts) > 1 and len(words) < len(parts)) or not words:
        words.insert(0, snake_case(otherwise.strip("_")))
    return "_" + "_".join(word for word in words if word)
