"""The names of ``torch.fx.experimental.normalize``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.capture.proxy import Proxy
from fxlib.compat.normalize import NormalizeArgs, NormalizeOperators
from fxlib.ir.arguments import Argument, Target, map_aggregate
from fxlib.ir.node import Node
from fxlib.ir.schemas import create_type_hint, normalize_function, normalize_module
from fxlib.transform.interpreter import Transformer

__all__ = ["NormalizeArgs", "NormalizeOperators"]
