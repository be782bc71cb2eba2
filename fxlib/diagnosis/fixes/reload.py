"""Executing a file with other texts in place of files, twice in one process."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import linecache
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils import _pytree as pytree

from fxlib.capture import wrapping
from fxlib.diagnosis.fixes import read_file
from fxlib.diagnosis.fixes.loaded import Loaded
from fxlib.interop import torch_side

__all__ = ["forget", "load_file", "registrations_dropped"]


@contextmanager
def registrations_dropped() -> Iterator[None]:
    """On exit, remove the `wrap` registrations made inside, in fxlib and in torch.fx, and the classes registered with
    pytree: they belong to a text that is gone.

    A registration whose function is gone makes every later trace of the process fail.
    """
    tables = (wrapping._wrapped_fns_to_patch, torch_side.foreign_wrapped_functions())
    methods = (wrapping._wrapped_methods_to_patch, torch_side.foreign_wrapped_methods())
    known, lengths = [set(table) for table in tables], [len(each) for each in methods]
    classes = set(pytree.SUPPORTED_NODES)
    try:
        yield
    finally:
        for kind in set(pytree.SUPPORTED_NODES) - classes:
            del pytree.SUPPORTED_NODES[kind]
        for table, keys in zip(tables, known, strict=True):
            for key in set(table) - keys:
                del table[key]
        for each, length in zip(methods, lengths, strict=True):
            del each[length:]


def load_file(path: str, texts: dict[str, str], read: Callable[[str], str | None] = read_file) -> types.ModuleType:
    """Execute a file with texts in place of files, with its folder on ``sys.path`` meanwhile.

    Raises:
        FileNotFoundError: neither ``texts`` nor ``read`` has the file.
    """
    folder = os.path.dirname(os.path.abspath(path))
    finder = _Texts({os.path.realpath(p): t for p, t in texts.items()}, folder)
    sys.path.insert(0, folder)
    sys.meta_path.insert(0, finder)
    try:
        name = f"_fxlens_verified_{len(sys.modules)}"
        text = texts.get(path)
        if text is None:
            text = read(path)
        if text is None:
            raise FileNotFoundError(f"{path}: cannot be read, and no text was given in its place")
        module = types.ModuleType(name)
        module.__file__ = path
        sys.modules[name] = module
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
        return module
    finally:
        sys.path.remove(folder)
        sys.meta_path.remove(finder)


class _Texts(importlib.abc.MetaPathFinder):
    """Serves given texts for modules of a folder."""

    def __init__(self, texts: dict[str, str], folder: str):
        self.texts = texts
        self.folder = folder

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        file = os.path.realpath(os.path.join(self.folder, *fullname.split(".")) + ".py")
        text = self.texts.get(file)
        if text is None:
            return None
        return importlib.util.spec_from_file_location(fullname, file, loader=_TextLoader(text, file))


class _TextLoader(importlib.abc.Loader):
    def __init__(self, text: str, file: str):
        self.text = text
        self.file = file

    def exec_module(self, module: types.ModuleType) -> None:
        linecache.cache[self.file] = (len(self.text), None, self.text.splitlines(keepends=True), self.file)
        exec(compile(self.text, self.file, "exec", dont_inherit=True), module.__dict__)


def forget(known: Loaded) -> None:
    """Drop the user's modules that a load imported, so that the next load executes the edited texts.

    Modules of the standard library and of installed packages stay.
    """
    kept = {os.path.realpath(path) for path in sysconfig.get_paths().values()}
    for name in known.since():
        file = getattr(sys.modules[name], "__file__", None)
        own = name.split(".")[0] in ("fxlib", "fxlens")
        if file is not None and not own and not any(os.path.realpath(file).startswith(k + os.sep) for k in kept):
            del sys.modules[name]
    importlib.invalidate_caches()
