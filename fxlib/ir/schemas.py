"""Signatures of torch's operators, read from their schemas."""

from __future__ import annotations

import enum
import functools
import inspect
import numbers
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

if TYPE_CHECKING:
    from fxlib.ir.arguments import Argument

__all__ = ["binds", "check_for_mutable_operation", "get_signature_for_torch_op"]


class _QuotedNames:
    """Resolves ``__torch__.torch.classes.…`` in a schema's type to ``torch`` and its registered classes."""

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

_signatures: dict[str, inspect.Signature] = {}


def _python_type(schema_type: torch._C.JitType) -> Any:
    return eval(schema_type.annotation_str, _TYPES)


# The public name.
_torchscript_type_to_python_type = _python_type


def _signature_of_schema(schema: torch.FunctionSchema) -> inspect.Signature:
    text = str(schema)
    if text not in _signatures:
        returned = [_python_type(value.type) for value in schema.returns]
        annotation = tuple(returned) if len(returned) > 1 else next(iter(returned), None)
        _signatures[text] = inspect.Signature(_parameters(schema), return_annotation=annotation)
    return _signatures[text]


def _parameters(schema: torch.FunctionSchema) -> list[inspect.Parameter]:
    names = [argument.name for argument in schema.arguments]
    # `from` is a keyword of Python: such a parameter, and all before it, must be positional-only.
    positional_only = names.index("from") + 1 if "from" in names else 0
    return [_parameter(argument, i < positional_only) for i, argument in enumerate(schema.arguments)]


def _parameter(argument: torch.Argument, positional_only: bool) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    made = inspect.Parameter(
        {"self": "input", "from": "from_"}.get(argument.name, argument.name),
        inspect.Parameter.POSITIONAL_ONLY if positional_only else kind,
        default=argument.default_value if argument.has_default_value() else inspect.Parameter.empty,
        annotation=_python_type(argument.type),
    )
    if argument.name == "from":
        # The constructor rejects keywords as names.
        made._name = "from"  # type: ignore[attr-defined]
    return made


def _nonzero_signatures() -> list[inspect.Signature]:
    tensor = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=torch.Tensor)
    as_tuple = inspect.Parameter("as_tuple", inspect.Parameter.KEYWORD_ONLY, annotation=bool)
    return [inspect.Signature(parameters, return_annotation=None) for parameters in ([tensor], [tensor, as_tuple])]


# The one operator with an overload in Python that its schemas lack; known by its signatures alone.
_NONZERO = _nonzero_signatures()


_Schemas = list[torch.FunctionSchema]


@functools.singledispatch
def _schemas_of(op: object) -> _Schemas | None:
    builtin = torch.jit._builtins._find_builtin(op)
    return None if builtin is None else torch._C._jit_get_schemas_for_operator(builtin)


@_schemas_of.register
def _(op: OpOverload) -> _Schemas | None:
    return [op._schema]


@_schemas_of.register
def _(op: OpOverloadPacket) -> _Schemas | None:
    return [getattr(op, name)._schema for name in op.overloads()]


def _signatures_and_schemas(op: object) -> tuple[list[inspect.Signature] | None, _Schemas | None]:
    if op is torch.nonzero:
        return _NONZERO, None
    schemas = _schemas_of(op)
    return None if schemas is None else list(map(_signature_of_schema, schemas)), schemas


def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """The signatures of the overloads of an operator.

    Args:
        op: a builtin of torch, an operator packet, or one overload.
        return_schemas: return the pair ``(signatures, schemas)``.

    Returns:
        a list of ``inspect.Signature``, or ``None`` where ``op`` has none (a pair of them with ``return_schemas``).
    """
    pair = _signatures_and_schemas(op)
    return pair if return_schemas else pair[0] if pair[1] is not None else None


def binds(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call with these arguments fits a signature."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def check_for_mutable_operation(
    target: Callable[..., Any], args: tuple[Argument, ...], kwargs: dict[str, Argument]
) -> None:
    """Raises when a call would mutate an operand.

    This requires a unique overload; if none or several fit, nothing is raised.

    Raises:
        RuntimeError: the call changes an operand in place, or writes to ``out``.
    """
    signatures, schemas = _signatures_and_schemas(target)
    overloads = zip(signatures or (), schemas or (), strict=False)
    fitting = [schema for signature, schema in overloads if binds(signature, args, kwargs)]
    if len(fitting) == 1 and fitting[0].is_mutable:
        raise RuntimeError(
            f"Tried to trace mutable operation {fitting[0]}. FX only supports functional code, so operations that "
            "mutate operands in-place (e.g. via `out` arguments) are not supported"
        )
