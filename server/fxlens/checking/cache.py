"""Records of files that have not changed, kept in the user's cache folder for ``fxlens check``.

A record is used again when the file, every workspace file that it imported, the tests that may say how its models are
made and called, the project's configuration, the interpreter with its packages, and FX Lens itself are what they were.
What a process's death, a failed import or a missing torch caused is not kept.
Records are JSON; nothing read from here is ever executed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fxlens.host.launch import PACKAGE, fxlib_folder
from fxlens.ipc.request import Request
from fxlens.overlays import groups
from fxlens.record import Record
from fxlens.sources import from_tests
from fxlens.sources.files import read_bytes, write_whole
from fxlens.sources.paths import cache_folder

_PASSING = {"FX301", "FX304", "FX305", "FX306", "FX307", "FX309"}
_MOST_FILES = 5000


class Cache:
    """Records by content, for one interpreter.  ``hits`` counts what was found."""

    def __init__(self, python: str, where: Path | None = None) -> None:
        self.where = where or cache_folder("records")
        self.hits = 0
        self._near: dict[tuple[str, str | None], list[str]] = {}
        self._read: dict[str, bytes] = {}
        self._environment = _digest([environment_of(python), _state_of([PACKAGE, fxlib_folder()])])

    def get(
        self, request: Request, verified: bool, lowering: bool = False, captures: Sequence[str] = ()
    ) -> Record | None:
        """The record of this request if it still holds."""
        try:
            entry = json.loads(self._path(request, verified, lowering, captures).read_text(encoding="utf-8"))
            record = entry["record"]
            if any(content_of(path) != digest for path, digest in entry["files"].items()):
                return None
            if self._tests(request, record["asked"]) != entry["tests"]:
                return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        self.hits += 1
        return record

    def put(
        self, request: Request, verified: bool, record: Record, lowering: bool = False, captures: Sequence[str] = ()
    ) -> None:
        """Keeps the record; a cache that cannot be written is no error."""
        if record["failure"] or any(found["code"] in _PASSING for (_, found), *_ in groups(record)):
            return
        entry = {
            "files": {path: content_of(path) for path in record["files"] if path != request.path},
            "tests": self._tests(request, record["asked"]),
            "record": record,
        }
        path = self._path(request, verified, lowering, captures)
        with suppress(OSError):
            self.where.mkdir(parents=True, exist_ok=True)
            self.where.chmod(0o700)
            write_whole(str(path), json.dumps(entry).encode(), 0o600)

    def trim(self) -> None:
        """Removes the oldest records above a bounded number."""
        with suppress(OSError):
            kept = sorted(self.where.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in kept[_MOST_FILES:]:
                path.unlink(missing_ok=True)

    def _tests(self, request: Request, names: Sequence[str]) -> dict[str, str]:
        """The tests around a file that name one of these models, with digests: new ones count too.  Files and folders
        are looked at once for each `Cache`."""
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

    def _path(self, request: Request, verified: bool, lowering: bool, captures: Sequence[str]) -> Path:
        asked: list[Any] = [request.path, request.text, request.folder, request.config_targets, request.leaf_modules]
        asked += [request.tracer, request.known, verified, lowering, *captures]
        return self.where / f"{_digest([self._environment, *asked])}.json"


def environment_of(python: str) -> list[Any]:
    """The interpreter, and what is installed in it: contents and no times, which differ on every machine of a CI."""
    root = Path(python).absolute().parent.parent
    found: list[Any] = [os.path.realpath(python)]
    for packages in sorted(root.glob("lib/python*/site-packages")) + sorted(root.glob("Lib/site-packages")):
        found += [[path.parent.name, content_of(str(path))] for path in sorted(packages.glob("*.dist-info/RECORD"))]
    return found


def content_of(path: str) -> str | None:
    """A digest of a file's bytes; None where it cannot be read."""
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest()
    except OSError:
        return None


def _bytes_of(path: str) -> bytes:
    """What a test says; nothing where it is too large to be read."""
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
