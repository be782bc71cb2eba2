"""Recipes for questions about the type of a value, which a Proxy answers otherwise than a tensor."""

from __future__ import annotations

import ast

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.fix import Draft, Site, recipe

__all__ = ["block_for"]

_TITLE = "Remove the type test: {} is a tensor"
_NOTE = "the branch for values that are not tensors is removed"


@recipe("drop-type-test", assumes="it is a tensor in every call")
def drop_type_test(site: Site) -> Draft | None:
    """Remove `isinstance(x, torch.Tensor)` where it is always true, and keep the branch for tensors."""
    for node in [*site.nearest(ast.Call, ast.Compare), *_test_of(site)]:
        value = _asked_of(site, node)
        if value is None:
            continue
        edit = _without(site, node)
        return Draft(_TITLE.format(site.text(value)), [edit], _NOTE) if edit is not None else None
    return None


def _test_of(site: Site) -> list[ast.expr]:
    """The test because of which a statement raises: its own, or that of the `if` around it."""
    statement = site.statement
    around = site.source.parents.get(statement) if isinstance(statement, ast.Raise) else statement
    if not isinstance(around, ast.Assert | ast.If):
        return []
    negated = isinstance(around.test, ast.UnaryOp) and isinstance(around.test.op, ast.Not)
    return [around.test.operand if negated else around.test]  # type: ignore[attr-defined]


def _asked_of(site: Site, node: ast.expr) -> ast.expr | None:
    """The value whose type is compared with that of tensors, and with no other."""
    if isinstance(node, ast.Compare):
        kind = node.left
        same = len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.Eq) and _is_tensor_type(node.comparators[0])
        return kind.args[0] if same and site.call_name(kind) == "type" and isinstance(kind, ast.Call) else None
    name = site.call_name(node)
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if name == "isinstance" and len(node.args) == 2 and _is_tensor_type(node.args[1]):
        return node.args[0]
    return node.args[0] if name == "torch.is_tensor" and len(node.args) == 1 else None


def _is_tensor_type(node: ast.expr) -> bool:
    names = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(
        (each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "")) == "Tensor" for each in names
    )


def _without(site: Site, node: ast.expr) -> Edit | None:
    """What stands around the test, as it is where the test is true."""
    source, truth = site.source, True
    parent = source.parents.get(node)
    while isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
        node, parent, truth = parent, source.parents.get(parent), not truth
    if isinstance(parent, ast.IfExp) and parent.test is node:
        return _instead(site, parent, parent.body if truth else parent.orelse)
    if isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And) is truth and len(parent.values) == 2:
        (other,) = (each for each in parent.values if each is not node)
        return _instead(site, parent, other)
    if isinstance(parent, ast.Assert) and parent.test is node and truth:
        return block_for(site, parent, [])
    if isinstance(parent, ast.If) and parent.test is node and source.segment(parent).startswith("if"):
        return block_for(site, parent, parent.body if truth else parent.orelse)
    return None


def _instead(site: Site, whole: ast.expr, part: ast.expr) -> Edit:
    bare = isinstance(site.source.parents.get(whole), ast.stmt | ast.keyword)
    return site.source.replace(whole, site.text(part) if bare else site.operand(part))


def block_for(site: Site, statement: ast.stmt, block: list[ast.stmt]) -> Edit | None:
    """The statements of a block in place of the statement that holds it, each with its comment; nothing for none."""
    source = site.source
    if not block:
        if len(source.block_of(statement)[0]) == 1:
            return source.replace(statement, "pass")
        alone = source.starts_line(statement) and source.ends_line(statement)
        below = (source.line_below(statement), 0)
        return source.replace_range((statement.lineno, 0), below, "") if alone else None
    if not source.starts_line(block[0]) or source.segment(block[0]).startswith("elif"):
        return None
    inside, outside = source.indent_of(block[0]), source.indent_of(statement)
    above, end, whole = block[0].lineno, source.line_end(block[-1]), source.line_end(statement)
    while source.blank_prefix(above - 1) == inside and source.lines[above - 2].lstrip().startswith("#"):
        above -= 1
    first, *others = source.between((above, len(inside)), end).splitlines()
    text = "\n".join([first, *(_moved(line, inside, outside) for line in others)])
    return source.replace_range((statement.lineno, statement.col_offset), whole, text)


def _moved(line: str, inside: str, outside: str) -> str:
    return f"{outside}{line.removeprefix(inside)}" if line.startswith(inside) else line
