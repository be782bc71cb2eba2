"""Recipes for branches as values."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.fix import Branches, Draft, Site, recipe, switched
from fxlib.diagnosis.fixes.guards import guarded, is_guarded
from fxlib.diagnosis.fixes.members import self_name
from fxlib.diagnosis.fixes.recipes.control import condition_text

__all__ = ["COMPUTED", "HAZARD", "note_of"]

COMPUTED = "both sides can be computed whatever the condition is, draw no random numbers, and are tensors of one shape"


@recipe("if-to-where", assumes=COMPUTED)
def if_to_where(site: Site) -> Draft | None:
    """Replace an `if` with simple assignments or returns on both sides, or a ternary, with `torch.where`. A divisor or
    an argument of `log` and the like becomes 1 where the branch excluded it, so that gradients stay finite."""
    for node in site.nearest(ast.IfExp, ast.If):
        if isinstance(node, ast.IfExp):
            return _ternary(site, node)
        return _branches(site, node)
    return None


_WHERE_NOTE = "both branches are computed in every call"
_TRAINED = "parameters of what is not chosen get gradients of zero instead of none"
HAZARD = "gradients may be NaN: torch.where also computes the branch that is not selected"
_CONDITION = "\0"  # stands in the text of a side for the condition that guards an operand


def _ternary(site: Site, node: ast.IfExp) -> Draft | None:
    condition = condition_text(site, node.test)
    if condition is None or not _plain_value(node.body) or not _plain_value(node.orelse):
        return None
    where, edits = site.need("torch.where")
    sides = [_side(site, side, number, [node.test], where) for number, side in enumerate((node.body, node.orelse))]

    def written(test: str) -> list[Edit]:
        values = ", ".join(text for text, _ in sides).replace(_CONDITION, test)
        return [*edits, *condition[1], site.source.replace(node, f"{where}({test}, {values})")]

    return Draft(
        "Replace the conditional expression with torch.where",
        written(condition[0]),
        note_of(site, _WHERE_NOTE, [node.body, node.orelse]),
        branches=_switched(site, [node.test], written(switched(0, condition[0]))),
        hazard=None if all(fine for _, fine in sides) else HAZARD,
    )


def note_of(site: Site, said: str, sides: Iterable[ast.AST]) -> str:
    """What is ``said`` of sides that are computed though they were not, with what it means for the module's parameters:
    an optimizer goes on with a gradient of zero."""
    me = self_name(site.source, site.function) if site.function is not None else None
    read = (node for side in sides for node in ast.walk(side) if isinstance(node, ast.Name))
    return f"{said}; {_TRAINED}" if me and any(node.id == me for node in read) else said


def _switched(site: Site, tests: list[ast.expr], after: list[Edit]) -> Branches:
    before = [site.source.replace(test, switched(i, site.text(test))) for i, test in enumerate(tests)]
    return Branches(len(tests), tuple(before), tuple(dict.fromkeys(after)))


def _plain_value(node: ast.expr) -> bool:
    """Whether an expression can stand as a side of `torch.where`."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float | bool)
    return not isinstance(
        node, ast.Tuple | ast.List | ast.Dict | ast.Set | ast.Lambda | ast.Yield | ast.Await | ast.JoinedStr
    )


def _branches(site: Site, node: ast.If) -> Draft | None:
    while _is_elif(site, node):
        node = site.source.parents[node]  # type: ignore[assignment]
    if not site.source.starts_line(node):
        return None
    following = None
    if len(node.body) == 1 and isinstance(node.body[0], ast.Return) and not node.orelse:
        siblings, index = site.source.block_of(node)
        if index + 1 < len(siblings) and isinstance(siblings[index + 1], ast.Return):
            following = siblings[index + 1]
    first, named = _hoisted(site, node.test)
    chain = _chain(site, node, following)
    if chain is None:
        return None
    tests, outcomes = chain
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome))
    if None in names and any(set(outcome) != {None} for outcome in outcomes):
        return None
    if len(names) > 1 and _reads(names, *outcomes):
        return None
    where, edits = site.need("torch.where")
    indent = site.source.indent_of(node)
    conditions = []
    for test in tests:
        condition = (named, []) if named and test is node.test else condition_text(site, test)
        if condition is None:
            return None
        edits = [*edits, *condition[1]]
        conditions.append(condition[0])
    fine = True
    values: dict[str | None, list[str]] = {}
    for name in names:
        values[name] = []
        for number, value in enumerate(outcome.get(name) for outcome in outcomes):
            if isinstance(value, ast.expr) and not _plain_value(value):
                return None
            text, harmless = (str(name), True) if value is None else _side(site, value, number, tests, where)
            values[name].append(text)
            fine = fine and harmless
    hoisted = len(names) > 1 or any(_CONDITION in text for texts in values.values() for text in texts)
    fresh = [site.source.fresh_name("condition" + str(n + 1) * (len(tests) > 1)) for n in range(len(tests))]
    start, end = (node.lineno, node.col_offset), site.source.range_of(following or node)[1]

    def written(tests: list[str]) -> list[Edit]:
        lines = list(first)
        if hoisted:
            lines += [f"{name} = {test}" for name, test in zip(fresh, tests, strict=True)]
            tests = fresh
        for name, texts in values.items():
            *sides, last = [text.replace(_CONDITION, tests[0]) for text in texts]
            for test, side in zip(reversed(tests), reversed(sides), strict=True):
                last = f"{where}({test}, {side}, {last})"
            lines.append(f"return {last}" if name is None else f"{name} = {last}")
        return [*edits, site.source.replace_range(start, end, ("\n" + indent).join(lines))]

    return Draft(
        "Replace the `if` with torch.where",
        written(conditions),
        note_of(site, _WHERE_NOTE, [each for each in (*node.body, *node.orelse, following) if each is not None]),
        branches=_switched(site, tests, written([switched(n, text) for n, text in enumerate(conditions)])),
        hazard=None if fine else HAZARD,
    )


def _hoisted(site: Site, test: ast.expr) -> tuple[list[str], str]:
    """`total = x.sum()` and `total > 3` of `(total := x.sum()) > 3`; nothing for any other condition."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.left, ast.NamedExpr):
        return [], ""
    if any(isinstance(node, ast.NamedExpr) for node in ast.walk(test) if node is not test.left):
        return [], ""
    given = test.left
    plain = ast.Compare(ast.Name(given.target.id), test.ops, test.comparators)
    if condition_text(site, given.value) is None:
        return [], ""
    return [f"{given.target.id} = {site.text(given.value)}"], ast.unparse(plain)


def _chain(site: Site, node: ast.If, following: ast.stmt | None) -> tuple[list[ast.expr], list[dict]] | None:
    """The conditions of an `if` with its `elif`, and what each branch assigns, that of `else` last."""
    tests: list[ast.expr] = []
    outcomes = []
    branch: list[ast.stmt] = [node]
    while len(branch) == 1 and isinstance(branch[0], ast.If) and (not tests or _is_elif(site, branch[0])):
        tests.append(branch[0].test)
        outcomes.append(_outcomes(branch[0].body))
        branch = branch[0].orelse
    outcomes.append(_outcomes([following] if following is not None else branch))
    return None if None in outcomes else (tests, outcomes)  # type: ignore[return-value]


def _is_elif(site: Site, node: ast.If) -> bool:
    return site.source.between((node.lineno, node.col_offset), (node.lineno, node.col_offset + 4)) == "elif"


def _side(
    site: Site, value: ast.expr | tuple[ast.AugAssign, str], number: int, tests: list[ast.expr], where: str
) -> tuple[str, bool]:
    """The text of what a branch, of that number, gives, and whether its gradient is that of the branch.

    Where there is one condition, operands that it guards are 1 where it does not hold."""
    before, after = (f"{where}({_CONDITION}, ", ", 1)") if number == 0 else (f"{where}({_CONDITION}, 1, ", ")")
    if len(tests) > 1:
        before = after = ""
    expression = value[0].value if isinstance(value, tuple) else value
    found = guarded(site, expression, tests, before, after)
    text, fine = site.text(expression) if found is None else found[0], found is not None
    fine = fine and (len(tests) == 1 or not found[1])  # type: ignore[index]
    if not isinstance(value, tuple):
        return text, fine
    assign, operator = value
    if operator in ("/", "//", "%") and len(tests) == 1 and is_guarded(site, expression, tests):
        text = f"{before}{text}{after}"
    else:
        if operator in ("/", "//", "%", "**"):
            fine = fine and not is_guarded(site, expression, tests) and operator != "**"
        text = text if isinstance(expression, _ATOMS) else f"({text})"
    return f"{site.text(assign.target)} {operator} {text}", fine


_ATOMS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant)

_OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@",
}  # fmt: skip


def _outcomes(block: list[ast.stmt]) -> dict[str | None, ast.expr | tuple[ast.AugAssign, str]] | None:
    """What a branch assigns, name by name (None stands for the returned value); None where it does anything else."""
    outcomes: dict[str | None, ast.expr | tuple[ast.AugAssign, str]] = {}
    for statement in block:
        if isinstance(statement, ast.Return) and statement.value is not None and len(block) == 1:
            outcomes[None] = statement.value
        elif (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and isinstance(statement.targets[0], ast.Name)
        ):
            name = statement.targets[0].id
            if name in outcomes:
                return None
            outcomes[name] = statement.value
        elif (
            isinstance(statement, ast.AugAssign)
            and isinstance(statement.target, ast.Name)
            and type(statement.op) in _OPERATORS
        ):
            if statement.target.id in outcomes:
                return None
            outcomes[statement.target.id] = (statement, _OPERATORS[type(statement.op)])
        elif isinstance(statement, ast.Pass):
            continue
        else:
            return None
    return outcomes


def _reads(names: list, *branches: dict) -> bool:
    """Whether a later assignment of a branch reads a name that an earlier one binds."""
    for branch in branches:
        bound: set[str] = set()
        for name in names:
            value = branch.get(name)
            expression = value[0].value if isinstance(value, tuple) else value
            if expression is not None and any(isinstance(n, ast.Name) and n.id in bound for n in ast.walk(expression)):
                return True
            bound.add(name)
    return False
