"""Lowered models saved in a directory, and the seal that shows who wrote them.

A saved model holds pickled PyTorch parts: it is not loaded unless the directory carries a seal made with this user's
key, or the caller passes `trusted=True`.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch

from fxlib.codegen.saving import save_folder, save_object
from fxlib.lowering import graph_pickler
from fxlib.lowering.cache import cache_directory
from fxlib.lowering.engines import get
from fxlib.lowering.onnx.export import Exported
from fxlib.lowering.part import EnginePart

FORMAT = 5


class UntrustedModel(RuntimeError):
    """A saved model was not written by this user, or was changed since."""


_KEY_BYTES = 32


def _key() -> bytes:
    """This user's key. It is created atomically: a new one is written, then renamed.

    Raises:
        UntrustedModel: the file is not a key that only this user can read.
    """
    path = cache_directory("keys") / "seal"
    if not path.exists():
        handle, new = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
                file.flush()
                os.fsync(handle)
            with contextlib.suppress(FileExistsError):
                os.link(new, path)
        finally:
            os.unlink(new)
    with open(path, "rb") as file:
        state, key = os.fstat(file.fileno()), file.read(_KEY_BYTES + 1)
    shared = hasattr(os, "getuid") and (state.st_uid != os.getuid() or state.st_mode & 0o077)
    if len(key) != _KEY_BYTES or shared:
        raise UntrustedModel(
            f"{path} is not a key of {_KEY_BYTES} bytes that only this user can read. Remove it: a new one is made, "
            "and models that were saved before must be lowered again"
        )
    return key


def _seal(folder: Path, names: list[str]) -> str:
    mark = hmac.new(_key(), digestmod=hashlib.sha256)
    for name in sorted(names):
        mark.update(f"{name}\0{hashlib.sha256((folder / name).read_bytes()).hexdigest()}\n".encode())
    return mark.hexdigest()


def save(folder: Path, module: torch.nn.Module, state: dict[str, Any]) -> None:
    """Write a lowered model to a directory: the ONNX model of each engine part, the PyTorch parts, a manifest, a seal.
    All of it is written, or nothing, and an earlier model stays.

    Args:
        folder: the directory; created if missing.
        module: the parts.
        state: the rest of the lowered model, its report and options among them.

    Raises:
        OSError: it cannot be written.
        UntrustedModel: this user's key is damaged.
    """
    save_folder(folder, lambda made: _write(made, module, state))


def _write(folder: Path, module: torch.nn.Module, state: dict[str, Any]) -> None:
    names = ["manifest.json", "module.pt"]
    parts = {name: part for name, part in module.named_modules() if isinstance(part, EnginePart)}
    places: dict[str, Any] = {}
    for index, (name, part) in enumerate(parts.items()):
        file = f"part_{index}.onnx"
        (folder / file).write_bytes(ir.to_proto(part.exported.model).SerializeToString())
        names.append(file)
        places[name] = {
            "file": file, "inputs": part.exported.inputs, "parameters": list(part.exported.parameters),
            "profiles": part.exported.profiles,
        }  # fmt: skip
    layouts = {name: (part.exported.outputs, part.exported.output_spec, part.graph) for name, part in parts.items()}
    # The weights of the parts are in their ONNX models; NumPy has no bfloat16.
    weights = {
        graph_pickler.place(tensor): (name, key)
        for name, part in parts.items()
        for key, tensor in part.exported.parameters.items()
        if tensor.numel() and tensor.dtype != torch.bfloat16
    }
    try:
        for name in parts:
            _replace(module, name, torch.nn.Identity())
        held = {"module": module, "state": state, "layouts": layouts}
        with _elsewhere(weights):
            # Protocol 2, the usual one, has no names with a dot, as that of a memory format is.
            save_object(held, folder / "module.pt", pickle_module=graph_pickler, pickle_protocol=4)
    finally:
        for name, part in parts.items():
            _replace(module, name, part)
    manifest = {"format": FORMAT, "engine": state["report"].engine, "parts": places}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "seal.json").write_text(json.dumps({"files": names, "seal": _seal(folder, names)}))


def read(folder: Path, trusted: bool) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The module and the state that `save` wrote, with its engines built again; see `fxlib.lowering.load`."""
    if not (folder / "manifest.json").is_file():
        raise FileNotFoundError(f"load() found no lowered model at {str(folder)!r}: it has no manifest.json")
    if not (trusted or sealed(folder)):
        raise UntrustedModel(
            f"{folder} was not written by this user, or was changed since; a saved model can run any code when it is "
            "loaded. Pass trusted=True if you know where it comes from"
        )
    manifest = json.loads((folder / "manifest.json").read_text())
    if manifest.get("format") != FORMAT:
        raise ValueError(f"{folder} has format {manifest.get('format')}, this version reads {FORMAT}")
    models: dict[str, ir.Model] = {}
    weights: dict[tuple[str, str], torch.Tensor] = {}
    for name, place in manifest["parts"].items():
        model = models[name] = ir.load(str(folder / Path(place["file"]).name))
        for key in place["parameters"]:
            value = model.graph.initializers[key].const_value
            if value is not None and value.dtype != ir.DataType.BFLOAT16:
                weights[name, key] = torch.from_numpy(value.numpy().copy())
    with _elsewhere(weights):
        held = torch.load(folder / "module.pt", weights_only=False)
    engine = get(manifest["engine"])
    for name, place in manifest["parts"].items():
        parameters = {key: weights[name, key] for key in place["parameters"] if (name, key) in weights}
        outputs, spec, graph = held["layouts"][name]
        exported = Exported(models[name], place["inputs"], outputs, spec, parameters, profiles=place["profiles"])
        program = engine.build(exported, held["state"]["options"])
        _replace(held["module"], name, EnginePart(exported, program, graph))
    return held["module"], held["state"]


@contextlib.contextmanager
def _elsewhere(tensors: dict[Any, Any]) -> Iterator[None]:
    token = graph_pickler.ELSEWHERE.set(tensors)
    try:
        yield
    finally:
        graph_pickler.ELSEWHERE.reset(token)


def sealed(folder: Path) -> bool:
    """Whether this user wrote the directory, and it was not changed since."""
    try:
        seal = json.loads((folder / "seal.json").read_text())
        fits = hmac.compare_digest(seal["seal"], _seal(folder, [Path(name).name for name in seal["files"]]))
        return fits and {"manifest.json", "module.pt"} <= set(seal["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _replace(root: torch.nn.Module, path: str, module: torch.nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(root.get_submodule(parent) if parent else root, name, module)
