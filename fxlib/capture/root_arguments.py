"""The inputs of a trace: one placeholder per parameter of the root function, and what ``concrete_args`` fixes.

`create_root_arguments` is what `Tracer.create_args_for_root` does by default; it speaks to the graph through the
tracer's own override points only.
"""

from __future__ import annotations

import inspect
import types
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from fxlib.codegen.function import _PyTreeCodeGen, _PyTreeInfo
from fxlib.ir.arguments import base_types
from fxlib.ir.span import parameter_site

if TYPE_CHECKING:
    from fxlib.capture.tracer import Tracer

__all__ = ["PH", "PHBase", "PHWithMeta", "create_root_arguments", "create_root_placeholder"]

_VARSTUFF = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


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


# Recorded as torch.fx records its own: under the module that users know.
_assert_is_none.__module__ = "fxlib._symbolic_trace"


def create_root_arguments(
    tracer: Tracer,
    root_fn: Callable[..., Any],
    is_module: bool,
    concrete_args: dict[str, Any] | tuple[Any, ...] | None,
) -> tuple[Callable[..., Any], list[Any]]:
    """Make the placeholders of ``root_fn``; returns the function to call and the arguments to call it with.

    ``*args`` and ``**kwargs`` become one placeholder each, whose proxy is what the name means in the function. When
    ``concrete_args`` holds collections, the returned function takes their leaves and the graph gets a code generator
    that flattens inputs and rebuilds outputs.

    Raises:
        RuntimeError: a method without a ``self`` parameter, or a tuple of ``concrete_args`` of the wrong length.
    """
    analysed = inspect.unwrap(root_fn)
    code = analysed.__code__
    named = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames)
    args: list[Any] = []
    if is_module:
        if named == 0:
            raise RuntimeError(
                "``self`` argument cannot be part of *args expansion!"
                f" (give {getattr(root_fn, '__qualname__', 'forward')} a first parameter)"
            )
        args.append(tracer.root)
    start = len(args)
    signature = inspect.signature(analysed)
    parameters = names[start:named]

    if isinstance(concrete_args, tuple):
        if code.co_flags & _VARSTUFF and named > 0:
            return root_fn, [*args, *(_numbered_input(tracer, i, value) for i, value in enumerate(concrete_args))]
        if len(parameters) != len(concrete_args):
            raise RuntimeError(
                f"Tracing expected {len(parameters)} arguments but got {len(concrete_args)} concrete arguments"
            )
        concrete_args = dict(zip(parameters, concrete_args, strict=True))

    for index, name in enumerate(parameters, start):
        tracer._site_base = parameter_site(code, index)
        args.append(tracer._proxy_placeholder(name, concrete_args, signature, analysed))
    if code.co_kwonlyargcount > 0 or code.co_flags & _VARSTUFF:
        index = named
        for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
            if code.co_flags & flag:
                tracer._site_base = parameter_site(code, index)
                args.append(tracer._proxy_placeholder(stars + names[index], concrete_args, signature, analysed))
                index += 1
        root_fn = _positional(root_fn, len(args))  # type: ignore[arg-type]

    flat, spec = pytree.tree_flatten(tuple(args))
    if all(child.is_leaf() for child in spec.children()):
        return root_fn, args
    return _flattened(tracer, root_fn, names[:named], spec), flat


def _numbered_input(tracer: Tracer, index: int, value: Any) -> Any:
    proxy = tracer.create_proxy("placeholder", f"input_{index}", (), {})
    if isinstance(value, PHBase) and value is not PH:
        _transfer_attrs(value, proxy.node)
    return proxy


def _flattened(tracer: Tracer, root_fn: Callable[..., Any], names: list[str], spec: Any) -> Callable[..., Any]:
    """``root_fn`` with its arguments' leaves as arguments and its result's leaves as result."""
    tracer.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, spec, None))

    # Not annotated: what the traced function returns is annotated in the graph.
    def flatten_fn(*leaves):  # type: ignore[no-untyped-def]
        result = root_fn(*pytree.tree_unflatten(list(leaves), spec))
        out, out_spec = pytree.tree_flatten(result)
        codegen = tracer.graph._codegen
        if not isinstance(codegen, _PyTreeCodeGen):
            raise AssertionError(f"Expected _codegen to be _PyTreeCodeGen, got {type(codegen)}")
        codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
        return out

    return flatten_fn


def _positional(fn: types.FunctionType, count: int) -> types.FunctionType:
    """``fn`` with all its parameters positional and none of them starred, so that ``args`` can be a proxy."""
    code = fn.__code__
    plain = code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=code.co_flags & ~_VARSTUFF
    )
    return types.FunctionType(plain, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


def create_root_placeholder(
    tracer: Tracer,
    name: str,
    concrete_args: dict[str, Any] | None,
    signature: inspect.Signature,
    fn: Callable[..., Any],
) -> Any:
    """The value of one parameter: a proxy, or what ``concrete_args`` says, its leaves checked when the graph runs."""
    if concrete_args is not None and name in concrete_args:
        return _concrete(tracer, name, concrete_args[name], signature)
    default: tuple[Any, ...] = ()
    if name[0] != "*":
        default = _default(signature, name)
    return tracer.create_proxy("placeholder", name, default, {}, type_expr=fn.__annotations__.get(name, None))


def _default(signature: inspect.Signature, name: str) -> tuple[Any, ...]:
    value = signature.parameters[name].default
    return () if value is inspect.Parameter.empty else (value,)


def _concrete(tracer: Tracer, name: str, value: Any, signature: inspect.Signature) -> Any:
    count = 0

    def leaf(x: Any) -> Any:
        nonlocal count
        count += 1
        out = tracer.create_proxy("placeholder", f"{name}_{count}", _default(signature, name), {})
        if isinstance(x, PHBase):
            if x is not PH:
                _transfer_attrs(x, out.node)
            return out
        if isinstance(x, bool) or (type(x) in base_types and type(x) is not torch.Tensor):
            torch._assert(out == x, f"{name} has been specialized to have value {x} but got another value")
        elif x is None:
            message = f"{name} has been specialized to have value None but got another value"
            tracer.create_proxy("call_function", _assert_is_none, (out, message), {})
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up "
                "to the user to make sure that your inputs match the inputs you specialized the function with.",
                stacklevel=2,
            )
        return x

    return pytree.tree_map(leaf, value)


def _transfer_attrs(source: Any, to: Any) -> None:
    """Copy the data attributes that ``to`` does not have."""
    for name in dir(source):
        if name.startswith("__") or hasattr(to, name):
            continue
        value = getattr(source, name)
        if not callable(value):
            setattr(to, name, value)
