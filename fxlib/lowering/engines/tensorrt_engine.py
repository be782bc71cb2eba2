"""TensorRT and TensorRT-RTX: one API under two module names.

Engines are built in a child process (`tensorrt_build`). Where there is no GPU the engine is built all the same
(TensorRT-RTX) and its layers can be read; calling it says that there is no GPU to run it on. Nothing native is
loaded here before the driver is looked for.
"""

from __future__ import annotations

import ctypes.util
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch

from fxlib.lowering.engine import BuildOptions, Engine, EngineError, register
from fxlib.lowering.engines.tensorrt_layers import parse
from fxlib.lowering.onnx.dtypes import TO_ONNX
from fxlib.lowering.onnx.export import Exported
from fxlib.lowering.store import cache_directory

_MODULES = {"tensorrt": ("tensorrt",), "tensorrt_rtx": ("tensorrt_rtx", "tensorrt_rtx_bindings")}
_INSTALL = {
    "tensorrt": "pip install tensorrt",
    "tensorrt_rtx": "pip install tensorrt-rtx-cu13-libs tensorrt-rtx-cu13-bindings",
}
BUILD_SCRIPT = Path(__file__).with_name("tensorrt_build.py")
DEFAULT_RTX_CAPABILITY = "SM89"
"""What an RTX engine is built for where there is no GPU to ask: Ada, the commonest of the targets it knows."""
RTX_CAPABILITIES = {(7, 5): "SM75", (8, 0): "SM80", (8, 6): "SM86", (8, 9): "SM89", (12, 0): "SM120", (12, 1): "SM121"}


def has_driver() -> bool:
    """Whether NVIDIA's driver library is on this machine; asked before any TensorRT library is loaded."""
    name = "nvcuda" if sys.platform == "win32" else "cuda"
    return ctypes.util.find_library(name) is not None


def module_name(engine: str) -> str | None:
    return next((name for name in _MODULES[engine] if find_spec(name) is not None), None)


def unavailable(engine: str) -> str | None:
    if module_name(engine) is None:
        return f"its Python package is not installed; `{_INSTALL[engine]}` adds it"
    if engine == "tensorrt" and not has_driver():
        return (
            "TensorRT needs NVIDIA's driver even to build, and there is none here; "
            'use engine="tensorrt_rtx", which builds without'
        )
    return None


def _capability(engine: str) -> str | None:
    if engine != "tensorrt_rtx":
        return None
    if has_driver() and torch.cuda.is_available():
        found = torch.cuda.get_device_capability()
        if found not in RTX_CAPABILITIES:
            known = ", ".join(f"{a}.{b}" for a, b in RTX_CAPABILITIES)
            raise EngineError(
                f"TensorRT-RTX has no target for compute capability {found[0]}.{found[1]} "
                f'({torch.cuda.get_device_name()}); it knows {known}. Use engine="tensorrt" on this GPU.'
            )
        return RTX_CAPABILITIES[found]
    return DEFAULT_RTX_CAPABILITY


def _profiles(exported: Exported, options: BuildOptions) -> dict[str, list[list[int]]]:
    """A shape range for every input with a dynamic dimension: 1 to 64, usually 8, unless the caller gave one."""
    profiles = {}
    for value in exported.model.graph.inputs:
        name, shape = str(value.name), list(value.shape or [])
        if name in options.profiles:
            profiles[name] = [list(s) for s in options.profiles[name]]
        elif any(not isinstance(d, int) for d in shape):
            profiles[name] = [[d if isinstance(d, int) else n for d in shape] for n in (1, 8, 64)]
    return profiles


class TensorrtProgram:
    """A built engine; it is loaded onto the GPU at the first call."""

    def __init__(self, engine: str, exported: Exported, options: BuildOptions) -> None:
        self.engine = engine
        self.module = module_name(engine)
        proto = ir.to_proto(exported.model)
        data = proto.SerializeToString()
        capability = _capability(engine)
        profiles = _profiles(exported, options)
        key = hashlib.sha256(
            data + json.dumps([engine, self._version(), capability, profiles, _device()]).encode()
        ).hexdigest()
        folder = cache_directory("engines", options.cache_dir)
        plan, facts = folder / f"{key}.plan", folder / f"{key}.json"
        cached = plan.exists() and facts.exists() and _owned(plan)
        result = (
            json.loads(facts.read_text())
            if cached
            else self._build(data, plan, facts, capability, profiles, folder, options)
        )
        self.plan = plan
        self._context: Any = None
        layers = parse(result["layers_text"])
        self.info: dict[str, Any] = {
            "engine": engine,
            "version": result["version"],
            "target": capability or _device(),
            "build_s": result["seconds"],
            "plan_bytes": result["bytes"],
            "layers": [layer.as_dict() for layer in layers],
            "log": result["log"],
            "cached": cached,
        }
        if not has_driver():
            self.info["cannot_run"] = "there is no GPU on this machine: the engine is built, but it cannot be run here"
        self._shapes = [(str(v.name), v.type.dtype if v.type else None) for v in exported.model.graph.outputs]
        self._inputs = [str(v.name) for v in exported.model.graph.inputs]

    def _version(self) -> str:
        from importlib.metadata import PackageNotFoundError, version

        for name in ("tensorrt", "tensorrt_rtx", "tensorrt-rtx-cu13-bindings"):
            try:
                return version(name)
            except PackageNotFoundError:
                continue
        return "?"

    def _build(
        self,
        data: bytes,
        plan: Path,
        facts: Path,
        capability: str | None,
        profiles: Any,
        folder: Path,
        options: BuildOptions,
    ) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="fxlib-build-") as scratch:
            model, result, job = (Path(scratch) / name for name in ("model.onnx", "result.json", "job.json"))
            model.write_bytes(data)
            job.write_text(
                json.dumps(
                    {
                        "module": self.module,
                        "onnx": str(model),
                        "plan": str(plan),
                        "result": str(result),
                        "profiles": profiles,
                        "capability": capability,
                        "timing_cache": str(folder / "timing.cache") if self.engine == "tensorrt" else None,
                    }
                )
            )
            try:
                done = subprocess.run(
                    [sys.executable, str(BUILD_SCRIPT), str(job)],
                    capture_output=True,
                    timeout=options.timeout_s,
                    stdin=subprocess.DEVNULL,
                )
            except subprocess.TimeoutExpired:
                raise EngineError(
                    f"the {self.engine} build took more than {options.timeout_s:.0f} s and was stopped"
                ) from None
            if not result.exists():
                tail = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
                raise EngineError(f"the {self.engine} build process died with status {done.returncode}: {tail[0]}")
            told = json.loads(result.read_text())
            if not told["ok"]:
                raise EngineError(f"{self.engine} {told['version'] or ''} could not build the engine: {told['error']}")
            facts.write_text(json.dumps(told))
            os.chmod(plan, 0o600)
            return told

    def _load(self) -> None:
        if not has_driver() or not torch.cuda.is_available():
            raise EngineError(
                "there is no GPU on this machine: the engine is built and its layers can be read, but it cannot be run "
                'here; use engine="onnxruntime" to run on the CPU'
            )
        from importlib import import_module

        trt: Any = import_module(str(self.module))
        runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        engine = runtime.deserialize_cuda_engine(self.plan.read_bytes())
        if engine is None:
            raise EngineError(
                f"{self.engine} could not load the engine {self.plan.name}; it was built for {self.info['target']}"
            )
        self._runtime, self._engine, self._context = runtime, engine, engine.create_execution_context()

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        if self._context is None:
            self._load()
        device = torch.device("cuda")
        home = inputs[0].device if inputs else torch.device("cpu")
        held = []
        for name, tensor in zip(self._inputs, inputs, strict=True):
            tensor = tensor.detach().to(device).contiguous()
            held.append(tensor)
            self._context.set_input_shape(name, tuple(tensor.shape))
            self._context.set_tensor_address(name, tensor.data_ptr())
        results = []
        for name, kind in self._shapes:
            dtype = next(k for k, v in TO_ONNX.items() if v == kind)
            result = torch.empty(tuple(self._context.get_tensor_shape(name)), dtype=dtype, device=device)
            self._context.set_tensor_address(name, result.data_ptr())
            results.append(result)
        stream = torch.cuda.current_stream()
        if not self._context.execute_async_v3(stream.cuda_stream):
            raise EngineError(f"{self.engine} failed to run the engine {self.plan.name}")
        if home.type != "cuda":
            stream.synchronize()
        return [r.to(home) for r in results]


def _device() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


def _owned(path: Path) -> bool:
    """A plan is a program: only one that we wrote, and nobody else could have written, is used."""
    if not hasattr(os, "getuid"):
        return True
    facts = path.stat()
    return facts.st_uid == os.getuid() and not facts.st_mode & 0o022


for _name, _title in (("tensorrt", "TensorRT"), ("tensorrt_rtx", "TensorRT-RTX")):
    register(
        Engine(
            _name,
            _title,
            (lambda name: lambda: unavailable(name))(_name),
            (lambda name: lambda exported, options: TensorrtProgram(name, exported, options))(_name),
        )
    )
