"""Recipes for what Dynamo does not follow: effects, scripted functions, identity, and operators behind a setting."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.names import local_names
from fxlib.diagnosis.fixes.recipes.branches import COMPUTED, if_to_where, note_of
from fxlib.diagnosis.fixes.source import FunctionNode

__all__ = ["SETTINGS"]

_WAY_AROUND = "a workaround: it runs in Python, between two graphs"
_CONFIG = "torch._dynamo.config"
SETTINGS = {
    "FX602": "capture_scalar_outputs",
    "FX603": "capture_dynamic_output_shape_ops",
    "FX607": "allow_rnn",
    "FX609": "trace_autograd_ops",
}
"""Settings of Dynamo's by the rule of the breaks that they keep in the graph."""
_SCRIPTED = ("torch.jit.script", "torch.jit.freeze", "torch.jit.trace")


@recipe("only-in-python", assumes="compiled runs may leave it out")
def only_in_python(site: Site) -> Draft | None:
    """Put a statement that prints, logs, writes a file or reads a clock under
    `if not torch.compiler.is_compiling():`."""
    statement, function = site.statement, site.function
    if statement is None or function is None:
        return None
    together = _together(statement, function)
    if together is None or not all(site.source.starts_line(each) for each in together):
        return None
    compiling, edits = site.need("torch.compiler.is_compiling")
    for each in together:
        indent, unit = site.source.indent_of(each), site.source.indent_unit
        lines = site.source.segment(each).split("\n")
        body = "\n".join([lines[0], *(unit + line if line.strip() else line for line in lines[1:])])
        edits = [*edits, site.source.replace(each, f"if not {compiling}():\n{indent}{unit}{body}")]
    return Draft("Run it only in eager", edits, "it does nothing when compiled")


def _together(statement: ast.stmt, function: FunctionNode) -> list[ast.stmt] | None:
    """A statement, and those that use what it binds; None where one of them does more than to note something."""
    chosen: list[ast.stmt] = []
    left = [statement]
    while left:
        each = left.pop()
        chosen.append(each)
        inside = list(ast.walk(each))
        if not isinstance(each, ast.Expr | ast.With | ast.Assign | ast.AugAssign) and not _only_says(each):
            return None
        if any(isinstance(node, ast.Return) for node in inside):
            return None
        bound = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        known = {part for held in (*chosen, *left) for part in ast.walk(held)}
        left += [other for other in _using(bound, function) if other not in known]
    return sorted(chosen, key=lambda each: each.lineno)


_SAYING = {"print", "warn", "print_exc", "debug", "info", "warning", "error", "exception", "critical", "log", "write"}


def _says(statement: ast.stmt) -> bool:
    """Whether a statement prints, warns, logs or writes."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in _SAYING


def _only_says(statement: ast.stmt) -> bool:
    """Whether it is an `if` that only says something."""
    return isinstance(statement, ast.If) and not statement.orelse and all(map(_says, statement.body))


def _using(names: set[str], function: FunctionNode) -> list[ast.stmt]:
    """The statements of a function that mention names, without those around them."""
    found = []
    for statement in ast.walk(function):
        if isinstance(statement, ast.stmt) and statement is not function:
            heads = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
            if any(isinstance(node, ast.Name) and node.id in names for head in heads for node in ast.walk(head)):
                found.append(statement)
    return found


@recipe("say-and-choose", assumes=COMPUTED)
def say_and_choose(site: Site) -> Draft | None:
    """Replace `if c: print(m); x = y` with `torch.where`, and print only when not compiling."""
    node = next(site.nearest(ast.If), None)
    said = [each for each in node.body if _says(each)] if node is not None else []
    if node is None or node.orelse or not said or len(said) == len(node.body):
        return None
    if not all(map(site.source.starts_line, [node, *node.body])):
        return None
    whole, node.body = node.body, [each for each in node.body if each not in said]
    try:
        draft = if_to_where(site)
    finally:
        node.body = whole
    if draft is None:
        return None
    compiling, edits = site.need("torch.compiler.is_compiling")
    indent, inner = site.source.indent_of(node), site.source.indent_of(node.body[0])
    lines = [f"if not {compiling}() and {site.operand(node.test)}:", *(inner + site.text(each) for each in said)]
    first = "\n".join(lines) + f"\n{indent}"

    def with_it(changes: Iterable[Edit]) -> list[Edit]:
        own = site.source.range_of(node)[0]
        return [*edits, *(replace(each, text=first + each.text) if each.start == own else each for each in changes)]

    branches = draft.branches and replace(draft.branches, after=tuple(with_it(draft.branches.after)))
    note = f"{draft.note}; no message when compiled"
    return replace(
        draft,
        edits=with_it(draft.edits),
        branches=branches,
        note=note,
        title=f"{draft.title}, and report it only in eager",
    )


@recipe("without-copy", assumes="nothing is done to the copy")
def without_copy(site: Site) -> Draft | None:
    """Replace `copy.deepcopy(self.inner)` in forward with `self.inner`."""
    for call in site.nearest(ast.Call):
        if site.call_name(call) in ("copy.deepcopy", "copy.copy") and len(call.args) == 1:
            return Draft("Use it without a copy", [site.source.replace(call, site.text(call.args[0]))])
    return None


@recipe("without-script", assumes="nobody uses what TorchScript adds to the module")
def without_script(site: Site) -> Draft | None:
    """Replace `torch.jit.script(Inner())` with `Inner()`, and remove `@torch.jit.script`."""
    attributes = {node.attr for node in ast.walk(site.node) if isinstance(node, ast.Attribute)}
    owner = site.source.class_of(site.node)
    for node in ast.walk(owner) if owner is not None else ():
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or not node.value.args:
            continue
        same = [target for target in node.targets if isinstance(target, ast.Attribute) and target.attr in attributes]
        if same and site.call_name(node.value) in _SCRIPTED:
            inner = site.text(node.value.args[0])
            return Draft("Use the module without scripting it", [site.source.replace(node.value, inner)])
    called = {node.id for node in ast.walk(site.node) if isinstance(node, ast.Name)}
    functions = [each for each in site.source.tree.body if isinstance(each, ast.FunctionDef) and each.name in called]
    for function in functions:
        for decorator in function.decorator_list:
            if site.bindings.resolve(decorator) in _SCRIPTED:
                start, end = (decorator.lineno, 0), ((decorator.end_lineno or decorator.lineno) + 1, 0)
                return Draft(f"Do not script {function.name}", [site.source.replace_range(start, end, "")])
    return None


@recipe("hoist-definition", assumes="it uses nothing that changes between calls")
def hoist_definition(site: Site) -> Draft | None:
    """Move a class or function that forward defines to module level."""
    statement = site.statement
    if not isinstance(statement, ast.ClassDef | ast.FunctionDef) or site.function is None:
        return None
    local = local_names(site.function)
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    if names & local - {statement.name}:
        return None
    siblings, _ = site.source.block_of(statement)
    old = site.source.indent_of(statement)
    first = statement.decorator_list[0].lineno if statement.decorator_list else statement.lineno
    last = statement.end_lineno or statement.lineno
    lines = [line.removeprefix(old) for line in site.source.lines[first - 1 : last]]
    above = site.source.line_above(site.source.top_level_of(statement))
    removed = site.source.replace_range((first, 0), (last + 1, 0), f"{old}pass\n" if len(siblings) == 1 else "")
    moved = site.source.insert_line(above, "".join(lines).rstrip("\r\n") + "\n\n")
    return Draft(f"Define {statement.name} outside of forward", [moved, removed])


@recipe("exclude-from-compile", kind="around", assumes="the graph may be interrupted there")
def exclude_from_compile(site: Site) -> Draft | None:
    """As a workaround, make the call through `torch.compiler.disable`, so that the code around it stays compiled."""
    for node in [site.node, *site.source.ancestors(site.node)]:
        if isinstance(node, ast.stmt):
            return None
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Call) and not _names_class(node.func):
            disable, edits = site.need("torch.compiler.disable")
            text = f"{disable}({site.text(node.func)})"
            return Draft(f"Workaround: {text}", [*edits, site.source.replace(node.func, text)], _WAY_AROUND)
    return None


def _names_class(function: ast.expr) -> bool:
    """Whether a class is called, by the way it is written: a class that is disabled is so everywhere."""
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name[:1].isupper()


@recipe("dynamo-setting", assumes="the setting may hold for the whole process")
def dynamo_setting(site: Site) -> Draft | None:
    """Set the option of Dynamo that keeps such an operator in the graph, once for the file."""
    setting = SETTINGS.get(site.finding.code)
    if setting is None:
        return None
    config, edits = site.need(_CONFIG)
    text = f"{config}.{setting} = True"
    note = "it applies to everything that the process compiles, and importing the file then imports torch's compiler"
    return Draft(f"Set {text}", [*edits, _at_the_top(site, text)], note)


def _at_the_top(site: Site, text: str) -> Edit:
    """A line after the imports that the file begins with."""
    after = 0
    for statement in site.source.tree.body:
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not docstring and not isinstance(statement, ast.Import | ast.ImportFrom):
            break
        after = statement.end_lineno or statement.lineno
    return site.source.insert_line(after + 1, f"\n{text}")


@recipe("identity-to-is", assumes="none of them is another view of the same tensor")
def identity_to_is(site: Site) -> Draft | None:
    """Replace `id(x) == id(y)` and `x.data_ptr() == y.data_ptr()` with `x is y`."""
    for node in site.nearest(ast.Compare):
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
            continue
        sides = [_identified(side) for side in (node.left, node.comparators[0])]
        if None in sides:
            continue
        word = "is" if isinstance(node.ops[0], ast.Eq) else "is not"
        text = f"{site.operand(sides[0])} {word} {site.operand(sides[1])}"  # type: ignore[arg-type]
        return Draft(f"Compare with `{word}`", [site.source.replace(node, text)])
    return None


def _identified(node: ast.expr) -> ast.expr | None:
    """`x` of `id(x)` and `x.data_ptr()`."""
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Name) and node.func.id == "id" and len(node.args) == 1:
        return node.args[0]
    return node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr == "data_ptr" else None


@recipe("plain-parameter", assumes="nobody asks whether it is a parameter")
def plain_parameter(site: Site) -> Draft | None:
    """Replace `nn.Parameter(v)` in forward with `v`: a parameter that each call creates is never trained."""
    for call in site.nearest(ast.Call):
        if (site.call_name(call) or "").endswith("nn.Parameter") and len(call.args) == 1:
            return Draft("Use the tensor itself", [site.source.replace(call, site.text(call.args[0]))])
    return None


@recipe("sorted-to-sort", assumes="equal items may change places")
def sorted_to_sort(site: Site) -> Draft | None:
    """Replace `sorted(x, key=lambda v: v.item())` with `x.sort().values.unbind()`."""
    for call in site.nearest(ast.Call):
        if not isinstance(call.func, ast.Name) or call.func.id != "sorted" or len(call.args) != 1:
            continue
        options = {keyword.arg: keyword.value for keyword in call.keywords}
        key, reverse = options.pop("key", None), options.pop("reverse", None)
        if options or (key is not None and not _item_of_argument(key)):
            return None
        order = f"descending={site.text(reverse)}" if reverse is not None else ""
        text = f"{site.operand(call.args[0])}.sort({order}).values.unbind()"
        return Draft("Sort with torch", [site.source.replace(call, text)])
    return None


def _item_of_argument(node: ast.expr) -> bool:
    """Whether a function is `lambda v: v.item()` or gives `v` itself, or a number of it."""
    if isinstance(node, ast.Name):
        return node.id in ("float", "int")
    if not isinstance(node, ast.Lambda) or len(node.args.args) != 1:
        return False
    value: ast.expr = node.body
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "item":
        value = value.func.value
    return isinstance(value, ast.Name) and value.id == node.args.args[0].arg


@recipe("all-of-list", assumes="all of them can be computed for every input")
def all_of_list(site: Site) -> Draft | None:
    """Replace `self.experts[which](x)` with calls of all experts, and select one of their results."""
    for call in site.nearest(ast.Call):
        picked = call.func
        if not isinstance(picked, ast.Subscript) or isinstance(picked.slice, ast.Slice | ast.Constant | ast.Tuple):
            continue
        index = picked.slice
        if isinstance(index, ast.Call) and isinstance(index.func, ast.Attribute) and index.func.attr == "item":
            index = index.func.value
        each = site.source.fresh_name("each")
        arguments = ", ".join(site.text(part) for part in (*call.args, *call.keywords))
        stack, edits = site.need("torch.stack")
        text = f"{stack}([{each}({arguments}) for {each} in {site.text(picked.value)}])[{site.text(index)}]"
        note = note_of(site, "all of them are computed in every call", [picked])
        return Draft(
            f"Pick one of the results of {site.text(picked.value)}", [*edits, site.source.replace(call, text)], note
        )
    return None
