"""Recipes for values that the trace would freeze: random numbers, devices, texts, contexts."""

from __future__ import annotations

import ast

from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.imports import wrap_call
from fxlib.diagnosis.fixes.lift import define_wrapped
from fxlib.diagnosis.fixes.members import inputs_of, self_name
from fxlib.diagnosis.fixes.recipes.sizes import DEFAULT_DTYPE


@recipe("randn-like", assumes="the input is on the CPU, in the usual order in memory")
def randn_like(site: Site) -> Draft | None:
    """Replace `torch.randn(x.shape)` with `torch.randn_like(x, dtype=torch.get_default_dtype())`, or with
    `torch.randn_like(x)` where it asks for the dtype of `x`, and `rand` with `rand_like`."""
    for call in site.nearest(ast.Call):
        name = site.call_name(call) or ""
        if name not in ("torch.randn", "torch.rand") or len(call.args) != 1:
            continue
        argument = call.args[0].value if isinstance(call.args[0], ast.Starred) else call.args[0]
        like = None
        if isinstance(argument, ast.Attribute) and argument.attr == "shape":
            like = argument.value
        elif (
            isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute) and argument.func.attr == "size"
        ):
            like = argument.func.value if not argument.args else None
        if like is None:
            return None
        function, edits = site.need(f"{name}_like")
        base = site.text(like)
        kept = [k for k in call.keywords if k.arg not in ("device", "dtype") or site.text(k.value) != f"{base}.{k.arg}"]
        arguments = ", ".join([base, *(site.text(k) for k in kept)])
        if all(keyword.arg != "dtype" for keyword in call.keywords):
            kind, more = site.need(DEFAULT_DTYPE)
            arguments, edits = f"{arguments}, dtype={kind}()", [*edits, *more]
        return Draft(
            f"Use {function}({base})", [*dict.fromkeys(edits), site.source.replace(call, f"{function}({arguments})")]
        )
    return None


_RANDOM_PACKAGES = ("torch.", "random.", "numpy.random.")


@recipe("lift-random", kind="lift")
def lift_random(site: Site) -> Draft | None:
    """Draw in a wrapped function that takes the first input, so that the call is recorded."""
    function = site.function
    if function is None:
        return None
    me, positional = self_name(site.source, function), inputs_of(site.source, function)
    if not positional:
        return None
    for call in site.nearest(ast.Call):
        name = site.call_name(call) or ""
        if not name.startswith(_RANDOM_PACKAGES) or name.startswith("torch.nn."):
            continue
        names = {n.id for n in ast.walk(call) if isinstance(n, ast.Name)}
        local = {a.arg for a in [*function.args.args, *function.args.kwonlyargs]}
        if names & (local | {me or "self"}):
            return None
        helper = site.source.fresh_name(f"_draw_{name.rpartition('.')[2]}")
        unit = site.source.indent_unit
        definition = f"def {helper}(_when):\n{unit}return {site.text(call)}"
        edits = [
            *define_wrapped(site.source, function, helper, definition),
            site.source.replace(call, f"{helper}({positional[0]})"),
        ]
        note = f"`{positional[0]}` is passed only so that the call is recorded"
        return Draft(f"Draw the numbers in a function wrapped with torch.fx.wrap: {helper}", edits, note)
    return None


@recipe("seed-wrapped", kind="lift")
def seed_wrapped(site: Site) -> Draft | None:
    """Replace `torch.manual_seed(0)` with `x = _manual_seed(x)`, a wrapped function that seeds and returns
    the first input."""
    statement, function = site.statement, site.function
    if function is None or not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    name = site.call_name(call) or ""
    inputs = inputs_of(site.source, function)
    local = {a.arg for a in [*function.args.args, *function.args.kwonlyargs]}
    if not name.startswith(_RANDOM_PACKAGES) or not inputs:
        return None
    if any(isinstance(n, ast.Name) and n.id in local for n in ast.walk(call)):
        return None
    helper = site.source.fresh_name(f"_{name.rpartition('.')[2]}")
    unit = site.source.indent_unit
    definition = f"def {helper}(value):\n{unit}{site.text(call)}\n{unit}return value"
    edits = [
        *define_wrapped(site.source, function, helper, definition),
        site.source.replace(statement, f"{inputs[0]} = {helper}({inputs[0]})"),
    ]
    return Draft(f"Seed in a function wrapped with torch.fx.wrap: {helper}", edits)


@recipe("device-of-input", assumes="the input is a tensor on the device of the model")
def device_of_input(site: Site) -> Draft | None:
    """Replace `device=self.buffer.device` with `device=x.device`, where `x` is the first input."""
    function = site.function
    if function is None:
        return None
    me, inputs = self_name(site.source, function), inputs_of(site.source, function)
    candidates = [n for n in ast.walk(site.node) if isinstance(n, ast.Attribute)] + list(site.nearest(ast.Attribute))
    for node in candidates:
        root: ast.AST = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if node.attr == "device" and isinstance(root, ast.Name) and root.id == me and inputs:
            edit = site.source.replace(node, f"{inputs[0]}.device")
            return Draft(f"Use the device of {inputs[0]}", [edit])
    return None


@recipe("wrap-top-level", kind="wrap")
def wrap_top_level(site: Site) -> Draft | None:
    """Move a `torch.fx.wrap("name")` call from inside a function to module scope."""
    statement = site.statement
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return None
    call = statement.value
    siblings, _ = site.source.block_of(statement)
    if not ast.unparse(call.func).endswith("wrap") or len(call.args) != 1 or len(siblings) < 2:
        return None
    argument = call.args[0]
    name = (
        argument.value
        if isinstance(argument, ast.Constant)
        else argument.id
        if isinstance(argument, ast.Name)
        else None
    )
    if not isinstance(name, str) or not site.source.starts_line(statement) or not site.source.ends_line(statement):
        return None
    removal = site.source.replace_range((statement.lineno, 0), (site.source.line_below(statement), 0), "")
    return Draft("Call torch.fx.wrap at module scope", [*wrap_call(site.source, name), removal])


@recipe("detach", assumes="the block computes tensors, and none of them is an input")
def detach(site: Site) -> Draft | None:
    """Replace `with torch.no_grad(): y = f(x)` with `y = f(x).detach()`, for a block of plain assignments."""
    for node in [site.statement]:
        if not isinstance(node, ast.With) or len(node.items) != 1:
            return None
        name = site.call_name(node.items[0].context_expr) or ""
        if name != "torch.no_grad" or not site.source.starts_line(node) or node.body[0].lineno == node.lineno:
            return None
        simple = all(
            isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name) for s in node.body
        )
        if not simple:
            return None
        indent = site.source.indent_of(node)
        lines = []
        for statement in node.body:
            assert isinstance(statement, ast.Assign)
            lines.append(f"{site.text(statement.targets[0])} = {site.operand(statement.value)}.detach()")
        note = "autograd still records the operations before detach()"
        edit = site.source.replace(node, ("\n" + indent).join(lines))
        return Draft("Use detach(), which is recorded", [edit], note)
    return None


@recipe("list-of-generator", assumes="all of it is read, and once")
def list_of_generator(site: Site) -> Draft | None:
    """Replace an argument that is a set or a generator with a tuple or a list."""
    for node in [*ast.walk(site.node), *site.nearest(ast.Set, ast.GeneratorExp)]:
        if isinstance(node, ast.Set):
            items = ", ".join(site.text(item) for item in node.elts)
            items += "," if len(node.elts) == 1 else ""
            return Draft("Pass a tuple", [site.source.replace(node, f"({items})")])
        if isinstance(node, ast.GeneratorExp):
            text = site.text(node)
            inner = text[1:-1] if text.startswith("(") and text.endswith(")") else text
            return Draft("Pass a list", [site.source.replace(node, f"[{inner}]")])
    return None
