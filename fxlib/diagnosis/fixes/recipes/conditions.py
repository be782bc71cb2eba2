"""Recipes for branches that are no values: a check that raises, a buffer that is filled once, a step left out."""

from __future__ import annotations

import ast

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.names import local_names, surely_bound
from fxlib.diagnosis.fixes.recipes.branches import note_of
from fxlib.diagnosis.fixes.recipes.control import tensor_condition


@recipe("raise-to-assert", assumes="nobody catches the exception that was raised")
def raise_to_assert(site: Site) -> Draft | None:
    """Replace `if c: raise E(m)` on tensor values with `torch._assert_async(torch.logical_not(c), m)`, which is part of
    the program."""
    node = next(site.nearest(ast.If), None)
    if node is None or node.orelse or len(node.body) != 1 or not isinstance(node.body[0], ast.Raise):
        return None
    condition = tensor_condition(site, node.test) if site.source.starts_line(node) else None
    if condition is None:
        return None
    raised = node.body[0].exc
    said = raised.args[0] if isinstance(raised, ast.Call) and len(raised.args) == 1 else None
    is_text = isinstance(said, ast.Constant) and isinstance(said.value, str)
    message = f", {site.text(said)}" if said is not None and is_text else ""
    check, edits = site.need("torch._assert_async")
    negated, more = site.need("torch.logical_not")
    call = f"{check}({negated}({condition[0]}){message})"
    edits = [*dict.fromkeys([*edits, *more, *condition[1]]), site.source.replace(node, call)]
    kind = raised.func if isinstance(raised, ast.Call) else raised
    name = site.text(kind) if kind is not None else "the exception"
    return Draft("Check with torch._assert_async", edits, f"raises RuntimeError where it raised {name}")


@recipe("fill-where", assumes="the value can be computed in every call")
def fill_where(site: Site) -> Draft | None:
    """Replace `if not self.ready: self.mean.copy_(m)`, which fills a buffer in the first call, with
    `self.mean.copy_(torch.where(…, m, self.mean))`."""
    node = next(site.nearest(ast.If), None)
    if node is None or node.orelse or not site.source.starts_line(node):
        return None
    condition = tensor_condition(site, node.test)
    filled = [_filled(each) for each in node.body]
    if condition is None or None in filled:
        return None
    where, edits = site.need("torch.where")
    name = site.source.fresh_name("condition")
    lines = [f"{name} = {condition[0]}"]
    if isinstance(node.test, ast.Name | ast.Attribute | ast.Call) and not condition[1]:
        lines = [f"{name} = ({condition[0]}).clone()"]  # it may be one of those that are filled
    for tensor, value in filled:  # type: ignore[misc]
        lines.append(f"{site.text(tensor)}.copy_({where}({name}, {site.text(value)}, {site.text(tensor)}))")
    text = ("\n" + site.source.indent_of(node)).join(lines)
    edits = [*dict.fromkeys([*edits, *condition[1]]), site.source.replace(node, text)]
    return Draft("Fill with torch.where", edits, "the value is computed in every call")


def _filled(statement: ast.stmt) -> tuple[ast.expr, ast.expr] | None:
    """The tensor and the value of `tensor.copy_(value)` and `tensor.fill_(value)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.keywords:
        return None
    if call.func.attr not in ("copy_", "fill_") or len(call.args) != 1:
        return None
    return call.func.value, call.args[0]


@recipe("continue-to-where", assumes="the step can be computed whatever the condition is, with the same shape")
def continue_to_where(site: Site) -> Draft | None:
    """Replace `if c: continue` before a final `x = f(x)` of a loop with `x = torch.where(c, x, f(x))`."""
    node = next(site.nearest(ast.If), None)
    if node is None or node.orelse or len(node.body) != 1 or not isinstance(node.body[0], ast.Continue):
        return None
    condition = tensor_condition(site, node.test) if site.source.starts_line(node) else None
    siblings, index = site.source.block_of(node)
    rest, function = siblings[index + 1 :], site.function
    if condition is None or function is None or len(rest) != 1 or not isinstance(rest[0], ast.Assign):
        return None
    target = rest[0].targets[0]
    loop = site.source.parents.get(node)
    if len(rest[0].targets) != 1 or not isinstance(target, ast.Name) or not isinstance(loop, ast.For | ast.While):
        return None
    if target.id not in surely_bound(site.source, function, node) & local_names(function):
        return None
    where, edits = site.need("torch.where")
    text = f"{target.id} = {where}({condition[0]}, {target.id}, {site.text(rest[0].value)})"
    start, end = site.source.range_of(node)[0], site.source.range_of(rest[0])[1]
    changes: list[Edit] = [*dict.fromkeys([*edits, *condition[1]]), site.source.replace_range(start, end, text)]
    note = note_of(site, "the skipped part is computed as well", rest)
    return Draft("Choose with torch.where", changes, note)


@recipe("unchecked-distribution", assumes="the arguments are valid: they are no longer checked")
def unchecked_distribution(site: Site) -> Draft | None:
    """Replace `Normal(m, s)` with `Normal(m, s, validate_args=False)`, since its checks need the arguments' values."""
    for call in site.nearest(ast.Call):
        name = site.call_name(call) or ""
        given = [each.arg for each in call.keywords]
        if not name.startswith("torch.distributions.") or None in given or "validate_args" in given:
            continue
        inner = site.text(call).rstrip()
        text = f"{inner[:-1].rstrip().rstrip(',')}, validate_args=False)"
        note = "invalid arguments no longer raise ValueError"
        return Draft("Turn off argument checks: validate_args=False", [site.source.replace(call, text)], note)
    return None
