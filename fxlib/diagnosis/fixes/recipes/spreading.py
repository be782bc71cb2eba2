"""Recipes for stars: what `*value` and `**value` stand for, written out."""

from __future__ import annotations

import ast

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.evaluated import evaluated
from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.given import to_attribute
from fxlib.diagnosis.fixes.members import self_name
from fxlib.diagnosis.fixes.recipes.sizes import is_cheap, static_count, tuple_text
from fxlib.diagnosis.fixes.source import FunctionNode
from fxlib.diagnosis.fixes.tensors import is_tensor, is_tuple


@recipe("star-concat")
def star_concat(site: Site) -> Draft | None:
    """Replace `(*shape, -1, d)` with `shape + (-1, d)`: an addition of tuples is recorded."""
    for display in site.nearest(ast.Tuple, ast.List):
        if not isinstance(display.ctx, ast.Load) or not any(isinstance(item, ast.Starred) for item in display.elts):
            continue
        text = concatenated(site, display.elts)
        parent = site.source.parents.get(display)
        inner = isinstance(parent, ast.BinOp | ast.Attribute | ast.Subscript | ast.Starred | ast.UnaryOp)
        edit = site.source.replace(display, f"({text})" if inner else text)
        sure = _is_of_sizes(site, display) and all(is_tuple(site, each) for each in _starred(display.elts))
        hazard = None if sure else "right only if what has a star is a tuple, and what follows takes one for a list"
        return Draft(f"Add tuples: {text}", [edit], first=True, hazard=hazard)
    return None


def _starred(items: list[ast.expr]) -> list[ast.expr]:
    return [item.value for item in items if isinstance(item, ast.Starred)]


def _is_of_sizes(site: Site, value: ast.expr) -> bool:
    """Whether a value goes nowhere but into methods of tensors that take a tuple of sizes, by a local name perhaps."""
    above = site.source.parents.get(value)
    if isinstance(above, ast.Assign) and site.function is not None and len(above.targets) == 1:
        target = above.targets[0]
        if not isinstance(target, ast.Name):
            return False
        named = (each for each in ast.walk(site.function) if isinstance(each, ast.Name) and each.id == target.id)
        return all(isinstance(each.ctx, ast.Load) and _is_of_sizes(site, each) for each in named if each is not target)
    if not isinstance(above, ast.Call) or not isinstance(above.func, ast.Attribute) or above.args != [value]:
        return False
    return above.func.attr in _TAKING_SIZES and is_tensor(site, above.func.value)


def concatenated(site: Site, items: list[ast.expr]) -> str:
    """Items with stars among them as a sum of tuples."""
    parts: list[str] = []
    loose: list[str] = []
    for item in [*items, None]:
        if item is not None and not isinstance(item, ast.Starred):
            loose.append(site.text(item))
            continue
        if loose:
            parts.append(tuple_text(loose))
            loose = []
        if item is not None:
            parts.append(site.operand(item.value))
    return " + ".join(parts)


_TAKING_SIZES = {"view", "reshape", "expand", "repeat", "tile", "permute", "new_zeros", "new_ones", "new_empty"}


@recipe("view-concat")
def view_concat(site: Site) -> Draft | None:
    """Replace `x.view(*x.shape[:2], -1)` with `x.view(x.shape[:2] + (-1,))`: one tuple instead of a star."""
    for call in site.nearest(ast.Call):
        if not any(isinstance(argument, ast.Starred) for argument in call.args):
            continue
        text = concatenated(site, call.args)
        start, end = site.source.range_of(call.args[0])[0], site.source.range_of(call.args[-1])[1]
        edits = [site.source.replace_range(start, end, text)]
        return Draft(f"Pass one tuple: {text}", edits, first=True, hazard=_unless_sizes(site, call))
    return None


def _unless_sizes(site: Site, call: ast.Call) -> str | None:
    """What has to be so for one tuple to do in a call what several arguments did, unless the function says so."""
    function = call.func
    of_tensor = isinstance(function, ast.Attribute) and is_tensor(site, function.value)
    if not of_tensor or function.attr not in _TAKING_SIZES:  # type: ignore[attr-defined]
        return f"right only if `{site.text(function)}` takes one tuple for several sizes"
    unsure = next((each for each in _starred(call.args) if not is_tuple(site, each)), None)
    return f"right only if `{site.text(unsure)}` is a tuple" if unsure is not None else None


@recipe("index-star", assumes="there are as many items in every call")
def index_star(site: Site) -> Draft | None:
    """Replace `mix(*torch.split(x, 2))` with `parts = torch.split(x, 2)` and `mix(parts[0], parts[1])`."""
    for call in site.nearest(ast.Call):
        stars = [argument for argument in call.args if isinstance(argument, ast.Starred)]
        if len(stars) != 1 or site.statement is None or not site.source.starts_line(site.statement):
            continue
        value = stars[0].value
        count = static_count(value) or _taken(site, call) or site.finding.data.get("count")
        if not isinstance(count, int) or not 0 < count <= 16:
            return None
        edits: list[Edit] = []
        name = site.text(value)
        if not is_cheap(value):
            name = site.source.fresh_name("parts")
            start = (site.statement.lineno, site.statement.col_offset)
            indent = site.source.indent_of(site.statement)
            edits.append(site.source.replace_range(start, start, f"{name} = {site.text(value)}\n{indent}"))
        items = ", ".join(f"{name}[{i}]" for i in range(count))
        title, edits = f"Pass the {count} items by index", [*edits, site.source.replace(stars[0], items)]
        hazard = f"right only for {count} items"
        if name != site.text(value) and call not in evaluated(site.statement):
            hazard += f", and if `{site.text(value)}` can be computed in every call"
        return Draft(title, edits, first=True, hazard=hazard)
    return None


def _taken(site: Site, call: ast.Call) -> int | None:
    """How many items a star stands for, by what the called function of the file must be given."""
    called = _callee(site, call)
    if called is None or called.args.vararg is not None or any(keyword.arg is None for keyword in call.keywords):
        return None
    names = _parameters(called)
    required = len(names) - len(called.args.defaults)
    given = {keyword.arg for keyword in call.keywords}
    return required - (len(call.args) - 1) - len(given & set(names[:required])) or None


@recipe("name-arguments", assumes="the called function takes these arguments only")
def name_arguments(site: Site) -> Draft | None:
    """Replace `**kwargs` or `*args` that a function passes on with the named arguments of the called function."""
    function = site.function
    if function is None:
        return None
    for call in site.nearest(ast.Call):
        called = _callee(site, call)
        if called is None or called is function:
            continue
        edits = _keywords_by_name(site, function, call, called) or _positions_by_name(site, function, call, called)
        if edits:
            note = f"`{function.name}` no longer accepts other argument names"
            return Draft("Name the arguments instead of passing them on with a star", edits, note, first=True)
    return None


def _keywords_by_name(site: Site, function: FunctionNode, call: ast.Call, called: FunctionNode) -> list[Edit] | None:
    """The edits that put names for the function's `**kwargs`, which is read nowhere else."""
    spread = next((k for k in call.keywords if k.arg is None), None)
    own = function.args.kwarg
    if own is None or called.args.kwarg is not None or spread is None or not _is_only_use(function, spread.value, own):
        return None
    defaults = _defaults(called)
    given = set(_parameters(called)[: len(call.args)]) | {keyword.arg for keyword in call.keywords}
    missing = [name for name in defaults if name not in given]
    own_names = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    if not missing or own_names & set(missing) or any(not isinstance(defaults[n], ast.Constant) for n in missing):
        return None
    signature = ", ".join(f"{name}={ast.unparse(defaults[name])}" for name in missing)
    passed = ", ".join(f"{name}={name}" for name in missing)
    start = _star_before(site, own, "**")
    end = site.source.range_of(own)[1]
    before_value = _star_before(site, spread.value, "**")
    if start is None or before_value is None:
        return None
    return [
        site.source.replace_range(start, end, signature),
        site.source.replace_range(before_value, site.source.range_of(spread.value)[1], passed),
    ]


def _positions_by_name(site: Site, function: FunctionNode, call: ast.Call, called: FunctionNode) -> list[Edit] | None:
    """The edits that put names for the function's `*args`, which is read nowhere else."""
    stars = [argument for argument in call.args if isinstance(argument, ast.Starred)]
    own = function.args.vararg
    if own is None or called.args.vararg is not None or len(stars) != 1 or call.args[-1] is not stars[0]:
        return None
    if not _is_only_use(function, stars[0].value, own) or function.args.kwonlyargs or function.args.defaults:
        return None
    names = _parameters(called)[len(call.args) - 1 :]
    defaults = _defaults(called)
    names = [name for name in names if name not in {keyword.arg for keyword in call.keywords}]
    own_names = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)} - {own.arg}
    if not names or own_names & set(names):
        return None
    if any(not isinstance(defaults.get(name, ast.Constant(None)), ast.Constant) for name in names):
        return None
    signature = ", ".join(f"{n}={ast.unparse(defaults[n])}" if n in defaults else n for n in names)
    start = _star_before(site, own, "*")
    if start is None:
        return None
    return [
        site.source.replace_range(start, site.source.range_of(own)[1], signature),
        site.source.replace(stars[0], ", ".join(names)),
    ]


def _is_only_use(function: FunctionNode, value: ast.expr, own: ast.arg) -> bool:
    uses = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == own.arg]
    return uses == [value]


def _star_before(site: Site, node: ast.expr | ast.arg, stars: str) -> tuple[int, int] | None:
    """Where the stars begin that stand directly before a node."""
    line, column = site.source.range_of(node)[0]
    if column < len(stars) or site.source.between((line, column - len(stars)), (line, column)) != stars:
        return None
    return line, column - len(stars)


def _callee(site: Site, call: ast.Call) -> FunctionNode | None:
    """The function of the file that a call runs: a method, the forward of a submodule that `__init__` makes, or a
    function of the module."""
    tree = site.source.tree
    classes = {s.name: s for s in tree.body if isinstance(s, ast.ClassDef)}
    if isinstance(call.func, ast.Name):
        return next((s for s in tree.body if isinstance(s, FunctionNode) and s.name == call.func.id), None)
    owner = site.source.class_of(call)
    me = self_name(site.source, site.function) if site.function is not None else None
    if owner is None or not isinstance(call.func, ast.Attribute) or ast.unparse(call.func.value) != me:
        return None
    name = call.func.attr
    method = _method(owner, name)
    if method is not None:
        return method
    made = {getattr(getattr(value, "func", None), "id", "") for value, _ in to_attribute(site.source, owner, name)}
    (only,) = made if len(made) == 1 else ("",)
    return _method(classes[only], "forward") if only in classes else None


def _method(owner: ast.ClassDef, name: str) -> FunctionNode | None:
    return next((s for s in owner.body if isinstance(s, FunctionNode) and s.name == name), None)


def _parameters(function: FunctionNode) -> list[str]:
    """The names of the positional parameters, without that of the object."""
    names = [a.arg for a in [*function.args.posonlyargs, *function.args.args]]
    static = any(ast.unparse(d) == "staticmethod" for d in function.decorator_list)
    return names[1:] if names[:1] == ["self"] and not static else names


def _defaults(function: FunctionNode) -> dict[str, ast.expr]:
    names = _parameters(function)
    positional = names[len(names) - len(function.args.defaults) :]
    defaults = dict(zip(positional, function.args.defaults, strict=False))
    only = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return defaults | {a.arg: d for a, d in only if d is not None}


@recipe("index-mapping", assumes="it always has these keys, and no others")
def index_mapping(site: Site) -> Draft | None:
    """Replace `combine(**batch)` with `combine(left=batch["left"])`, with the keys that the called function takes."""
    for call in site.nearest(ast.Call):
        spread = next((k for k in call.keywords if k.arg is None), None)
        called = _callee(site, call)
        if spread is None or called is None or called.args.kwarg is not None or not is_cheap(spread.value):
            continue
        names = [*_parameters(called), *(a.arg for a in called.args.kwonlyargs)]
        defaults = _defaults(called)
        given = set(names[: len(call.args)]) | {keyword.arg for keyword in call.keywords}
        missing = [name for name in names if name not in given and name not in defaults]
        start = _star_before(site, spread.value, "**")
        if not missing or start is None:
            return None
        base, quote = site.text(spread.value), site.source.quote
        text = ", ".join(f"{name}={base}[{quote}{name}{quote}]" for name in missing)
        more = any(name not in given and name in defaults for name in names)
        hazard = f"`{base}` must have no other keys" if more else None
        return Draft(
            "Pass the items by key",
            [site.source.replace_range(start, site.source.range_of(spread.value)[1], text)],
            hazard=hazard,
        )
    return None


@recipe("dict-union", assumes="both are dicts, and nobody else reads the first one")
def dict_union(site: Site) -> Draft | None:
    """Replace `losses.update(d)` with `losses = losses | d`, which is recorded."""
    statement = site.statement
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr != "update" or not isinstance(function.value, ast.Name):
        return None
    if len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
        return None
    name = function.value.id
    text = f"{name} = {name} | {site.operand(call.args[0])}"
    title = "Join the dictionaries with |, which is recorded"
    return Draft(title, [site.source.replace(statement, text)])
