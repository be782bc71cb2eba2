"""The names of ``torch.fx.operator_schemas``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.ir.normalize import ArgsKwargsPair, _normalize_function_or_error, normalize_function, normalize_module
from fxlib.ir.schemas import _torchscript_type_to_python_type, check_for_mutable_operation, get_signature_for_torch_op
from fxlib.ir.type_matching import create_type_hint, type_matches

__all__ = [
    "ArgsKwargsPair",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]
