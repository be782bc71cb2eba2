"""From a traced graph to an engine: conversion to ONNX, splitting, building, the module that runs the result.

Names are imported when they are used: conversion needs `onnx_ir`, and the table of engines can be read without it.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "capture": ("CaptureError",),
    "engine": ("BuildOptions", "Engine", "EngineError", "Kernel", "Program"),
    "engines": ("get", "table"),
    "lowered": ("LoweredModule", "load", "lower"),
    "obstacles": ("Obstacle", "check"),
    "onnx.dtypes": ("Unsupported",),
    "onnx.export": ("to_onnx",),
    "profile": ("LayerTime",),
    "report": ("LoweringReport", "PartReport"),
    "side_by_side": ("Stage", "Stages", "Step", "stages"),
    "store": ("UntrustedModel",),
    "unbuilt": ("preview",),
}
__all__ = sorted(name for names in _HOMES.values() for name in names)


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
