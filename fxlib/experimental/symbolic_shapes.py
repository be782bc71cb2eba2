"""The names of ``torch.fx.experimental.symbolic_shapes``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.compat.symbolic_shapes import __dir__, __getattr__
