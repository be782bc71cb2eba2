"""Recipes for parts that values choose: rows that are kept, a part that may be empty, the first few of them."""

from __future__ import annotations

import ast
from typing import NamedTuple

from fxlib.diagnosis.fixes.fix import SWITCH, Branches, Draft, Site, recipe
from fxlib.diagnosis.fixes.recipes.types import block_for


class _Rows(NamedTuple):
    """``name = [each for each in rows if test]``: the statements that make it, and what decides for all rows."""

    name: str
    rows: str
    mask: str
    first: ast.stmt
    last: ast.stmt
    of: ast.expr


@recipe("rows-by-mask", assumes="the loop has no other effect")
def rows_by_mask(site: Site) -> Draft | None:
    """Replace `rows = [row for row in x if c]` and `torch.stack(rows)` with `rows = x[mask]`, or a loop with `append`
    likewise."""
    found = _comprehension(site) or _loop(site)
    function = site.function
    if found is None or function is None:
        return None
    made = {part for statement in (found.first, found.last) for part in ast.walk(statement)}
    uses = [
        each for each in ast.walk(function) if isinstance(each, ast.Name) and each.id == found.name and each not in made
    ]
    stacked = site.source.parents.get(uses[0]) if len(uses) == 1 else None
    if stacked is None or site.call_name(stacked) != "torch.stack" or not isinstance(stacked, ast.Call):
        return None
    if stacked.args != uses or stacked.keywords:
        return None
    check, edits = site.need("torch._check")
    indent = site.source.indent_of(found.last)
    # Nothing can be stacked of no rows.
    lines = [f"{found.name} = {found.rows}[{found.mask}]", f"{check}({found.name}.shape[0] > 0)"]
    edits = [*edits, site.source.replace(found.last, f"\n{indent}".join(lines))]
    if found.first is not found.last:
        below = (site.source.line_below(found.first), 0)
        edits.append(site.source.replace_range((found.first.lineno, 0), below, ""))
    return Draft("Take the rows by a mask", [*edits, site.source.replace(stacked, found.name)])


def _comprehension(site: Site) -> _Rows | None:
    node = next(site.nearest(ast.ListComp), None)
    statement = site.statement
    if node is None or len(node.generators) != 1 or not isinstance(statement, ast.Assign):
        return None
    each, target, element = node.generators[0], statement.targets[0], ast.unparse(node.elt)
    if statement.value is not node or len(statement.targets) != 1 or not isinstance(target, ast.Name):
        return None
    if len(each.ifs) != 1 or not isinstance(each.target, ast.Name) or element != each.target.id:
        return None
    mask = _of_all(site, each.ifs[0], each.target.id, each.iter)
    return _Rows(target.id, site.operand(each.iter), mask, statement, statement, each.iter)


def _of_all(site: Site, test: ast.expr, name: str, rows: ast.expr) -> str:
    stack, _ = site.need("torch.stack")
    return f"{stack}([{site.text(test)} for {name} in {site.text(rows)}])"


def _loop(site: Site) -> _Rows | None:
    """`rows = []` and `for row in x: if c: rows.append(row)`, also with `zip(x, c)`."""
    node = next(site.nearest(ast.If), None)
    loop = site.source.parents.get(node) if node is not None else None
    if node is None or not isinstance(loop, ast.For) or loop.body != [node] or loop.orelse or node.orelse:
        return None
    siblings, index = site.source.block_of(loop)
    call = node.body[0].value if len(node.body) == 1 and isinstance(node.body[0], ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or len(call.args) != 1:
        return None
    owner, kept = call.func.value, call.args[0]
    empty = siblings[index - 1] if index else None
    if call.func.attr != "append" or not isinstance(owner, ast.Name) or not isinstance(kept, ast.Name):
        return None
    if not isinstance(empty, ast.Assign) or ast.unparse(empty) != f"{owner.id} = []":
        return None
    if not site.source.starts_line(loop) or not (site.source.starts_line(empty) and site.source.ends_line(empty)):
        return None
    targets, rows = getattr(loop.target, "elts", [loop.target]), loop.iter
    names = [getattr(each, "id", "") for each in targets]
    if isinstance(rows, ast.Call) and site.call_name(rows) == "zip" and len(names) == 2 == len(rows.args):
        if names[0] != kept.id or ast.unparse(node.test) != names[1]:
            return None
        return _Rows(owner.id, site.operand(rows.args[0]), site.text(rows.args[1]), empty, loop, rows.args[0])
    if names != [kept.id]:
        return None
    return _Rows(owner.id, site.operand(rows), _of_all(site, node.test, kept.id, rows), empty, loop, rows)


@recipe("slice-without-asking", assumes="the bound is an int that is not negative")
def slice_without_asking(site: Site) -> Draft | None:
    """Replace `if len(x) > n: x = x[:n]` with `x = x[:n]`, which does not change a shorter `x`."""
    node = next(site.nearest(ast.If), None)
    if node is None or node.orelse or len(node.body) != 1 or not isinstance(node.test, ast.Compare):
        return None
    test, statement = node.test, node.body[0]
    if len(test.ops) != 1 or not isinstance(test.ops[0], ast.Gt | ast.GtE) or not isinstance(statement, ast.Assign):
        return None
    cut = statement.value
    if not isinstance(cut, ast.Subscript) or [ast.unparse(each) for each in statement.targets] != [_text(cut.value)]:
        return None
    steps = cut.slice.elts if isinstance(cut.slice, ast.Tuple) else [cut.slice]
    last = steps[-1]
    if not all(isinstance(each, ast.Slice) for each in steps) or any(_text(each) != ":" for each in steps[:-1]):
        return None
    if not isinstance(last, ast.Slice) or last.lower is not None or last.step is not None or last.upper is None:
        return None
    name, dim = _text(cut.value), len(steps) - 1
    asked = {f"{name}.shape[{dim}]", f"{name}.size({dim})", *([f"len({name})"] if not dim else [])}
    if _text(test.left) not in asked or _text(last.upper) != _text(test.comparators[0]):
        return None
    return Draft("Slice without testing the size", [site.source.replace(node, site.text(statement))])


def _text(node: ast.AST) -> str:
    return ast.unparse(node)


_EMPTY = {"==": 0, "<": 1, "<=": 0}
_FILLED = {">": 0, "!=": 0, ">=": 1}


@recipe("without-empty-case", assumes="the code does nothing for an empty tensor")
def without_empty_case(site: Site) -> Draft | None:
    """Remove `if len(rows) == 0: continue` and `if mask.any():` before code that does nothing for an empty tensor."""
    node = next(site.nearest(ast.If), None)
    asked = _asked(node.test) if node is not None and not node.orelse else None
    if node is None or asked is None or not site.source.starts_line(node):
        return None
    name, empty, of_mask = asked
    skips = len(node.body) == 1 and isinstance(node.body[0], ast.Continue)
    if empty != skips or (skips and not isinstance(site.source.parents.get(node), ast.For | ast.While)):
        return None
    block = [] if skips else node.body
    if any(not site.source.starts_line(each) for each in block):
        return None
    indent = site.source.indent_of(node)
    none = f"torch.zeros_like({name})" if of_mask else f"{name}[:0]"
    together = _bound_together(site, node, name) if not of_mask else [name]
    none = ", ".join(f"{each}[:0]" for each in together) if not of_mask else none
    # Both texts are run with nothing in it.
    made = site.source.insert_line(
        node.lineno, f"{indent}if {SWITCH}(0, False):\n{indent}    {', '.join(together)} = {none}"
    )
    edit = block_for(site, node, block)
    if edit is None:
        return None
    return Draft(
        f"Remove the test whether `{name}` is empty",
        [edit],
        branches=Branches(1, (made,), (made, edit)),
    )


def _asked(test: ast.expr) -> tuple[str, bool, bool] | None:
    """The name of what is asked whether it is empty, whether the answer is yes, and whether it is a mask."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _asked(test.operand)
        return None if inner is None else (inner[0], not inner[1], inner[2])
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        sign = ast.unparse(ast.Compare(ast.Name("a"), test.ops, [ast.Name("b")]))[1:-1].strip()
        bound = getattr(test.comparators[0], "value", None)
        counted = _counted(test.left)
        if counted is None or type(bound) is not int or bound not in (_EMPTY.get(sign), _FILLED.get(sign)):
            return None
        return counted[0], sign in _EMPTY, counted[1]
    counted = _counted(test)
    return None if counted is None else (counted[0], False, counted[1])


def _counted(node: ast.expr) -> tuple[str, bool] | None:
    """`x` of `len(x)`, `x.numel()`, `x.shape[0]` and `x.size(0)`; a mask of `m.any()` and `m.sum()`."""
    text = ast.unparse(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item":
        return _counted(node.func.value)
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    for name in names:
        if text in (f"len({name})", f"{name}.numel()", f"{name}.shape[0]", f"{name}.size(0)", f"{name}.nelement()"):
            return name, False
        if text in (f"{name}.any()", f"{name}.sum()", f"torch.any({name})", f"torch.sum({name})"):
            return name, True
    return None


def _bound_together(site: Site, node: ast.stmt, name: str) -> list[str]:
    """The names that the last assignment before it binds together with one."""
    siblings, index = site.source.block_of(node)
    for statement in reversed(siblings[:index]):
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            targets = getattr(statement.targets[0], "elts", statement.targets)
            names = [each.id for each in targets if isinstance(each, ast.Name)]
            if name in names:
                return names if len(names) == len(targets) else [name]
    return [name]
