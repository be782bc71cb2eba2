"""The definitions and imports of a file: modules with a forward, functions, wrapped names, layers made in
`__init__`."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fxlens.sources.bound_names import module_level

__all__ = ["File", "Function", "is_setting", "is_static"]

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class File:
    """The names of one source at module scope; ``results`` caches the results of calls of its functions."""

    tree: ast.Module
    imports: dict[str, str] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    wrapped: set[str] = field(default_factory=set)
    results: dict[tuple, tuple[int, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._known_layers: dict[ast.ClassDef, dict[str, str]] = {}
        self._collect(self.tree.body)

    def _collect(self, body: list[ast.stmt]) -> None:
        for statement in module_level(body):
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    self.imports[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            elif isinstance(statement, ast.ImportFrom):
                prefix = "." * statement.level + (statement.module or "")
                for alias in statement.names:
                    self.imports[alias.asname or alias.name] = f"{prefix}.{alias.name}"
            elif isinstance(statement, ast.ClassDef):
                self.classes[statement.name] = statement
            elif isinstance(statement, Function):
                self.functions[statement.name] = statement
                if any(self._is_wrap(d) for d in statement.decorator_list):
                    self.wrapped.add(statement.name)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                call = statement.value
                if self._is_wrap(call.func) and call.args:
                    argument = call.args[0]
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                        self.wrapped.add(argument.value)
                    elif isinstance(argument, ast.Name):
                        self.wrapped.add(argument.id)

    def _is_wrap(self, node: ast.expr) -> bool:
        """`torch.fx.wrap`, `fx.wrap`, a bare `wrap`, and library helpers named `register_notrace_function`."""
        name = (self.dotted(node) or "").rpartition(".")[2]
        return name in ("wrap", "register_notrace_function", "_register_notrace_function", "is_fx_wrapped")

    def dotted(self, node: ast.AST) -> str | None:
        """The full name of a dotted name: ``F.relu`` -> ``torch.nn.functional.relu``."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        return ".".join([self.imports.get(node.id, node.id), *reversed(parts)])

    @cached_property
    def modules(self) -> dict[str, ast.ClassDef]:
        """The classes that are modules with their own forward, or one inherited within the file."""
        return {name: c for name, c in self.classes.items() if self._is_module(c, set()) and self.method(c, "forward")}

    def _is_module(self, node: ast.ClassDef, seen: set[str]) -> bool:
        if node.name in seen:
            return False
        seen.add(node.name)
        for base in node.bases:
            name = self.dotted(base) or ""
            last = name.rpartition(".")[2]
            if name in self.classes:
                if self._is_module(self.classes[name], seen):
                    return True
            elif last.endswith("Module") or name.startswith("torch.nn."):
                return True
        return False

    @cached_property
    def parts(self) -> set[str]:
        """The modules that another class of the file makes: submodules rather than roots."""
        return {
            node.func.id
            for name, owner in self.classes.items()
            for node in ast.walk(owner)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.modules
            if node.func.id != name
        }

    def method(self, owner: ast.ClassDef, name: str) -> Function | None:
        """A method of a class, looked up through its bases in this file."""
        for statement in owner.body:
            if isinstance(statement, Function) and statement.name == name:
                return statement
        for base in owner.bases:
            parent = self.classes.get(self.dotted(base) or "")
            if parent is not None and parent is not owner:
                found = self.method(parent, name)
                if found is not None:
                    return found
        return None

    def layers(self, owner: ast.ClassDef) -> dict[str, str]:
        """Attributes that `__init__` sets to a layer of torch.nn or a module of this file: name -> class."""
        if owner not in self._known_layers:
            self._known_layers[owner] = self._layers_of(owner)
        return self._known_layers[owner]

    def _layers_of(self, owner: ast.ClassDef) -> dict[str, str]:
        start = self.method(owner, "__init__")
        if start is None:
            return {}
        found: dict[str, str] = {}
        rejected: set[str] = set()
        for node in ast.walk(start):
            if not isinstance(node, ast.Assign | ast.AnnAssign):
                continue
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if not (isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)):
                    continue
                layer = self._layer(node.value)
                if layer is None or found.get(target.attr, layer) != layer:
                    rejected.add(target.attr)
                else:
                    found[target.attr] = layer
        return {name: layer for name, layer in found.items() if name not in rejected}

    def _layer(self, value: ast.expr | None) -> str | None:
        if not isinstance(value, ast.Call):
            return None
        name = self.dotted(value.func) or ""
        if name in self.modules:
            return name
        if not name.startswith("torch.nn.") or name.count(".") != 2:
            return None
        layer = name.rpartition(".")[2]
        if layer == "Sequential":
            return layer if value.args and all(self._layer(a) for a in value.args) else None
        return layer if layer[:1].isupper() and layer not in _NO_LAYERS else None


_NO_LAYERS = {
    "Module",
    "ModuleList",
    "ModuleDict",
    "Parameter",
    "ParameterList",
    "ParameterDict",
    "Buffer",
    "UninitializedParameter",
}


def is_static(function: Function) -> bool:
    """Whether a method takes no `self`."""
    return any(isinstance(d, ast.Name) and d.id in ("staticmethod", "classmethod") for d in function.decorator_list)


def is_setting(argument: ast.arg, default: ast.expr | None) -> bool:
    """Whether an argument is a flag, a number or a text rather than a tensor."""
    if isinstance(default, ast.Constant) and default.value is not None:
        return True
    annotation = ast.unparse(argument.annotation) if argument.annotation is not None else ""
    return annotation in ("bool", "int", "str", "float", "Optional[bool]", "bool | None", "Optional[int]", "int | None")
