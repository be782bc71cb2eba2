"""The inputs of a trace: one placeholder per parameter of the root function, and what ``concrete_args`` fixes.

`create_root_arguments` is what `Tracer.create_args_for_root` does by default; it changes the graph only through the
tracer's override points.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from fxlib.capture.bytecode import with_code
from fxlib.codegen.function import _PyTreeCodeGen, _PyTreeInfo
from fxlib.ir.arguments import base_types
from fxlib.ir.span import parameter_site

if TYPE_CHECKING:
    from fxlib.capture.proxy import Proxy
    from fxlib.capture.tracer import Tracer
    from fxlib.ir.graph import Graph

__all__ = ["PH", "PHBase", "PHWithMeta", "create_root_arguments", "create_root_placeholder"]

_COLLECTING = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class PHBase:
    """In ``concrete_args``: this value is an input, not a constant."""

    def __repr__(self) -> str:
        return "PH"


class PHWithMeta(PHBase):
    """A `PHBase` whose attributes are copied to the placeholder's node."""

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


PH = PHBase()


def _assert_is_none(value: object, msg: str) -> None:
    """Raise AssertionError with ``msg`` unless ``value`` is None."""
    assert value is None, msg


# Recorded under its public module path, as torch.fx records its own.
_assert_is_none.__module__ = "fxlib._symbolic_trace"


def create_root_arguments(
    tracer: Tracer,
    root_fn: Callable[..., Any],
    is_module: bool,
    concrete_args: dict[str, Any] | tuple[Any, ...] | None,
) -> tuple[Callable[..., Any], list[Any]]:
    """Make the placeholders of ``root_fn``; returns the function to call and the arguments to call it with.

    ``*args`` and ``**kwargs`` become one placeholder each. When ``concrete_args`` holds collections, the returned
    function takes their leaves and the graph gets a code generator that flattens inputs and rebuilds outputs.

    Raises:
        RuntimeError: a method without a ``self`` parameter, or a tuple of ``concrete_args`` of the wrong length.
    """
    analysed: Any = inspect.unwrap(root_fn)
    code: CodeType = analysed.__code__
    plain, starred = _parameters(code)
    names = [*plain, *starred]
    args: list[Any] = [tracer.root] if is_module else []
    if len(plain) < len(args):
        raise RuntimeError(
            "``self`` argument cannot be part of *args expansion!"
            f" (give {getattr(root_fn, '__qualname__', 'forward')} a first parameter)"
        )
    if isinstance(concrete_args, tuple):
        if plain and starred:
            return root_fn, [*args, *(_numbered(tracer, *given) for given in enumerate(concrete_args))]
        concrete_args = _by_name(plain[len(args) :], concrete_args)

    signature = inspect.signature(analysed)
    for index in range(len(args), len(names)):
        tracer._site_base = parameter_site(code, index)
        args.append(tracer._proxy_placeholder(names[index], concrete_args, signature, analysed))
    if code.co_argcount < len(names):
        root_fn = _positional(root_fn, len(names))  # type: ignore[arg-type]

    leaves, spec = pytree.tree_flatten(tuple(args))
    if all(map(pytree.TreeSpec.is_leaf, spec.children())):
        return root_fn, args
    # The head of generated code has `self`, whatever a method calls it.
    return _flattened(tracer.graph, root_fn, ["self", *plain[1:]] if is_module else plain, spec), leaves


def _parameters(code: CodeType) -> tuple[list[str], list[str]]:
    """The names of a function's parameters: the plain ones, then ``*args`` and ``**kwargs`` with their stars. A frame's
    variables start in this order."""
    count = code.co_argcount + code.co_kwonlyargcount
    stars = [star for flag, star in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")) if code.co_flags & flag]
    rest = code.co_varnames[count:]
    return list(code.co_varnames[:count]), [star + name for star, name in zip(stars, rest, strict=False)]


def _by_name(names: list[str], values: tuple[Any, ...]) -> dict[str, Any]:
    if len(names) == len(values):
        return dict(zip(names, values, strict=True))
    raise RuntimeError(f"Tracing expected {len(names)} arguments but got {len(values)} concrete arguments")


def _numbered(tracer: Tracer, index: int, value: Any) -> Proxy:
    proxy = tracer.create_proxy("placeholder", f"input_{index}", (), {})
    if isinstance(value, PHBase):
        _transfer_attrs(value, proxy.node)
    return proxy


def _flattened(
    graph: Graph, function: Callable[..., Any], names: list[str], spec: pytree.TreeSpec
) -> Callable[..., Any]:
    """``function`` with its arguments' leaves as arguments and its result's leaves as result."""
    codegen = graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, spec, None))

    # Unannotated: the graph has the annotation of the traced function's result.
    def of_leaves(*leaves):  # type: ignore[no-untyped-def]
        return codegen.flattened_result(function(*spec.unflatten(leaves)))

    return of_leaves


def _positional(function: FunctionType, count: int) -> FunctionType:
    """``function`` with all its parameters positional and none of them starred, so that ``args`` can be a proxy."""
    plain: Any = {"co_argcount": count, "co_posonlyargcount": 0, "co_kwonlyargcount": 0}
    code = function.__code__
    return with_code(function, code.replace(**plain, co_flags=code.co_flags & ~_COLLECTING))


def create_root_placeholder(
    tracer: Tracer,
    name: str,
    concrete_args: dict[str, Any] | None,
    signature: inspect.Signature,
    fn: Callable[..., Any],
) -> Any:
    """The value of one parameter: a proxy, or the value from ``concrete_args``, whose leaves are checked when the graph
    runs."""
    fixed = concrete_args is not None and name in concrete_args
    default: tuple[Any, ...] = ()
    if fixed or not name.startswith("*"):
        declared = signature.parameters[name].default
        default = () if declared is inspect.Parameter.empty else (declared,)
    if concrete_args is None or not fixed:
        return tracer.create_proxy("placeholder", name, default, {}, type_expr=fn.__annotations__.get(name))
    leaves, spec = pytree.tree_flatten(concrete_args[name])
    bound = []
    for number, value in enumerate(leaves, 1):
        proxy = tracer.create_proxy("placeholder", f"{name}_{number}", default, {})
        if isinstance(value, PHBase):
            _transfer_attrs(value, proxy.node)
        else:
            _check(tracer, proxy, value, name)
        bound.append(proxy if isinstance(value, PHBase) else value)
    return spec.unflatten(bound)


# Types whose values are compared when the graph runs.
_COMPARED = frozenset(base_types) - {torch.Tensor}


def _check(tracer: Tracer, proxy: Proxy, value: Any, name: str) -> None:
    """Record that an input has the value that the trace is specialized for."""
    otherwise = f"{name} has been specialized to have value {value} but got another value"
    if value is None:
        tracer.create_proxy("call_function", _assert_is_none, (proxy, otherwise), {})
    elif type(value) in _COMPARED:
        torch._assert(proxy == value, otherwise)
    else:
        warnings.warn(
            f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up "
            "to the user to make sure that your inputs match the inputs you specialized the function with.",
            stacklevel=2,
        )


def _transfer_attrs(source: object, to: object) -> None:
    """Copy the data attributes that ``to`` does not have."""
    for name, value in inspect.getmembers(source, lambda member: not callable(member)):
        if not (name.startswith("__") or hasattr(to, name)):
            setattr(to, name, value)
