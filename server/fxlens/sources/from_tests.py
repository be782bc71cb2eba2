"""How a project's tests construct and call the models of a file.

Standard library only: the worker runs it.  Tests are read, never executed.
"""

from __future__ import annotations

import ast
import os
import time
from collections.abc import Callable, Iterator, Sequence

from .bound_names import bound, module_level, trusted_imports
from .files import ERRORS, state_of
from .paths import key
from .targets import Source, Target
from .uses import Uses

__all__ = ["LookedAt", "add", "asked_for", "mentions", "near"]

_FOLDERS = ("tests", "test")
_MOST_FILES = 400
MOST_BYTES = 200_000
_SECONDS = 0.3
_LEVELS = 6

LookedAt = dict[str, object]
"""The states of files and folders before they were read."""


def asked_for(found: list[Target], path: str) -> list[str]:
    """The targets for which tests are searched, because the file itself does not say enough."""
    if _is_test(os.path.basename(path)):
        return []
    return [target.name for target in found if not (target.construct and target.inputs) and not target.skip]


def mentions(test: str, names: Sequence[str], read: Callable[[str], str | None]) -> bool:
    """Whether a file is a test that may use one of these models."""
    if not names or not _is_test(os.path.basename(test)) or _size(test) > MOST_BYTES:
        return False
    text = read(test)
    return text is not None and any(name in text for name in names)


def add(
    found: list[Target],
    tree: ast.Module,
    path: str,
    folder: str | None,
    read: Callable[[str], str | None],
    looked_at: LookedAt | None = None,
) -> list[str]:
    """Adds candidates from tests to targets for which the file itself has too little.

    ``tree`` is the parsed file ``path``, ``folder`` the workspace folder above which nothing is read, ``read`` returns
    the text of a file. Returns the tests that were used: the result is out of date once one of these, or anything in
    ``looked_at``, changes.
    """
    names_asked = asked_for(found, path)
    wanted = {target.name: target for target in found if target.name in names_asked}
    if not wanted:
        return []
    statements = list(module_level(tree.body))
    names = {name for node in statements for name in bound(node)} | {"torch", "nn"}
    trusted = {name for node in statements for name in trusted_imports(node)} | {"torch", "nn"}
    used = []
    until = time.monotonic() + _SECONDS
    for test in near(path, folder, looked_at):
        text = read(test) if _size(test) <= MOST_BYTES else None
        if text is None or not any(name in text for name in wanted):
            continue
        try:
            parsed = ast.parse(text)
        except ERRORS:
            continue
        classes = _spellings(parsed, test, path, wanted)
        if classes:
            own = {node.name for node in parsed.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
            lines = text.splitlines()
            uses = Uses(parsed, classes, lines, names=names - own | {*wanted}, trusted=trusted - own, file=test)
            if uses.found:
                used.append(test)
            for candidate in uses.found:
                _offer(wanted[candidate.target], candidate.kind, candidate.source)
        if time.monotonic() > until:
            break
    for target in wanted.values():
        called = {source.made for source in target.inputs}
        target.construct.sort(key=lambda source: source.source == "test" and source.text not in called)
    return used


def _offer(target: Target, kind: str, source: Source) -> None:
    into = target.construct if kind == "construct" else target.inputs
    if all(source.text != known.text or source.made != known.made for known in into):
        into.append(source)


def near(path: str, folder: str | None, looked_at: LookedAt | None = None) -> Iterator[str]:
    """Test files near ``path``, those named after it first."""
    looked_at = {} if looked_at is None else looked_at
    stem = os.path.splitext(os.path.basename(path))[0]
    found: dict[str, None] = {}
    at = os.path.dirname(os.path.abspath(path))
    top = os.path.abspath(folder) if folder else None
    for _ in range(_LEVELS):
        for test in _listed(at, False, looked_at):
            found[test] = None
        for name in _FOLDERS:
            for test in _listed(os.path.join(at, name), True, looked_at):
                found[test] = None
        parent = os.path.dirname(at)
        if at in (top, parent) or os.path.exists(os.path.join(at, ".git")) or len(found) >= _MOST_FILES:
            break
        at = parent
    found.pop(os.path.abspath(path), None)
    return iter(sorted(list(found)[:_MOST_FILES], key=lambda test: stem not in os.path.basename(test)))


def _listed(folder: str, deep: bool, looked_at: LookedAt) -> Iterator[str]:
    count = 0
    looked_at[folder] = state_of(folder)
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if deep and not name.startswith((".", "__")))
        looked_at.update((each, state_of(each)) for each in (os.path.join(at, name) for name in folders))
        for name in sorted(files):
            if _is_test(name):
                count += 1
                test = os.path.join(at, name)
                looked_at[test] = state_of(test)
                yield test
        if count > _MOST_FILES:
            return


def _is_test(name: str) -> bool:
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _spellings(tree: ast.Module, test: str, path: str, wanted: dict[str, Target]) -> dict[str, str]:
    """The names of the wanted classes of ``path`` in a test that imports them from there or from its package."""
    stem = os.path.splitext(os.path.basename(path))[0]
    package = os.path.basename(os.path.dirname(os.path.abspath(path)))
    homes = {package} if stem == "__init__" else {stem, package}
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module, level = node.module or "", node.level
            home = module.rpartition(".")[2] in homes and _may_be(module, level, test, path)
            for alias in node.names:
                if home and alias.name in wanted:
                    found[alias.asname or alias.name] = alias.name
                elif home and alias.name == "*":
                    found.update({name: name for name in wanted})
                elif alias.name == stem and _may_be(f"{module}.{stem}".lstrip("."), level, test, path):
                    found.update({f"{alias.asname or alias.name}.{name}": name for name in wanted})
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.rpartition(".")[2] in homes and _may_be(alias.name, 0, test, path):
                    found.update({f"{alias.asname or alias.name}.{name}": name for name in wanted})
    return found


def _may_be(module: str, level: int, test: str, path: str) -> bool:
    """Whether an import in a test may mean the file ``path`` or its package: a file or folder of that name is there, or
    none is anywhere, since its folder is on a path that is not known."""
    above = [os.path.dirname(os.path.abspath(test))]
    while len(above) < max(_LEVELS, level):
        above.append(os.path.dirname(above[-1]))
    starts = above[level - 1 : level] if level else [each for one in above for each in (one, os.path.join(one, "src"))]
    named = [os.path.join(start, *module.split(".")) for start in starts]
    there = [each for each in named if os.path.isfile(f"{each}.py") or os.path.isdir(each)]
    own = {key(os.path.splitext(path)[0]), key(os.path.dirname(os.path.abspath(path)))}
    return not there or any(key(each) in own for each in there)
