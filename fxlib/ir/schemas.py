"""Signatures of torch's operators, and calls brought into one form.

A graph may hold the same call in many spellings: positional, by keyword, with defaults left out. ``normalize_function``
and ``normalize_module`` give one. Signatures of builtin operators are read from their schemas.
"""

from __future__ import annotations

import enum
import inspect
import numbers
import types
import typing
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch._jit_internal import boolean_dispatched
from torch._ops import OpOverload, OpOverloadPacket

if TYPE_CHECKING:
    from fxlib.ir.arguments import Argument

__all__ = [
    "ArgsKwargsPair",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]


class ArgsKwargsPair(NamedTuple):
    """The arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class _QuotedNames:
    """Resolves ``__torch__.torch.classes.…`` of a schema's type: ``torch`` at its root, registered classes below."""

    def __getattr__(self, name: str) -> Any:
        if name == "torch":
            return torch
        raise RuntimeError("Expected a torch name")


_TYPES: dict[str, Any] = {
    **{name: getattr(typing, name) for name in typing.__all__},
    "Tensor": torch.Tensor,
    "Device": torch.device,
    "Layout": torch.layout,
    "number": numbers.Number,
    "Future": torch.jit.Future,
    "AnyEnumType": enum.Enum,
    "QScheme": torch.qscheme,
    "__torch__": _QuotedNames(),
    "NoneType": type(None),
    "Storage": torch.UntypedStorage,
    "PyObject": Any,
    "t": typing.TypeVar("t"),
}

_BINDABLE = frozenset({inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY})
# `from` is a keyword of Python, so these operators have a positional-only parameter that nevertheless has to be named.
_RANDOM_PARAMETERS = ["input", "from", "to", "generator"]

_signatures: dict[str, inspect.Signature] = {}


def _python_type(schema_type: Any) -> Any:
    return eval(schema_type.annotation_str, _TYPES)


# The name that programs import.
_torchscript_type_to_python_type = _python_type


def _signature_of_schema(schema: Any) -> inspect.Signature:
    text = str(schema)
    known = _signatures.get(text)
    if known is not None:
        return known
    kinds = inspect.Parameter
    parameters: list[inspect.Parameter] = []
    for argument in schema.arguments:
        name = "input" if argument.name == "self" else argument.name
        kind: Any = kinds.KEYWORD_ONLY if argument.kwarg_only else kinds.POSITIONAL_OR_KEYWORD
        if name == "from":
            # Everything before a positional-only parameter has to be positional-only too.
            kind = kinds.POSITIONAL_ONLY
            parameters = [parameter.replace(kind=kind) for parameter in parameters]
        default = argument.default_value if argument.has_default_value() else kinds.empty
        annotation = _python_type(argument.type)
        parameters.append(_parameter(name, kind, default, annotation))
    returned = [_python_type(value.type) for value in schema.returns]
    annotation = None if not returned else returned[0] if len(returned) == 1 else tuple(returned)
    signature = inspect.Signature(parameters, return_annotation=annotation)
    _signatures[text] = signature
    return signature


def _parameter(name: str, kind: Any, default: Any, annotation: Any) -> inspect.Parameter:
    if name == "from":
        # Parameter refuses keywords as names of anything that is not positional-only, and as such in its constructor.
        made = inspect.Parameter("from_", kind, default=default, annotation=annotation)
        made._name = name  # type: ignore[attr-defined]
        return made
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _nonzero_signatures() -> list[inspect.Signature]:
    tensor = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=torch.Tensor)
    as_tuple = inspect.Parameter("as_tuple", inspect.Parameter.KEYWORD_ONLY, annotation=bool)
    return [inspect.Signature(parameters, return_annotation=None) for parameters in ([tensor], [tensor, as_tuple])]


_OVERRIDES: dict[Any, list[inspect.Signature]] = {torch.nonzero: _nonzero_signatures()}


def _schemas_of(op: Any) -> list[Any] | None:
    if isinstance(op, OpOverload):
        return [op._schema]
    if isinstance(op, OpOverloadPacket):
        return [getattr(op, name)._schema for name in op.overloads()]
    builtin = torch.jit._builtins._find_builtin(op)
    return None if builtin is None else torch._C._jit_get_schemas_for_operator(builtin)


def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """The signatures of the overloads of an operator.

    Args:
        op: a builtin of torch, an operator packet, or one overload.
        return_schemas: return the pair ``(signatures, schemas)``.

    Returns:
        a list of ``inspect.Signature``, or ``None`` where ``op`` has none (a pair of them with ``return_schemas``).
    """
    override = None if isinstance(op, (OpOverload, OpOverloadPacket)) else _OVERRIDES.get(op)
    if override:
        return (override, None) if return_schemas else None
    schemas = _schemas_of(op)
    if schemas is None:
        return (None, None) if return_schemas else None
    signatures = [_signature_of_schema(schema) for schema in schemas]
    return (signatures, schemas) if return_schemas else signatures


def check_for_mutable_operation(
    target: Callable[..., Any], args: tuple[Argument, ...], kwargs: dict[str, Argument]
) -> None:
    """Raises when a call would mutate an operand.

    The overload has to be known for that: where none or several fit, nothing is raised.

    Raises:
        RuntimeError: the call changes an operand in place, or writes to ``out``.
    """
    signatures, schemas = get_signature_for_torch_op(target, return_schemas=True)
    if not signatures or not schemas:
        return
    fitting = []
    for signature, schema in zip(signatures, schemas, strict=False):
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            continue
        fitting.append(schema)
    if len(fitting) == 1 and fitting[0].is_mutable:
        raise RuntimeError(
            f"Tried to trace mutable operation {fitting[0]}. FX only supports functional code, so operations that "
            "mutate operands in-place (e.g. via `out` arguments) are not supported"
        )


def create_type_hint(x: object) -> object:
    """A type hint for a value's type: of a list or tuple of types the hint of the most general one, else ``x`` itself.

    ``[int, bool]`` gives ``list[int]``, ``(int, str)`` gives ``tuple[Any, ...]``, ``int`` gives ``int``.
    """
    try:
        if isinstance(x, (list, tuple)):
            element: Any = Any
            if x:
                element = x[0]
                for entry in x:
                    if issubclass(element, entry):
                        element = entry
                    elif not issubclass(entry, element):
                        element = Any
                        break
            return list[element] if isinstance(x, list) else tuple[element, ...]
    except Exception:
        warnings.warn(f"We were not able to successfully create type hint from the type {x}")
    return x


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether an argument of type ``argument_type`` can be passed for a parameter annotated with ``signature_type``."""
    if signature_type is argument_type:
        return True
    origin = typing.get_origin(signature_type)
    if origin is typing.Union or origin is types.UnionType:
        if signature_type == argument_type:
            return True
        return any(type_matches(choice, argument_type) for choice in typing.get_args(signature_type))
    if origin is list:
        element = typing.get_args(signature_type)[0] if typing.get_args(signature_type) else Any
        if element is int and argument_type is int:
            # An int[2] parameter takes a single int.
            return True
        return _list_matches(signature_type, element, argument_type)
    if signature_type is numbers.Number and argument_type in {int, float}:
        return True
    if signature_type is int and argument_type is torch.dtype:
        # Schemas know dtypes as integers.
        return True
    if inspect.isclass(signature_type) and inspect.isclass(argument_type) and typing.get_origin(argument_type) is None:
        return issubclass(argument_type, signature_type)
    return False


def _list_matches(signature_type: Any, element: Any, argument_type: Any) -> bool:
    if signature_type == argument_type:
        return True
    if not inspect.isclass(element):
        warnings.warn(f"Does not support nested parametric types, got {signature_type}. Please file a bug.")
        return False
    if typing.get_origin(element) is not None:
        warnings.warn(f"Does not support nested parametric types, got {signature_type}. Please file a bug.")
        return False
    origin, parts = typing.get_origin(argument_type), typing.get_args(argument_type)
    if origin is list:
        return bool(parts) and inspect.isclass(parts[0]) and issubclass(parts[0], element)
    if origin is tuple:
        return all(
            part is Ellipsis or part == () or (inspect.isclass(part) and issubclass(part, element)) for part in parts
        )
    return False


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call matched to the function's parameters, defaults filled in.

    Args:
        target: a function of torch or any function of Python without positional-only or variadic parameters.
        args, kwargs: what it is called with; values or nodes.
        arg_types, kwarg_types: their types, where overloads cannot be told apart by the number of arguments.
        normalize_to_only_use_kwargs: everything by keyword; else what was positional stays so.

    Returns:
        the new arguments; ``None`` when no signature fits or none is known.

    Raises:
        RuntimeError: several overloads fit and no types were given.
        TypeError: the arguments do not fit the signature of a Python function.
    """
    kwargs = {} if kwargs is None else kwargs
    if isinstance(target, (types.BuiltinFunctionType, OpOverload, OpOverloadPacket)):
        signature = _choose_overload(target, args, kwargs, arg_types, kwarg_types)
    else:
        function: Any = target
        dispatch = None
        if not isinstance(target, str) and target in boolean_dispatched:
            dispatch = boolean_dispatched[target]
        if dispatch is not None:
            function = dispatch["if_true"]
            both = (inspect.signature(dispatch["if_true"]), inspect.signature(dispatch["if_false"]))
            if both[0].parameters != both[1].parameters:
                return None
        if not callable(function):
            raise AssertionError(f"target_for_analysis must be callable, got {type(function)}")
        signature = inspect.signature(inspect.unwrap(function))
    if signature is None:
        return None
    return _bind(signature, args, kwargs, normalize_to_only_use_kwargs)


def _choose_overload(
    target: Any, args: Any, kwargs: dict[str, Any], arg_types: Any, kwarg_types: Any
) -> inspect.Signature | None:
    signatures = get_signature_for_torch_op(target)
    if not signatures:
        return None
    fitting = []
    for candidate in signatures:
        try:
            candidate.bind(*args, **kwargs)
        except TypeError:
            continue
        fitting.append(candidate)
    if len(fitting) <= 1:
        return fitting[0] if fitting else None
    if arg_types is None and kwarg_types is None:
        shown = "\n".join(str(candidate) for candidate in fitting)
        raise RuntimeError(
            f"Tried to normalize arguments to {torch.typename(target)} but the schema match was ambiguous! "
            f"Please provide argument types to the normalize_arguments() call. Available schemas:\n{shown}"
        )
    for candidate in signatures:
        try:
            bound = candidate.bind(*(arg_types or ()), **(kwarg_types or {}))
        except TypeError:
            continue
        # All are asked, also after one has failed: a type that cannot be judged is worth its warning.
        verdicts = [type_matches(candidate.parameters[name].annotation, kind) for name, kind in bound.arguments.items()]
        if all(verdicts):
            return candidate
    return None


def normalize_module(
    root: torch.nn.Module,
    target: str,
    args: tuple[Any],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of a submodule, as ``normalize_function`` does. Only for the modules of ``torch.nn``.

    Raises:
        RuntimeError: ``root`` has no submodule ``target``.
    """
    try:
        submodule = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from error
    kind = type(submodule)
    if getattr(torch.nn, kind.__name__, None) is not kind:
        return None
    signature = inspect.signature(inspect.unwrap(submodule.forward))
    return _bind(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _bind(signature: inspect.Signature, args: Any, kwargs: dict[str, Any], only_kwargs: bool) -> ArgsKwargsPair | None:
    parameters = signature.parameters
    names = list(parameters)
    if names != _RANDOM_PARAMETERS and any(p.kind not in _BINDABLE for p in parameters.values()):
        return None
    values = _bound_values(parameters, args, kwargs)
    positional = 0 if only_kwargs else len(args)
    return ArgsKwargsPair(
        tuple(values[name] for name in names[:positional]), {name: values[name] for name in names[positional:]}
    )


def _bound_values(parameters: Any, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The value of every parameter, in the order of the parameters."""
    positional = [p.name for p in parameters.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(args) > len(positional):
        raise TypeError(f"Too many positional arguments: expected max {len(positional)}, got {len(args)}")
    given = dict(zip(positional, args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise TypeError(f"Multiple values for argument {name!r}")
        given[name] = value
    values = {}
    for name, parameter in parameters.items():
        if name in given:
            values[name] = given[name]
        elif parameter.default is not inspect.Parameter.empty:
            values[name] = parameter.default
        else:
            raise TypeError(f"Missing required argument {name!r}")
    for name in kwargs:
        if name not in parameters:
            raise TypeError(f"Got an unexpected keyword argument {name!r}")
    return values


def _normalize_function_or_error(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair:
    """``normalize_function`` that raises RuntimeError where that returns ``None``."""
    pair = normalize_function(target, args, kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs)
    if pair is None:
        raise RuntimeError(f"Failed to normalize function {target} with args {args} and kwargs {kwargs}")
    return cast(ArgsKwargsPair, pair)
