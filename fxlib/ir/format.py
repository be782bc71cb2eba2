"""How targets, types and arguments are written: in printed graphs and in generated code.

Pure functions from objects to text; which text goes where is left to ``node`` and ``codegen``.
"""

import builtins
import inspect
import math
import re
import types
import typing
from collections.abc import Callable
from typing import Any

import torch

__all__: list[str] = []


_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.FunctionType)


# Where torch has something under another name than it has itself.
_PUBLIC_NAMES = {
    "torch.segment_reduce": "torch._segment_reduce",
    "torch.nn.functional._ScalingType": "torch.nn.functional.ScalingType",
    "torch.nn.functional._SwizzleType": "torch.nn.functional.SwizzleType",
}
_NAMES = {"torch": vars(torch), "torch.nn.functional": vars(torch.nn.functional)}


def _find_module_of_method(orig_method: Callable[..., Any]) -> str:
    """The module in whose namespace a function is found."""
    if found := orig_method.__module__:
        return found
    name = orig_method.__name__
    for namespace, names in _NAMES.items():
        if names.get(name) is orig_method:
            return namespace
    raise RuntimeError(f"cannot find module for {orig_method}")


def _get_qualified_name(func: Callable[..., Any]) -> str:
    """The dotted name under which generated code calls a function.

    Raises:
        RuntimeError: the function lives in no module that can be found.
    """
    name: str = func.__name__
    if vars(builtins).get(name) is func:
        return name
    if isinstance(func, _METHODS) and getattr(torch.Tensor, name, None) is func:
        return f"torch.Tensor.{name}"
    if name == "<lambda>":
        name = _name_of_lambda(func)
    place = re.sub(r"^torch\._ops\b", "torch.ops", _find_module_of_method(func))
    dotted = f"{place}.{name}"
    return _PUBLIC_NAMES.get(dotted, dotted)


def _name_of_lambda(func: Callable[..., Any]) -> str:
    """What a lambda is assigned to, or the line that it is in: it has to be told from others, not to be found."""
    try:
        line = inspect.getsource(func)
    except OSError as error:
        raise RuntimeError("Unable to represent lambda") from error
    return line.partition("=")[0].strip()


def _type_repr(obj: Any) -> str:
    """A type (or anything used as one) as it is written in an annotation."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        name = obj.__qualname__
        return name if obj.__module__ == builtins.__name__ else f"{obj.__module__}.{name}"
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return "..." if obj is Ellipsis else repr(obj)


def _pretty_print_target(target: Any) -> str:
    """A target as the printed graph shows it: builtins and operators under the names people know them by."""
    if isinstance(target, str):
        return target
    if hasattr(target, "__module__"):
        name = getattr(target, "__name__", None)
        if name is None:
            return _get_qualified_name(target)
        if target.__module__ == "builtins":
            return f"builtins.{name}"
        if target.__module__ == "_operator":
            return f"operator.{name}"
    return _get_qualified_name(target)


def _format_arg(arg: Any, max_list_len: float = math.inf) -> str:
    """An argument as the printed graph shows it: nodes with a leading ``%``, long lists cut at ``max_list_len``."""
    custom = getattr(arg, "_custom_fx_repr_fn", None)
    if custom is not None:
        return custom()
    if isinstance(arg, (list, tuple)):
        shown = [_format_arg(a, max_list_len) for i, a in enumerate(arg) if i < max_list_len]
        text = ", ".join(shown)
        if len(arg) > max_list_len:
            text += f", ...[total_len={len(arg)}]"
        if isinstance(arg, list):
            return f"[{text}]"
        return f"({text},)" if len(arg) == 1 else f"({text})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    if hasattr(arg, "_input_nodes"):
        return "%" + str(arg)
    return str(arg)


def _format_node(node: Any, return_typename: list[str] | None) -> str:
    """A node as one line of the printed graph; see ``Node.format_node``."""
    op = node.op
    if op == "output":
        if node.type and return_typename is not None:
            return_typename[0] = f" -> {_type_repr(node.type)}"
        return f"return {node.args[0]}"
    kind = f"{_type_repr(node.type)} " if node.type else ""
    value = f"%{node.name} : {kind}[num_users={len(node.users)}] = {op}"
    if op == "placeholder":
        assert isinstance(node.target, str), f"Expected target to be str, got {type(node.target)}"
        return f"{value}[target={node.target}]" + (f"(default={node.args[0]})" if node.args else "")
    target = f"[target={_pretty_print_target(node.target)}]"
    if op == "get_attr":
        return value + target
    return f"{value}{target}(args = {_format_arg(node.args)}, kwargs = {_format_arg(node.kwargs)})"


def _table(headers: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Columns aligned left under underlined headers, as ``tabulate`` prints them."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    lines = [list(headers), ["-" * width for width in widths], *cells]
    return "\n".join(
        "  ".join([cell.ljust(width) for cell, width in zip(line, widths, strict=True)]).rstrip() for line in lines
    )


# --- names of nodes ---------------------------------------------------------------------------------------------------

_CAPITAL_AFTER_SMALL = re.compile("(?<=[a-z])([A-Z])")
_snake_cases: dict[str, str] = {}


def _snake_case(s: str) -> str:
    """``BatchNorm2d`` as ``batch_norm2d``: the word a class or function name becomes in a node's name."""
    known = _snake_cases.get(s)
    if known is None:
        known = _snake_cases[s] = _CAPITAL_AFTER_SMALL.sub(r"_\1", s).lower()
    return known


def _is_magic(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


# --- operators --------------------------------------------------------------------------------------------------------

reflectable_magic_methods = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "div": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}

magic_methods = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    **reflectable_magic_methods,
}

inplace_methods = {
    "iadd": "{} += {}",
    "iand": "{} &= {}",
    "ifloordiv": "{} //= {}",
    "ilshift": "{} <<= {}",
    "imod": "{} %= {}",
    "imul": "{} *= {}",
    "imatmul": "{} @= {}",
    "ior": "{} |= {}",
    "ipow": "{} **= {}",
    "irshift": "{} >>= {}",
    "isub": "{} -= {}",
    "itruediv": "{} /= {}",
    "ixor": "{} ^= {}",
    "setitem": "{}[{}] = {}",
}

# What subscripted builtin collections are called where the annotation came from ``typing``.
_origin_type_map: dict[type, Any] = {
    list: typing.List,  # noqa: UP006
    dict: typing.Dict,  # noqa: UP006
    set: typing.Set,  # noqa: UP006
    frozenset: typing.FrozenSet,  # noqa: UP006
    tuple: typing.Tuple,  # noqa: UP006
}
