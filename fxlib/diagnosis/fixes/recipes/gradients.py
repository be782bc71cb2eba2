"""Recipes for gradients that forward asks for: `torch.func.grad` of a function, which is captured."""

from __future__ import annotations

import ast

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.names import analyse


@recipe("func-grad", assumes="the function can be called again, and keeps nothing")
def func_grad(site: Site) -> Draft | None:
    """Replace `y = f(x)` and `torch.autograd.grad(y, x, create_graph=True)` with `torch.func.grad` of a function that
    computes `y` from `x`."""
    function = site.function
    calls = ast.walk(function) if function is not None else ()
    found = [each for each in calls if isinstance(each, ast.Call) and _asks(site, each)]
    if function is None or len(found) != 1:
        return None
    (call,) = found
    of, by = call.args
    statement = site.source.statement_of(call)
    if not isinstance(of, ast.Name) or not isinstance(by, ast.Name) or statement is None:
        return None
    siblings, index = site.source.block_of(statement)
    binds = [i for i, each in enumerate(siblings[:index]) if by.id in _bound(each) or _marks(each, by.id)]
    steps = siblings[binds[-1] + 1 if binds else 0 : index]
    flow = analyse(site.source, steps, function) if steps else None
    if flow is None or of.id not in flow.always or any(isinstance(n, ast.Return) for s in steps for n in ast.walk(s)):
        return None
    if not all(map(site.source.starts_line, [*steps, statement])):
        return None
    grad, edits = site.need("torch.func.grad")
    helper, indent = site.source.fresh_name(f"{of.id}_of"), site.source.indent_of(statement)
    gives = [f"def {helper}({by.id}):", *site.moved(steps), f"{site.source.indent_unit}return {of.id}"]
    definition = "\n".join(indent + line if line else line for line in gives)
    later = {
        each.id
        for each in ast.walk(function)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.lineno > (statement.end_lineno or 0)
    }
    kept = bool(later & set(flow.writes))
    start, end = (steps[0].lineno, 0), (site.source.line_below(steps[-1]), 0)
    if kept:
        edits = [*edits, site.source.insert_line(steps[0].lineno, f"{definition}\n")]
    else:
        edits = [*edits, site.source.replace_range(start, end, f"{definition}\n\n")]
    graph = any(each.arg == "create_graph" and ast.unparse(each.value) == "True" for each in call.keywords)
    gradient = f"{grad}({helper})({by.id})" + ("" if graph else ".detach()")
    edits += [_asked(site, call, gradient), *_unmarked(site, siblings[:index], by.id)]
    return Draft("Use torch.func.grad", edits, "the gradient is also computed under torch.no_grad()")


def _asks(site: Site, call: ast.Call) -> bool:
    return site.call_name(call) == "torch.autograd.grad" and len(call.args) == 2


def _bound(statement: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _marks(statement: ast.stmt, name: str) -> bool:
    """Whether a statement is `x.requires_grad_()`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func) == f"{name}.requires_grad_"


def _is_marking(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "requires_grad_"


def _unmarked(site: Site, before: list[ast.stmt], name: str) -> list[Edit]:
    """The edits that remove `requires_grad_` where the input gets its value."""
    edits = []
    for each in before:
        if _marks(each, name) and site.source.starts_line(each):
            edits.append(site.source.replace_range((each.lineno, 0), (site.source.line_below(each), 0), ""))
        elif isinstance(each, ast.Assign) and name in _bound(each) and _is_marking(each.value):
            edits.append(site.source.replace(each.value, site.text(each.value.func.value)))  # type: ignore[attr-defined]
    return edits


def _asked(site: Site, call: ast.Call, gradient: str) -> Edit:
    """The edit that puts the gradient in place of the call, which returns a tuple of one."""
    above = site.source.parents.get(call)
    if isinstance(above, ast.Subscript) and above.value is call and ast.unparse(above.slice) == "0":
        return site.source.replace(above, gradient)
    if isinstance(above, ast.Assign) and len(above.targets) == 1 and len(getattr(above.targets[0], "elts", ())) == 1:
        return site.source.replace(above, f"{site.text(above.targets[0].elts[0])} = {gradient}")  # type: ignore[attr-defined]
    return site.source.replace(call, f"({gradient},)")
