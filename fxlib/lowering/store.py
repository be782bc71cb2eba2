"""Where lowered models and engines are kept, and how a saved one is known to be ours.

A saved model holds pickled PyTorch parts, and an engine plan is a program. Neither is loaded unless the directory
carries a seal made with this user's key, or the caller says `trusted=True`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch

if TYPE_CHECKING:
    from fxlib.lowering.lowered import LoweredModule

FORMAT = 1


class UntrustedModel(RuntimeError):
    """A saved model was not written by this user, or was changed since."""


def cache_directory(name: str, base: str | None = None) -> Path:
    """A directory of this user's cache that nobody else can write to; made where it is missing."""
    root = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fxlens"
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chmod(folder, 0o700)
    return folder


def _key() -> bytes:
    path = cache_directory("keys") / "seal"
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = secrets.token_bytes(32)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
    return key


def _seal(folder: Path, names: list[str]) -> str:
    mark = hmac.new(_key(), digestmod=hashlib.sha256)
    for name in sorted(names):
        mark.update(f"{name}\0{hashlib.sha256((folder / name).read_bytes()).hexdigest()}\n".encode())
    return mark.hexdigest()


def save(lowered: LoweredModule, path: Any) -> None:
    """Write a lowered model to the directory `path`: the ONNX model of each engine part, the PyTorch parts, a
    manifest, a seal."""
    from fxlib.lowering.lowered import EnginePart

    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    names = ["manifest.json", "module.pt"]
    parts = dict(lowered.engine_parts())
    places: dict[str, Any] = {}
    hollow: dict[str, EnginePart] = {}
    for index, (name, part) in enumerate(parts.items()):
        file = f"part_{index}.onnx"
        (folder / file).write_bytes(ir.to_proto(part.exported.model).SerializeToString())
        names.append(file)
        places[name] = {"file": file, "inputs": part.exported.inputs, "parameters": list(part.exported.parameters)}
        hollow[name] = part
    try:
        for name in parts:
            _replace(lowered.module, name, torch.nn.Identity())
        layouts = {name: (part.exported.outputs, part.exported.output_spec) for name, part in parts.items()}
        torch.save(
            {"module": lowered.module, "report": lowered.report, "options": lowered.options, "layouts": layouts},
            folder / "module.pt",
        )
    finally:
        for name, part in hollow.items():
            _replace(lowered.module, name, part)
    (folder / "manifest.json").write_text(
        json.dumps({"format": FORMAT, "engine": lowered.report.engine, "parts": places})
    )
    (folder / "seal.json").write_text(json.dumps({"files": names, "seal": _seal(folder, names)}))


def load(path: Any, *, trusted: bool = False) -> LoweredModule:
    """Read a lowered model back and build its engines again.

    Args:
        path: the directory that `LoweredModule.save` wrote.
        trusted: load it although it was not written by this user. It can run any code.

    Raises:
        UntrustedModel: the seal is missing or does not fit.
        ValueError: the directory is of another format.
    """
    from fxlib.lowering.engine import get
    from fxlib.lowering.lowered import EnginePart, LoweredModule
    from fxlib.lowering.onnx.export import Exported

    folder = Path(path)
    if not trusted:
        try:
            told = json.loads((folder / "seal.json").read_text())
            good = hmac.compare_digest(told["seal"], _seal(folder, [Path(n).name for n in told["files"]]))
            good = good and {"manifest.json", "module.pt"} <= set(told["files"])
        except (OSError, ValueError, KeyError, TypeError):
            good = False
        if not good:
            raise UntrustedModel(
                f"{folder} was not written by this user, or was changed since; "
                "a saved model can run any code when it is "
                "loaded. Pass trusted=True if you know where it comes from"
            )
    manifest = json.loads((folder / "manifest.json").read_text())
    if manifest.get("format") != FORMAT:
        raise ValueError(f"{folder} has format {manifest.get('format')}, this version reads {FORMAT}")
    held = torch.load(folder / "module.pt", weights_only=False)
    engine = get(manifest["engine"])
    for name, place in manifest["parts"].items():
        model = ir.load(str(folder / Path(place["file"]).name))
        parameters = {}
        for key in place["parameters"]:
            held_value = model.graph.initializers[key].const_value
            if held_value is not None and held_value.dtype != ir.DataType.BFLOAT16:
                parameters[key] = torch.from_numpy(held_value.numpy().copy())
        outputs, spec = held["layouts"][name]
        exported = Exported(model, place["inputs"], outputs, spec, parameters)
        _replace(held["module"], name, EnginePart(exported, engine.build(exported, held["options"])))
    return LoweredModule(held["module"], held["report"], held["options"])


def _replace(root: torch.nn.Module, path: str, module: torch.nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(root.get_submodule(parent) if parent else root, name, module)
