"""Recipes for loops whose number of steps depends on values."""

from __future__ import annotations

import ast

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.names import analyse, local_names, surely_bound
from fxlib.diagnosis.fixes.recipes.control import condition_text

_NOTE = "torch.fx does not trace torch.while_loop"
_WHILE = "torch.while_loop"


@recipe("to-while-loop", assumes="each step gives tensors of the same shapes")
def to_while_loop(site: Site) -> Draft | None:
    """Replace `while x.norm() < 10` and `for i in range(n.item())` with a loop that is part of the graph."""
    statement = site.statement
    if isinstance(statement, ast.While):
        condition = condition_text(site, statement.test)
        return _loop(site, statement, condition) if condition is not None else None
    if isinstance(statement, ast.For):
        return _counted(site, statement)
    return None


def _loop(site: Site, node: ast.While, condition: tuple[str, list[Edit]]) -> Draft | None:
    carried = _carried(site, node)
    return None if carried is None else _draft(site, node, condition[0], condition[1], carried, "", "")


def _counted(site: Site, node: ast.For) -> Draft | None:
    call, target = node.iter, node.target
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "range":
        return None
    if len(call.args) != 1 or not isinstance(target, ast.Name):
        return None
    limit: ast.expr = call.args[0]
    if isinstance(limit, ast.Call) and isinstance(limit.func, ast.Attribute) and limit.func.attr == "item":
        limit = limit.func.value
    elif isinstance(limit, ast.Call) and isinstance(limit.func, ast.Name) and limit.func.id == "int" and limit.args:
        limit = limit.args[0]
    else:
        return None
    carried = _carried(site, node)
    if carried is None:
        return None
    index = site.source.fresh_name("step") if target.id == "_" else target.id
    zero, edits = site.need("torch.zeros_like")
    end = site.text(limit)
    if isinstance(call.args[0], ast.Call) and call.args[0].args:
        end = f"{site.operand(limit)}.long()"  # like int(): the limit may be a float
    return _draft(site, node, f"{index} < {end}", edits, carried, index, f"{zero}({end})")


def _carried(site: Site, node: ast.While | ast.For) -> list[str] | None:
    """The names that each step assigns; None if the loop does anything else."""
    function = site.function
    if function is None or node.orelse or not site.source.starts_line(node):
        return None
    if any(isinstance(each, ast.Break | ast.Continue | ast.Return) for each in ast.walk(node)):
        return None
    flow = analyse(site.source, node.body, function)
    bound = surely_bound(site.source, function, node) & local_names(function)
    carried = [name for name in flow.writes if name in bound]
    return carried if carried and not flow.obstacle and set(carried) == set(flow.writes) else None


def _draft(
    site: Site, node: ast.While | ast.For, condition: str, edits: list[Edit], carried: list[str], index: str, start: str
) -> Draft:
    """The two functions of the loop, and its call; an ``index`` counts the steps from ``start``."""
    loop, more = site.need(_WHILE)
    going, step = site.source.fresh_name("goes_on"), site.source.fresh_name("step_of_loop")
    indent, unit = site.source.indent_of(node), site.source.indent_unit
    names = [index, *carried] if index else carried
    values = [start, *carried] if index else carried
    results = [f"{index} + 1", *carried] if index else carried
    lines = [f"def {going}({', '.join(names)}):", f"{unit}return {condition}", ""]
    lines += [f"def {step}({', '.join(names)}):", *site.moved(node.body), f"{unit}return {_tuple(results)}", ""]
    lines.append(f"{_tuple(names)} = {loop}({going}, {step}, ({', '.join(values)}{',' * (len(values) == 1)}))")
    text = "\n".join(indent + line if line and i else line for i, line in enumerate(lines))
    return Draft(f"Loop with {loop}", [*edits, *more, site.source.replace(node, text)], _NOTE)


def _tuple(items: list[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else ", ".join(items)
