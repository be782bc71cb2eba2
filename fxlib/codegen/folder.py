"""A graph module written as a Python package: its code, its parameters, and everything without a source form as
pickles."""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import torch
from torch import nn

from fxlib.codegen.saving import save_object
from fxlib.ir.names import _custom_builtins

if TYPE_CHECKING:
    from fxlib.codegen.graph_module import GraphModule

__all__: list[str] = []

_WRITABLE_MODULES = frozenset(
    {nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d}
)
# By name, with the source that makes it or None.
_Children = dict[str, tuple[nn.Module, str | None]]


def _file_name(name: str) -> str:
    """A file name inside the folder, even for a module called ``/tmp/x``."""
    return quote(name, safe="") if "/" in name or "\\" in name or "\0" in name else name


def indented(text: str) -> str:
    return "\n".join([f"    {line}" if line.strip() else "" for line in text.split("\n")])


def write_folder(module: "GraphModule", place: Path, module_name: str) -> None:
    """See ``GraphModule.to_folder``."""
    if not module_name.isidentifier():
        raise ValueError(f"{module_name!r} is not a valid name for the class that to_folder writes")
    place.mkdir(exist_ok=True)
    children = {name: (child, _layer_source(child)) for name, child in module.named_children()}
    pickled = [name for name, (_, source) in children.items() if source is None]
    contents = {f"{_file_name(name)}.pt": children[name][0] for name in pickled}
    buffers = {name: buffer for name, buffer in module._buffers.items() if buffer is not None}  # or not persistent
    for file, content in {"state_dict.pt": {**module.state_dict(), **buffers}, **contents}.items():
        save_object(content, place / file)
    (place / "module.py").write_text(_source(module, module_name, children), encoding="utf-8")
    (place / "__init__.py").write_text("from .module import *")
    if pickled:
        warnings.warn(
            f"Was not able to save the following children modules as reprs -saved as pickled files instead: {pickled}",
            stacklevel=3,
        )


def _layer_source(layer: nn.Module) -> str | None:
    """An expression, over the names of ``torch.nn``, that makes an equal layer, but for the values of its tensors; None
    if its ``repr`` does not."""
    if type(layer) not in _WRITABLE_MODULES:
        return None
    source = repr(layer)
    if not layer.training:
        source += ".eval()"
    if not any(parameter.requires_grad for parameter in layer.parameters()):
        source += ".requires_grad_(False)"
    try:
        with torch.device("meta"):
            same = _described(eval(source, {**vars(nn)})) == _described(layer)
    except Exception:  # no source (`padding_mode=circular`), or attributes that cannot be compared
        return None
    # The default dtype where the folder is read may be another one than here.
    return source if same and all(each.dtype is torch.float32 for each in layer.parameters()) else None


def _described(layer: nn.Module) -> dict[str, Any]:
    """The attributes of a layer, also its hooks; of tensors all but their values."""
    tensors: dict[str, dict[str, Any]] = {"_parameters": layer._parameters, "_buffers": layer._buffers}
    described = {
        kind: {
            name: tensor if tensor is None else (type(tensor), tensor.shape, tensor.dtype, tensor.requires_grad)
            for name, tensor in held.items()
        }
        for kind, held in tensors.items()
    }
    return {**vars(layer), **described}


def _source(module: "GraphModule", module_name: str, children: _Children) -> str:
    imports = [builtin.import_str for builtin in _custom_builtins.values()]
    if "fxlib._symbolic_trace." in module.code:
        imports.append("import fxlib._symbolic_trace")
    head = "\n".join([*imports, *_imports_of_globals(module)])
    body = "".join(f"        {line}\n" for line in _attributes(module, children))
    name = module.graph._codegen._func_name
    # The code stands above the class, not in it: there `wrap` cannot be called, and Python changes names such as `__x`.
    return (
        f"\nimport pathlib\nimport torch\n{head}\n\nfrom torch.nn import *\n"
        "_FOLDER = pathlib.Path(__file__).resolve().parent # wherever this package is moved to\n"
        f"{module.code}\n\n"
        f"class {module_name}(torch.nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n{body}\n"
        f"    {name} = {name}\n"
    )


def _attributes(module: nn.Module, children: _Children) -> Iterator[str]:
    """The lines that create the attributes (from source where they have one) and load their values."""
    if not module.training:
        yield "self.training = False"
    for name, (child, source) in children.items():
        if source is not None:
            yield f"setattr(self, {name!r}, {source})"
        else:
            read = f"torch.load(_FOLDER / {_file_name(name) + '.pt'!r}, weights_only=False)"
            yield f"setattr(self, {name!r}, {read}) # {' '.join(repr(child).splitlines())}"
    for name, buffer in module._buffers.items():
        if buffer is not None:
            yield f"self.register_buffer({name!r}, {_empty(buffer)})"
    for name, parameter in module._parameters.items():
        if parameter is not None:
            frozen = "" if parameter.requires_grad else ", requires_grad=False"
            yield f"setattr(self, {name!r}, torch.nn.Parameter({_empty(parameter)}{frozen}))"
    yield "self.load_state_dict(torch.load(_FOLDER / 'state_dict.pt'))"


def _empty(tensor: torch.Tensor) -> str:
    return f"torch.empty({[*tensor.shape]}, dtype={tensor.dtype})"


def _imports_of_globals(module: "GraphModule") -> Iterator[str]:
    """Imports for the generated names of globals, such as ``fxlib_passes_quantize_functions_quantize``."""
    for name, value in module.graph.python_code("self").globals.items():
        home, own = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if name in _custom_builtins or not home or not own or "." in own or "<" in own:
            continue
        if getattr(sys.modules.get(home), own, None) is value and name.isidentifier():
            yield f"from {home} import {own} as {name}"
