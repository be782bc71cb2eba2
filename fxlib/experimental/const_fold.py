"""The names of ``torch.fx.experimental.const_fold``, for programs that import them from there."""

from fxlib.compat.const_fold import FoldedGraphModule, get_unique_attr_name_in_module, split_const_subgraphs

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]
