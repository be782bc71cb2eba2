"""Resolves imports to files of the workspace."""

from __future__ import annotations

import os
from collections.abc import Iterable


class Modules:
    """The workspace's Python files as importable modules.

    An absolute import is searched where Python could find it when some script of the workspace runs: in the folder of
    the importing file, in each folder above it, in their ``src``, and next to every top-level package; the nearest
    wins. Scripts also add subfolders to ``sys.path``, so a unique file of that name below is used, too.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.links: dict[str, str] = {}
        """Other names of files, with those that the index knows them by."""
        self._files: set[str] = set()
        self._folders: dict[str, int] = {}
        self._known: dict[tuple[str, int, str], str | None] = {}
        self._tops: dict[str, list[str]] | None = None
        self._named: dict[str, list[str]] | None = None

    def replace(self, files: Iterable[str]) -> None:
        self._files, self._folders = set(), {}
        for path in files:
            self.add(path)

    def add(self, path: str) -> None:
        """Handle a new file."""
        if path in self._files:
            return
        self._files.add(path)
        self._forget()
        for folder in self._above(path):
            self._folders[folder] = self._folders.get(folder, 0) + 1

    def link(self, path: str, name: str) -> None:
        """Handle a new link to the file that the index knows by this name; it is imported by both."""
        self.links[path] = name
        if path.endswith(".py"):
            self.add(path)

    def discard(self, path: str) -> None:
        """Handle a deleted file or link."""
        self.links.pop(path, None)
        if path not in self._files:
            return
        self._files.discard(path)
        self._forget()
        for folder in self._above(path):
            self._folders[folder] -= 1
            if not self._folders[folder]:
                del self._folders[folder]

    def resolve(self, importer: str, level: int, module: str) -> str | None:
        """The file of a module, or the folder of a package without ``__init__``; None outside of the workspace."""
        key = (os.path.dirname(importer), level, module)
        if key not in self._known:
            self._known[key] = self._find(importer, level, module)
        return self._known[key]

    def submodule(self, package: str, name: str) -> str | None:
        """The file or folder of ``name`` in the package that this file or folder is."""
        folder = os.path.dirname(package) if package.endswith(".py") else package
        if package.endswith(".py") and os.path.basename(package) != "__init__.py":
            return None
        return self._at(os.path.join(folder, name))

    def name_of(self, path: str) -> str:
        """The dotted name of a file from the outermost package that holds it."""
        folder, file = os.path.split(path)
        parts = [] if file == "__init__.py" else [os.path.splitext(file)[0]]
        while os.path.join(folder, "__init__.py") in self._files:
            folder, name = os.path.split(folder)
            parts.insert(0, name)
        return ".".join(parts)

    def _find(self, importer: str, level: int, module: str) -> str | None:
        parts = module.split(".") if module else []
        folder = os.path.dirname(importer)
        if level:
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            return self._at(os.path.join(folder, *parts)) if self._inside(folder) else None
        for base in self._bases(folder, parts[0] if parts else ""):
            found = self._at(os.path.join(base, *parts))
            # A file that imports a module of its own name refers to the installed one: `yaml.py` with `import yaml`.
            if found is not None and found != importer:
                return found
        return self._below(folder, parts) if parts else None

    def _below(self, folder: str, parts: list[str]) -> str | None:
        if self._named is None:
            self._named = {}
            for path in self._files:
                place = os.path.dirname(path) if os.path.basename(path) == "__init__.py" else os.path.splitext(path)[0]
                self._named.setdefault(os.path.basename(place), []).append(path)
        tail = os.sep + os.path.join(*parts)
        tails = (f"{tail}.py", os.path.join(tail, "__init__.py"))
        found = [path for path in self._named.get(parts[-1], ()) if path.startswith(folder + os.sep)]
        files = {self.links.get(path, path) for path in found if path.endswith(tails)}
        return files.pop() if len(files) == 1 else None

    def _bases(self, folder: str, top: str) -> Iterable[str]:
        at = folder
        while self._inside(at):
            # Inside a package its own folder is not on the path, unless a script there is run.
            yield at
            yield os.path.join(at, "src")
            at = os.path.dirname(at)
        if self._tops is None:
            self._tops = {}
            for path in sorted(self._files):
                if os.path.basename(path) == "__init__.py":
                    package = os.path.dirname(path)
                    parent, name = os.path.split(package)
                    if os.path.join(parent, "__init__.py") not in self._files:
                        self._tops.setdefault(name, []).append(parent)
        yield from self._tops.get(top, ())

    def _at(self, place: str) -> str | None:
        for path in (os.path.join(place, "__init__.py"), f"{place}.py"):
            if path in self._files:
                return self.links.get(path, path)
        return place if place in self._folders else None

    def _above(self, path: str) -> Iterable[str]:
        at = os.path.dirname(path)
        while self._inside(at):
            yield at
            at = os.path.dirname(at)

    def _inside(self, folder: str) -> bool:
        return folder == self.root or folder.startswith(self.root + os.sep)

    def _forget(self) -> None:
        self._known.clear()
        self._tops = self._named = None
