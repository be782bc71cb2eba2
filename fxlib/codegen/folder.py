"""A graph module written as a Python package: its code, its parameters, and everything without a source form as
pickles."""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
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
    children = dict(module.named_children())
    pickled = [name for name, child in children.items() if type(child) not in _WRITABLE_MODULES]
    contents = {f"{_file_name(name)}.pt": children[name] for name in pickled}
    for file, content in {"state_dict.pt": module.state_dict(), **contents}.items():
        save_object(content, place / file)
    (place / "module.py").write_text(_source(module, module_name))
    (place / "__init__.py").write_text("from .module import *")
    if pickled:
        warnings.warn(
            f"Was not able to save the following children modules as reprs -saved as pickled files instead: {pickled}",
            stacklevel=3,
        )


def _source(module: "GraphModule", module_name: str) -> str:
    imports = [builtin.import_str for builtin in _custom_builtins.values()]
    if "fxlib._symbolic_trace." in module.code:
        imports.append("import fxlib._symbolic_trace")
    head = "\n".join([*imports, *_imports_of_globals(module)])
    body = "".join(f"        {line}\n" for line in _attributes(module))
    return (
        f"\nimport pathlib\nimport torch\n{head}\n\nfrom torch.nn import *\n"
        "_FOLDER = pathlib.Path(__file__).resolve().parent # wherever this package is moved to\n"
        f"class {module_name}(torch.nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n{body}{indented(module.code)}\n"
    )


def _attributes(module: nn.Module) -> Iterator[str]:
    """The lines that create the attributes (from source where they have one) and load their values."""
    for name, child in module.named_children():
        if type(child) in _WRITABLE_MODULES:
            yield f"setattr(self, {name!r}, {child!r})"
        else:
            read = f"torch.load(_FOLDER / {_file_name(name) + '.pt'!r}, weights_only=False)"
            yield f"setattr(self, {name!r}, {read}) # {' '.join(repr(child).splitlines())}"
    for name, buffer in module._buffers.items():
        if buffer is not None:
            yield f"self.register_buffer({name!r}, {_empty(buffer)})"
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield f"setattr(self, {name!r}, torch.nn.Parameter({_empty(parameter)}))"
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
