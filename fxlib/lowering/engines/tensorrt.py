"""TensorRT, for NVIDIA's GPUs in data centres and elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxlib.lowering.engine import BuildOptions, Engine, Program
from fxlib.lowering.nvidia.library import Library, has_driver

if TYPE_CHECKING:
    from fxlib.lowering.onnx.export import Exported

LIBRARY = Library("tensorrt", "TensorRT", ("tensorrt",), ("tensorrt",))


def unavailable() -> str | None:
    if missing := LIBRARY.missing():
        return missing
    if not has_driver():
        return (
            "TensorRT needs NVIDIA's driver even to build, and there is none here; "
            'use engine="tensorrt_rtx", which builds without'
        )
    return None


def build(exported: Exported, options: BuildOptions) -> Program:
    from fxlib.lowering.nvidia.program import TensorrtProgram

    return TensorrtProgram(LIBRARY, exported, options)


ENGINE = Engine(
    name=LIBRARY.engine,
    label=LIBRARY.label,
    runs_on="NVIDIA GPU",
    about="The code follows the documented interface. A test runs wherever a GPU and the package are.",
    limits="It has **not been run**. It needs a GPU to build. It lists its kernels, but gives no times.",
    packages=LIBRARY.packages,
    unavailable=unavailable,
    build=build,
    device="cuda",
    precisions=("fp32", "fp16"),
    symmetric_int8=True,
    options=("profiles", "cache_dir", "timeout_s"),
)
