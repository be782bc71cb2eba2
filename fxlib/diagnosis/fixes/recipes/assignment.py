"""Recipes for writing into tensors: out-of-place forms, and setters that return what they changed."""

from __future__ import annotations

import ast

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.fix import Branches, Draft, Site, recipe, switched
from fxlib.diagnosis.fixes.lift import define_wrapped
from fxlib.diagnosis.fixes.members import self_name
from fxlib.diagnosis.fixes.names import analyse

_OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip


def _target(site: Site) -> tuple[ast.Assign | ast.AugAssign, ast.Subscript] | None:
    """The assignment of the finding with the subscript that it writes to."""
    statement = site.statement
    if (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.targets[0], ast.Subscript)
    ):
        return statement, statement.targets[0]
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Subscript):
        return statement, statement.target
    return None


def _new_value(site: Site, statement: ast.Assign | ast.AugAssign, target: ast.Subscript) -> str | None:
    if isinstance(statement, ast.Assign):
        return site.text(statement.value)
    sign = _OPERATORS.get(type(statement.op))
    return sign and f"{site.text(target)} {sign} {site.operand(statement.value)}"


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float"


def _is_whole(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice) and node.lower is None and node.upper is None and node.step is None


def _is_integer(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) is int


@recipe(
    "setitem-functional",
    assumes="nobody else reads the tensor that was written to, and the value has the size of its place",
)
def setitem_functional(site: Site) -> list[Draft]:
    """Write `x[mask] = v` with `masked_fill`, or with `masked_fill_` where `x` is a view or the caller's,
    `x[mask] += v` with `torch.where`, `x[:, 0] = v` with `index_fill` or `select_scatter`, and an assignment to a slice
    with `slice_scatter`."""
    found = _target(site)
    if found is None or not isinstance(found[1].value, ast.Name):
        return []
    statement, target = found
    value = _new_value(site, statement, target)
    if value is None:
        return []
    name = site.text(target.value)
    index = target.slice
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    if any(isinstance(i, ast.Starred) or (isinstance(i, ast.Constant) and i.value is None) for i in items):
        return []
    ellipsis = [i for i, item in enumerate(items) if isinstance(item, ast.Constant) and item.value is ...]
    marked = [i for i, item in enumerate(items) if not _is_whole(item) and i not in ellipsis]
    if len(marked) != 1 or len(ellipsis) > 1:
        return []
    place = marked[0]
    dim = place if not ellipsis or place < ellipsis[0] else place - len(items)
    item = items[place]
    plain_number = isinstance(statement, ast.Assign) and _is_number(statement.value)

    def assigned(text: str, edits: list[Edit], title: str) -> Draft:
        return Draft(title, [*edits, site.source.replace(statement, f"{name} = {text}")])

    if _is_integer(item):
        if plain_number:
            tensor, edits = site.need("torch.tensor")
            where = f"{tensor}([{site.text(item)}], device={name}.device)"
            return [
                assigned(f"{name}.index_fill({dim}, {where}, {value})", edits, "Fill with index_fill, out of place")
            ]
        function, edits = site.need("torch.select_scatter")
        text = f"{function}({name}, {value}, {dim}, {site.text(item)})"
        return [assigned(text, edits, "Write with torch.select_scatter, out of place")]
    if isinstance(item, ast.Slice):
        function, edits = site.need("torch.slice_scatter")
        ends = [site.text(item.lower) if item.lower else "None", site.text(item.upper) if item.upper else "None"]
        if item.step is not None:
            ends.append(site.text(item.step))
        elif ends[1] == "None":
            ends.pop()
        if plain_number:
            more, more_edits = site.need("torch.full_like")
            value, edits = f"{more}({site.text(target)}, {value})", edits + more_edits
        text = f"{function}({name}, {value}, {dim}, {', '.join(ends)})"
        return [assigned(text, edits, "Write with torch.slice_scatter, out of place")]
    if len(items) == 1 and not isinstance(item, ast.Constant):
        return _masked(site, statement, target, item, name, value, plain_number)
    return []


def _masked(
    site: Site,
    statement: ast.Assign | ast.AugAssign,
    target: ast.Subscript,
    mask: ast.expr,
    name: str,
    value: str,
    plain_number: bool,
) -> list[Draft]:
    """Forms for a mask of the tensor's own rank, and of one dimension less. Verification finds out which is right."""
    added = isinstance(statement, ast.AugAssign)
    if isinstance(statement, ast.AugAssign):
        sign = _OPERATORS[type(statement.op)]
        if not _is_number(statement.value):
            return []
        value = f"{name} {sign} {site.operand(statement.value)}"
    elif not plain_number:
        return []
    function, edits = site.need("torch.where") if added else ("", [])
    before = (site.source.replace(mask, switched(0, site.text(mask))),)

    def assigned(title: str, rows: bool, in_place: bool) -> Draft:
        def written(test: str) -> list[Edit]:
            test = f"({test}).unsqueeze(-1)" if rows else test
            if not added:
                # Unlike `torch.where`, it keeps the dtype of the tensor, as the assignment does.
                method = "masked_fill_" if in_place else "masked_fill"
                return [site.source.replace(statement, f"{name} = {name}.{method}({test}, {value})")]
            text = f"{function}({test}, {value}, {name})"
            text = f"{name}.copy_({text})" if in_place else text
            return [*edits, site.source.replace(statement, f"{name} = {text}")]

        branches = Branches(1, before, tuple(written(switched(0, site.text(mask)))))
        return Draft(title, written(site.text(mask)), branches=branches)

    # Out of place, the tensor has another name for nobody else: neither for the caller nor for what it is a view of.
    kind = "torch.where" if added else "masked_fill"
    return [
        assigned(f"Assign with {kind}, out of place", False, False),
        assigned(f"Assign rows with {kind}, out of place", True, False),
        assigned("Assign in place with a method, which is recorded", False, True),
        assigned("Assign rows in place with a method, which is recorded", True, True),
    ]


@recipe("setitem-wrapped", kind="lift")
def setitem_wrapped(site: Site) -> Draft | None:
    """Replace `x[i] = v` with `x = _set_x(x, v)`, a call of a wrapped setter that returns the tensor."""
    found = _target(site)
    if found is None or site.function is None:
        return None
    statement, target = found
    base = target.value
    while isinstance(base, ast.Subscript):
        base = base.value
    if not isinstance(base, ast.Name) or not site.source.starts_line(statement):
        return None
    name = base.id
    flow = analyse(site.source, [statement], site.function)
    if flow.obstacle:
        return None
    # The value comes as one argument, so that only what the index needs is passed beside it.
    index_flow = analyse(site.source, target, site.function)
    if index_flow.self_attributes or name not in flow.reads:
        return None
    helper = site.source.fresh_name(f"_set_{name.strip('_')}")
    constant = isinstance(statement.value, ast.Constant)
    parameters = [name, *(n for n in index_flow.reads if n != name)]
    arguments = list(parameters)
    value = site.text(statement.value)
    if not constant:
        parameter = "value"
        while parameter in parameters:
            parameter += "_"
        parameters.append(parameter)
        arguments.append(value)
        value = parameter
    sign = "=" if isinstance(statement, ast.Assign) else f"{_OPERATORS.get(type(statement.op), '')}="
    if sign == "=" and isinstance(statement, ast.AugAssign):
        return None
    unit = site.source.indent_unit
    body = f"{site.text(target)} {sign} {value}"
    definition = f"def {helper}({', '.join(parameters)}):\n{unit}{body}\n{unit}return {name}"
    call = f"{name} = {helper}({', '.join(arguments)})"
    edits = [*define_wrapped(site.source, site.function, helper, definition), site.source.replace(statement, call)]
    return Draft(f"Assign in a function wrapped with torch.fx.wrap that returns the tensor: {helper}", edits)


@recipe(
    "out-of-place", assumes="nobody else reads the tensor that was changed, and its dtype may be that of both operands"
)
def out_of_place(site: Site) -> Draft | None:
    """Replace the statement `x.add_(1)` with `x = x.add(1)`."""
    statement = site.statement
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return None
    function = statement.value.func
    if not (
        isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.attr.endswith("_")
    ):
        return None
    if function.attr.startswith("_") or function.attr in (
        "copy_",
        "zero_",
        "fill_",
        "requires_grad_",
        "normal_",
        "uniform_",
    ):
        return None
    name = function.value.id
    end = site.source.range_of(function)[1]
    attribute = (end[0], end[1] - len(function.attr.encode()))
    start = (statement.lineno, statement.col_offset)
    return Draft(
        f"Use the out-of-place {function.attr[:-1]}",
        [
            site.source.replace_range(start, start, f"{name} = "),
            site.source.replace_range(attribute, end, function.attr[:-1]),
        ],
    )


_IN_PLACE = {
    ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_", ast.Div: "div_", ast.FloorDiv: "floor_divide_",
    ast.Mod: "remainder_", ast.Pow: "pow_", ast.BitAnd: "bitwise_and_", ast.BitOr: "bitwise_or_",
    ast.BitXor: "bitwise_xor_",
}  # fmt: skip


@recipe("in-place-method", assumes="both are tensors or numbers")
def in_place_method(site: Site) -> Draft | None:
    """Replace `y += 1` with `y.add_(1)`, which is recorded as a change in place."""
    statement = site.statement
    if not isinstance(statement, ast.AugAssign) or type(statement.op) not in _IN_PLACE:
        return None
    method = _IN_PLACE[type(statement.op)]
    text = f"{site.operand(statement.target)}.{method}({site.text(statement.value)})"
    return Draft(f"Change in place with {method}", [site.source.replace(statement, text)])


KEPT = "the tensor may keep its own dtype and memory"


@recipe("copy-in-place", assumes=KEPT)
def copy_in_place(site: Site) -> Draft | None:
    """Replace `x.data = y` with `x.copy_(y)`, which is recorded."""
    statement = site.statement
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
        return None
    target = statement.targets[0]
    if not (isinstance(target, ast.Attribute) and target.attr == "data"):
        return None
    text = f"{site.operand(target.value)}.copy_({site.text(statement.value)})"
    return Draft("Use copy_(), which is recorded", [site.source.replace(statement, text)])


@recipe("use-result", assumes="nobody counts on what the function returned before")
def use_result(site: Site) -> Draft | None:
    """Replace `clear(y)` with `y = clear(y)`, and let the wrapped helper return its argument."""
    statement = site.statement
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return None
    call = statement.value
    if not (isinstance(call.func, ast.Name) and call.args and isinstance(call.args[0], ast.Name)):
        return None
    name = call.func.id
    helper = next((s for s in site.source.tree.body if isinstance(s, ast.FunctionDef) and s.name == name), None)
    if helper is None or any(isinstance(n, ast.Return) for n in ast.walk(helper)) or not helper.args.args:
        return None
    given = helper.args.args[0].arg
    if any(isinstance(n, ast.Name) and n.id == given and not isinstance(n.ctx, ast.Load) for n in ast.walk(helper)):
        return None  # it would be another one that it returns
    last = helper.body[-1]
    if not site.source.starts_line(last):
        return None
    returned = f"{site.source.indent_of(last)}return {given}"
    start = (statement.lineno, statement.col_offset)
    return Draft(
        f"Return the tensor from `{name}` and use it",
        [
            site.source.insert_line(site.source.line_below(last), returned),
            site.source.replace_range(start, start, f"{call.args[0].id} = "),
        ],
    )


@recipe("local-value", assumes="nobody else reads the attribute")
def local_value(site: Site) -> Draft | None:
    """Keep the value in a local variable, if no other function of the file reads the attribute."""
    statement, function, owner = site.statement, site.function, site.source.class_of(site.node)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or function is None or owner is None:
        return None
    target = statement.targets[0]
    me = self_name(site.source, function)
    if not (isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == me):
        return None
    same = ast.dump(target.value)
    of_class = [
        each
        for each in ast.walk(owner)
        if isinstance(each, ast.Attribute) and each.attr == target.attr and ast.dump(each.value) == same
    ]
    here = [each for each in ast.walk(function) if each in of_class]
    read = [each for each in of_class if isinstance(each.ctx, ast.Load)]
    if any(
        (isinstance(each, ast.Attribute) and each.attr == target.attr and each not in of_class)
        or (isinstance(each, ast.Constant) and each.value == target.attr)
        for each in ast.walk(site.source.tree)
    ):
        return None  # somebody else in the file reads it
    name = target.attr.lstrip("_")
    taken = {each.id for each in ast.walk(function) if isinstance(each, ast.Name)}
    taken |= {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    first = min(here, key=lambda each: (each.lineno, each.col_offset))
    if not read or first is not target or name in taken or any(each not in here for each in read):
        return None
    edits = [site.source.replace(each, name) for each in here]
    return Draft(f"Use a local variable: {name}", edits, f"{me}.{target.attr} no longer exists after a call")
