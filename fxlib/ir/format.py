"""How targets, types and arguments are written: in printed graphs and in generated code.

Pure functions from objects to text; ``node`` and ``codegen`` decide where it goes.
"""

import builtins
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils._dtype_abbrs import dtype_abbrs

if TYPE_CHECKING:
    from fxlib.ir.arguments import Target
    from fxlib.ir.node import Node

__all__: list[str] = []


_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.FunctionType)


# Objects whose name in torch differs from their own ``__name__``.
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
    """What a lambda is assigned to, or else its line. The name only has to differ from those of other lambdas."""
    try:
        line = inspect.getsource(func)
    except OSError as error:
        raise RuntimeError("Unable to represent lambda") from error
    return line.partition("=")[0].strip()


def _type_repr(obj: Any) -> str:
    """A type (or anything used as one) as it is written in an annotation."""
    if obj is Ellipsis:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    if isinstance(obj, types.GenericAlias) or not isinstance(obj, type):
        return repr(obj)
    place = "" if obj.__module__ == "builtins" else f"{obj.__module__}."
    return place + obj.__qualname__


# Modules whose functions are known under another name, or by their full name.
_SHOWN_AS: dict[str | None, str] = {"builtins": "builtins", "_operator": "operator"}


def _pretty_print_target(target: "Target") -> str:
    """A target as the printed graph shows it: builtins and operators under their familiar names."""
    place = _SHOWN_AS.get(getattr(target, "__module__", None))
    name = None if place is None else getattr(target, "__name__", None)
    if name is not None:
        return f"{place}.{name}"
    return target if isinstance(target, str) else _get_qualified_name(target)


def _format_arg(arg: Any, max_list_len: float = math.inf) -> str:
    """An argument as the printed graph shows it: nodes with a leading ``%``, long lists cut at ``max_list_len``."""
    own_form = getattr(arg, "_custom_fx_repr_fn", None)
    if own_form is not None:
        return own_form()
    if isinstance(arg, dict):
        return "{" + ", ".join([f"{key}: {_format_arg(value)}" for key, value in arg.items()]) + "}"
    if not isinstance(arg, (list, tuple)):
        return f"%{arg}" if hasattr(arg, "_input_nodes") else str(arg)
    rest = len(arg) > max_list_len
    texts = [_format_arg(item, max_list_len) for item in (arg[: math.ceil(max_list_len)] if rest else arg)]
    text = ", ".join(texts)
    if rest:
        text += f", ...[total_len={len(arg)}]"
    opening, closing = "[]" if isinstance(arg, list) else "()"
    return f"{opening}{text}{',' if isinstance(arg, tuple) and len(arg) == 1 else ''}{closing}"


SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
# Layouts without strides.
_WITHOUT_STRIDES = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def size_text(sizes: Iterable[Any], sym_repr: Callable[[Any], str] = repr) -> str:
    return f"[{', '.join([sym_repr(s) if isinstance(s, SYMBOLIC) else str(s) for s in sizes])}]"


class TensorText(NamedTuple):
    """A tensor in short: ``f32``, ``[2, 3]``, ``[3, 1]`` (empty where not wanted, or there are none), ``cpu``."""

    dtype: str
    shape: str
    stride: str
    device: str


def tensor_text(value: torch.Tensor, with_stride: bool, sym_repr: Callable[[Any], str] = repr) -> TensorText:
    stride = size_text(value.stride(), sym_repr) if with_stride and value.layout not in _WITHOUT_STRIDES else ""
    return TensorText(dtype_abbrs[value.dtype], size_text(value.shape, sym_repr), stride, str(value.device))


def recorded_value(node: "Node") -> Any:
    """The node's value that propagation stored in ``meta``, or None."""
    return next((node.meta[key] for key in ("val", "tensor_meta", "example_value") if key in node.meta), None)


def _kind_text(node: "Node", with_tensor: bool) -> str:
    """The type to print after a node's name, followed by a blank; empty if there is none."""
    value = recorded_value(node) if with_tensor and node.op.startswith("call_") else None
    if isinstance(value, torch.Tensor):
        return f'Tensor "{"".join(tensor_text(value, with_stride=True))}"'
    return f"{_type_repr(node.type)} " if node.type else ""


def format_node(
    self: "Node",
    placeholder_names: list[str] | None = None,
    maybe_return_typename: list[str] | None = None,
    *,
    include_tensor_metadata: bool = False,
) -> str | None:
    """The node as one line of the printed graph.

    Args:
        placeholder_names: accepted, but not used.
        maybe_return_typename: if given, the type of the output is written to its first element.
        include_tensor_metadata: show dtype, shape, strides and device of the value where ``meta`` has it.
    """
    if self.op == "output":
        if self.type and maybe_return_typename is not None:
            maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
        return f"return {self.args[0]}"
    target = self.target if self.op == "placeholder" else _pretty_print_target(self.target)
    kind = _kind_text(self, include_tensor_metadata) if include_tensor_metadata or self.type else ""
    text = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
    return f"{text}[target={target}]{_arguments_text(self)}"


def _arguments_text(node: "Node") -> str:
    if node.op == "placeholder":
        assert isinstance(node.target, str), f"Expected target to be str, got {type(node.target)}"
        return f"(default={node.args[0]})" if node.args else ""
    if node.op == "get_attr":
        return ""
    return f"(args = {_format_arg(node.args)}, kwargs = {_format_arg(node.kwargs)})"


def _table(headers: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
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
    """``BatchNorm2d`` as ``batch_norm2d``: a class or function name in the form used in node names."""
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

# The names of subscripted builtin collections whose annotation came from ``typing``.
_origin_type_map: dict[type, Any] = {
    list: typing.List,  # noqa: UP006
    dict: typing.Dict,  # noqa: UP006
    set: typing.Set,  # noqa: UP006
    frozenset: typing.FrozenSet,  # noqa: UP006
    tuple: typing.Tuple,  # noqa: UP006
}
