"""Builds one TensorRT engine and exits: `python build.py JOB.json`.

It runs in a separate process, because TensorRT keeps only the first logger of a process, because a crash in a native
library must not end the caller, and because a build can only be interrupted by killing it. Imports nothing of fxlib.

The job is `{"module", "onnx", "plan", "result", "profiles", "capability", "timing_cache", "level"}`.
The result file gets `{"ok", "error", "version", "seconds", "bytes", "layers_text", "log", "profiles", "refused"}`.
"""

import contextlib
import importlib
import json
import os
import sys
import time
import typing

LOG_LINES = 400


def main(path: str) -> int:
    with open(path, encoding="utf-8") as file:
        job = json.load(file)
    result: dict = {
        "ok": False,
        "error": None,
        "version": None,
        "seconds": 0.0,
        "bytes": 0,
        "layers_text": "",
        "log": [],
        "profiles": {},
        "refused": [],
    }
    try:
        build(job, result)
    except Exception as error:
        result["error"] = f"could not build the engine: {type(error).__name__}: {error}"
    with open(job["result"], "w", encoding="utf-8") as file:
        json.dump(result, file)
    return 0 if result["ok"] else 1


def build(job: dict, result: dict) -> None:
    trt: typing.Any = importlib.import_module(job["module"])
    result["version"] = trt.__version__
    errors: list = []

    class Logger(trt.ILogger):  # type: ignore[name-defined]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity, text) -> None:
            if text.startswith("Layers:"):
                result["layers_text"] = text
                return
            name = str(severity).rsplit(".", 1)[-1]
            if name in ("ERROR", "INTERNAL_ERROR"):
                errors.append(text)
            if name != "VERBOSE" and len(result["log"]) < LOG_LINES:
                result["log"].append(f"{name}: {text}")

    logger = Logger()
    builder = trt.Builder(logger)
    flags = 0
    if hasattr(trt, "NetworkDefinitionCreationFlag") and hasattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED"):
        flags = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    network = builder.create_network(flags)
    parser = trt.OnnxParser(network, logger)
    start = time.perf_counter()
    if not parser.parse_from_file(job["onnx"]):
        refused = [parser.get_error(i) for i in range(parser.num_errors)]
        result["error"] = "refused the model: " + "; ".join(map(str, refused[:3]))
        # A node is not always named, but the function that refused it is that of its operator.
        result["refused"] = [
            {"node": each.node_name(), "operator": each.node_operator() or each.func().removeprefix("import")}
            for each in refused
        ]
        return
    config = builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    if job.get("level") is not None:
        config.builder_optimization_level = job["level"]
    capability = job.get("capability")
    if capability and hasattr(config, "num_compute_capabilities"):
        config.num_compute_capabilities = 1
        config.set_compute_capability(getattr(trt.ComputeCapability, capability), 0)
    if job.get("profiles"):
        profile = builder.create_optimization_profile()
        for name, (low, usual, high) in job["profiles"].items():
            profile.set_shape(name, tuple(low), tuple(usual), tuple(high))
            result["profiles"][name] = [list(shape) for shape in profile.get_shape(name)]
        config.add_optimization_profile(profile)
    cache = None
    if job.get("timing_cache") and hasattr(config, "create_timing_cache"):
        blob = b""
        with contextlib.suppress(OSError), open(job["timing_cache"], "rb") as file:
            blob = file.read()
        cache = config.create_timing_cache(blob)
        if cache is not None:
            config.set_timing_cache(cache, ignore_mismatch=False)
    plan = builder.build_serialized_network(network, config)
    result["seconds"] = time.perf_counter() - start
    if plan is None:
        result["error"] = "could not build the engine: " + ("; ".join(errors[:3]) or "it gave no reason")
        return
    data = memoryview(plan)
    result["bytes"] = data.nbytes
    with open(job["plan"] + ".part", "wb") as target:
        target.write(data)
    os.replace(job["plan"] + ".part", job["plan"])
    if cache is not None:
        with contextlib.suppress(OSError, AttributeError), open(job["timing_cache"], "wb") as target:
            target.write(memoryview(cache.serialize()))
    result["ok"] = True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
