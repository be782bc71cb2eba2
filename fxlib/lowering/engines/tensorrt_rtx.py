"""TensorRT-RTX, for RTX GPUs: it builds without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fxlib.lowering.engine import BuildOptions, Engine, EngineError, Program
from fxlib.lowering.nvidia.library import Library, has_driver

if TYPE_CHECKING:
    from fxlib.lowering.onnx.export import Exported

LIBRARY = Library(
    "tensorrt_rtx", "TensorRT-RTX", ("tensorrt_rtx", "tensorrt_rtx_bindings"),
    ("tensorrt-rtx-cu13-libs", "tensorrt-rtx-cu13-bindings"),
)  # fmt: skip
DEFAULT_TARGET = "SM89"
"""The target if there is no GPU here: Ada, the most common one."""
TARGETS = {(7, 5): "SM75", (8, 0): "SM80", (8, 6): "SM86", (8, 9): "SM89", (12, 0): "SM120", (12, 1): "SM121"}


def build(exported: Exported, options: BuildOptions) -> Program:
    from fxlib.lowering.nvidia.program import TensorrtProgram

    return TensorrtProgram(LIBRARY, exported, options, _target())


def _target() -> str:
    if not (has_driver() and torch.cuda.is_available()):
        return DEFAULT_TARGET
    found = torch.cuda.get_device_capability()
    if found not in TARGETS:
        known = ", ".join(f"{a}.{b}" for a, b in TARGETS)
        raise EngineError(
            f"TensorRT-RTX has no target for compute capability {found[0]}.{found[1]} "
            f'({torch.cuda.get_device_name()}); it knows {known}. Use engine="tensorrt" on this GPU.'
        )
    return TARGETS[found]


ENGINE = Engine(
    name=LIBRARY.engine,
    label=LIBRARY.label,
    runs_on="RTX GPU",
    about=(
        "Engines are *built* in the tests on a machine without a GPU, for all four example models, and the kernels "
        "that the build lists lead to their ONNX nodes and source lines."
    ),
    limits="They have **not been run**: no GPU was available. It lists its kernels, but gives no times.",
    packages=LIBRARY.packages,
    unavailable=LIBRARY.missing,
    build=build,
    device="cuda",
    precisions=("fp32", "fp16"),
    symmetric_int8=True,
    options=("profiles", "cache_dir", "timeout_s"),
)
