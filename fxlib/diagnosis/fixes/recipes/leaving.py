"""Recipes for loops that a tensor's value ends: all steps are computed, and a mask keeps what there was at the end."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.fix import Branches, Draft, Site, recipe, switched
from fxlib.diagnosis.fixes.guards import guarded
from fxlib.diagnosis.fixes.members import inputs_of
from fxlib.diagnosis.fixes.names import local_names, surely_bound
from fxlib.diagnosis.fixes.recipes.branches import HAZARD, note_of
from fxlib.diagnosis.fixes.recipes.control import tensor_condition
from fxlib.diagnosis.fixes.source import FunctionNode

_NOTE = "all steps are computed in every call"
_Step = ast.Assign | ast.AugAssign


@dataclass(frozen=True)
class _Left:
    """A `for` that ``test`` ends by ``last``, `break` or `return`; what stands before and after it in the loop, what
    it does first, and the names that have a value before the loop and another one after each step."""

    function: FunctionNode
    loop: ast.For
    test: ast.If
    last: ast.Break | ast.Return
    before: list[_Step]
    first: list[_Step]
    after: list[_Step]
    carried: list[str]


@recipe("leave-to-mask", assumes="all steps can be computed, whatever the condition is")
def leave_to_mask(site: Site) -> Draft | None:
    """Replace `if c: break` and `if c: return y` in a `for` with a mask: all steps are computed, and `torch.where`
    keeps the values from the end of the original loop."""
    left = _left(site)
    condition = tensor_condition(site, left.test.test) if left is not None else None
    if left is None or condition is None:
        return None
    final = left.function.body[-1]
    returns = isinstance(left.last, ast.Return)
    if returns and (left.loop not in left.function.body or not isinstance(final, ast.Return) or final.value is None):
        return None
    like = next(iter([*left.carried, *inputs_of(site.source, left.function)]), None)
    if like is None:
        return None
    fine = all(_harmless(site, left, each.value) for each in (*left.before, *left.first, *left.after))
    names = {name: site.source.fresh_name(name) for name in ("going", "ends", "result")}
    test = left.test.test
    return Draft(
        "Run the loop to its end, with a mask",
        _written(site, left, condition[0], condition[1], like, names),
        note_of(site, _NOTE, [left.loop]),
        branches=Branches(
            1,
            (site.source.replace(test, switched(0, site.text(test))),),
            tuple(_written(site, left, switched(0, condition[0]), condition[1], like, names)),
        ),
        hazard=None if fine else HAZARD,
    )


def _left(site: Site) -> _Left | None:
    node, function = next(site.nearest(ast.If), None), site.function
    loop = site.source.parents.get(node) if node is not None else None
    if node is None or function is None or not isinstance(loop, ast.For) or node not in loop.body:
        return None
    ways_out = [each for each in ast.walk(loop) if isinstance(each, ast.Break | ast.Continue | ast.Return)]
    last = node.body[-1]
    if node.orelse or loop.orelse or ways_out != [last] or not isinstance(last, ast.Break | ast.Return):
        return None
    if isinstance(last, ast.Return) and last.value is None:
        return None
    index = loop.body.index(node)
    parts = (loop.body[:index], node.body[:-1], loop.body[index + 1 :])
    steps = [each for part in parts for each in part]
    if not all(map(site.source.starts_line, (loop, node, *steps))):
        return None
    bound = surely_bound(site.source, function, loop) & local_names(function)
    written = [name for step in steps for name in _names(step)]
    if not all(isinstance(step, _Step) and _names(step) for step in steps):
        return None
    inside = set(ast.walk(loop))
    elsewhere = {
        each.id
        for each in ast.walk(function)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each not in inside
    }
    targets = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
    if elsewhere & (targets | (set(written) - bound)):
        return None  # it would be that of the last step
    carried = [name for name in dict.fromkeys(written) if name in bound]
    return _Left(function, loop, node, last, *parts, carried)  # type: ignore[arg-type]


def _names(step: ast.stmt) -> list[str]:
    """The names that a statement gives values to; none where it does anything else."""
    if isinstance(step, ast.AugAssign):
        targets: list[ast.expr] = [step.target]
    elif isinstance(step, ast.Assign) and len(step.targets) == 1:
        targets = getattr(step.targets[0], "elts", step.targets)
    else:
        return []
    names = [each.id for each in targets if isinstance(each, ast.Name)]
    return names if len(names) == len(targets) else []


def _values(left: _Left) -> list[ast.expr]:
    """What the steps give to the carried names."""
    steps = [step for step in (*left.before, *left.first, *left.after) if set(_names(step)) & set(left.carried)]
    return [each for step in steps for each in getattr(step.value, "elts", [step.value])]


def _harmless(site: Site, left: _Left, value: ast.expr) -> bool:
    """Whether the gradient of what is computed after the end, too, is finite."""
    found = guarded(site, value, [left.test.test], "", "")
    return found is not None and not found[1]


def _written(
    site: Site, left: _Left, condition: str, edits: list[Edit], like: str, names: dict[str, str]
) -> list[Edit]:
    source = site.source
    where, imports = site.need("torch.where")
    both, negated, kind = (site.need(f"torch.{name}")[0] for name in ("logical_and", "logical_not", "bool"))
    going, ends, result = names["going"], names["ends"], names["result"]
    indent = source.indent_of(left.loop)
    start = [f"{going} = {like}.new_ones((), dtype={kind})"]
    lines = []
    if isinstance(left.last, ast.Return) or left.first:
        lines.append(f"{ends} = {both}({going}, {condition})")
        lines += [line for step in left.first for line in _masked(site, step, left.carried, where, ends)]
        condition = ends
    if isinstance(left.last, ast.Return):
        start.append(f"{result} = None")
        value = site.text(left.last.value)  # type: ignore[arg-type]
        lines.append(f"{result} = {value} if {result} is None else {where}({ends}, {value}, {result})")
        final = left.function.body[-1]
        assert isinstance(final, ast.Return) and final.value is not None
        at_end = f"{site.operand(final.value)} if {result} is None else {where}({going}, {site.text(final.value)}, "
        edits = [*edits, source.replace(final.value, f"{at_end}{result})")]
    lines.append(f"{going} = {both}({going}, {negated}({condition}))")
    inner = f"\n{source.indent_of(left.test)}"
    edits = [*edits, *imports, source.insert_line(left.loop.lineno, "\n".join(indent + line for line in start))]
    edits.append(source.replace(left.test, inner.join(lines)))
    for step in (*left.before, *left.after):
        text = inner.join(_masked(site, step, left.carried, where, going))
        if text != site.text(step):
            edits.append(source.replace(step, text))
    return list(dict.fromkeys(edits))


def _masked(site: Site, step: _Step, carried: list[str], where: str, mask: str) -> list[str]:
    """A statement that gives the carried names a new value under a mask only."""
    written = [name for name in _names(step) if name in carried]
    if not written:
        return [site.text(step)]
    value = site.text(step.value)
    if isinstance(step, ast.AugAssign):
        sign = site.source.between(site.source.range_of(step.target)[1], site.source.range_of(step.value)[0])
        value = f"{written[0]} {sign.strip()[:-1]} {site.operand(step.value)}"
    elif isinstance(step.targets[0], ast.Tuple | ast.List):
        fresh = {name: site.source.fresh_name(f"{name}_next") for name in written}
        targets = ", ".join(fresh.get(name, name) for name in _names(step))
        picked = [f"{name} = {where}({mask}, {fresh[name]}, {name})" for name in written]
        return [f"{targets} = {value}", *picked]
    return [f"{written[0]} = {where}({mask}, {value}, {written[0]})"]
