"""Recipes for torch.export and torch.compile: values that stay tensors, branches as functions, effects outside."""

from __future__ import annotations

import ast

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.members import self_name
from fxlib.diagnosis.fixes.names import analyse, local_names, surely_bound
from fxlib.diagnosis.fixes.recipes.assignment import KEPT
from fxlib.diagnosis.fixes.recipes.control import condition_text

_CONVERSIONS = ("int", "float", "bool", "complex")


@recipe("if-to-cond", assumes="both sides give tensors of the same shapes")
def if_to_cond(site: Site) -> Draft | None:
    """Replace an `if` with `torch.cond` and a function for each side: both are captured, and one of them runs."""
    node = next(site.nearest(ast.If), None)
    function = site.function
    if node is None or function is None or not site.source.starts_line(node):
        return None
    condition = condition_text(site, node.test)
    if condition is None:
        return None
    me = self_name(site.source, function)
    sides = [node.body, node.orelse]
    siblings, index = site.source.block_of(node)
    rest = siblings[index + 1 :]
    returns = _returns(node.body)
    if returns and not node.orelse:
        # What comes after an `if` that returns is its other side.
        sides[1] = rest
    if returns != (bool(sides[1]) and _returns(sides[1])):
        return None
    flows = [analyse(site.source, side, function, may_return=True) for side in sides]
    if any(flow.obstacle for flow in flows):
        return None
    written = list(dict.fromkeys(name for flow in flows for name in flow.writes))
    bound = surely_bound(site.source, function, node) & local_names(function)
    results = [] if returns else [name for name in written if name in bound or all(name in f.always for f in flows)]
    read = dict.fromkeys([name for flow in flows for name in flow.reads] + [name for name in results if name in bound])
    operands = [name for name in read if name != me and name in bound]
    if not operands or (not returns and (not results or set(written) - set(results))):
        return None
    cond, edits = site.need("torch.cond")
    names = [site.source.fresh_name("when_true"), site.source.fresh_name("when_false")]
    indent, unit = site.source.indent_of(node), site.source.indent_unit
    lines: list[str] = []
    for name, side in zip(names, sides, strict=True):
        lines.append(f"def {name}({', '.join(operands)}):")
        lines += site.moved(side)
        if not returns:
            # What a side leaves as it is has to be a tensor of its own.
            changed = set(analyse(site.source, side, function).writes) if side else set()
            given = ", ".join(name if name in changed else f"{name}.clone()" for name in results)
            lines.append(f"{unit}return {given}")
        lines.append("")
    call = f"{cond}({condition[0]}, {names[0]}, {names[1]}, ({', '.join(operands)},))"
    lines.append(f"return {call}" if returns else f"{', '.join(results)} = {call}")
    end = site.source.range_of(rest[-1] if returns and not node.orelse and rest else node)[1]
    text = "\n".join((indent + line if line and i else line) for i, line in enumerate(lines))
    edit = site.source.replace_range((node.lineno, node.col_offset), end, text)
    return Draft("Choose with torch.cond", [*edits, *condition[1], edit], "torch.fx does not trace torch.cond")


def _returns(block: list[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], ast.Return)


@recipe("keep-tensor", assumes="what follows treats a tensor as it treats a number")
def keep_tensor(site: Site) -> list[Draft]:
    """Replace `x.max().item()`, `float(x.mean())` and `x.tolist()` with the tensor itself if the code computes with it,
    and add `.detach()` if gradients would flow through it."""
    drafts = []
    for call in site.nearest(ast.Call):
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr in ("item", "tolist") and not call.args:
            kept = function.value
            text = site.text(kept)
        elif isinstance(function, ast.Name) and function.id in _CONVERSIONS and len(call.args) == 1:
            inner = call.args[0]
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "item":
                inner = inner.func.value
            kept, text = inner, site.operand(inner)
        else:
            continue
        note = _differs(call, text)
        texts = [text] if text.endswith(".detach()") else [text, f"{text}.detach()"]
        drafts += [Draft(f"Keep the tensor: {each}", [site.source.replace(call, each)], note) for each in texts]
    return drafts


def _differs(call: ast.Call, text: str) -> str | None:
    """For which tensors it matters that a call of `int` or `float` is left out: one of the example's dtype says no more
    of it."""
    other = {"int": "a float, which int() rounds", "float": "no float"}.get(getattr(call.func, "id", ""))
    return other and f"differs if `{text}` is {other}"


@recipe("item-of-tensor", assumes="the tensor holds ints")
def item_of_tensor(site: Site) -> Draft | None:
    """Replace `int(lengths.max())` with `lengths.max().item()`, which is exported as a symbol."""
    for call in site.nearest(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id in ("int", "float") and len(call.args) == 1:
            inner = call.args[0]
            taken = isinstance(inner, ast.Call) and getattr(inner.func, "attr", "") == "item"
            text = site.text(inner) if taken else f"{site.operand(inner)}.item()"
            return Draft(f"Keep it a symbol: {text}", [site.source.replace(call, text)], _differs(call, text))
    return None


@recipe("torch-math", assumes="what follows treats a tensor as it treats a number")
def torch_math(site: Site) -> list[Draft]:
    """Replace `math.sqrt(x.sum())` with `torch.sqrt(x.sum())`, with `.detach()` if gradients would flow through it."""
    for call in site.nearest(ast.Call):
        name = site.call_name(call)
        if name and name.startswith("math.") and len(call.args) == 1 and not call.keywords:
            function, edits = site.need(f"torch.{name.removeprefix('math.')}")
            note = "gives nan where math raises ValueError, and computes in the dtype of the tensor"
            texts = [site.text(call.args[0]), f"{site.operand(call.args[0])}.detach()"]
            return [
                Draft(
                    f"Compute with {function}",
                    [*edits, site.source.replace(call, f"{function}({text})")],
                    note,
                )
                for text in texts
            ]
    return []


@recipe("mask-to-where", assumes="the mask has the shape of the tensor, and some of it is true")
def mask_to_where(site: Site) -> Draft | None:
    """Replace `x[mask].sum()` and `x[mask].mean()` with `torch.where`, which keeps the size."""
    for call in site.nearest(ast.Call):
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr not in ("sum", "mean") or call.args:
            continue
        picked = function.value
        if isinstance(picked, ast.Call) and isinstance(picked.func, ast.Attribute):
            if picked.func.attr != "masked_select" or len(picked.args) != 1:
                continue
            value, mask = picked.func.value, picked.args[0]
        elif isinstance(picked, ast.Subscript) and not isinstance(picked.slice, ast.Slice | ast.Tuple | ast.Constant):
            value, mask = picked.value, picked.slice
        else:
            continue
        where, edits = site.need("torch.where")
        chosen = f"{where}({site.text(mask)}, {site.text(value)}, 0)"
        # Divided before they are added up: a sum of many halves, or their number, may be too large for a half.
        text = f"{chosen}.sum()" if function.attr == "sum" else f"({chosen} / {site.operand(mask)}.sum()).sum()"
        return Draft("Mask with torch.where", [*edits, site.source.replace(call, text)])
    return None


@recipe("check-condition", assumes="the condition holds in every call")
def check_condition(site: Site) -> list[Draft]:
    """State the condition on a data-dependent size with `torch._check` before the code that needs it."""
    statement = site.statement
    if not isinstance(site.node, ast.expr) or statement is None or not site.source.starts_line(statement):
        return []
    test = statement.test if isinstance(statement, ast.If | ast.While | ast.Assert) else site.node
    if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Call) or _is_number(test):
        return []
    if site.finding.code == "FX601" and not any(_is_size(part) for part in ast.walk(test)):
        return []  # a branch that values decide; which of its sides is no matter of what holds
    check, edits = site.need("torch._check")
    indent = site.source.indent_of(statement)
    drafts = []
    for text in (site.text(test), _negated(site, test)):
        line = site.source.insert_line(statement.lineno, f"{indent}{check}({text})")
        drafts.append(Draft(f"State {check}({text})", [*edits, line], hazard=f"raises if `{text}` does not hold"))
    return drafts


def _is_size(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr in ("shape", "size", "numel")) or (
        isinstance(node, ast.Call) and getattr(node.func, "id", "") == "len"
    )


_OPPOSITE = {ast.Eq: "!=", ast.NotEq: "==", ast.Lt: ">=", ast.GtE: "<", ast.Gt: "<=", ast.LtE: ">"}


def _negated(site: Site, test: ast.expr) -> str:
    """The opposite of a condition: of a comparison another one, since `not` asks for the answer."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _OPPOSITE:
        return f"{site.text(test.left)} {_OPPOSITE[type(test.ops[0])]} {site.text(test.comparators[0])}"
    return f"not ({site.text(test)})"


def _is_number(test: ast.expr) -> bool:
    """Whether an expression is surely no condition: a call of `math`, a conversion."""
    if not isinstance(test, ast.Call):
        return False
    function = test.func
    owner = getattr(function.value, "id", "") if isinstance(function, ast.Attribute) else ""
    return owner == "math" or (isinstance(function, ast.Name) and function.id in _CONVERSIONS)


@recipe("assert-async", assumes="nobody catches the AssertionError: on a GPU it comes later")
def assert_async(site: Site) -> Draft | None:
    """Replace `assert c, m` on tensor values with `torch._assert_async(c, m)`, which is exported."""
    statement = site.statement
    if not isinstance(statement, ast.Assert):
        return None
    function, edits = site.need("torch._assert_async")
    message = f", {site.text(statement.msg)}" if statement.msg is not None else ""
    text = f"{function}({site.text(statement.test)}{message})"
    note = "raises RuntimeError where assert raises AssertionError"
    return Draft("Check with torch._assert_async", [*edits, site.source.replace(statement, text)], note)


@recipe("stack-tensors", assumes="the tensors have one dtype, and their gradients may flow on")
def stack_tensors(site: Site) -> Draft | None:
    """Replace `torch.tensor([a, b])` of tensors with `torch.stack([a, b])`."""
    for call in site.nearest(ast.Call):
        if site.call_name(call) != "torch.tensor" or len(call.args) != 1 or call.keywords:
            continue
        if isinstance(call.args[0], ast.List | ast.Tuple | ast.ListComp):
            stack, edits = site.need("torch.stack")
            text = f"{stack}({site.text(call.args[0])})"
            return Draft("Build it with torch.stack", [*edits, site.source.replace(call, text)])
    return None


@recipe("state-to-buffer", assumes="nobody else writes to the attribute, and saved weights may get another entry")
def state_to_buffer(site: Site) -> Draft | None:
    """Keep a counter or tensor that forward stores in an attribute in a buffer, which is part of the program."""
    owner = site.source.class_of(site.node)
    attribute = next(
        (
            n
            for n in [site.node, *ast.walk(site.node)]
            if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
        ),
        None,
    )
    if owner is None or attribute is None or not isinstance(attribute.value, ast.Name):
        return None
    me, name = attribute.value.id, attribute.attr
    init = next((n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    made = _assignment(init, me, name) if init is not None else None
    if made is None or made.value is None:
        return None
    value = site.text(made.value)
    edits: list[Edit] = []
    kind = type(made.value.value) if isinstance(made.value, ast.Constant) else None
    note = None
    if kind in (int, float):
        tensor, edits = site.need("torch.tensor")
        exact = "less exact than a Python float and follows .half()" if kind is float else "of ints only"
        note = f"{me}.{name} becomes a tensor, which is {exact}"
        value = f"{tensor}({value})"
    elif isinstance(made.value, ast.Constant):
        return None
    quote = site.source.quote
    # Not persistent: saved weights stay as they were.
    text = f"{me}.register_buffer({quote}{name}{quote}, {value}, persistent=False)"
    edits = [*edits, site.source.replace(made, text)]
    for method in owner.body:
        if isinstance(method, ast.FunctionDef) and method is not init:
            for node in ast.walk(method):
                written = _written(site, node, me, name)
                if written is not None:
                    edits.append(site.source.replace(node, f"{me}.{name}.{written[0]}({site.text(written[1])})"))
    return Draft(f"Keep {me}.{name} in a buffer", edits, note)


def _is_attribute(node: ast.AST, me: str, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name and getattr(node.value, "id", None) == me


def _assignment(function: ast.FunctionDef, me: str, name: str) -> ast.Assign | ast.AnnAssign | None:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and _is_attribute(node.targets[0], me, name):
            return node
        if isinstance(node, ast.AnnAssign) and _is_attribute(node.target, me, name):
            return node
    return None


def _written(site: Site, node: ast.AST, me: str, name: str) -> tuple[str, ast.expr] | None:
    """What a statement that gives the attribute another value is for a buffer: a method, and its argument."""
    if isinstance(node, ast.AugAssign) and _is_attribute(node.target, me, name):
        method = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_"}.get(type(node.op))
        return (method, node.value) if method else None
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and _is_attribute(node.targets[0], me, name):
        value = node.value
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and _is_attribute(value.left, me, name):
            return "add_", value.right
        if isinstance(value, ast.Constant):
            return "fill_", value
    return None


@recipe("slice-table", assumes="the table is at least as long as the input")
def slice_table(site: Site) -> list[Draft]:
    """Replace `x + self.position` with `x + self.position[:, : x.shape[1]]`, for all sizes up to that of the tensor."""
    drafts = []
    for node in site.nearest(ast.BinOp):
        for own, other in ((node.right, node.left), (node.left, node.right)):
            if (
                isinstance(own, ast.Attribute)
                and isinstance(own.value, ast.Name)
                and not isinstance(other, ast.Constant)
            ):
                text = f"{site.text(own)}[:, : {site.operand(other)}.shape[1]]"
                drafts.append(Draft("Slice the table to the input", [site.source.replace(own, text)]))
    return drafts


@recipe("data-to-detach", assumes="nothing counts on changes of `.data` that autograd does not see")
def data_to_detach(site: Site) -> Draft | None:
    """Replace `x.data` with `x.detach()` in the whole method."""
    if site.function is None:
        return None
    read = [
        node
        for node in ast.walk(site.function)
        if isinstance(node, ast.Attribute) and node.attr == "data" and isinstance(node.ctx, ast.Load)
    ]
    edits = [site.source.replace(node, f"{site.operand(node.value)}.detach()") for node in read]
    return Draft("Use .detach()", edits) if edits else None


@recipe("copy-without-grad", assumes=KEPT)
def copy_without_grad(site: Site) -> Draft | None:
    """Replace `self.weight.data = v` with `self.weight.copy_(v)` under `torch.no_grad()`."""
    statement = site.statement
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or not site.source.starts_line(statement):
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Attribute) or target.attr != "data":
        return None
    no_grad, edits = site.need("torch.no_grad")
    inner = site.source.indent_of(statement) + site.source.indent_unit
    text = f"with {no_grad}():\n{inner}{site.operand(target.value)}.copy_({site.text(statement.value)})"
    return Draft("Write into the tensor in place", [*edits, site.source.replace(statement, text)])
