"""Executes the user's file, with open buffers in place of the files on disk."""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fxlens.sources.paths import key

if TYPE_CHECKING:
    from .job import Job

_IMPORTLIB = os.path.dirname(importlib.__file__)


class OverlayLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from text; nothing is cached on disk."""

    def __init__(self, name: str, path: str, text: str, tree: ast.Module | None = None) -> None:
        super().__init__(name, path)
        self._text = text
        self._tree = tree

    def get_source(self, fullname: str) -> str:
        return self._text

    def get_code(self, fullname: str) -> Any:
        return compile(self._tree or self._text, self.path, "exec", dont_inherit=True)


class OverlayFinder(importlib.abc.MetaPathFinder):
    """Finds modules whose file is open in the editor, also ones that were never saved.

    ``missing`` are the files that an import of a file below ``roots`` looked for in vain, as in ``try: import extras``.
    """

    def __init__(self, overlays: dict[str, str], roots: list[str] | None = None) -> None:
        self.overlays = {key(path): (path, text) for path, text in overlays.items()}
        self.trees: dict[str, ast.Module] = {}
        self.roots = roots or []
        self.missing: dict[str, set[str]] = {}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin:
            overlay = self.overlays.get(key(spec.origin))
            return self._spec(fullname, spec.origin, overlay[1]) if overlay else None
        name = fullname.rpartition(".")[2]
        places = [
            os.path.abspath(os.path.join(folder, tail))
            for folder in (sys.path if path is None else path)
            if not folder or os.path.isdir(folder)
            for tail in (f"{name}.py", os.path.join(name, "__init__.py"))
        ]
        for place in places if self.overlays else ():
            overlay = self.overlays.get(key(place))
            if overlay:
                return self._spec(fullname, overlay[0], overlay[1])
        asking = _asking()
        if asking is not None and any(_inside(asking, root) for root in self.roots):
            near = {place for place in places if any(_inside(place, root) for root in self.roots)}
            self.missing.setdefault(fullname, set()).update(near)
        return None

    def _spec(self, name: str, path: str, text: str) -> Any:
        packages = [os.path.dirname(path)] if os.path.basename(path) == "__init__.py" else None
        loader = OverlayLoader(name, path, text, self.trees.get(key(path)))
        return importlib.util.spec_from_file_location(name, path, loader=loader, submodule_search_locations=packages)


def import_name(path: str) -> tuple[str, str]:
    """The dotted name under which a file is imported, and the folder that must be on the path for it."""
    folder, file = os.path.split(os.path.abspath(path))
    stem = os.path.splitext(file)[0]
    parts = [] if stem == "__init__" else [stem]
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.basename(folder).isidentifier():
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    return ".".join(parts), folder


def load(
    path: str, text: str, folder: str | None, overlays: dict[str, str], tree: ast.Module | None = None
) -> ModuleType:
    """The module that ``path`` would be, executed from ``text``.

    Relative imports work inside packages; the file's own folder (or its package's parent), the workspace folder and
    its ``src`` are on ``sys.path``.
    ``tree`` is the parsed text, where the caller has it.  Whatever the user's code raises is raised, ``SystemExit``
    included.
    """
    overlays = {**overlays, path: text}
    for each, content in overlays.items():
        linecache.cache[each] = (len(content), None, content.splitlines(keepends=True), each)
    name, root = import_name(path)
    extra = [root]
    if folder:
        extra += [folder, os.path.join(folder, "src")]
    sys.path[:0] = [each for each in dict.fromkeys(extra) if os.path.isdir(each) and each not in sys.path]
    if sys.path[0] != root and root in sys.path:
        sys.path.remove(root)
        sys.path.insert(0, root)
    sys.argv = [path]
    finder = OverlayFinder(overlays, [root, folder] if folder else [root])
    if tree is not None:
        finder.trees[key(path)] = tree
    sys.meta_path[:] = [finder, *(each for each in sys.meta_path if not isinstance(each, OverlayFinder))]
    if "." in name:
        return importlib.import_module(name)
    if not name.isidentifier() or name in sys.modules:
        # "my-model.py", or a file that hides a module which is already loaded.
        name = "_fxlens_" + "".join(char if char.isalnum() else "_" for char in name)
    spec = finder._spec(name, path, text)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def imported_files(known: frozenset[str], folder: str | None, path: str) -> tuple[list[str], list[str]]:
    """What was imported beside the modules in ``known``: files of the workspace, and installed modules in the order of
    their import.

    When one of the files changes, the result is out of date, also where it is not there yet: an import may have looked
    for it in vain. The modules are worth importing before the next job.
    """
    roots = [root for root in {folder, import_name(path)[1]} if root]
    files, packages = set(), []
    for name in [name for name in sys.modules if name not in known]:
        file = getattr(sys.modules.get(name), "__file__", None)
        if not isinstance(file, str):
            continue
        if "site-packages" in file or "dist-packages" in file:
            packages.append(name)
        elif any(_inside(file, root) for root in roots):
            files.add(file)
    for finder in sys.meta_path:
        if isinstance(finder, OverlayFinder):
            files.update(*(places for name, places in finder.missing.items() if name not in sys.modules))
    return sorted(files), packages


def _asking() -> str | None:
    """The file whose import statement, or call of importlib, is looking for a module."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<frozen importlib") and os.path.dirname(file) != _IMPORTLIB:
            return None if "site-packages" in file or "dist-packages" in file else file
        frame = frame.f_back
    return None


def _inside(file: str, root: str) -> bool:
    return os.path.abspath(file).startswith(os.path.abspath(root) + os.sep)


def loader(job: Job) -> Callable[[str, dict[str, str]], ModuleType]:
    """``load(path, texts)``: the file executed with these texts over what the job was given."""

    def load_file(path: str, texts: dict[str, str]) -> ModuleType:
        merged = {**job.overlays, job.path: job.text, **texts}
        return load(path, merged.pop(path, "") or job.read(path) or "", job.folder, merged)

    return load_file
