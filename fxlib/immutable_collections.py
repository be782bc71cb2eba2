"""The names of ``torch.fx.immutable_collections``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.ir.collections import _help_mutation, _no_mutation, immutable_dict, immutable_list

__all__ = ["immutable_dict", "immutable_list"]
