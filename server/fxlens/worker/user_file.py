"""Executes the user's file, with open buffers instead of the files on disk."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fxlens.sources.files import only_names, state_of
from fxlens.sources.notebook import is_notebook
from fxlens.sources.paths import UNIMPORTABLE, import_name, key

from . import (
    definitions,
    imports,
    made_folders,
    main_block,
    obstacles,
    programs,
    read_files,
    script_arguments,
    stacks,
    text_warnings,
)
from .errors import text_of
from .obstacles import Replaced, is_inside
from .placeholders import PlaceholderFinder, PlaceholderModule, placeholder_finder

if TYPE_CHECKING:
    from fxlib.diagnosis.fixes.loaded import Loaded

    from .job import Job

_MOST_TRIES = 12
_TWICE = re.compile(r"already (been )?(registered|exists|defined)|duplicate", re.IGNORECASE)
_TOO_HIGH = re.compile("no known parent package|beyond top-level package")
_IMPORTLIB = os.path.dirname(importlib.__file__)
_INIT = "__init__.py"
_COMPILED = importlib.machinery.EXTENSION_SUFFIXES


class OverlayLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from text; nothing is cached on disk."""

    def __init__(self, name: str, path: str, text: str, tree: ast.Module | None = None) -> None:
        super().__init__(name, path)
        self._text = text
        self._tree = tree
        self.code: Any = None
        """The executed code."""

    def renew(self, text: str, tree: ast.Module | None) -> None:
        """Replaces the module's text without executing it."""
        self._text, self._tree = text, tree

    def get_source(self, fullname: str) -> str:
        return self._text

    def get_code(self, fullname: str) -> Any:
        try:
            code = compile(self._tree or self._text, self.path, "exec", dont_inherit=True)
        except RecursionError:  # a tree has a limit that texts do not have, such as for a chain of elif
            code = compile(self._text, self.path, "exec", dont_inherit=True)
        self.code = self.code or code
        return code


class SameModule(importlib.abc.Loader):
    """Provides an existing module under another name."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, spec: Any) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        pass


class OverlayFinder(importlib.abc.MetaPathFinder):
    """Finds modules whose file is open in the editor, also ones that were never saved.

    ``missing`` are files that an import below ``roots`` looked for but did not find, as in ``try: import extras``;
    ``absent`` the folders that would be such a package.
    """

    def __init__(self, overlays: dict[str, str]) -> None:
        self.overlays = {key(path): (path, text) for path, text in overlays.items()}
        self.trees: dict[str, ast.Module] = {}
        self.roots: list[str] = []
        self.missing: dict[str, set[str]] = {}
        self.absent: dict[str, list[str]] = {}
        self.later: list[str] = []
        """Folders in which Python would search if they were there."""
        self.nearer: set[str] = set()
        """What would be imported in place of a module that was found, if it were there."""
        self.inits: set[str] = set()
        """Files that would make a package of a folder that is imported without one."""
        self.opened: set[str] = set()
        """Files whose text was executed as it is in the editor, also where that failed."""
        self.folders: dict[str, str] = {}
        """Packages that Python would not find, by name: without an ``__init__``, or under a name that we chose."""
        self.executed: dict[str, ModuleType] = {}
        """The module of the user's file once it is complete: other files that import it, by any name, get the same
        classes."""
        self.bare: set[str] = set()
        """Packages whose ``__init__`` is left out."""
        self.shortened: dict[str, set[str]] = {}
        """Files without their failing statements, and the names that these would bind; the rest is in `trees`."""
        self.first: set[str] = set()
        """Modules that were imported before the user's file, since the two import each other."""
        self.failing: dict[str, PlaceholderFinder] = {}
        """Installed modules that cannot be imported, and the maker of placeholders for them."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname in self.failing:
            return importlib.machinery.ModuleSpec(fullname, self.failing[fullname], is_package=True)
        if fullname in self.folders:
            return self._of_folder(fullname, path)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and (importer := _asking()) is not None and self._is_own(importer):
            self.nearer.update(self._before(fullname.rpartition(".")[2], path, spec))
        if fullname in self.bare and spec is not None and spec.origin:
            return self._spec(fullname, spec.origin, "")
        if spec is not None and spec.origin:
            return self._of_user(fullname, spec.origin)
        folders = self._own_folders(spec)
        self.inits.update(os.path.join(folder, _INIT) for folder in folders)
        if folders and not any(map(os.listdir, folders)) and (missing := placeholder_finder()) is not None:
            # Such as a git submodule that was not fetched.
            self.absent[fullname] = folders
            return missing.find_spec(fullname, path)
        owner, _, name = fullname.rpartition(".")
        below = self.absent.get(owner, []) if path is not None and not list(path) else None
        folders = [each for each in (sys.path if path is None else path) if not each or os.path.isdir(each)]
        places = _places(name, folders if below is None else below)
        for place in places if self.overlays else ():
            overlay = self.overlays.get(key(place))
            if overlay:
                return self._spec(fullname, overlay[0], overlay[1])
        asking = _asking()
        if asking is not None and self._is_own(asking):
            if path is None and (beside := self._beside(fullname, asking)) is not None:
                self.nearer.update(self._before(name, [*sys.path, *self._around(asking)], beside))
                return self._of_user(fullname, beside.origin) or beside if beside.origin else beside
            around = _places(name, (*self._around(asking), *self.later)) if path is None else []
            near = [place for place in (*places, *around) if self._is_own(place)]
            # As of a package that is installed as editable.
            outside = [
                each for each in places if each not in near and not _is_library(each) and not _is_installed(each)
            ]
            stems = {os.path.splitext(place)[0] for place in (*near, *outside) if not place.endswith(_INIT)}
            also = [only_names(stem + tail) for stem in stems for tail in ("", *_COMPILED)]
            self.missing.setdefault(fullname, set()).update(near, outside, also)
            self.absent[fullname] = [*dict.fromkeys(os.path.dirname(place) for place in near if place.endswith(_INIT))]
        return None

    def _is_own(self, path: str) -> bool:
        return any(is_inside(path, root) for root in self.roots)

    def _before(self, name: str, path: Any, spec: Any) -> Iterator[str]:
        """What Python prefers to a module that it has found, if it were in the workspace."""
        found = os.path.dirname(os.path.abspath(spec.origin)) if spec.origin else None
        if found is not None and spec.submodule_search_locations is not None:
            found = os.path.dirname(found)
        # Names of hooks are no folders.
        searched = (each for each in (sys.path if path is None else path) if not each or os.path.isabs(each))
        folders = [os.path.abspath(each) for each in searched]
        folders = folders[: folders.index(found) + 1] if found in folders else folders
        own = [each for each in folders if not _is_library(each) and self._is_own(os.path.join(each, name))]
        if path is None and found not in own:
            own += self.later
        for folder in own:
            package = os.path.join(name, _INIT if os.path.isdir(os.path.join(folder, name)) else "")
            for tail in (package, name + _COMPILED[0], f"{name}.py"):
                if (place := os.path.join(folder, tail)) != spec.origin:
                    yield only_names(place)

    def _own_folders(self, spec: Any) -> list[str]:
        """The folders of a package without an ``__init__``, if all of them are the workspace's."""
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        return folders if all(map(self._is_own, folders)) else []

    def _of_user(self, name: str, path: str) -> Any:
        """The spec of a file that is open or already executed, None for others."""
        place = key(path)
        if place in self.executed:
            return importlib.machinery.ModuleSpec(name, SameModule(self.executed[place]))
        overlay = self.overlays.get(place)
        if place in self.shortened:
            return self._spec(name, path, overlay[1] if overlay else "".join(linecache.getlines(path)))
        return self._spec(name, path, overlay[1]) if overlay else None

    def _beside(self, name: str, asking: str) -> Any:
        """A module in the folder of the importing file, or above, since programs add such folders to ``sys.path``."""
        for folder in self._around(asking):
            spec = importlib.machinery.PathFinder.find_spec(name, [folder])
            if spec is not None and (spec.origin or any(map(_has_code, spec.submodule_search_locations or ()))):
                around = [each for each in spec.submodule_search_locations or () if is_inside(asking, each)]
                # `ops/triton/layer_norm.py` does not mean its own folder by `import triton`.
                return spec if not around or imports.are_there(name, around[0], asking) else None
        return None

    def _around(self, asking: str) -> Iterator[str]:
        """The folder of a file, and those above it in the workspace."""
        folder = os.path.dirname(os.path.abspath(asking))
        while self._is_own(folder):
            yield folder
            if os.path.dirname(folder) == folder:
                break
            folder = os.path.dirname(folder)

    def _of_folder(self, name: str, path: Any) -> Any:
        """If an installed package has the same name, it provides the modules that the folder lacks."""
        folder = self.folders[name]
        init = os.path.join(folder, _INIT)
        if os.path.isfile(init) and name not in self.bare:
            return importlib.util.spec_from_file_location(name, init, submodule_search_locations=[folder])
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        installed = importlib.machinery.PathFinder.find_spec(name, path)
        more = installed.submodule_search_locations if installed is not None else None
        spec.submodule_search_locations = [folder, *(more or ())]
        return spec

    def _spec(self, name: str, path: str, text: str) -> Any:
        self.opened.add(path)
        packages = [os.path.dirname(path)] if os.path.basename(path) == _INIT else None
        loader = OverlayLoader(name, path, text, self.trees.get(key(path)))
        return importlib.util.spec_from_file_location(name, path, loader=loader, submodule_search_locations=packages)


def _places(name: str, folders: Iterable[str]) -> list[str]:
    """The files that a module of this name could be."""
    tails = (f"{name}.py", os.path.join(name, _INIT))
    return [os.path.abspath(os.path.join(folder, tail)) for folder in folders for tail in tails]


def executed(path: str, tree: ast.Module) -> ast.Module:
    """The part of a file to execute for its classes: all of it; for a notebook only definitions."""
    return definitions.only(tree) if is_notebook(path) else tree


def load(
    path: str,
    text: str,
    folder: str | None,
    overlays: dict[str, str],
    tree: ast.Module | None = None,
    replaced: Replaced | None = None,
) -> ModuleType:
    """The module that ``path`` would be, executed from ``text``.

    Relative imports work, also in folders without an ``__init__``; the file's own folder (or its package's parent), the
    workspace folder and its ``src`` are on ``sys.path``; modules not found there are searched next to the importing
    file. Missing modules are replaced by placeholders, and a failing ``__init__`` of a workspace package is left out;
    ``replaced`` records this. A script that raises for lack of data, a device or arguments still gives the classes that
    it defines. ``tree`` is the parsed text, if the caller has it. Other exceptions of user code are raised, including
    ``SystemExit``.
    """
    from fxlib.diagnosis.fixes.loaded import Loaded

    overlays = {**overlays, path: text}
    for each, content in overlays.items():
        linecache.cache[each] = (len(content), None, content.splitlines(keepends=True), each)
    tree = executed(path, tree or ast.parse(text)) if is_notebook(path) else tree
    finder = OverlayFinder(overlays)
    if tree is not None:
        finder.trees[key(path)] = tree
    sys.meta_path[:] = [finder, *(each for each in sys.meta_path if not isinstance(each, OverlayFinder))]
    name = _place(finder, path, text, folder)

    def fill(names: dict[str, Any]) -> None:
        main_block.fill(names, tree or ast.parse(text), path)

    replaced = Replaced() if replaced is None else replaced
    packages, known = 0, Loaded()
    none_required = script_arguments.none_required(path)
    taken_away = made_folders.taken_away(folder or os.path.dirname(path))
    programs.turn_off()
    stacks.make_quick()
    read_files.note(finder.roots)
    with PlaceholderFinder(finder.roots) as placeholders, none_required, taken_away, _keeping_modules(path, text):
        for left in reversed(range(_MOST_TRIES)):
            try:
                module = finder.executed[key(path)] = _execute(finder, name, path, text)
                fill(vars(module))
                return module
            except (Exception, SystemExit) as error:
                if left and _TOO_HIGH.search(text_of(error)) and isinstance(error, ImportError):
                    # A module imported by this one searches further up than this one.
                    packages = max(packages, name.count(".")) + 1
                    before, name = name, _place(finder, path, text, folder, packages)
                    placeholders.look_below(finder.roots)
                    if name != before:
                        continue
                if left < _MOST_TRIES - 1 and left and _TWICE.search(str(error)) and _forget(finder, known):
                    continue  # an earlier attempt has filled a registry
                if (
                    left
                    and isinstance(error, Exception)
                    and obstacles.pass_over(error, finder, placeholders, path, replaced)
                ):
                    continue
                rest = definitions.without_script(error, path, tree or ast.parse(text), fill)
                if rest is None:
                    raise
                replaced.raised = error
                finder.executed[key(path)] = rest
                return rest
            finally:
                text_warnings.leave_out()
                replaced.modules.update(placeholders.replaced)
                replaced.former.update(placeholders.former)
    raise AssertionError("the last try returns or raises")


def _forget(finder: OverlayFinder, known: Loaded) -> bool:
    """Forgets workspace modules that are not ``known``, so that they are imported again. Returns whether there were
    any."""
    files = {name: getattr(sys.modules[name], "__file__", None) for name in known.since()}
    own = [
        name
        for name, file in files.items()
        if isinstance(file, str) and any(is_inside(file, root) for root in finder.roots) and "site-packages" not in file
    ]
    for name in own:
        del sys.modules[name]
    return bool(own)


@contextlib.contextmanager
def _keeping_modules(path: str, text: str) -> Iterator[None]:
    """Restores loaded modules, since a documentation's configuration may replace them by mocks: where the text, or
    something that it imports, can reach them."""
    from fxlib.diagnosis.fixes.loaded import Loaded

    before = Loaded()
    try:
        yield
    finally:
        if "sys" in text or imported_files(before) != ([path], []):
            before.put_back()


def _has_code(folder: str) -> bool:
    return any(name.endswith(".py") for name in os.listdir(folder))


def _place(finder: OverlayFinder, path: str, text: str, folder: str | None, packages: int = 0) -> str:
    """Makes the file importable, and returns its import name."""
    name, root = import_name(path, text, packages)
    extra = [root]
    if folder:
        extra += [folder, os.path.join(folder, "src")]
    sys.path[:0] = [each for each in dict.fromkeys(extra) if os.path.isdir(each) and each not in sys.path]
    if sys.path[0] != root and root in sys.path:
        sys.path.remove(root)
        sys.path.insert(0, root)
    finder.roots = [root, folder] if folder else [root]
    finder.later = [each for each in extra if not os.path.isdir(each)]
    parts = name.split(".")
    depth = len(parts) - (os.path.basename(path) != _INIT)
    for at in range(depth):
        place = os.path.join(root, *name.split(".")[: at + 1])
        taken = at == 0 and parts[0] in sys.modules and not _is_folder(sys.modules[parts[0]], place)
        if not parts[at].isidentifier() or taken:
            parts[at] = _own_name(parts[at])
        if parts[at] != os.path.basename(place) or not os.path.isfile(os.path.join(place, _INIT)):
            finder.folders[".".join(parts[: at + 1])] = place
    return ".".join(parts)


def _is_folder(module: ModuleType, folder: str) -> bool:
    return any(key(each) == key(folder) for each in getattr(module, "__path__", ()))


def _own_name(name: str) -> str:
    return UNIMPORTABLE + "".join(char if char.isalnum() else "_" for char in name)


def _execute(finder: OverlayFinder, name: str, path: str, text: str) -> ModuleType:
    parent, _, last = name.rpartition(".")
    package = os.path.join(os.path.splitext(path)[0], _INIT)
    if parent and not last.startswith(UNIMPORTABLE):
        return importlib.import_module(name)
    if parent:
        importlib.import_module(parent)
    elif not name.isidentifier() or name in sys.modules or name in finder.folders or os.path.isfile(package):
        # "my-model.py", or a file that hides a module which is already loaded, or which it imports itself, or is hidden
        # by the package beside it.
        name = _own_name(name)
    spec = finder._spec(name, path, text)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def imported_files(known: Loaded) -> tuple[list[str], list[str]]:
    """Imports besides the modules in ``known``: files, with those that were read, and installed modules in import
    order.

    When one of the files changes, or is created if it was looked for, the result is out of date. So it is when the
    names in a folder change that the code has listed (`only_names`). The modules are worth importing before the next
    job.
    """
    files, packages = looked_for() | _finder().opened, []
    for name in known.since():
        file = getattr(sys.modules.get(name), "__file__", None)
        if not isinstance(file, str):
            continue
        if _is_library(file):
            packages.append(name)
        elif not _is_installed(file):  # also outside of the workspace: installed as editable, by PYTHONPATH
            files.add(file)
    files.update(read_files.noted())
    return sorted(files), packages


def states(known: Loaded, path: str) -> dict[str, object]:
    """The states of the same files but this one: a result is out of date when `state_of` one of them is another."""
    return {each: state_of(each) for each in imported_files(known)[0] if each != path} | read_files.looked_at()


def looked_for() -> set[str]:
    """Files that would have been imported if they existed."""
    finder = _finder()
    return finder.inits.union(finder.nearer, *(places for name, places in finder.missing.items() if _is_missing(name)))


def _finder() -> OverlayFinder:
    return next((each for each in sys.meta_path if isinstance(each, OverlayFinder)), OverlayFinder({}))


def _is_library(path: str) -> bool:
    return "site-packages" in path or "dist-packages" in path


def _is_installed(file: str) -> bool:
    """Whether it comes with Python, or with FX Lens."""
    return any(is_inside(file, root) for root in _installations())


@functools.cache
def _installations() -> set[str]:
    own = [os.path.dirname(sys.modules[name].__file__ or "") for name in ("fxlens", "fxlib")]
    return {*own, sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}


def _is_missing(name: str) -> bool:
    return name not in sys.modules or isinstance(sys.modules[name], PlaceholderModule)


def _asking() -> str | None:
    """The file whose import statement, or call of importlib, is running."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<frozen importlib") and os.path.dirname(file) != _IMPORTLIB:
            return None if _is_library(file) else file
        frame = frame.f_back
    return None


def loader(job: Job) -> Callable[[str, dict[str, str]], ModuleType]:
    """``load(path, texts)``: executes the file with these texts in addition to the job's. What runs then may be within
    `keeping_files`."""
    read_files.note([job.folder or os.path.dirname(job.path)])  # otherwise it would take the place of what keeps them

    def load_file(path: str, texts: dict[str, str]) -> ModuleType:
        merged = {**job.overlays, job.path: job.text, **texts}
        return load(path, merged.pop(path, "") or job.read(path) or "", job.folder, merged)

    return load_file
