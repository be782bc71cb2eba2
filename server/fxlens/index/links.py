"""The one name that a file has in the index, whatever links lead to it: a file by two names is read once, and is one
caller."""

from __future__ import annotations

import os

from fxlens.sources.notebook import is_notebook, module_path

from . import files


class Links:
    """A file of the workspace has its own name. One outside of it, to which a link in the workspace leads, has the
    first name by which it was found."""

    def __init__(self, root: str, exclude: tuple[str, ...] = ()) -> None:
        self._root, self._real, self._exclude = root, os.path.realpath(root), exclude
        self._outside: dict[str, str] = {}  # by the real path, the name

    def name(self, path: str) -> str:
        """The name of a file, or of the text of a notebook's cells (`module_path`)."""
        if is_notebook(notebook := path.removesuffix(".py")) and notebook != path:
            return module_path(self.name(notebook))
        real = os.path.realpath(path)
        if real == path or not os.path.lexists(path):
            return path
        inside = os.path.join(self._root, os.path.relpath(real, self._real))
        if files.belongs(inside, self._root, self._exclude):
            return inside
        known = self._outside.get(real, path)
        return known if os.path.realpath(known) == real else path

    def behind(self) -> list[str]:
        """The names of files outside."""
        return list(self._outside.values())

    def use(self, path: str) -> None:
        """The file is read by this name, which `name` has returned."""
        if (real := os.path.realpath(path)) != path:
            self._outside[real] = path
