"""From a traced graph to an engine: conversion to ONNX, splitting, building, the module that runs the result."""

from .check import Obstacle, check
from .engine import BuildOptions, EngineError, get, names
from .lowered import LoweredModule, lower
from .onnx.dtypes import Unsupported
from .onnx.export import to_onnx
from .profile import LayerTime
from .report import LoweringReport, PartReport
from .store import load

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
