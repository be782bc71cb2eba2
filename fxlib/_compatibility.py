"""The names of ``torch.fx._compatibility``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.compat.compatibility import _BACK_COMPAT_OBJECTS, _MARKED_WITH_COMPATIBILITY, _T, compatibility
