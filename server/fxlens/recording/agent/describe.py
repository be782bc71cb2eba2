"""Values as Python expressions for similar values: shapes and dtypes of tensors, plain values, configurations.

Tensor data and weights are never read. A value without an expression (a lambda, an open file) is named in ``missing``,
and written as ``...``.
"""

from __future__ import annotations

import ast
import enum
import functools
import sys
from collections.abc import Mapping
from typing import Any

_ITEMS, _TEXT, _DEPTH = 200, 400, 6
_PLAIN = (type(None), bool, int, float, complex)
HOLE = "..."


class Description:
    """Expressions for values, the modules that they name, and values without one.

    Attributes:
        imports: modules to import before an expression is evaluated.
        missing: what could not be written as an expression, one phrase each.
    """

    def __init__(self, made: Mapping[Any, str]) -> None:
        self.made = made
        self.imports: set[str] = set()
        self.missing: list[str] = []

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """``name(…)`` with these arguments."""
        return f"{name}({self.arguments(args, kwargs)})"

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The text between the parentheses of a call."""
        parts = [self._of_any(value, f"argument {number}") for number, value in enumerate(args, 1)]
        parts += [f"{name}={self._of_any(value, name)}" for name, value in kwargs.items()]
        return ", ".join(parts)

    def _of_any(self, value: Any, where: str) -> str:
        """The same as `of` for a value that may raise whatever it is asked: a reference to what is gone, a number of
        thousands of digits."""
        try:
            return self.of(value, where)
        except Exception:
            return self._hole(where, value)

    def of(self, value: Any, where: str, depth: int = 0) -> str:
        """An expression for ``value``; ``where`` names its argument."""
        if isinstance(value, _PLAIN):
            return _number(value) if isinstance(value, (float, complex)) else repr(value)
        if depth > _DEPTH:
            return self._hole(where, value)
        for kind, write in self._kinds():
            if isinstance(value, kind):
                text = write(value, where, depth)
                return self._hole(where, value) if text is None else text
        text = self._named(value) if callable(value) else None
        if text is None:
            text = self._configuration(value, where, depth)
        return self._hole(where, value) if text is None else text

    def _kinds(self) -> list[tuple[Any, Any]]:
        torch = sys.modules["torch"]
        return [
            (torch.nn.Module, self._module),
            (torch.Tensor, lambda value, where, depth: tensor(value)),
            ((torch.dtype, torch.memory_format, torch.layout), lambda value, where, depth: str(value)),
            (torch.device, lambda value, where, depth: 'torch.device("cpu")'),
            (str, lambda value, where, depth: repr(str(value)) if len(value) <= _TEXT else None),
            (bytes, lambda value, where, depth: repr(value) if len(value) <= _TEXT else None),
            (enum.Enum, lambda value, where, depth: self._member(value)),
            (torch.Size, lambda value, where, depth: f"torch.Size({list(value)!r})"),
            (tuple, self._tuple),
            (list, self._sequence),
            ((set, frozenset), self._set),
            (dict, self._dict),
            (slice, lambda value, where, depth: repr(value)),
            (range, lambda value, where, depth: repr(value)),
            (functools.partial, self._partial),
        ]

    def _hole(self, where: str, value: Any) -> str:
        self.missing.append(f"{where} is a {type(value).__qualname__}")
        return HOLE

    def _items(self, values: Any, where: str, depth: int) -> str | None:
        if len(values) > _ITEMS:
            return None
        return ", ".join([self.of(value, where, depth + 1) for value in values])

    def _tuple(self, value: Any, where: str, depth: int) -> str | None:
        items = self._items(value, where, depth)
        if items is None:
            return None
        if hasattr(value, "_fields"):
            name = self._named(type(value))
            return f"{name}({items})" if name else None
        return f"({items},)" if len(value) == 1 else f"({items})"

    def _sequence(self, value: Any, where: str, depth: int) -> str | None:
        items = self._items(value, where, depth)
        return None if items is None else f"[{items}]"

    def _set(self, value: Any, where: str, depth: int) -> str | None:
        items = self._items(sorted(value, key=repr), where, depth)
        if items is None:
            return None
        return f"{type(value).__name__}([{items}])"

    def _dict(self, value: Any, where: str, depth: int) -> str | None:
        if len(value) > _ITEMS:
            return None
        pairs = [f"{self.of(k, where, depth + 1)}: {self.of(v, f'{where}.{k}', depth + 1)}" for k, v in value.items()]
        text = "{" + ", ".join(pairs) + "}"
        if type(value) is dict:
            return text
        name = self._named(type(value))
        return f"{name}({text})" if name and type(value).__name__ != "defaultdict" else text

    def _member(self, value: enum.Enum) -> str | None:
        name = self._named(type(value))
        return f"{name}[{value.name!r}]" if name and value.name else None

    def _partial(self, value: Any, where: str, depth: int) -> str:
        self.imports.add("functools")
        inner = self.arguments(value.args, value.keywords)
        return f"functools.partial({self.of(value.func, where, depth + 1)}{', ' if inner else ''}{inner})"

    def _named(self, value: Any) -> str | None:
        """A function or class by the name under which it can be imported."""
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if not module or not name or "<" in name:
            return None
        if module == "builtins":
            return str(name)
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not value:
            return None
        if module == "__main__":
            module = main_module()
            if module.endswith(".ipynb"):  # its names exist only in its own cells
                return name
        elif module.startswith("torch.nn.modules.") and getattr(sys.modules["torch"].nn, name, None) is value:
            module = "torch.nn"
        if not module:
            return None
        self.imports.add(module)
        return f"{module}.{name}"

    def _module(self, value: Any, where: str, depth: int) -> str | None:
        made = self.made.get(value)
        if made is not None:
            return made if HOLE not in made else None
        name = self._named(type(value))
        if name is None or not type(value).__module__.startswith("torch.nn"):
            return None
        if value._modules:
            torch = sys.modules["torch"]
            children = list(value._modules.items())
            if type(value) is torch.nn.Sequential and [key for key, _ in children] == [
                str(i) for i in range(len(children))
            ]:
                return f"{name}({self._items([child for _, child in children], where, depth)})"
            if type(value) is torch.nn.ModuleList:
                return f"{name}([{self._items([child for _, child in children], where, depth)}])"
            if type(value) is torch.nn.ModuleDict:
                return f"{name}({self._dict(dict(children), where, depth)})"
            return None
        text = f"{name}({value.extra_repr()})"
        try:
            ast.parse(text, mode="eval")
        except SyntaxError:
            return None
        return text

    def _configuration(self, value: Any, where: str, depth: int) -> str | None:
        """An object by its plain attributes: data classes by their class, others as a namespace of the same values."""
        kind = type(value)
        fields = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "model_fields", None)
        if kind.__module__.startswith("omegaconf"):
            plain = sys.modules["omegaconf"].OmegaConf.to_container(value, resolve=True)
            self.imports.add("omegaconf")
            return f"omegaconf.OmegaConf.create({self.of(plain, where, depth + 1)})"
        name = self._named(kind)
        if name and hasattr(value, "to_diff_dict"):  # transformers' configurations
            return self._keywords(
                name, {k: v for k, v in value.to_diff_dict().items() if k.isidentifier()}, where, depth
            )
        if name and fields:
            init = {key: getattr(value, key, None) for key, field in fields.items() if getattr(field, "init", True)}
            return self._keywords(name, init, where, depth)
        state = getattr(value, "__dict__", None)
        if not state or len(state) > _ITEMS or callable(value):
            return None
        self.imports.add("types")
        return self._keywords("types.SimpleNamespace", state, where, depth)

    def _keywords(self, name: str, values: dict[str, Any], where: str, depth: int) -> str | None:
        if len(values) > _ITEMS:
            return None
        parts = []
        for key, each in values.items():
            if not key.isidentifier():
                continue
            before = len(self.missing)
            text = self.of(each, f"{where}.{key}", depth + 1)
            if text == HOLE or len(self.missing) > before:
                del self.missing[before:]  # configurations omit attributes that are not plain values
                continue
            parts.append(f"{key}={text}")
        return f"{name}({', '.join(parts)})"


def main_module() -> str:
    """The name by which the program's main file could be imported, for a notebook that of its file; empty if there is
    none."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name:
        return str(spec.name).removesuffix(".__main__")
    path = file_of("__main__")
    stem = path.replace("\\", "/").rpartition("/")[2].removesuffix(".py")
    return stem if stem.isidentifier() or stem.endswith(".ipynb") else ""


def file_of(module: str) -> str:
    """The file of a module, or the notebook whose cells it has; empty if there is none."""
    found = sys.modules.get(module)
    return getattr(found, "__file__", None) or getattr(found, "__vsc_ipynb_file__", None) or ""


def tensor(value: Any) -> str | None:
    """An expression for a tensor of this shape and dtype: random numbers, or zeros for dtypes without fractions."""
    if type(value).__module__.partition(".")[0] != "torch":
        return None
    sizes = _sizes(value)
    shape = ", ".join(map(str, sizes)) if sizes else "()"
    dtype = value.dtype
    name = str(dtype)
    if (dtype.is_floating_point and dtype.itemsize >= 2) or dtype.is_complex:
        return f"torch.randn({shape})" if name == "torch.float32" else f"torch.randn({shape}, dtype={name})"
    fill = "ones" if name == "torch.bool" else "zeros"
    return f"torch.{fill}({shape}, dtype={name})"


def _sizes(value: Any) -> list[int]:
    # torch.jit.trace records reads of sizes, and warns about each that becomes a number.
    tracing = sys.modules["torch"]._C
    state = tracing._get_tracing_state()
    tracing._set_tracing_state(None)
    try:
        return [int(size) for size in value.shape]
    finally:
        tracing._set_tracing_state(state)


def _number(value: Any) -> str:
    text = repr(value)
    return f'float("{text}")' if text in ("nan", "inf", "-inf") else text
