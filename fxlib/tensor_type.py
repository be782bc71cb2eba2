"""The names of ``torch.fx.tensor_type``, for programs that import them from there."""

from fxlib.compat.tensor_type import Dyn, TensorType, _DynType, is_consistent, is_more_precise

__all__ = ["Dyn", "TensorType", "_DynType", "is_consistent", "is_more_precise"]
