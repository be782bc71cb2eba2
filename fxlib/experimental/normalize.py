"""The names of ``torch.fx.experimental.normalize``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.capture.proxy import Proxy
from fxlib.compat.normalize import NormalizeArgs, NormalizeOperators
from fxlib.ir.arguments import Argument, Target, map_aggregate
from fxlib.ir.node import Node
from fxlib.ir.normalize import normalize_function, normalize_module
from fxlib.ir.type_matching import create_type_hint
from fxlib.transform.transformer import Transformer

__all__ = ["NormalizeArgs", "NormalizeOperators"]
