"""Programs of TensorRT and TensorRT-RTX.

Engines are built in a child process (`build.py`). Without a GPU, TensorRT-RTX can still build the engine and list its
kernels; calling it then raises. No native library is loaded before the driver was found.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch

from fxlib.lowering.cache import cache_directory
from fxlib.lowering.engine import BuildOptions, EngineError, Kernel, NotTaken, Program
from fxlib.lowering.nvidia.kernels import parse
from fxlib.lowering.nvidia.library import Library, has_driver
from fxlib.lowering.onnx.dtypes import FROM_ONNX
from fxlib.lowering.onnx.export import Exported

BUILD_SCRIPT = Path(__file__).with_name("build.py")


class TensorrtProgram(Program):
    """A built engine; it is loaded onto the GPU at the first call."""

    def __init__(self, library: Library, exported: Exported, options: BuildOptions, target: str | None = None) -> None:
        """`target` is the GPU to build for, if the library can build for one other than the one here."""
        self.library = library
        data = ir.to_proto(exported.model).SerializeToString()
        job: dict[str, Any] = {
            "module": library.module, "capability": target, "profiles": _profiles(exported, options),
            "timing_cache": target is None,
        }  # fmt: skip
        folder = cache_directory("engines", options.cache_dir)
        key = hashlib.sha256(data + json.dumps([library.engine, library.version, job, _device()]).encode()).hexdigest()
        self.plan, facts = folder / f"{key}.plan", folder / f"{key}.json"
        cached = self.plan.exists() and facts.exists() and _owned(self.plan)
        if not cached:
            self._build(exported, data, job, facts, options.timeout_s)
        result = json.loads(facts.read_text())
        self._kernels = parse(result["layers_text"])
        self._context: Any = None
        self.info = {
            "version": result["version"],
            "target": target or _device(),
            "build_s": result["seconds"],
            "plan_bytes": result["bytes"],
            "profiles": result.get("profiles", {}),
            "log": result["log"],
            "cached": cached,
        }
        if not has_driver():
            self.info["cannot_run"] = "there is no GPU on this machine: the engine is built, but it cannot be run here"
        graph = exported.model.graph
        self._inputs = [str(value.name) for value in graph.inputs]
        self._outputs = [(str(value.name), FROM_ONNX[value.type.dtype]) for value in graph.outputs if value.type]

    def kernels(self) -> list[Kernel]:
        return self._kernels

    def _build(self, exported: Exported, data: bytes, job: dict[str, Any], facts: Path, seconds: float) -> None:
        with tempfile.TemporaryDirectory(prefix="fxlib-build-") as scratch:
            model, result, request = (Path(scratch) / name for name in ("model.onnx", "result.json", "job.json"))
            model.write_bytes(data)
            cache = str(self.plan.with_name("timing.cache")) if job["timing_cache"] else None
            request.write_text(
                json.dumps(
                    {**job, "onnx": str(model), "plan": str(self.plan), "result": str(result), "timing_cache": cache}
                )
            )
            try:
                done = subprocess.run(
                    [sys.executable, str(BUILD_SCRIPT), str(request)],
                    capture_output=True,
                    timeout=seconds,
                    stdin=subprocess.DEVNULL,
                )
            except subprocess.TimeoutExpired:
                raise EngineError(
                    f"the build with {self.library.label} took more than {seconds:.0f} s and was stopped"
                ) from None
            if not result.exists():
                tail = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
                raise EngineError(
                    f"the build process of {self.library.label} ended with status {done.returncode}: {tail[0]}"
                )
            answer = json.loads(result.read_text())
            if not answer["ok"]:
                text = f"{self.library.label} {answer['version'] or ''} {answer['error']}"
                if found := _refused(exported, answer["refused"]):
                    raise NotTaken(f"{text}", *(str(node.name) for node in found))
                raise EngineError(text)
            facts.write_text(json.dumps(answer))
            os.chmod(self.plan, 0o600)

    def _load(self) -> None:
        if not has_driver() or not torch.cuda.is_available():
            raise EngineError(
                "there is no GPU on this machine: the engine is built and its kernels can be read, but it cannot be "
                'run here; use engine="onnxruntime" to run on the CPU'
            )
        trt: Any = import_module(str(self.library.module))
        runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        engine = runtime.deserialize_cuda_engine(self.plan.read_bytes())
        if engine is None:
            raise EngineError(
                f"{self.library.label} could not load the engine {self.plan.name}; it was built for "
                f"{self.info['target']}"
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
            if not self._context.set_input_shape(name, tuple(tensor.shape)):
                raise EngineError(
                    f"{self.library.label} refused the shape {tuple(tensor.shape)} of {name}, for which "
                    f"{self.plan.name} was not built"
                )
            self._context.set_tensor_address(name, tensor.data_ptr())
        results = []
        for name, dtype in self._outputs:
            result = torch.empty(tuple(self._context.get_tensor_shape(name)), dtype=dtype, device=device)
            self._context.set_tensor_address(name, result.data_ptr())
            results.append(result)
        stream = torch.cuda.current_stream()
        if not self._context.execute_async_v3(stream.cuda_stream):
            raise EngineError(f"{self.library.label} failed to run the engine {self.plan.name}")
        if home.type != "cuda":
            stream.synchronize()
        return [r.to(home) for r in results]


def _refused(exported: Exported, errors: list[dict[str, str]]) -> list[ir.Node]:
    """The nodes that the library refused: the named one, or else all of that operator."""
    nodes = list(exported.model.graph)
    for error in errors:
        found = [node for node in nodes if node.name == error["node"]]
        found = found or [node for node in nodes if node.op_type == error["operator"]]
        if found:
            return found
    return []


def _profiles(exported: Exported, options: BuildOptions) -> dict[str, list[list[int]]]:
    """A shape range for every input with a dynamic dimension: the caller's, or else the one the model was lowered
    for."""
    names = [str(value.name) for value in exported.model.graph.inputs]
    chosen = {**exported.profiles, **options.profiles}
    return {name: [list(shape) for shape in chosen[name]] for name in names if name in chosen}


def _device() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


def _owned(path: Path) -> bool:
    """Whether only this user could have written a plan: a plan is executable code, so no other is loaded."""
    if not hasattr(os, "getuid"):
        return True
    facts = path.stat()
    return facts.st_uid == os.getuid() and not facts.st_mode & 0o022
