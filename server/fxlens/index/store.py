"""Facts on disk, so that the second start is quick: one JSON file for each workspace in the user's cache folder."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from fxlens.sources.files import write_whole

from .facts import VERSION, Facts

Stamp = tuple[int, int]
"""A file's time of change in nanoseconds and its size: if both are equal, its content is assumed to be unchanged."""
_MOST_FILES = 40


class Store:
    """Reads and writes the facts of one workspace."""

    def __init__(self, root: str, folder: Path) -> None:
        name = hashlib.sha256(os.path.abspath(root).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        self.folder, self.path = folder, folder / f"{name}.json"

    def load(self) -> dict[str, tuple[Stamp, Facts]]:
        """The facts by path; empty if there are none, or of another version."""
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            if data["version"] != VERSION:
                return {}
            return {
                path: ((int(time), int(size)), Facts.from_json(facts))
                for path, (time, size, facts) in data["files"].items()
            }
        except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return {}

    def save(self, files: dict[str, tuple[Stamp, Facts]]) -> None:
        """Replaces the stored facts; a cache that cannot be written is not an error."""
        data = {path: [*stamp, facts.to_json()] for path, (stamp, facts) in files.items()}
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(str(self.path), json.dumps({"version": VERSION, "files": data}).encode(), 0o600)
            self._trim()

    def _trim(self) -> None:
        kept = sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in kept[_MOST_FILES:]:
            path.unlink(missing_ok=True)
