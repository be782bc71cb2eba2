"""A graph module written as a Python package: its code, its parameters, and what has no text as pickles."""

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import torch
from torch import nn

from fxlib.ir.names import _custom_builtins

if TYPE_CHECKING:
    from fxlib.codegen.graph_module import GraphModule

__all__: list[str] = []

_WRITABLE_MODULES = frozenset(
    {nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d}
)


def _module_text(module: nn.Module) -> str | None:
    """The expression that makes the module again but for its state, where its ``repr`` is one."""
    return repr(module) if type(module) in _WRITABLE_MODULES else None


def _file_name(name: str) -> str:
    """A module may be called ``/tmp/x``: its file stays in the folder all the same."""
    return quote(name, safe="") if "/" in name or "\\" in name or "\0" in name else name


def indented(text: str) -> str:
    return "\n".join([f"    {line}" if line.strip() else "" for line in text.split("\n")])


def write_folder(module: "GraphModule", place: Path, module_name: str) -> None:
    """See ``GraphModule.to_folder``."""
    if not module_name.isidentifier():
        raise ValueError(f"{module_name!r} cannot be the name of a class, which to_folder writes")
    place.mkdir(exist_ok=True)
    torch.save(module.state_dict(), place / "state_dict.pt")
    lines: list[str] = []
    pickled: list[str] = []
    for name, child in module.named_children():
        as_text = _module_text(child)
        if as_text is None:
            file = f"{_file_name(name)}.pt"
            torch.save(child, place / file)
            pickled.append(name)
            comment = repr(child).replace("\r", " ").replace("\n", " ")
            lines.append(f"setattr(self, {name!r}, torch.load(_FOLDER / {file!r}, weights_only=False)) # {comment}")
        else:
            lines.append(f"setattr(self, {name!r}, {as_text})")
    for name, buffer in module._buffers.items():
        if buffer is not None:
            lines.append(f"self.register_buffer({name!r}, torch.empty({list(buffer.shape)}, dtype={buffer.dtype}))")
    for name, parameter in module._parameters.items():
        if parameter is not None:
            empty = f"torch.empty({list(parameter.shape)}, dtype={parameter.dtype})"
            lines.append(f"setattr(self, {name!r}, torch.nn.Parameter({empty}))")
    lines.append("self.load_state_dict(torch.load(_FOLDER / 'state_dict.pt'))")
    imports = "\n".join(builtin.import_str for builtin in _custom_builtins.values())
    if "fxlib._symbolic_trace." in module.code:
        imports += "\nimport fxlib._symbolic_trace"
    imports += _imports_of_globals(module)
    body = "".join(f"        {line}\n" for line in lines)
    (place / "module.py").write_text(
        f"\nimport pathlib\nimport torch\n{imports}\n\nfrom torch.nn import *\n"
        "_FOLDER = pathlib.Path(__file__).resolve().parent # wherever this package is moved to\n"
        f"class {module_name}(torch.nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n{body}{indented(module.code)}\n"
    )
    (place / "__init__.py").write_text("from .module import *")
    if pickled:
        warnings.warn(
            f"Was not able to save the following children modules as reprs -saved as pickled files instead: {pickled}",
            stacklevel=3,
        )


def _imports_of_globals(module: "GraphModule") -> str:
    """Imports for what the code calls under a name of its own, such as ``fxlib_passes_quantize_functions_quantize``."""
    found = []
    for name, value in module.graph.python_code("self").globals.items():
        home, own = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if name in _custom_builtins or not home or not own or "." in own or "<" in own:
            continue
        if getattr(sys.modules.get(home), own, None) is value and name.isidentifier():
            found.append(f"\nfrom {home} import {own} as {name}")
    return "".join(found)
