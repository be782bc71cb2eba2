"""Recipes for conversions to Python numbers and for NumPy."""

from __future__ import annotations

import ast
import struct

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.lift import define_wrapped, lift_expression
from fxlib.diagnosis.fixes.tensors import is_size

__all__ = ["torch_call"]

_INTS = "right only if the numbers are ints, and none is negative: int() rounds toward 0, // rounds down"


@recipe("floor-div")
def floor_div(site: Site) -> list[Draft]:
    """Replace `int(n / 2)` with `n // 2` and `math.ceil(n / 2)` with `-(-n // 2)`; of `n // 2` and of a size,
    these conversions are dropped."""
    for call in site.nearest(ast.Call):
        name = site.call_name(call)
        if name not in ("int", "math.floor", "math.ceil", "math.trunc") or len(call.args) != 1 or call.keywords:
            continue
        argument = call.args[0]
        if isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Div | ast.FloorDiv):
            if any(isinstance(each, ast.Constant) and isinstance(each.value, float) for each in ast.walk(argument)):
                continue  # // of a float gives a float
            whole = isinstance(argument.op, ast.FloorDiv)
            above, below = ([argument.left], [argument.right]) if whole else _fraction(argument)
            left = " * ".join(map(site.operand, above))
            right = _product(site, below)
            text = f"-(-{left} // {right})" if name == "math.ceil" and not whole else f"{left} // {right}"
            if _binds_tighter(site, call):
                text = f"({text})"
            several = len(above) + len(below) > 2 or any(
                isinstance(each, ast.Div) for side in (*above, *below) for each in ast.walk(side)
            )
            note = "several divisions of floats round otherwise than one of integers" if several else None
            sure = not several and all(is_size(site, each) for each in (*above, *below))
            edit = site.source.replace(call, text)
            hazard = None if sure else _INTS
            return [Draft(f"Divide integers: {text}", [edit], note, first=True, hazard=hazard)]
        if name == "int" and ((sure := is_size(site, argument)) or _looks_like_size(argument)):
            edit = site.source.replace(call, site.operand(argument))
            hazard = None if sure else "right only if it is an int already"
            return [Draft("Drop int(): a size is an int already", [edit], first=True, hazard=hazard)]
    return []


def _looks_like_size(node: ast.AST) -> bool:
    """`x.shape[i]`, `x.size(i)`, `x.dim()`: an int under eager."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("size", "dim", "numel")
    return isinstance(node, ast.Attribute) and node.attr == "ndim"


def _fraction(node: ast.expr) -> tuple[list[ast.expr], list[ast.expr]]:
    """The factors above and below the line: `n`, `s` and `s` above `h * w` of `n / (h * w / s / s)`. Several divisions
    of integers, one after the other, would round each time."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
        return [node], []
    (above, below), (under, over) = _fraction(node.left), _fraction(node.right)
    return [*above, *over], [*below, *under]


def _product(site: Site, factors: list[ast.expr]) -> str:
    text = " * ".join(map(site.operand, factors))
    return text if len(factors) == 1 else f"({text})"


def _binds_tighter(site: Site, node: ast.AST) -> bool:
    parent = site.source.parents.get(node)
    return isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Attribute | ast.Compare) or (
        isinstance(parent, ast.Subscript) and parent.value is node
    )


@recipe("drop-float")
def drop_float(site: Site) -> Draft | None:
    """Replace `float(1.0 / n)` with `1.0 / n`, which is a float already."""
    for call in site.nearest(ast.Call):
        if site.call_name(call) != "float" or len(call.args) != 1 or call.keywords or not _is_float(call.args[0]):
            continue
        parent = site.source.parents.get(call)
        bare = isinstance(parent, ast.Assign | ast.Return | ast.keyword) or _only_argument(parent, call)
        text = site.text(call.args[0])
        edit = site.source.replace(call, text if bare else f"({text})")
        hazard = None if _is_quotient_of_sizes(site, call.args[0]) else "right only if it is a float already"
        return Draft("Drop float(): this is a float already", [edit], first=True, hazard=hazard)
    return None


def _is_float(node: ast.expr) -> bool:
    """Whether an expression of plain numbers gives a float by the look of it."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Div) or _is_float(node.left) or _is_float(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_float(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, float)


def _only_argument(parent: ast.AST | None, node: ast.expr) -> bool:
    return isinstance(parent, ast.Call) and node in parent.args


def _is_quotient_of_sizes(site: Site, node: ast.expr) -> bool:
    """Whether it divides a number by a size."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
        return False
    number = isinstance(node.left, ast.Constant) and isinstance(node.left.value, int | float)
    return (number or is_size(site, node.left)) and is_size(site, node.right)


@recipe("divmod-ops")
def divmod_ops(site: Site) -> Draft | None:
    """Replace `divmod(a, b)` with `(a // b, a % b)`."""
    for call in site.nearest(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "divmod" and len(call.args) == 2:
            left, right = (site.operand(a) for a in call.args)
            pair = f"{left} // {right}, {left} % {right}"
            parent = site.source.parents.get(call)
            sizes = all(is_size(site, each) for each in call.args)
            return Draft(
                "Use // and %",
                [site.source.replace(call, pair if isinstance(parent, ast.Assign) else f"({pair})")],
                first=sizes,
                hazard=None if sizes else "right only if both are numbers or tensors",
            )
    return None


_CONVERSIONS = {
    "int",
    "float",
    "complex",
    "round",
    "bool",
    "str",
    "math.ceil",
    "math.floor",
    "math.trunc",
    "operator.index",
}


@recipe("wrap-conversion", kind="lift")
def wrap_conversion(site: Site) -> Draft | None:
    """Put the conversion `float(e)` into a wrapped function, which is recorded as one call."""
    for call in site.nearest(ast.Call):
        name = site.call_name(call)
        if name not in _CONVERSIONS or not call.args or site.function is None:
            continue
        helper = site.source.fresh_name(f"_to_{name.rpartition('.')[2]}")
        parameters = ["value", "digits"][: len(call.args)]
        if len(parameters) != len(call.args) or call.keywords:
            return None
        function = site.text(call.func)
        unit = site.source.indent_unit
        definition = f"def {helper}({', '.join(parameters)}):\n{unit}return {function}({', '.join(parameters)})"
        edits = [
            *define_wrapped(site.source, site.function, helper, definition),
            site.source.replace(call.func, helper),
        ]
        return Draft(f"Convert the number in a function wrapped with torch.fx.wrap: {helper}", edits)
    return None


@recipe("wrap-index", kind="lift")
def wrap_index(site: Site) -> Draft | None:
    """Put the lookup `scales[n]` with a traced index into a wrapped function."""
    if site.function is None:
        return None
    for node in site.nearest(ast.Subscript):
        lift = lift_expression(site.source, node, site.function, "_look_up")
        if lift.edits is not None:
            title = f"Look up the item in a function wrapped with torch.fx.wrap: {lift.name}"
            return Draft(title, lift.edits, hazard=lift.hazard)
    return None


# NumPy name -> torch name, where the arguments mean the same; `axis` becomes `dim`, `keepdims` becomes `keepdim`.
_SAME = """
abs sqrt exp log log2 log10 log1p expm1 sin cos tan sinh cosh tanh floor ceil round sign square maximum
minimum where matmul dot outer sum mean prod cumsum cumprod argmax argmin argsort isnan isinf isfinite
logical_not logical_and logical_or stack squeeze diff einsum reciprocal trunc logaddexp hypot roll flip add
subtract multiply divide greater less equal argwhere zeros_like ones_like tril triu
"""
_TORCH_NAMES = {name: name for name in _SAME.split()} | {
    "concatenate": "cat",
    "power": "pow",
    "clip": "clamp",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "absolute": "abs",
    "fabs": "abs",
    "negative": "neg",
    "expand_dims": "unsqueeze",
    "max": "amax",
    "min": "amin",
    "amax": "amax",
    "amin": "amin",
}
_KEYWORDS = {"axis": "dim", "keepdims": "keepdim", "a_min": "min", "a_max": "max", "axes": "dims"}
_MATH_NAMES = {"sqrt", "exp", "log", "log2", "log10", "floor", "ceil", "sin", "cos", "tanh"}
_CONSTANTS = {"pi", "e", "inf", "nan"}


@recipe("np-to-torch", assumes="they are tensors, and the dtype that torch gives will do")
def np_to_torch(site: Site) -> Draft | None:
    """Replace `np.sqrt(x)` with `torch.sqrt(x)`, or with `math.sqrt(n)` for a size, which torch.fx records."""
    for call in site.nearest(ast.Call):
        name = site.call_name(call) or ""
        package, _, function = name.partition(".")
        if package != "numpy" or "." in function:
            continue
        if function in _MATH_NAMES and len(call.args) == 1 and _mentions_size(call.args[0]) and not call.keywords:
            text, edits = site.need(f"math.{function}")
            raises = f"math.{function} raises ValueError where NumPy gives nan or infinity"
            return Draft(f"Use math.{function}", [*edits, site.source.replace(call.func, text)], hazard=raises)
        if function in _TORCH_NAMES:
            changes = torch_call(site, call)
            if changes is None:
                return None
            return Draft(f"Use torch.{_TORCH_NAMES[function]}", changes)
    return None


def torch_call(site: Site, call: ast.Call) -> list[Edit] | None:
    """The edits that make torch's call of one of NumPy's; None where torch has none that means the same."""
    name = _TORCH_NAMES.get((site.call_name(call) or "").removeprefix("numpy."))
    allowed = {"dim", "keepdim", *_KEYWORDS, "decimals", "n"}
    if name is None or any(k.arg not in allowed for k in call.keywords):
        return None
    text, edits = site.need(f"torch.{name}")
    changes: list[Edit] = [*edits, site.source.replace(call.func, text)]
    for keyword in call.keywords:
        if keyword.arg in _KEYWORDS:
            start = (keyword.lineno, keyword.col_offset)
            end = (keyword.lineno, keyword.col_offset + len(keyword.arg.encode()))
            changes.append(site.source.replace_range(start, end, _KEYWORDS[keyword.arg]))
    return changes


def _mentions_size(node: ast.expr) -> bool:
    return any(_looks_like_size(n) for n in ast.walk(node) if isinstance(n, ast.expr))


_SCALARS = {
    bool: ("bool_",),
    int: ("int8", "int16", "int32", "int64", "uint8"),
    float: ("float16", "float32", "float64", "double", "single"),
}


@recipe("to-python-number", assumes="it is a single number")
def to_python_number(site: Site) -> Draft | None:
    """Replace `np.float32(0.5)` with `0.5`, and any other NumPy expression `e` with `e.item()`."""
    candidates = [n for n in ast.walk(site.node) if isinstance(n, ast.Call | ast.Attribute)]
    candidates += list(site.nearest(ast.Call, ast.Attribute))
    for node in candidates:
        dotted = site.bindings.resolve(node.func if isinstance(node, ast.Call) else node) or ""
        package, _, name = dotted.partition(".")
        if package != "numpy" or not isinstance(node, ast.Call):
            continue
        kind = next((kind for kind, names in _SCALARS.items() if name in names), None)
        if kind is not None and len(node.args) == 1:
            text = _plain(node.args[0], kind, name)
            if text is not None:
                return Draft("Use the plain number", [site.source.replace(node, text)])
        return Draft("Convert to a Python number", [site.source.replace(node, f"{site.text(node)}.item()")])
    return None


@recipe("plain-number", assumes="it is a number or a text in every construction, and no tensor")
def plain_number(site: Site) -> list[Draft]:
    """Replace `x / self.scale` with `x / float(self.scale)`, for a number of NumPy's or of another subclass."""
    node, plain = site.node, site.finding.data.get("plain")
    if isinstance(node, ast.BinOp):
        parts = [node.right, node.left]
    elif isinstance(node, ast.Call):
        parts = [*node.args, *(each.value for each in node.keywords)]
    else:
        parts = [node.value] if isinstance(node, ast.AugAssign) else []
    return [
        Draft(f"Use {text}", [site.source.replace(each, text)])
        for each in parts
        if plain is not None and _names_alone(each)
        for text in [f"{plain}({site.text(each)})"]
    ]


def _names_alone(value: ast.expr) -> bool:
    """Whether it reads names and calls nothing."""
    inside = [*ast.walk(value)]
    return any(isinstance(each, ast.Name) for each in inside) and not any(isinstance(each, ast.Call) for each in inside)


def _plain(value: ast.expr, kind: type, name: str) -> str | None:
    """The literal that a scalar of NumPy's is; None where it rounds it, or the text does not say."""
    try:
        number = ast.literal_eval(value)
    except ValueError:
        return None
    plain = kind(number) if type(number) in (bool, int, float) else None
    if plain != number:
        return None
    code = {"float16": "e", "float32": "f", "single": "f"}.get(name)
    try:
        rounded = struct.unpack(code, struct.pack(code, plain))[0] if code else plain
    except OverflowError:
        return None
    return repr(plain) if rounded == plain else None
