"""Findings that a project has accepted, in a file of the repository: only new ones count.

An entry is the code, the model and the source line without its indentation, so that it does not depend on the line's
position in the file::

    {"version": 1, "findings": {"src/net.py": [
        {"code": "FX101", "model": "Net", "source": "if x.sum() > 0:", "count": 1}]}}
"""

from __future__ import annotations

import codecs
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fxlens.record import Finding
from fxlens.sources.files import Changed, read_bytes, write_after
from fxlens.sources.paths import key, relative
from fxlens.views import finding_place

from .checker import Checked
from .files import CannotCheck

NAME = "fxlens-baseline.json"
_MOST_BYTES = 64 << 20
_TRIES = 5
_VERSION = 1
_NEVER = "FX309"  # a failure to check is not a property of the project


class Entry(NamedTuple):
    code: str
    model: str
    source: str


@dataclass
class Baseline:
    """``files`` has the entries of each file, by its path from the baseline's folder, with their counts. Links do not
    matter: the folder is that of the file to which the baseline's path leads, and entries are for the file to which
    theirs leads."""

    path: str
    files: dict[str, Counter[Entry]] = field(default_factory=dict)
    before: bytes | None = field(default=None, compare=False, repr=False)
    """The content of the file; None if there is none."""

    @classmethod
    def read(cls, path: str) -> Baseline:
        """Raises CannotCheck if the file is missing or not a baseline."""
        try:
            data = read_bytes(path, _MOST_BYTES)
            said = json.loads(data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape"))
            if (version := said.get("version", _VERSION)) != _VERSION:
                raise CannotCheck(f"{path} is a baseline of another version of fxlens: {version!r}, not {_VERSION}")
            found = said["findings"]
            files = {name: Counter(dict(map(_read, entries))) for name, entries in found.items()}
        except OSError as error:
            hint = ". --write-baseline creates it" if isinstance(error, FileNotFoundError) else ""
            raise CannotCheck(f"{path}: {error.strerror}{hint}") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise CannotCheck(f"{path} is not a baseline of fxlens check") from None
        return cls(path, files, data)

    def apply(self, results: Iterable[Checked], counts: Callable[[str], bool]) -> list[str]:
        """Removes the known findings from the results; returns a sentence for each entry that no longer occurs.

        Entries of files that were not checked now, and of codes that do not count now, are ignored.
        """
        known, gone = self._names(), []
        left: dict[str, Counter[Entry]] = {}
        unknown: set[str] = set()
        for result in results:
            at = key(result.record["path"])
            entries = left.setdefault(at, self._entries(known.get(at, ())))
            result.findings = [each for each in result.findings if not _take(entries, result, each)]
            # The findings of a file that could not be run are unknown.
            if any(each["code"].startswith("FX3") and each["target"] is None for each in result.findings):
                unknown.add(at)
        for at, entries in left.items():
            if at not in unknown:
                gone += [_gone(known[at][0], entry) for entry in entries if counts(entry.code)]
        for name in sorted(name for at, names in known.items() if at not in left for name in names):
            if not os.path.exists(self._place(name)):
                gone.append(_line(f"{name}: the file is gone, and its entries are still in the baseline"))
        return gone

    def accepted(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        """The codes and lines of the entries, by the keys of their files."""
        return {at: [(each.code, each.source) for each in self._entries(names)] for at, names in self._names().items()}

    def take(self, results: Iterable[Checked], counts: Callable[[str], bool] = lambda code: True) -> int:
        """Replaces the entries of checked files by the current findings, drops deleted files, and returns the number of
        all findings. Entries of codes that do not count now stay."""
        known, taken = self._names(), dict[str, Counter[Entry]]()
        for result in results:
            at = key(result.record["path"])
            if at not in taken:
                name, before = self._name(result.record["path"]), self._entries(known.get(at, ()))
                taken[at] = Counter({entry: count for entry, count in before.items() if not counts(entry.code)})
                self.files = {each: said for each, said in self.files.items() if each not in known.get(at, ())}
                self.files[name] = taken[at]
            taken[at].update(_entry(result, each) for each in result.shown if each["code"] != _NEVER)
        self.files = {name: each for name, each in self.files.items() if each and os.path.exists(self._place(name))}
        return sum(each.total() for each in self.files.values())

    @classmethod
    def update(cls, path: str, results: Iterable[Checked], counts: Callable[[str], bool] = lambda code: True) -> int:
        """Writes the file with the current findings, as `take` does; entries that another run has written meanwhile are
        kept.

        Raises:
            CannotCheck: the file is no longer a baseline, or others keep writing it.
            OSError: it cannot be written.
        """
        results = list(results)
        for _ in range(_TRIES):
            known = cls.read(path) if os.path.exists(path) else cls(path)
            number = known.take(results, counts)
            with suppress(Changed):
                known.write()
                return number
        raise CannotCheck(f"another process is writing {path}")

    def write(self) -> None:
        """Raises OSError, or Changed if the file is no longer the one that was read."""
        findings = {
            name: [{**entry._asdict(), "count": count} for entry, count in sorted(entries.items())]
            for name, entries in sorted(self.files.items())
        }
        text = json.dumps({"version": _VERSION, "findings": findings}, indent=1, ensure_ascii=False) + "\n"
        write_after(self.path, self.before, text.encode("utf-8", "surrogateescape"))

    def _name(self, path: str) -> str:
        """The path of a file from the baseline's folder: its own, or that of a link to it which is nearer."""
        folder = os.path.dirname(os.path.realpath(self.path))
        names = [relative(each, folder).replace(os.sep, "/") for each in (os.path.realpath(path), path)]
        return min(names, key=lambda name: name.split("/").count(os.pardir))

    def _place(self, name: str) -> str:
        """The path of a file. An earlier version wrote paths from the folder of a link to the baseline."""
        place = os.path.join(os.path.dirname(os.path.realpath(self.path)), name)
        beside = os.path.join(os.path.dirname(os.path.abspath(self.path)), name)
        return beside if os.path.exists(beside) and not os.path.exists(place) else place

    def _names(self) -> dict[str, list[str]]:
        """The names of the entries by the keys of their files."""
        found: dict[str, list[str]] = {}
        for name in self.files:
            found.setdefault(key(self._place(name)), []).append(name)
        return found

    def _entries(self, names: Sequence[str]) -> Counter[Entry]:
        """The entries of one file, which may have been checked by several names."""
        found: Counter[Entry] = Counter()
        for name in names:
            found |= self.files[name]
        return found


def _read(entry: dict[str, Any]) -> tuple[Entry, int]:
    found = Entry(entry["code"], entry["model"], entry["source"])
    if not all(isinstance(each, str) for each in found) or not isinstance(entry["count"], int):
        raise TypeError
    return found, entry["count"]


def _entry(file: Checked, finding: Finding) -> Entry:
    span = finding_place.in_file(file.record["path"], finding, file.record)
    line = file.lines[span["line"] - 1] if span and 0 < span["line"] <= len(file.lines) else ""
    return Entry(finding["code"], finding["target"] or "", " ".join(line.split()))


def _take(left: Counter[Entry], file: Checked, finding: Finding) -> bool:
    """Whether an entry matches this finding; it then matches no other. The class may have been renamed."""
    if finding["code"] == _NEVER:
        return False
    entry = _entry(file, finding)
    renamed = (each for each in left if left[each] and (each.code, each.source) == (entry.code, entry.source))
    found = entry if left[entry] else next(renamed, None)
    if found is None:
        return False
    left[found] -= 1
    if not left[found]:
        del left[found]
    return True


def _gone(name: str, entry: Entry) -> str:
    where = f" in {entry.model}" if entry.model else ""
    return _line(f"{name}: {entry.code}{where} no longer occurs: {entry.source}")


def _line(text: str) -> str:
    """One line, whatever the file contains: a second line could be a workflow command to GitHub."""
    return text.replace("\r", "\\r").replace("\n", "\\n")
