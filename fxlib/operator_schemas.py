"""The names of ``torch.fx.operator_schemas``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.ir.schemas import (
    ArgsKwargsPair,
    _normalize_function_or_error,
    _torchscript_type_to_python_type,
    check_for_mutable_operation,
    create_type_hint,
    get_signature_for_torch_op,
    normalize_function,
    normalize_module,
    type_matches,
)

__all__ = [
    "ArgsKwargsPair",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]
