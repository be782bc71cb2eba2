"""From a traced graph to an engine: conversion to ONNX, splitting, building, the module that runs the result."""

from fxlib.lowering.check import Obstacle, check
from fxlib.lowering.engine import BuildOptions, EngineError, get, names
from fxlib.lowering.lowered import LoweredModule, lower
from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.export import to_onnx
from fxlib.lowering.profile import LayerTime
from fxlib.lowering.report import LoweringReport, PartReport
from fxlib.lowering.store import load

__all__ = [
    "BuildOptions",
    "EngineError",
    "LayerTime",
    "LoweredModule",
    "LoweringReport",
    "Obstacle",
    "PartReport",
    "Unsupported",
    "check",
    "get",
    "load",
    "lower",
    "names",
    "to_onnx",
]
