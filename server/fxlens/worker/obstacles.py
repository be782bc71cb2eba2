"""What is left out or replaced when an import fails, so that the file's classes can still be checked."""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import inspect
import linecache
import os
import re
import sys
import traceback
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from fxlens.sources.paths import key

from . import definitions, former_names, outside
from .errors import brief, text_of
from .placeholders import PlaceholderFinder, PlaceholderModule, answer_as_before, placeholder

if TYPE_CHECKING:
    from .user_file import OverlayFinder

_MOST_STATEMENTS = 6
_PYTHON = os.path.dirname(os.__file__)
_MISSING_NAME = re.compile(r"cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'")


class LeftOut(NamedTuple):
    """A statement or decorator that was left out: the error, the importing line of the user's file, and whether it may
    work with other files, packages or network access."""

    reason: str
    line: int
    elsewhere: bool
    what: str = "statement"


@dataclass
class Replaced:
    """Replacements for failing imports.

    ``modules``: placeholders, with the file and the line that import them first; ``packages``: those whose ``__init__``
    raises, with the error; ``names``: those missing in modules; ``former``: those of earlier versions, with the file
    and line that read them first; ``statements``: those of other files of the workspace that raise, and decorators, by
    file and line;
    ``hidden``: modules taken from a parent folder, with the file that Python would use and the one used.
    """

    modules: dict[str, tuple[str, int]] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    former: dict[str, tuple[str, int]] = field(default_factory=dict)
    statements: dict[tuple[str, int], LeftOut] = field(default_factory=dict)
    hidden: dict[str, tuple[str, str]] = field(default_factory=dict)
    raised: BaseException | None = None
    """The error of the file at module level, if its classes are defined nevertheless."""

    def __bool__(self) -> bool:
        return bool(self.modules or self.packages or self.names or self.former or self.statements or self.hidden)


def is_inside(file: str, root: str) -> bool:
    return os.path.abspath(file).startswith(os.path.abspath(root) + os.sep)


def pass_over(
    error: Exception, finder: OverlayFinder, placeholders: PlaceholderFinder, path: str, replaced: Replaced
) -> bool:
    """Works around a failed import of ``path``, and returns whether it may now get further: by a module of a parent
    folder that was shadowed, a name from an earlier version, a placeholder for a missing name, importing a circular
    importer first, a placeholder for an incomplete installed module, a submodule that a missing package would have
    imported, or leaving out a decorator, a failing statement of another file or a package's ``__init__``."""
    return (
        _elsewhere(error, finder, replaced)
        or _former(error)
        or _name(error, finder, placeholders, replaced)
        or _circle(error, finder)
        or _module(error, finder, placeholders, replaced)
        or (isinstance(error, AttributeError) and bool(placeholders.replaced) and _import_asked_part(error, finder))
        or _generated(error, finder, placeholders, path, replaced)
        or _decorator(error, finder, path, replaced)
        or _statement(error, finder, placeholders, path, replaced)
        or _package(error, finder, path, replaced)
    )


def _elsewhere(error: Exception, finder: OverlayFinder, replaced: Replaced) -> bool:
    """Uses a module of a parent folder: programs start there, where ``utils`` is a package and not the ``utils.py``
    next to the file, or the file itself."""
    if not isinstance(error, ImportError) or not error.name:
        return False
    missing = _MISSING_NAME.match(text_of(error))
    top, *inner = error.name.split(".")
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    asking = [each for each in files if each[:1] != "<" and any(is_inside(each, root) for root in finder.roots)]
    itself = next((each for each in asking[-1:] if os.path.basename(each) == f"{top}.py"), None)
    hiding = getattr(sys.modules.get(top), "__file__", itself)
    if hiding is None or not any(is_inside(hiding, root) for root in finder.roots) or not (inner or missing):
        return False
    folder = os.path.dirname(os.path.abspath(asking[-1])) if asking else ""
    while folder and any(is_inside(os.path.join(folder, top), root) for root in finder.roots):
        place = os.path.join(folder, *error.name.split("."))
        files = [f"{place}.py", os.path.join(place, "__init__.py")]
        names = [os.path.join(place, f"{missing['name']}.py")] if missing else []
        there = [file for file in files if os.path.isfile(file) and key(file) != key(hiding)]
        binds = not missing or any(_binds(file, missing["name"]) for file in there)
        if (there and binds) or any(map(os.path.isfile, names)) or (not missing and os.path.isdir(place)):
            if sys.path[0] == folder:
                return False  # it did not help
            if os.path.isdir(os.path.join(folder, top)):
                finder.folders[top] = os.path.join(folder, top)  # it may have no `__init__`, and come last then
            for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
                del sys.modules[name]
            # `inspect` remembers its file, and would raise for a package without one in its place.
            vars(inspect).get("_filesbymodname", {}).pop(top, None)
            sys.path[:] = [folder, *(each for each in sys.path if each != folder)]
            replaced.hidden[top] = hiding, os.path.join(folder, top)
            return True
        folder = os.path.dirname(folder)
    return False


def _binds(file: str, name: str) -> bool:
    pattern = rf"^(def|class) {name}\b|^{name}\s*[:=]|^(from|import)\b.*\b{name}\b"
    return re.search(pattern, "".join(linecache.getlines(file)), re.M) is not None


def _former(error: Exception) -> bool:
    """Lets a module that this import loaded provide names of an earlier version."""
    if not isinstance(error, AttributeError) or not isinstance(error.obj, ModuleType):
        return False
    return former_names.of(f"{error.obj.__name__}.{error.name}") is not None and answer_as_before()


def _name(error: Exception, finder: OverlayFinder, placeholders: PlaceholderFinder, replaced: Replaced) -> bool:
    missing = _MISSING_NAME.match(text_of(error)) if isinstance(error, ImportError) else None
    module = sys.modules.get(missing["module"]) if missing is not None else None
    if missing is None or module is None:
        return False
    file = getattr(module, "__file__", None) or ""
    left_out = finder.shortened.get(key(file), set())
    if any(is_inside(file, root) for root in finder.roots) and missing["name"] not in left_out:
        return False
    full = f"{missing['module']}.{missing['name']}"
    setattr(module, missing["name"], placeholder(full))
    if former_names.of(full) is not None:
        frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        placeholders.former[full] = frames[-1]
    elif missing["name"] not in left_out:
        replaced.names.append(full)
    return True


def _circle(error: Exception, finder: OverlayFinder) -> bool:
    """For two modules that import each other, often only one order works: imports first the one that programs do."""
    if not isinstance(error, ImportError) or "partially initialized module" not in text_of(error):
        return False
    for _, _, name in reversed(_at_module_level(error, finder, "")):
        if name in finder.first:
            continue
        finder.first.add(name)
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(name)
            return True
    return False


def _module(error: Exception, finder: OverlayFinder, placeholders: PlaceholderFinder, replaced: Replaced) -> bool:
    asked = placeholders.importing(error) if isinstance(error, ImportError) else None
    if asked is None or asked[0] in finder.failing:
        return False
    name, place = asked
    finder.failing[name] = placeholders
    replaced.modules[name] = place
    return True


def _import_asked_part(error: AttributeError, finder: OverlayFinder) -> bool:
    """Imports the submodule of an installed package named by an attribute, as a missing package would have: after any
    package has imported ``packaging.version``, it is an attribute of ``packaging``."""
    owner = error.obj
    if not isinstance(owner, ModuleType) or isinstance(owner, PlaceholderModule) or not hasattr(owner, "__path__"):
        return False
    if any(is_inside(folder, root) for folder in owner.__path__ for root in finder.roots):
        return False
    try:
        importlib.import_module(f"{owner.__name__}.{error.name}")
    except (Exception, SystemExit):
        return False
    return True


def _generated(
    error: Exception, finder: OverlayFinder, placeholders: PlaceholderFinder, path: str, replaced: Replaced
) -> bool:
    """Code generated for an earlier version of protobuf, ``messages_pb2.py``: each of its statements raises."""
    for file, line, name in reversed(_at_module_level(error, finder, path)):
        if os.path.splitext(file)[0].endswith("_pb2") and name not in finder.failing:
            finder.failing[name] = placeholders
            replaced.modules[name] = file, line
            return True
    return False


def _decorator(error: Exception, finder: OverlayFinder, path: str, replaced: Replaced) -> bool:
    """Leaves out a decorator of a package that raises, such as one that had other arguments in an earlier version; not
    one of Python itself, as `dataclass`, which reads the class."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [at for at in frames if at[0] == path or any(is_inside(at[0], root) for root in finder.roots)]
    if not own or isinstance(error, (NameError, SyntaxError)) or own[-1] in replaced.statements:
        return False
    file, line = own[-1]
    if os.path.dirname(frames[-1][0]) == _PYTHON:
        return False
    try:
        tree = copy.deepcopy(finder.trees.get(key(file))) or ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return False
    for node in ast.walk(tree):
        for each in getattr(node, "decorator_list", ()):
            if each.lineno <= line <= (each.end_lineno or line):
                node.decorator_list.remove(each)  # type: ignore[attr-defined]
                finder.trees[key(file)] = tree
                importing = next((at for name, at in frames if name == path), 1)
                finder.shortened.setdefault(key(file), set())
                replaced.statements[file, line] = LeftOut(brief(error), importing, True, "decorator")
                return True
    return False


def _statement(
    error: Exception, finder: OverlayFinder, placeholders: PlaceholderFinder, path: str, replaced: Replaced
) -> bool:
    """Leaves out a statement, such as one that reads a missing data file."""
    place = next(reversed(_at_module_level(error, finder, path)), None)
    if place is None or isinstance(error, SyntaxError) or len(replaced.statements) >= _MOST_STATEMENTS:
        return False
    file, line, _ = place
    tree = finder.trees.get(key(file))
    if os.path.basename(file) == "__init__.py" or place[:2] in replaced.statements:
        return False
    text = "".join(linecache.getlines(file))
    try:
        tree = tree or ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    left_out = [node for node in tree.body if definitions.first_line(node) <= line <= (node.end_lineno or line)]
    if not left_out:
        return False
    kept = [node for node in tree.body if node not in left_out]
    finder.trees[key(file)] = ast.Module(kept, tree.type_ignores)
    walked = traceback.walk_tb(error.__traceback__)
    own = next((at for frame, at in walked if frame.f_code.co_filename == path), 1)
    # Follow-up errors of another omitted statement, or of a placeholder, are not reported again.
    names = {each.partition(".")[0] for each in replaced.modules.keys() | placeholders.replaced.keys()}
    asks = any(re.search(rf"\b{re.escape(each)}\b", text) for each in names)
    elsewhere = isinstance(error, OSError) or key(file) in finder.shortened or asks
    elsewhere = elsewhere or any(key(each.file) == key(file) for each in outside.notes)
    finder.shortened.setdefault(key(file), set()).update(*map(definitions.bound, left_out))
    if isinstance(error, OSError) and isinstance(error.filename, str):
        finder.missing.setdefault(error.filename, set()).add(os.path.abspath(error.filename))
    replaced.statements[file, line] = LeftOut(brief(error), own, elsewhere)
    return True


def _package(error: Exception, finder: OverlayFinder, path: str, replaced: Replaced) -> bool:
    inits = [name for file, _, name in _at_module_level(error, finder, path) if os.path.basename(file) == "__init__.py"]
    if not inits or inits[-1] in finder.bare:
        return False
    finder.bare.add(inits[-1])
    replaced.packages[inits[-1]] = brief(error)
    return True


def _at_module_level(error: Exception, finder: OverlayFinder, path: str) -> list[tuple[str, int, str]]:
    """The lines of other workspace files in execution, as file, line and module name."""
    found = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        own = file != path and "site-packages" not in file and any(is_inside(file, root) for root in finder.roots)
        if own and frame.f_code.co_name == "<module>":
            found.append((file, line, frame.f_globals.get("__name__", "")))
    return found
