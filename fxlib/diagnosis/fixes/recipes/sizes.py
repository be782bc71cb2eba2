"""Recipes for lengths, iteration and sizes: indexing and tuples instead of loops and stars."""

from __future__ import annotations

import ast

from fxlib.diagnosis.engine.forms import may_catch
from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.evaluated import evaluated
from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.members import inputs_of
from fxlib.diagnosis.fixes.tensors import is_tensor, is_tuple

__all__ = ["DEFAULT_DTYPE", "TAKING_SIZES", "is_of_sizes"]


@recipe("len-to-shape")
def len_to_shape(site: Site) -> Draft | None:
    """Replace `len(x)` with `x.shape[0]`, and `len(x.shape)` with `x.ndim`."""
    for call in site.nearest(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "len" and len(call.args) == 1 and not call.keywords:
            argument = call.args[0]
            if (shaped := _shape_of(argument)) is not None:
                base = site.operand(shaped)
                edit = site.source.replace(call, f"{base}.ndim")
                hazard = _unless_tensor(site, shaped, by_shape=False)
                return Draft(f"Use {base}.ndim", [edit], first=True, hazard=hazard)
            if isinstance(argument, ast.Starred):
                return None
            text = f"{site.operand(argument)}.shape[0]"
            hazard = _unless_tensor(site, argument)
            if "TypeError" in site.source.text or any(map(may_catch, site.source.ancestors(call))):
                hazard = hazard or "it raises another exception where there is no length"
            return Draft(f"Use {text}", [site.source.replace(call, text)], first=True, hazard=hazard)
    return None


def _unless_tensor(site: Site, node: ast.expr, by_shape: bool = True) -> str | None:
    return None if is_tensor(site, node, by_shape) else f"right only if `{site.text(node)}` is a tensor"


def _shape_of(value: ast.expr) -> ast.expr | None:
    """The tensor whose shape it is."""
    if isinstance(value, ast.Call) and not value.args and not value.keywords and isinstance(value.func, ast.Attribute):
        return value.func.value if value.func.attr == "size" else None
    return value.value if isinstance(value, ast.Attribute) and value.attr == "shape" else None


def tuple_text(items: list[str]) -> str:
    """The text of a tuple of these items."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


TAKING_SIZES = {"view", "reshape", "expand", "repeat", "tile", "permute", "new_zeros", "new_ones", "new_empty"}


def is_of_sizes(site: Site, value: ast.expr) -> bool:
    """Whether a value goes nowhere but into methods of tensors that take a tuple of sizes, by a local name perhaps."""
    above = site.source.parents.get(value)
    if isinstance(above, ast.Assign) and site.function is not None and len(above.targets) == 1:
        target = above.targets[0]
        if not isinstance(target, ast.Name):
            return False
        named = (each for each in ast.walk(site.function) if isinstance(each, ast.Name) and each.id == target.id)
        return all(isinstance(each.ctx, ast.Load) and is_of_sizes(site, each) for each in named if each is not target)
    if not isinstance(above, ast.Call) or not isinstance(above.func, ast.Attribute) or above.args != [value]:
        return False
    return above.func.attr in TAKING_SIZES and is_tensor(site, above.func.value)


@recipe("unpack-index", assumes="it is a tuple with as many items in every call")
def unpack_index(site: Site) -> Draft | None:
    """Replace `b, *rest = x.shape` with `b, rest = x.shape[0], x.shape[1:]`, and the star of
    `b, c, h = *x.shape, self.heads` likewise."""
    unpacking = _unpacking(site)
    if unpacking is None:
        return None
    statement, target, value = unpacking
    before, starred, after = _around_star(value.elts) if isinstance(value, ast.Tuple) else ([], value, [])
    if starred is None or not is_cheap(starred):
        return None
    first, rest, last = _around_star(target.elts)
    if rest is None and (starred is value or len(before) + len(after) >= len(target.elts)):
        return None
    if rest is None:
        last = first[len(first) - len(after) :]
        first = first[: len(first) - len(after)]
    if len(first) < len(before) or len(last) < len(after):
        return None
    base, end = site.operand(starred), len(last) - len(after)
    names = [site.text(item) for item in (*first, *last)]
    values = [site.text(item) for item in before]
    values += [f"{base}[{i}]" for i in range(len(first) - len(before))]
    note = None
    if rest is not None and _is_read(site, rest):
        names.insert(len(first), site.text(rest))
        start = len(first) - len(before)
        values.append(f"{base}[{start or ''}:{-end if end else ''}]")
        note = f"`{site.text(rest)}` is then a slice instead of a list"
    values += [f"{base}[{i - end}]" for i in range(end)]
    values += [site.text(item) for item in after]
    text = f"{', '.join(names)} = {', '.join(values)}"
    edit = site.source.replace(statement, text)
    return Draft("Index the value instead of unpacking with a star", [edit], note, first=True)


def _unpacking(site: Site) -> tuple[ast.Assign, ast.Tuple | ast.List, ast.expr] | None:
    """The statement where it is one that unpacks, its names and its value."""
    statement = site.statement
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    return (statement, target, statement.value) if isinstance(target, ast.Tuple | ast.List) else None


def _around_star(items: list[ast.expr]) -> tuple[list[ast.expr], ast.expr | None, list[ast.expr]]:
    """What stands before the one starred item, its value, and what stands after it; all before where there is none, and
    nothing at all where there are several."""
    stars = [i for i, item in enumerate(items) if isinstance(item, ast.Starred)]
    if len(stars) > 1:
        return [], None, []
    if not stars:
        return items, None, []
    star = items[stars[0]]
    assert isinstance(star, ast.Starred)
    return items[: stars[0]], star.value, items[stars[0] + 1 :]


def is_cheap(node: ast.expr) -> bool:
    """Whether an expression may be written several times: names, attributes, `x.size()`, constant indices."""
    if isinstance(node, ast.Name | ast.Constant):
        return True
    if isinstance(node, ast.Attribute):
        return is_cheap(node.value)
    if isinstance(node, ast.Subscript):
        return is_cheap(node.value)
    return (
        isinstance(node, ast.Call)
        and not node.args
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("size", "dim")
        and is_cheap(node.func.value)
    )


def _is_read(site: Site, name: ast.expr) -> bool:
    if not isinstance(name, ast.Name) or site.function is None:
        return True
    return any(
        isinstance(n, ast.Name) and n.id == name.id and isinstance(n.ctx, ast.Load) for n in ast.walk(site.function)
    )


_JOINING = {"torch.cat", "torch.stack", "torch.hstack", "torch.vstack"}


@recipe("drop-list")
def drop_list(site: Site) -> Draft | None:
    """Replace `list(x.chunk(2, 1))` with `x.chunk(2, 1)`: the tuple can be indexed and passed on as it is."""
    for call in site.nearest(ast.Call):
        if (
            isinstance(call.func, ast.Name)
            and call.func.id in ("list", "tuple")
            and len(call.args) == 1
            and not call.keywords
        ):
            argument = call.args[0]
            if isinstance(argument, ast.GeneratorExp | ast.Call) and not _gives_sequence(argument):
                continue
            above = site.source.parents.get(call)
            joined = isinstance(above, ast.Call) and site.call_name(above) in _JOINING and above.args[:1] == [call]
            hazard = None if joined and is_tuple(site, argument) else "right only if what follows takes any sequence"
            edit = site.source.replace(call, site.operand(argument))
            return Draft(f"Drop the {call.func.id}() call", [edit], hazard=hazard, first=hazard is None)
    return None


@recipe("drop-variable", assumes="no gradient ends at it")
def drop_variable(site: Site) -> Draft | None:
    """Replace `Variable(x)` with `x`: a tensor is a variable since PyTorch 0.4."""
    for call in site.nearest(ast.Call):
        plain = all(k.arg == "volatile" or site.text(k.value) == "False" for k in call.keywords)
        if site.call_name(call) == "torch.autograd.Variable" and len(call.args) == 1 and plain:
            text = site.text(call.args[0])
            return Draft(f"Use {text}", [site.source.replace(call, site.operand(call.args[0]))])
    return None


def _gives_sequence(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = (
        node.func.attr
        if isinstance(node.func, ast.Attribute)
        else node.func.id
        if isinstance(node.func, ast.Name)
        else ""
    )
    return name not in ("zip", "enumerate", "map", "filter", "range", "reversed")


def static_count(call: ast.AST) -> int | None:
    """How many tensors `chunk(n)`, `split([..])` or `tensor_split(n)` gives, where the text says so."""
    if not isinstance(call, ast.Call):
        return None
    name = (
        call.func.attr
        if isinstance(call.func, ast.Attribute)
        else call.func.id
        if isinstance(call.func, ast.Name)
        else ""
    )
    is_function = (
        isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == "torch"
    )
    place = 1 if is_function or isinstance(call.func, ast.Name) else 0
    keyword = {"chunk": "chunks", "tensor_split": "indices_or_sections", "split": "split_size_or_sections"}.get(name)
    if keyword is None:
        return None
    argument = next((k.value for k in call.keywords if k.arg == keyword), None)
    if argument is None and len(call.args) > place:
        argument = call.args[place]
    if isinstance(argument, ast.List | ast.Tuple):
        return len(argument.elts) + (name == "tensor_split")
    if isinstance(argument, ast.Constant) and isinstance(argument.value, int) and name != "split":
        return argument.value
    return None


def count_hazard(site: Site, call: ast.AST) -> str | None:
    """Why a call may give another number of tensors than its text says."""
    chunks = isinstance(call, ast.Call) and getattr(call.func, "attr", getattr(call.func, "id", "")) == "chunk"
    return (
        f"right only if `{site.text(call)}` gives all of them: chunk gives fewer for a small size" if chunks else None
    )


@recipe("fixed-count", assumes="there are as many items in every call")
def fixed_count(site: Site) -> Draft | None:
    """Iterate over the three items of `x.chunk(3)` by index."""
    if site.statement is None or site.function is None:
        return None
    calls = [n for n in ast.walk(site.node) if static_count(n) is not None]
    calls += [n for n in site.nearest(ast.Call) if static_count(n) is not None]
    if not calls or not site.source.starts_line(site.statement):
        return None
    call = calls[0]
    count = static_count(call)
    comprehension = [a for a in site.source.ancestors(call) if isinstance(a, ast.comprehension)]
    if comprehension and site.source.parents[comprehension[0]].generators[0] is not comprehension[0]:  # type: ignore[attr-defined]
        return None
    if any(isinstance(a, ast.Lambda) for a in site.source.ancestors(call)):
        return None
    name = site.source.fresh_name("parts")
    items = ", ".join(f"{name}[{i}]" for i in range(count or 0))
    indent = site.source.indent_of(site.statement)
    first = (site.statement.lineno, site.statement.col_offset)
    hazard = count_hazard(site, call)
    if call not in evaluated(site.statement):
        hazard = hazard or f"right only if `{site.text(call)}` can be computed in every call"
    return Draft(
        f"Index the {count} parts",
        hazard=hazard,
        edits=[
            site.source.replace_range(first, first, f"{name} = {site.text(call)}\n{indent}"),
            site.source.replace(call, f"({items})"),
        ],
    )


@recipe("unpack-count", assumes="there are as many items in every call")
def unpack_count(site: Site) -> Draft | None:
    """Replace `q, k, v = map(f, qkv)` with `q, k, v = map(f, (qkv[0], qkv[1], qkv[2]))`, comprehensions likewise."""
    unpacking = _unpacking(site)
    if unpacking is None:
        return None
    _, target, value = unpacking
    if any(isinstance(item, ast.Starred) for item in target.elts):
        return None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "map":
        items = value.args[1:]
    elif isinstance(value, ast.GeneratorExp | ast.ListComp) and not value.generators[0].ifs:
        items = [generator.iter for generator in value.generators]
    else:
        return None
    if len(items) != 1 or not is_cheap(items[0]):
        return None
    base, count = site.operand(items[0]), len(target.elts)
    text = ", ".join(f"{base}[{i}]" for i in range(count))
    comma = "," if count == 1 else ""
    return Draft(f"Index the {count} items", [site.source.replace(items[0], f"({text}{comma})")])


_OLDER = {
    "Tensor": "", "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16", "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16",
    "CharTensor": "int8", "ByteTensor": "uint8", "BoolTensor": "bool",
}  # fmt: skip


def _are_sizes(site: Site, arguments: list[ast.expr]) -> bool:
    """Whether the arguments of an older constructor are sizes, and not a tensor or its values."""
    if any(isinstance(each, (ast.Starred, ast.List, ast.Tuple)) for each in arguments):
        return False
    return len(arguments) > 1 or (
        len(arguments) == 1 and site.text(arguments[0]).rpartition(".")[2] in ("shape", "size()")
    )


@recipe("size-tuple")
def size_tuple(site: Site) -> list[Draft]:
    """Replace `torch.zeros(n, 4)` with `torch.zeros((n, 4))`, and `torch.BoolTensor(x.size())` with `torch.empty`."""
    makers = {"zeros", "ones", "empty", "rand", "randn"}
    for call in site.nearest(ast.Call):
        name = site.call_name(call) or ""
        package, _, maker = name.rpartition(".")
        if package == "torch" and maker in makers and len(call.args) > 1:
            if any(isinstance(a, ast.Starred) for a in call.args):
                continue
            sizes = ", ".join(site.text(a) for a in call.args)
            start, end = site.source.range_of(call.args[0])[0], site.source.range_of(call.args[-1])[1]
            return [Draft("Pass the size as a tuple", [site.source.replace_range(start, end, f"({sizes})")])]
        if package == "torch" and maker in _OLDER and _are_sizes(site, call.args) and not call.keywords:
            function, edits = site.need("torch.empty")
            sizes = site.text(call.args[0]) if len(call.args) == 1 else tuple_text([site.text(a) for a in call.args])
            kind = f", dtype={site.need(f'torch.{_OLDER[maker]}')[0]}" if _OLDER[maker] else ""
            text = f"{function}({sizes}{kind})"
            edits = [*edits, site.source.replace(call, text)]
            return [Draft(f"Use {text}", edits, hazard="it is made on the default device, which need not be the CPU")]
        if name in ("torch.Size",) and len(call.args) == 1:
            argument = call.args[0]
            if isinstance(argument, ast.List | ast.Tuple):
                items = [site.text(item) for item in argument.elts]
                hazard = None if is_of_sizes(site, call) else "right only if nobody asks for what a torch.Size has"
                return [Draft("Use a plain tuple", [site.source.replace(call, tuple_text(items))], hazard=hazard)]
    return []


@recipe("flip", assumes="it is a tensor or a shape, and what follows takes one for a list")
def flip(site: Site) -> list[Draft]:
    """Replace `reversed(x)` of a tensor with `torch.flip(x, (0,))`, and of a shape with a slice."""
    for call in site.nearest(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "reversed" and len(call.args) == 1:
            argument = call.args[0]
            shape = isinstance(argument, ast.Attribute) and argument.attr == "shape"
            shape = shape or (
                isinstance(argument, ast.Call)
                and isinstance(argument.func, ast.Attribute)
                and argument.func.attr == "size"
            )
            outer = site.source.parents.get(call)
            whole: ast.AST = call
            if isinstance(outer, ast.Call) and isinstance(outer.func, ast.Name) and outer.func.id in ("list", "tuple"):
                whole = outer
            if shape:
                text = f"{site.operand(argument)}[::-1]"
                return [Draft("Reverse with a slice", [site.source.replace(whole, text)])]
            function, edits = site.need("torch.flip")
            text = f"{function}({site.text(argument)}, (0,))"
            return [Draft("Use torch.flip", [*edits, site.source.replace(whole, text)])]
    return []


_NEW = {"zeros": "new_zeros", "ones": "new_ones", "empty": "new_empty", "full": "new_full"}
DEFAULT_DTYPE = "torch.get_default_dtype"


@recipe("new-zeros", assumes="the input is a tensor on the device of the model")
def new_zeros(site: Site) -> Draft | None:
    """Replace `torch.zeros(3)` with `x.new_zeros(3, dtype=torch.get_default_dtype())`, which is recorded and creates a
    tensor in every call."""
    function = site.function
    if function is None or site.statement is None:
        return None
    inputs = inputs_of(site.source, function)
    if not inputs:
        return None
    for call in [*site.nearest(ast.Call), *_origins(site, function)]:
        package, _, maker = (site.call_name(call) or "").rpartition(".")
        if package == "torch" and maker in _NEW and call.args:
            base = inputs[0]
            drops = {f"device={base}.device", f"dtype={base}.dtype"}  # what `new_zeros` takes from it anyway
            kept = [site.text(k) for k in call.keywords if f"{k.arg}={site.text(k.value)}" not in drops]
            edits: list[Edit] = []
            if all(keyword.arg != "dtype" for keyword in call.keywords):
                kind = _dtype_of(call, maker)
                if kind is None:
                    return None
                given, edits = site.need(kind)
                kept.append(f"dtype={given}{'()' if kind == DEFAULT_DTYPE else ''}")
            text = f"{base}.{_NEW[maker]}({', '.join([*map(site.text, call.args), *kept])})"
            return Draft(f"Use {text}", [*edits, site.source.replace(call, text)])
    return None


def _dtype_of(call: ast.Call, maker: str) -> str | None:
    """What gives the dtype of a tensor that `torch.zeros` and the like make; None where the text does not say what
    `torch.full` fills it with."""
    if maker != "full":
        return DEFAULT_DTYPE
    value = (
        call.args[1] if len(call.args) > 1 else next((k.value for k in call.keywords if k.arg == "fill_value"), None)
    )
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "float":
        return DEFAULT_DTYPE
    kinds = {bool: "torch.bool", int: "torch.int64", float: DEFAULT_DTYPE}
    return kinds.get(type(value.value)) if isinstance(value, ast.Constant) else None


def _origins(site: Site, function: ast.AST) -> list[ast.Call]:
    """The calls that made the names which the statement uses, where each name is assigned once."""
    names = {n.id for n in ast.walk(site.statement or site.node) if isinstance(n, ast.Name)}
    made: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            made.setdefault(node.targets[0].id, []).append(node.value)
    return [v[0] for n, v in made.items() if n in names and len(v) == 1 and isinstance(v[0], ast.Call)]
