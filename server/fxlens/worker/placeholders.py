"""Placeholders for modules that cannot be imported, so that one missing package does not hide the classes of a file.

A placeholder can be imported, and be a base class, a decorator or a default; `stand_ins` handles later uses. An import
that the code guards with ``try`` still fails.
"""

from __future__ import annotations

import abc
import ast
import builtins
import importlib.abc
import importlib.machinery
import linecache
import os
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from . import (
    extensions,
    former_calls,
    former_names,
    stand_in_configs,
    stand_in_helpers,
    stand_in_layers,
    stand_in_spaces,
    stand_ins,
)
from .assume import sandbox

_IMPORTLIB = os.path.dirname(importlib.__file__)
_LOOKING = ("<frozen importlib.util>", os.path.join(_IMPORTLIB, "util.py"))
"""The code of `importlib.util.find_spec`, which checks whether a module exists."""
_FINDING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "user_file.py")
"""The code that finds files open in the editor, and delegates others."""
_CATCHING = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_KERNELS = ("triton", "tilelang", "cutlass", "cupy")
"""Packages whose decorators replace the function."""
_USUAL = {
    "np": "numpy", "nn": "torch.nn", "F": "torch.nn.functional", "Variable": "torch.autograd.Variable",
    **{name: name for name in ("torch", "copy", "functools", "json", "math", "os", "random", "re", "sys", "time")},
}  # fmt: skip
"""The meaning of these names in files with a star import from their own module."""
_active = False


class _Placeholder(abc.ABCMeta):
    """The type of placeholders for a class, function or value; `stands_for` is the dotted name.

    It can be combined with ``ABC`` among the bases of a class."""

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        module = sys.modules["torch"].nn.Module
        foreign = any(stand_ins.is_of_another_framework(_name_of(each) or "") for each in bases)
        if "forward" in body and not foreign and not any(issubclass(each, module) for each in bases):
            # A user's class with a forward: its base must have been a module.
            own = [each for each in bases if not isinstance(each, _Placeholder)]
            gone = next(filter(None, map(_name_of, bases)), name)
            return type(name, (*own, stand_ins.module_base()), {**body, "stands_for": gone})
        return super().__new__(mcs, name, bases, body)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        own = _name_of(cls)
        if own is None:
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")
        return placeholder(f"{own}.{name}")

    def register(cls, *args: Any, **kwargs: Any) -> Any:
        """``ABCMeta`` also has it, and attributes of the type are found before ``__getattr__``."""
        if (own := cls.__dict__.get("stands_for")) is None:
            return super().register(*args, **kwargs)
        return placeholder(f"{own}.register")(*args, **kwargs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        own = cls.__dict__.get("stands_for")
        if own is None:
            return super().__call__(*args, **kwargs)
        if not (_active or sandbox.importing(sys._getframe(1))) or stand_in_helpers.serves_imports(own):
            return stand_ins.called(own, args, kwargs)
        if len(args) == 1 and not kwargs and callable(args[0]) and own.partition(".")[0] not in _KERNELS:
            # A decorator.
            return stand_ins.keeping_arguments(args[0]) if own.endswith(".register_to_config") else args[0]
        return placeholder(own)

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__

    def __getitem__(cls, key: Any) -> Any:
        return cls

    def __setitem__(cls, key: Any, value: Any) -> None:
        """``environ["KEY"] = value``"""

    def __lt__(cls, other: Any) -> Any:
        return False if _active else NotImplemented  # a version check at module level

    __gt__ = __le__ = __ge__ = __lt__

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


MARK = _Placeholder.__name__
"""Part of Python's message for operations that placeholders do not support."""


def _name_of(cls: Any) -> str | None:
    return next((each.__dict__["stands_for"] for each in cls.__mro__ if "stands_for" in each.__dict__), None)


def placeholder(name: str) -> Any:
    """The placeholder for this name: the object of an earlier version, a subclass of ``torch.nn.Module`` if it surely
    is one, or a generic placeholder."""
    found = former_names.of(name)
    if found is not None:
        return found
    found = stand_ins.base(name) or stand_in_layers.registry(name) or stand_in_spaces.stands_for(name)
    found = found or stand_in_configs.stands_for(name)
    return found if found is not None else _Placeholder(name.rpartition(".")[2], (), {"stands_for": name})


class PlaceholderModule(ModuleType):
    """A module that could not be found."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return "0.0.0"
        if name == "__all__":
            wanted = _wanted(sys._getframe(1))
            if not stand_ins.is_of_another_framework(self.__name__):
                vars(self).update({each: _usual(each) for each in wanted if each in _USUAL})
            return wanted
        if name.startswith("__"):
            raise AttributeError(name)
        found = placeholder(f"{self.__name__}.{name}")
        setattr(self, name, found)
        return found


def answer_as_before() -> bool:
    """Makes loaded modules provide names of earlier versions to workspace files. Returns whether that is new for any of
    them."""
    names, calls = former_names.install(_reads_former), former_calls.install(_reads_former)
    return names or calls


def _reads_former(name: str, frame: Any) -> bool:
    """Whether a workspace file reads a name that an installed module no longer has; records the place."""
    finder, file = placeholder_finder(), os.path.abspath(frame.f_code.co_filename)
    if finder is None or not finder.is_inside(file):
        return False
    finder.former.setdefault(name, (file, frame.f_lineno))
    return True


def _wanted(frame: Any) -> list[str]:
    """The names for ``from package import *``: those that the file reads but does not bind."""
    while frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
    except (SyntaxError, ValueError, RecursionError):
        return []
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | vars(builtins).keys()
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {node.name for node in ast.walk(tree) if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {(each.asname or each.name).partition(".")[0] for each in node.names}
    return sorted({node.id for node in names} - bound - frame.f_globals.keys())


def _usual(name: str) -> Any:
    try:
        return pkgutil.resolve_name(_USUAL[name])
    except (ImportError, AttributeError):
        return placeholder(_USUAL[name])


def replaced() -> dict[str, tuple[str, int]]:
    """The names replaced by placeholders so far, also in constructors and forwards, with file and line."""
    finder = placeholder_finder()
    return {} if finder is None else finder.replaced


def former() -> dict[str, tuple[str, int]]:
    """The names of earlier versions that were used, with file and line."""
    finder = placeholder_finder()
    return {} if finder is None else finder.former


def placeholder_finder() -> PlaceholderFinder | None:
    """The finder that is used last."""
    return next((each for each in sys.meta_path if isinstance(each, PlaceholderFinder)), None)


class PlaceholderFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules that no other finder found, for unguarded imports of files below ``roots``, also later ones in
    functions, until another finder replaces it."""

    def __init__(self, roots: list[str]) -> None:
        self.look_below(roots)
        self.replaced: dict[str, tuple[str, int]] = {}
        """By name of the module: the file and the line that import it first."""
        self.former: dict[str, tuple[str, int]] = {}
        self._guarded: dict[tuple[str, frozenset[str]], list[tuple[int, int]]] = {}

    def look_below(self, roots: list[str]) -> None:
        self.roots = [os.path.abspath(root) + os.sep for root in roots]

    def __enter__(self) -> PlaceholderFinder:
        global _active
        _active = True
        sys.meta_path[:] = [*(each for each in sys.meta_path if not isinstance(each, PlaceholderFinder)), self]
        extensions.replaced_by(self._extension)
        answer_as_before()
        return self

    def _extension(self, name: str, place: tuple[str, int]) -> ModuleType | None:
        """A placeholder for an extension compiled by a workspace file, since a graph does not need it."""
        if not self.is_inside(place[0]):
            return None
        self.replaced.setdefault(name, place)
        return PlaceholderModule(name)

    def __exit__(self, *_: object) -> None:
        global _active
        _active = False
        answer_as_before()  # also for modules imported since

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        asking = _asking()
        if asking is None:
            return None
        file, line, computed, of_list = asking
        inside = self.is_inside(file)
        owner, _, last = fullname.rpartition(".")
        package = sys.modules.get(owner)
        of_placeholder = isinstance(package, PlaceholderModule)
        own = any(map(self.is_inside, getattr(package, "__path__", ())))
        if not inside or (not of_placeholder and self.is_guarded(file, line)):
            return None
        if computed and not of_placeholder and own:
            return None  # the name is wrong, since all modules of this package are there
        if not of_placeholder and former_names.moved(fullname) is not None:
            self.former.setdefault(fullname, (file, line))
        elif not of_placeholder:
            self.replaced.setdefault(fullname, (file, line))
            if of_list and package is not None and not own:
                setattr(package, last, placeholder(fullname))  # probably a class or function, not a module
                return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        found = stand_in_spaces.stands_for(spec.name)
        if isinstance(found, ModuleType):
            return found
        module, moved = PlaceholderModule(spec.name), former_names.moved(spec.name)
        if moved is not None:
            vars(module).update({name: value for name, value in vars(moved).items() if not name.startswith("__")})
        return module

    def exec_module(self, module: Any) -> None:
        module.__path__ = []

    def importing(self, error: ImportError) -> tuple[str, tuple[str, int]] | None:
        """The installed module whose import by a file below the roots raised this, with the place."""
        trace, own, inner = error.__traceback__, None, False
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if self.is_own(file):
                own, inner = (file, trace.tb_lineno), False
            elif "site-packages" in file or "dist-packages" in file:
                inner = True
            trace = trace.tb_next
        if own is None or not inner:
            return None
        try:
            tree = ast.parse("".join(linecache.getlines(own[0])))
        except (SyntaxError, ValueError, RecursionError):
            return None
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)) and node.lineno <= own[1] <= (node.end_lineno or 0):
                if isinstance(node, ast.ImportFrom):
                    return (node.module, own) if node.module and not node.level else None
                return next(((each.name, own) for each in node.names if each.name not in sys.modules), None)
        return None

    def is_inside(self, path: str) -> bool:
        return any(os.path.join(os.path.abspath(path), "").startswith(root) for root in self.roots)

    def is_own(self, file: str) -> bool:
        """Whether it is a file of the workspace, and not of a package that is installed inside of it."""
        return "site-packages" not in file and self.is_inside(file)

    def is_guarded(self, file: str, line: int, catching: frozenset[str] = _CATCHING) -> bool:
        """Whether the code expects this line to raise one of these exceptions, and goes on."""
        if (file, catching) not in self._guarded:
            text = "".join(linecache.getlines(file))
            try:
                tree = ast.parse(text if "try" in text else "")
            except (SyntaxError, ValueError, RecursionError):
                tree = ast.Module([], [])
            self._guarded[file, catching] = [
                (node.body[0].lineno, node.body[-1].end_lineno or 0)
                for node in _without_expressions(tree)
                if isinstance(node, ast.Try) and any(_catches(each, catching) for each in node.handlers)
            ]
        return any(first <= line <= last for first, last in self._guarded[file, catching])


def _without_expressions(tree: ast.Module) -> Iterator[ast.AST]:
    """Walks the statements of a file without expressions, which are most of a tree."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr)]


def _catches(handler: ast.ExceptHandler, catching: frozenset[str]) -> bool:
    if any(map(_ends, handler.body)):
        return False  # it prints a message, and still ends
    if handler.type is None:
        return True
    names = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(name).rpartition(".")[2] in catching for name in names)


def _ends(node: ast.stmt) -> bool:
    """Whether it raises or ends the program."""
    text = ast.unparse(node.value) if isinstance(node, ast.Expr) else ""
    return isinstance(node, ast.Raise) or text.startswith(("sys.exit(", "exit(", "quit(", "os._exit("))


def _asking() -> tuple[str, int, bool, bool] | None:
    """File and line of the current import, whether its name is computed, as for ``import_module``, and whether the name
    is from ``from package import name``; None for a mere check of existence."""
    frame: Any = sys._getframe(2)
    computed = of_list = False
    while frame is not None:
        file = frame.f_code.co_filename
        if file in _LOOKING:
            return None
        if file == _FINDING:
            frame = frame.f_back
            continue
        if not file.startswith("<frozen importlib") and os.path.dirname(file) != _IMPORTLIB:
            installed = "site-packages" in file or "dist-packages" in file
            return None if installed else (file, frame.f_lineno, computed, of_list)
        of_list = of_list or frame.f_code.co_name == "_handle_fromlist"
        computed = computed or os.path.dirname(file) == _IMPORTLIB
        frame = frame.f_back
    return None
