"""Records of files that have not changed, kept in the user's cache folder for ``fxlens check``.

A record is reused if the file, every file that it imported, read or looked for, the environment variables that it
read, the tests that may construct and call its models, the project's configuration, the folder in which its code runs,
the limits, the interpreter with its packages, and FX Lens itself are unchanged. Records after a process's death, a
failed import or a missing torch are not kept, nor are those of code that writes what it reads. Records are JSON;
nothing read from here is ever executed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fxlens.host.installed import packages_of, roots_of
from fxlens.host.launch import PACKAGE, Launch, fxlib_folder
from fxlens.ipc.request import Request
from fxlens.not_judged import PASSING
from fxlens.overlays import groups
from fxlens.record import ALL_VARIABLES, Record
from fxlens.sources import from_tests
from fxlens.sources.files import (
    changed_since,
    is_only_names,
    names_in,
    read_bytes,
    seen_at,
    without_content,
    write_whole,
)
from fxlens.sources.paths import cache_folder

_MOST_FILES = 5000
_OF_SHELLS = ("_", "OLDPWD", "SHLVL")


class Cache:
    """Records by content, of jobs that ``launch`` starts, whose `environment_of` may be known.  ``hits`` counts the
    hits."""

    def __init__(self, launch: Launch, where: Path | None = None, installed: list[Any] | None = None) -> None:
        self.where = where or cache_folder("records")
        self.hits = 0
        self._near: dict[tuple[str, str | None], list[str]] = {}
        self._read: dict[str, bytes] = {}
        self._names: dict[str, str | None] = {}
        self._variables: dict[str, str | None] = {}
        self._there: set[str] | None = None
        # Relative paths that the code reads are those of this folder.
        self._folder = os.path.realpath(launch.folder or os.getcwd())
        self._environment = _digest([installed or environment_of(launch.python), _state_of([PACKAGE, fxlib_folder()])])

    def may_have(self, path: str, text: str) -> bool:
        """Whether there is a record of this text; it may be out of date."""
        if self._there is None:
            try:
                self._there = {each.name.partition("-")[0] for each in os.scandir(self.where)}
            except OSError:
                self._there = set()
        return self._of_text(path, text) in self._there

    def get(
        self, request: Request, verified: bool, lowering: bool = False, captures: Sequence[str] = ()
    ) -> Record | None:
        """The record of this request if it still holds."""
        try:
            digest, _, body = self._path(request, verified, lowering, captures).read_bytes().partition(b"\n")
            if hashlib.sha256(body).hexdigest().encode() != digest:
                return None  # a damaged one was never validated
            entry = json.loads(body)
            record = entry["record"]
            if not record.keys() >= Record.__required_keys__:
                return None
            if any(content_of(path) != digest for path, digest in entry["files"].items()):
                return None
            if any(self._variable(name) != digest for name, digest in entry["variables"].items()):
                return None
            if any(self._names_in(folder) != names for folder, names in entry["names"].items()):
                return None
            if self._tests(request, record["asked"]) != entry["tests"]:
                return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        self.hits += 1
        return record

    def put(
        self,
        request: Request,
        verified: bool,
        record: Record,
        began: int,
        lowering: bool = False,
        captures: Sequence[str] = (),
    ) -> None:
        """Keeps the record of a check that ``began`` then; a cache that cannot be written is not an error."""
        if record["written"]:
            return  # its next execution may read what this one has written
        if record["failure"] or any(found["code"] in PASSING for (_, found), *_ in groups(record)):
            return
        looked_at = record["looked_at"]
        read = [path for path in record["files"] if path not in looked_at]
        if any(changed_since(path, began) for path in read if not is_only_names(path) or names_in(path)):
            return  # it may have been read before or after that
        entry = {
            "files": {path: content_of(path) for path in record["files"] if path != request.path} | {**looked_at},
            "names": {folder: self._names_in(folder) for folder in _searched(request, record["files"])},
            "variables": {name: self._variable(name) for name in record["variables"]},
            "tests": self._tests(request, record["asked"]),
            "record": record,
        }
        path = self._path(request, verified, lowering, captures)
        with suppress(OSError):
            self.where.mkdir(parents=True, exist_ok=True)
            self.where.chmod(0o700)
            body = json.dumps(entry).encode()
            write_whole(str(path), hashlib.sha256(body).hexdigest().encode() + b"\n" + body, 0o600)

    def trim(self) -> None:
        """Removes the oldest records beyond a maximum number."""
        with suppress(OSError):
            kept = sorted(self.where.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in kept[_MOST_FILES:]:
                path.unlink(missing_ok=True)

    def _tests(self, request: Request, names: Sequence[str]) -> dict[str, str]:
        """The tests around a file that name one of these models, with digests: new ones count too.  Files and folders
        are read once for each `Cache`."""
        if not names:
            return {}
        around = (os.path.dirname(os.path.abspath(request.path)), request.folder)
        if around not in self._near:
            self._near[around] = sorted(from_tests.near(request.path, request.folder))
        found = {}
        for path in self._near[around]:
            if path not in self._read:
                self._read[path] = _bytes_of(path)
            content = self._read[path]
            if path != request.path and any(name.encode() in content for name in names):
                found[path] = hashlib.sha256(content).hexdigest()
        return found

    def _variable(self, name: str) -> str | None:
        """A digest of an environment variable, or of all; it may be a secret. None if it is not set."""
        if name not in self._variables:
            every = {name: value for name, value in os.environ.items() if name not in _OF_SHELLS}
            value = sorted(every.items()) if name == ALL_VARIABLES else os.environ.get(name)
            self._variables[name] = None if value is None else _digest(value)
        return self._variables[name]

    def _names_in(self, folder: str) -> str | None:
        """A digest of the names that can be imported from a folder, read once for each `Cache`."""
        if folder not in self._names:
            try:
                with os.scandir(folder) as entries:
                    names = sorted(each.name for each in entries if each.name.endswith(".py") or _is_package(each))
                self._names[folder] = _digest(names)
            except OSError:
                self._names[folder] = None
        return self._names[folder]

    def _path(self, request: Request, verified: bool, lowering: bool, captures: Sequence[str]) -> Path:
        asked: list[Any] = [request.path, request.text, request.folder, request.config_targets, request.leaf_modules]
        asked += [request.tracer, request.known, verified, lowering, *captures]
        asked += [self._folder, request.limits.deadline, request.limits.memory]
        return self.where / f"{self._of_text(request.path, request.text)}-{_digest([self._environment, *asked])}.json"

    def _of_text(self, path: str, text: str) -> str:
        return _digest([self._environment, path, text])[:16]


def environment_of(python: str) -> list[Any]:
    """A digest of the interpreter and its installed packages: by content, not times, which differ between CI
    machines."""
    found: list[Any] = [os.path.realpath(python), os.environ.get("PYTHONPATH", "")]
    folders = []
    for root in roots_of(python):
        found.append(str(root))
        folders += packages_of(root)
    for packages in dict.fromkeys(folders):
        found += sorted(path.name for path in packages.glob("*.*-info"))
        found += [[path.parent.name, content_of(str(path))] for path in sorted(packages.glob("*.dist-info/RECORD"))]
    return found


def _searched(request: Request, files: Iterable[str]) -> set[str]:
    """The folders in which a new module or package could shadow one of the imported ``files``."""
    folders = {os.path.dirname(os.path.abspath(path)) for path in (request.path, *files)}
    top = os.path.join(os.path.abspath(request.folder), "") if request.folder else None
    return folders | ({top} if top else set())


def _is_package(entry: os.DirEntry[str]) -> bool:
    return entry.name.isidentifier() and entry.is_dir() and os.path.exists(os.path.join(entry.path, "__init__.py"))


def content_of(path: str) -> str | None:
    """A digest of a file's bytes, or what stands for one `without_content`; None if it cannot be read."""
    if without_content(path):
        return seen_at(path)
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest()
    except OSError:
        return None


def _bytes_of(path: str) -> bytes:
    """The bytes of a test; empty if it is too large."""
    with suppress(OSError):
        return read_bytes(path, from_tests.MOST_BYTES)
    return b""


def _state_of(folders: list[Path]) -> list[Any]:
    """Every source file of FX Lens itself: another version gives other records."""
    return [
        [str(path.relative_to(root)), content_of(str(path))] for root in folders for path in sorted(root.rglob("*.py"))
    ]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=list).encode("utf-8", "surrogatepass")).hexdigest()
