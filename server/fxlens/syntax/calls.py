"""What a call does with traced values: a table for builtins; rules for methods, torch, NumPy and the file itself."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .problems import Silent
from .values import FALSE, PLAIN, TRUE, UNKNOWN, Value, traced

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["call", "wants_number"]

# Builtins that fail on a traced first argument: name -> code.
_FAILING = {
    "len": "FX120", "reversed": "FX121", "int": "FX130", "float": "FX130", "complex": "FX130", "round": "FX131",
    "list": "FX110", "tuple": "FX110", "set": "FX110", "frozenset": "FX110", "iter": "FX110", "enumerate": "FX110",
    "sum": "FX114", "any": "FX114", "all": "FX114", "sorted": "FX114", "dict": "FX113",
}  # fmt: skip
_SIZE_FUNCTIONS = {"zeros", "ones", "empty", "rand", "randn"}
_RANDOM = {
    "torch.rand",
    "torch.randn",
    "torch.randint",
    "torch.randperm",
    "random.random",
    "random.randint",
    "random.uniform",
}
_SHAPE_METHODS = {"size", "dim", "numel", "ndimension", "stride", "element_size", "nelement", "is_floating_point"}
_NOT_SCRIPTING = {
    "torch.jit.is_scripting", "torch.jit.is_tracing", "torch.onnx.is_in_onnx_export", "torch.compiler.is_compiling",
    "torch.overrides.has_torch_function_unary",
}  # fmt: skip
# Calls whose text is for people: no finding for a frozen text in them.
_QUIET = {"_assert", "_check", "warn", "debug", "info", "warning", "error", "log", "format_exc"}
_DROPOUTS = re.compile(r"^torch\.nn\.functional\.(feature_)?(alpha_)?dropout\w*$")
_NUMBER_FORM = re.compile(r"%[-+ #0-9.]*[diouxXeEfFgG]")


def wants_number(form: str) -> bool:
    """Whether a `%` format has a field that accepts only a number."""
    return _NUMBER_FORM.search(form) is not None


def call(walk: Expressions, node: ast.Call) -> Value:
    """Report the problems of a call, and return its value."""
    name = walk.file.dotted(node.func) or ""
    bare = node.func.id if isinstance(node.func, ast.Name) else None
    if bare is not None and (bare in walk.names and walk.names[bare].kind != "unknown"):
        name = ""
    quiet = name.rpartition(".")[2] in _QUIET
    arguments, keywords = _arguments(walk, node, quiet)
    any_traced = any(v.is_traced or v.holds_traced for v in [*arguments, *keywords.values()])
    if bare is not None and (bare in walk.file.wrapped):
        return traced() if any_traced else UNKNOWN
    if isinstance(node.func, ast.Attribute):
        base = walk.value(node.func.value)
        if base.is_traced:
            return _method(walk, node, base)
        if base.kind in ("items", "literal"):
            return _collection_method(walk, node, base, arguments)
        own = _own_call(walk, node, arguments, keywords)
        if own is not None:
            return own
    if bare is not None and bare not in walk.file.functions and bare not in walk.functions and name == bare:
        return _builtin(walk, node, bare, arguments)
    if bare is not None and (bare in walk.functions or bare in walk.file.functions):
        function = walk.functions.get(bare) or walk.file.functions[bare]
        return _enter(walk, function, arguments, keywords, bound=False, nested=bare in walk.functions)
    return _library(walk, node, name, arguments, keywords, any_traced)


def _arguments(walk: Expressions, node: ast.Call, quiet: bool) -> tuple[list[Value], dict[str, Value]]:
    values: list[Value] = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            value = walk.value(argument.value)
            if value.is_traced:
                walk.report("FX112", argument)
            values.append(walk.element(value))
        elif quiet and isinstance(argument, ast.JoinedStr):
            values.append(walk.peek(argument))
        else:
            values.append(walk.value(argument))
    keywords: dict[str, Value] = {}
    for keyword in node.keywords:
        value = walk.value(keyword.value)
        if keyword.arg is None:
            if value.is_traced:
                walk.report("FX113", keyword.value)
        else:
            keywords[keyword.arg] = value
    return values, keywords


def _method(walk: Expressions, node: ast.Call, base: Value) -> Value:
    assert isinstance(node.func, ast.Attribute)
    method = node.func.attr
    if method in ("items", "keys", "values"):
        # Calls of `keys` and the like are recorded; iterating over their result fails.
        return traced("data")
    return traced("shape" if method in _SHAPE_METHODS or base.cause == "shape" else "data")


def _collection_method(walk: Expressions, node: ast.Call, base: Value, arguments: list[Value]) -> Value:
    """`items.append(x)` and the like, which change the known content of a local collection."""
    assert isinstance(node.func, ast.Attribute)
    if isinstance(node.func.value, ast.Name) and node.func.attr in ("append", "extend", "insert", "add", "update"):
        value = arguments[-1] if arguments else UNKNOWN
        element = "traced" if value.holds_traced and (base.element == "traced" or base.kind == "literal") else "unknown"
        walk.names[node.func.value.id] = Value("items", element=element)
        return PLAIN
    if node.func.attr == "format" and base.kind == "literal" and isinstance(base.constant, str):
        if any(a.is_traced for a in arguments):
            walk.report("FX205", node)
        return Value("literal")
    if node.func.attr in ("pop",):
        return walk.element(base)
    return UNKNOWN


def _own_call(walk: Expressions, node: ast.Call, arguments: list[Value], keywords: dict[str, Value]) -> Value | None:
    """`self.method(x)` and `self.layer(x)`; None for other calls."""
    function = node.func
    assert isinstance(function, ast.Attribute)
    if not (isinstance(function.value, ast.Name) and function.value.id == walk.self_name and walk.owner is not None):
        return None
    method = walk.file.method(walk.owner, function.attr)
    if method is not None:
        static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in method.decorator_list)
        if method.decorator_list and not static:
            return UNKNOWN
        return _enter(walk, method, arguments, keywords, bound=not static)
    layer = walk.file.layers(walk.owner).get(function.attr)
    given = any(v.is_traced for v in [*arguments, *keywords.values()])
    if layer in walk.file.modules:
        owner = walk.file.modules[layer]
        inner = walk.file.method(owner, "forward")
        return _enter(walk, inner, arguments, keywords, bound=True, owner=owner) if inner is not None else UNKNOWN
    return traced() if layer is not None and given else UNKNOWN


def _enter(
    walk: Expressions,
    function: ast.AST,
    arguments: list[Value],
    keywords: dict[str, Value],
    bound: bool,
    nested: bool = False,
    owner: ast.ClassDef | None = None,
) -> Value:
    """Walk into a function of the file; ``owner`` is the class of the method, if it differs from the caller's."""
    if walk.depth >= 6 or isinstance(function, ast.AsyncFunctionDef) or not isinstance(function, ast.FunctionDef):
        return UNKNOWN
    if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(function)):
        return UNKNOWN
    owner = owner or (walk.owner if bound or nested else None)
    key = (function, owner, walk.certain, tuple(arguments), tuple(sorted(keywords.items(), key=lambda k: k[0])))
    known = None if nested else walk.file.results.get(key)
    if known is not None and known[0] <= walk.depth:
        return known[1]
    if not nested:
        # A function that is already being walked has an unknown result, which also ends recursion.
        walk.file.results[key] = (walk.depth, UNKNOWN)
    child = type(walk)(walk.file, walk.problems, walk.target, owner, walk.depth + 1)
    child.certain = walk.certain
    if nested:
        child.names = dict(walk.names)
        child.self_name = walk.self_name
        child.functions = dict(walk.functions)
    result = child.called(function, arguments, keywords, bound)
    if not nested and not isinstance(walk.problems, Silent):
        walk.file.results[key] = (walk.depth, result)
    elif not nested:
        del walk.file.results[key]
    return result


def _builtin(walk: Expressions, node: ast.Call, name: str, arguments: list[Value]) -> Value:
    first = arguments[0] if arguments else UNKNOWN
    if name in walk.names:
        return UNKNOWN
    if name == "isinstance" and first.is_traced:
        # A test for another type than a tensor is False for a tensor as well.
        if len(node.args) == 2 and _names_tensor(walk, node.args[1]):
            walk.report("FX202", node)
        return FALSE
    if name in ("hasattr", "callable") and first.is_traced:
        walk.report("FX203", node)
        return TRUE
    if name == "bool" and first.is_traced:
        walk.report(walk.condition_code(node.args[0], first), node.args[0])
        return PLAIN
    if name in ("max", "min"):
        if len(arguments) == 1 and first.is_traced:
            walk.report("FX114", node)
        elif len(arguments) > 1 and any(a.is_traced for a in arguments):
            walk.report("FX106", node)
            return traced()
        return UNKNOWN
    if name in ("range", "divmod") and any(a.is_traced for a in arguments):
        walk.report("FX133" if name == "range" else "FX132", node)
        return PLAIN if name == "range" else UNKNOWN
    if name == "range":
        return Value("literal")
    if name in ("zip", "map", "filter"):
        for argument, value in zip(node.args, arguments, strict=True):
            if value.is_traced and not (name != "zip" and argument is node.args[0]):
                walk.report("FX110", argument)
        return Value("items", element="unknown")
    if name == "enumerate":
        if first.is_traced:
            walk.report("FX110", node.args[0])
        return Value("items", element="unknown")
    if name in _FAILING and first.is_traced:
        code = _FAILING[name]
        walk.report(code, node.args[0] if code == "FX110" else node)
        if code == "FX110":
            return Value("items", element="traced")
        return PLAIN
    if name in ("list", "tuple") and first.kind in ("items", "literal"):
        return first
    if name in ("str", "repr", "format") and first.is_traced:
        walk.report("FX205", node)
        return Value("literal")
    if name == "abs" and first.is_traced:
        return traced(first.cause)
    if name in ("int", "float", "len", "round", "abs", "bool") and first.kind == "plain":
        return PLAIN
    return PLAIN if name in ("isinstance", "hasattr", "callable") else UNKNOWN


def _names_tensor(walk: Expressions, node: ast.expr) -> bool:
    """Whether the types of an `isinstance` include a tensor class."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return any((walk.file.dotted(p) or "").rpartition(".")[2] in ("Tensor", "Parameter", "FloatTensor") for p in parts)


def _library(
    walk: Expressions, node: ast.Call, name: str, arguments: list[Value], keywords: dict[str, Value], any_traced: bool
) -> Value:
    package, _, function = name.rpartition(".")
    if name in _NOT_SCRIPTING:
        return FALSE
    if name == "torch.is_tensor" and arguments and arguments[0].is_traced:
        walk.report("FX202", node)
        return FALSE
    if name.startswith("numpy."):
        if any(a.is_traced for a in [*arguments, *keywords.values()]):
            walk.report("FX140", node)
        return UNKNOWN
    if name.startswith("torch.jit."):
        return UNKNOWN
    if (
        package == "torch"
        and function in _SIZE_FUNCTIONS
        and len(node.args) > 1
        and any(a.is_traced for a in arguments)
    ):
        walk.report("FX160", node)
        return traced()
    if name in _RANDOM and not any_traced and not any(v.kind in ("unknown", "items") for v in arguments):
        walk.report("FX206", node)
        return PLAIN
    if _DROPOUTS.match(name):
        for keyword in node.keywords:
            if keyword.arg == "training" and _is_training(walk, keyword.value):
                walk.report("FX207", keyword.value)
    if package == "math" and arguments and arguments[0].is_traced:
        return traced(arguments[0].cause)
    if (package == "torch" or name.startswith("torch.nn.functional.")) and any_traced:
        if function[:1].isupper() or function in ("tensor", "as_tensor", "from_numpy", "typename", "compile"):
            return UNKNOWN
        return traced()
    return UNKNOWN


def _is_training(walk: Expressions, node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "training"
        and isinstance(node.value, ast.Name)
        and node.value.id == walk.self_name
    )
