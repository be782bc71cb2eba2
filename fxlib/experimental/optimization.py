"""The names of ``torch.fx.experimental.optimization``, for programs that import them from there."""

from fxlib.compat.optimization import (
    fuse,
    matches_module_pattern,
    optimize_for_inference,
    remove_dropout,
    replace_node_module,
)

__all__ = ["fuse", "matches_module_pattern", "optimize_for_inference", "remove_dropout", "replace_node_module"]
