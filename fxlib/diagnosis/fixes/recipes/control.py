"""Recipes for control flow: comparisons, assertions as nodes, the larger of two."""

from __future__ import annotations

import ast

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.guards import SIZES

_BOOLEAN_METHODS = {
    "any", "all", "isnan", "isinf", "isfinite", "eq", "ne", "lt", "le", "gt", "ge", "bool", "logical_not",
    "logical_and", "logical_or", "is_nonzero", "equal", "allclose", "isclose",
}  # fmt: skip


def condition_text(site: Site, test: ast.expr) -> tuple[str, list[Edit]] | None:
    """A condition as a tensor expression, `not` and `and` as torch functions; None where it is no question of data."""
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute) and node.attr in SIZES:
            return None
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("len", "isinstance", "hasattr")
        ):
            return None
        if (
            isinstance(node, ast.Compare)
            and any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops)
            and not _asks_for_element(node)
        ):
            return None
        if isinstance(node, ast.NamedExpr):
            return None
    return tensor_condition(site, test)


def tensor_condition(site: Site, test: ast.expr) -> tuple[str, list[Edit]] | None:
    """As `condition_text`, of a condition that is known to be a question of data."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = tensor_condition(site, test.operand)
        if inner is None:
            return None
        name, edits = site.need("torch.logical_not")
        return f"{name}({inner[0]})", edits + inner[1]
    if isinstance(test, ast.BoolOp):
        name, edits = site.need("torch.logical_and" if isinstance(test.op, ast.And) else "torch.logical_or")
        parts = [tensor_condition(site, value) for value in test.values]
        if any(part is None for part in parts):
            return None
        text = parts[0][0]  # type: ignore[index]
        for part in parts[1:]:
            text = f"{name}({text}, {part[0]})"  # type: ignore[index]
        return text, edits + [edit for part in parts for edit in part[1]]  # type: ignore[index]
    if isinstance(test, ast.Compare):
        if _asks_for_element(test):
            found = f"{site.operand(test.comparators[0])} == {site.text(test.left)}"
            if isinstance(test.ops[0], ast.In):
                return f"({found}).any()", []
            name, edits = site.need("torch.logical_not")
            return f"{name}(({found}).any())", edits
        if len(test.ops) == 1:
            return _compared(site, test), []
        return split_comparison_text(site, test), []
    if isinstance(test, ast.Call):
        function = test.func
        called = (
            function.attr
            if isinstance(function, ast.Attribute)
            else function.id
            if isinstance(function, ast.Name)
            else ""
        )
        if isinstance(function, ast.Name) and called in ("any", "all") and (text := _of_elements(site, test)):
            return f"({text}).{called}()", []
        if called == "bool" and len(test.args) == 1:
            return tensor_condition(site, test.args[0])
        if (text := _as_elements(site, test)) is not None:
            return text, []
        if called in ("item",) and isinstance(function, ast.Attribute):
            return tensor_condition(site, function.value)
        return (site.text(test), []) if called in _BOOLEAN_METHODS else (f"{site.operand(test)} != 0", [])
    if _is_bool(test):
        return site.text(test), []
    return f"{site.operand(test)} != 0", []


def _is_bool(node: ast.expr) -> bool:
    """Whether the elements of a tensor are bools by the look of it: `(x > 0) & (y > 0)`; `a & b` may be of integers."""
    if isinstance(node, ast.BinOp):
        joins = isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor)
        return joins and _is_bool(node.left) and _is_bool(node.right)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Invert) and _is_bool(node.operand)
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(node, ast.Compare) or getattr(called, "attr", "") in _BOOLEAN_METHODS


def _asks_for_element(test: ast.Compare) -> bool:
    """Whether it is `2 in x`."""
    owner = test.comparators[0]
    return (
        len(test.ops) == 1
        and isinstance(test.ops[0], ast.In | ast.NotIn)
        and isinstance(test.left, ast.Constant)
        and isinstance(test.left.value, int | float)
        and isinstance(owner, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    )


def _compared(site: Site, test: ast.Compare) -> str:
    """A comparison, of the tensor itself where it is of its `.item()`."""
    left, right = (
        site.text(side.func.value)
        if isinstance(side, ast.Call) and isinstance(side.func, ast.Attribute) and side.func.attr == "item"
        else site.text(side)
        for side in (test.left, test.comparators[0])
    )
    return f"{left} {site.source.between(_end(test.left), _start(test.comparators[0])).strip()} {right}"


def _as_elements(site: Site, call: ast.Call) -> str | None:
    """`torch.allclose(a, b)` and `torch.equal(a, b)`, which give a bool of Python's, as questions about elements."""
    name = site.call_name(call)
    if name == "torch.equal" and len(call.args) == 2:
        return f"({site.operand(call.args[0])} == {site.operand(call.args[1])}).all()"
    if name == "torch.allclose":
        arguments = ", ".join(site.text(each) for each in [*call.args, *call.keywords])
        return f"torch.isclose({arguments}).all()" if site.text(call.func) == "torch.allclose" else None
    return None


def _of_elements(site: Site, call: ast.Call) -> str | None:
    """`x > 0` of `any(v > 0 for v in x)`."""
    over = call.args[0] if len(call.args) == 1 else None
    if not isinstance(over, ast.GeneratorExp | ast.ListComp) or len(over.generators) != 1:
        return None
    each, test = over.generators[0], over.elt
    if each.ifs or not isinstance(each.target, ast.Name) or not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    sides = [test.left, test.comparators[0]]
    name = each.target.id
    if any(isinstance(n, ast.Name) and n.id == name and n not in sides for side in sides for n in ast.walk(side)):
        return None
    left, right = (site.operand(each.iter if getattr(side, "id", "") == name else side) for side in sides)
    return f"{left} {site.source.between(_end(test.left), _start(test.comparators[0])).strip()} {right}"


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def split_comparison_text(site: Site, node: ast.Compare) -> str:
    """`a < b < c` as `(a < b) & (b < c)`."""
    values = [node.left, *node.comparators]
    parts = []
    for left, op, right in zip(values, node.ops, node.comparators, strict=False):
        sign = ast.unparse(ast.Compare(ast.Name("a"), [op], [ast.Name("b")]))[1:-1].strip()
        parts.append(f"({site.operand(left)} {sign} {site.operand(right)})")
    return " & ".join(parts)


@recipe("split-comparison", assumes="each comparison can be made, whatever the others give")
def split_comparison(site: Site) -> Draft | None:
    """Replace `low < x < high` with two comparisons that are joined by `&`."""
    for node in site.nearest(ast.Compare):
        if len(node.ops) > 1 and not any(isinstance(op, ast.In | ast.NotIn | ast.Is | ast.IsNot) for op in node.ops):
            text = split_comparison_text(site, node)
            parent = site.source.parents.get(node)
            bare = site.source.in_parentheses(node) or isinstance(
                parent, ast.Assign | ast.Return | ast.Call | ast.If | ast.While | ast.keyword | ast.Assert
            )
            edit = site.source.replace(node, text if bare else f"({text})")
            return Draft("Compare twice and join the results with &", [edit])
    return None


@recipe("torch-assert", assumes="nobody catches what it raises")
def torch_assert(site: Site) -> Draft | None:
    """Replace `assert c, m` with `torch._assert(c, m)`, which is recorded."""
    statement = site.statement
    function, edits = site.need("torch._assert")
    if isinstance(statement, ast.Assert):
        condition, message = statement.test, statement.msg
        if any(
            isinstance(n, ast.BoolOp) or (isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Not))
            for n in ast.walk(condition)
        ):
            return _several_asserts(site, statement, function, edits)
        text = f"{function}({site.text(condition)}, {_message(site, message, condition)})"
        edits = [*edits, site.source.replace(statement, text)]
        return Draft("Check with torch._assert, which is recorded", edits, first=True)
    if isinstance(statement, ast.Expr) and site.call_name(statement.value) == "torch._check":
        call = statement.value
        assert isinstance(call, ast.Call)
        if len(call.args) == 1:
            text = f"{function}({site.text(call.args[0])}, {_message(site, None, call.args[0])})"
            edits = [*edits, site.source.replace(call, text)]
            says = "it raises AssertionError instead of RuntimeError"
            return Draft("Check with torch._assert, which is recorded", edits, hazard=says)
    return None


def _several_asserts(site: Site, statement: ast.Assert, function: str, edits: list[Edit]) -> Draft | None:
    """`assert a and b` as one call per condition."""
    test = statement.test
    if not (isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)) or not site.source.starts_line(statement):
        return None
    if any(
        isinstance(n, ast.BoolOp) or (isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Not))
        for v in test.values
        for n in ast.walk(v)
    ):
        return None
    indent = "\n" + site.source.indent_of(statement)
    calls = [f"{function}({site.text(value)}, {_message(site, statement.msg, value)})" for value in test.values]
    return Draft(
        "Check with torch._assert, which is recorded", [*edits, site.source.replace(statement, indent.join(calls))]
    )


def _message(site: Site, message: ast.expr | None, condition: ast.expr) -> str:
    """A message that is known while tracing: the one written, where it is a plain text, else the condition itself."""
    if isinstance(message, ast.Constant) and isinstance(message.value, str):
        return site.text(message)
    words = site.text(condition)
    quote = site.source.quote
    return quote + " ".join(words.split()).replace("\\", "\\\\").replace(quote, "\\" + quote) + quote


@recipe("torch-maximum", assumes="all of them are tensors")
def torch_maximum(site: Site) -> Draft | None:
    """Replace `max(a, b)` of two tensors with `torch.maximum(a, b)`."""
    for call in site.nearest(ast.Call):
        if (
            isinstance(call.func, ast.Name)
            and call.func.id in ("max", "min")
            and len(call.args) == 2
            and not call.keywords
        ):
            if any(isinstance(n, ast.Attribute) and n.attr in SIZES for n in ast.walk(call)):
                return None
            number = [isinstance(a, ast.Constant) for a in call.args]
            if any(number):
                value, bound = (call.args[1], call.args[0]) if number[0] else call.args
                side = "min" if call.func.id == "max" else "max"
                text = f"{site.operand(value)}.clamp({side}={site.text(bound)})"
                return Draft("Clamp the tensor", [site.source.replace(call, text)])
            function, edits = site.need(f"torch.{call.func.id}imum")
            text = f"{function}({site.text(call.args[0])}, {site.text(call.args[1])})"
            return Draft(f"Use torch.{call.func.id}imum", [*edits, site.source.replace(call, text)])
    return None
