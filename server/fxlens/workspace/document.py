"""One open Python file: its text, the last good record of it, and the findings that are shown."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fxlens.jobs.fix_all import Fixed
from fxlens.jobs.names import Names
from fxlens.not_judged import ENDED
from fxlens.overlays import Captured, Part, with_parts
from fxlens.record import Finding, Record, Untaken
from fxlens.sources import files, positions
from fxlens.sources.files import LONG
from fxlens.sources.known import Known
from fxlens.sources.parsing import without_magics
from fxlens.sources.paths import key
from fxlens.views import source_nodes

_MAX_CRASHES = 3
_MOST_CAPTURED = 40
_CLASS = re.compile(r"(\s*)class\s+(\w+)")
_HEAD = re.compile(r"\s*(?:async\s+)?(class|def|if|elif|else|for|while|with|try|except|finally|match|case)\b")
_FORWARD = re.compile(r"\s+def\s+forward\s*\(")
_MODULES = (".py", ".so", ".pyd")
_OFTEN = 3
_PATIENCE, _LONGEST = 5.0, 60.0  # seconds
_MOST_BYTES = 1 << 20
_OUTSIDE = re.compile(r"[^\s#)\]}]")  # starts a statement at module level
_LIBRARY = re.compile(r"/(site-packages|dist-packages)/|/lib/python3\.\d+/")


@dataclass
class Fixing:
    """The running computation of all fixes of a text, shared by waiting requests."""

    of: tuple[str, Sequence[int]]
    """The text, and the parts of it that are fixed separately."""
    task: asyncio.Task[Fixed]
    waiting: int = 0


@dataclass(frozen=True)
class Moment:
    """A time by the monotonic clock, and in the form of `sources.files.changed_since`."""

    clock: float
    of_files: int

    @classmethod
    def now(cls) -> Moment:
        return cls(time.monotonic(), files.began_now(0))


@dataclass
class Document:
    """Its tasks belong to the session; everything else is knowledge about the file."""

    uri: str
    path: str
    folder: str | None
    text: str
    version: int | None
    broken: Sequence[Finding] = ()
    """Syntax errors of a notebook's cells, most of which are commented out in its text."""
    saved: bool = field(init=False)
    record: Record | None = None
    """The last good record, with the text it belongs to."""
    record_text: str = ""
    record_version: int | None = None
    judged: tuple[Record, str] | None = None
    """Results of the running trace for the classes judged so far, with its text."""
    record_began: Moment | None = None
    """When its trace began."""
    edited: float = 0.0
    """When the text was last changed, by the monotonic clock."""
    reached: frozenset[str] = frozenset()
    """Keys of the files that the record's nodes come from."""
    diagnosed: int | None = None
    """The version whose findings are published while its graphs are still missing."""
    took: float | None = None
    """Seconds from the start of its last trace to the findings."""
    asked: bool = False
    """Traced by a command: for a library's file, which is not traced automatically."""
    shown: list[Finding] = field(default_factory=list)
    """The shown findings, with their text, version and record."""
    shown_text: str = ""
    shown_version: int | None = None
    shown_record: Record | None = None
    ahead: list[Finding] = field(default_factory=list)
    """Findings from reading the current text, shown until its trace."""
    ahead_version: int | None = None
    task: asyncio.Task | None = None
    verifying: asyncio.Task | None = None
    comparing: asyncio.Task | None = None
    lowering: asyncio.Task | None = None
    capturing: asyncio.Task | None = None
    proving: asyncio.Task | None = None
    """Checks the fixes of findings from ``capturing``."""
    naming: tuple[Moment | None, dict[str, asyncio.Task[Names]]] = field(default_factory=lambda: (None, {}))
    """Of the trace that began then: what the names in its models hold, for those that somebody has asked about."""
    fixing: Fixing | None = None
    fixes_awaited: int = 0
    """The number of requests waiting for all fixes: meanwhile no findings are added to those shown (``held``)."""
    held: bool = False
    said_version: int | None = None
    """The version whose diagnostics the client has received."""
    captured: dict[str, Captured] = field(default_factory=dict)
    """Results of captures other than torch.fx for its models, by a digest of what they depend on: the last ones are
    kept, so that undoing an edit needs no new run."""
    saved_by_user: bool = False
    """Saved since the last edit."""
    line: int | None = None
    """The user's line (from 0): that of the last edit, or as reported by the client."""
    finished: float = 0.0
    """When the last trace began that has ended, whatever it has found, by the monotonic clock."""
    finishing: asyncio.Task | None = None
    """A trace of an earlier text whose graphs are still to come."""
    learning: asyncio.Task | None = None
    to_learn: bool = False
    """Whether something has changed since the workspace was last queried."""
    known: dict[str, Known] | None = None
    """The workspace's knowledge of its classes; None before the first query."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    """The part of each of its classes, as shown."""
    changed_meanwhile: dict[str, bool] = field(default_factory=dict)
    """Other files that changed during its trace, or may have (False); whether they matter is known only from the
    record."""
    crashes: dict[str, int] = field(default_factory=dict)
    counted_version: int | None = None
    looked: dict[str, tuple[str, object]] = field(default_factory=dict)
    """Where its code looked without reading, with what it saw."""
    to_look_at: set[str] = field(default_factory=set)
    """Files that change at each execution, and are looked at again later."""
    _unsteady: bool = False
    """Its last execution has changed what it looks at."""
    _at_rest: set[str] = field(default_factory=set)
    _once: set[str] = field(default_factory=set)
    _by_state: set[str] = field(default_factory=set)
    _moved: dict[str, int] = field(default_factory=dict)
    """At how many executions in a row these files that it reads have changed: it writes them itself, by torch.save."""
    _patience: float = _PATIENCE / 2
    _kept_at: float = 0.0
    _told: set[str] = field(default_factory=set)
    """Files whose change has been told."""
    _contents: dict[str, str | None] = field(default_factory=dict)
    """Digests of these, if they have not changed during the last execution."""
    _lines: tuple[str | None, list[str]] = (None, [])
    _files: tuple[Sequence[str] | None, frozenset[str]] = (None, frozenset())
    _class_here: tuple[int | None, str | None, str | None] = (None, None, None)

    def __post_init__(self) -> None:
        self.text = _without_mark(self.text)
        self.saved = self.is_on_disk()
        if not self.saved:
            self.edited = time.monotonic()

    @property
    def trace(self) -> float | None:
        """Identifies the trace of its record: two of the same text differ, since other files may have changed."""
        return None if self.record is None or self.record_began is None else self.record_began.clock

    @property
    def trace_of_text(self) -> float | None:
        """The same, if its record is that of its text."""
        return self.trace if self.record_text == self.text else None

    @property
    def lines(self) -> list[str]:
        if self._lines[0] is not self.text:
            self._lines = self.text, positions.lines_of(self.text)
        return self._lines[1]

    def edit(self, text: str, version: int | None, broken: Sequence[Finding] = ()) -> int | None:
        """Sets the new text; returns the first line (from 0) that differs."""
        new = _without_mark(text)
        self.broken = broken
        edited = positions.first_difference(self.text, new)
        self.text, self.version, self.saved, self.saved_by_user = new, version, False, False
        self.edited = time.monotonic()
        self._patience = _PATIENCE / 2
        return edited

    def keep(self, record: Record, text: str, version: int | None, began: Moment) -> None:
        self.record, self.record_text, self.record_version, self.record_began = record, text, version, began
        self.judged = None
        found = ((os.path.normpath(each), each) for each in record["files"] if files.without_content(each))
        looked = {path: each for path, each in found if not path.endswith(_MODULES)}
        states = record["looked_at"]
        self.looked = {
            path: (each, states[each] if each in states else files.state_of(each)) for path, each in looked.items()
        }
        # What it changes by itself would have it executed without end; once, since it may have been created just now.
        seen = {path for path, (each, _) in self.looked.items() if each in states}
        moved = {path for path in seen if self._is_another(path)}
        own = {*map(os.path.normpath, record["written"])}
        self._at_rest, self._unsteady = (moved | own if self._unsteady else set()), bool(moved or own)
        self._once = own - self._at_rest
        # Of the others the state is known since now only: each event at them counts.
        self._by_state = seen | self._at_rest
        data = {os.path.normpath(each) for each in record["files"] if _is_data(each)}
        self._moved = {path: self._moved.get(path, 0) + 1 for path in data if files.changed_since(path, began.of_files)}
        self._contents = {path: _content(path) for path in self._told & data - self._moved.keys()}
        changes_them = any(times >= _OFTEN for times in self._moved.values())
        self._kept_at, self._patience = time.monotonic(), 2 * self._patience if changes_them else _PATIENCE / 2
        self.reached = source_nodes.files(record)

    def depends_on(self, path: str) -> bool:
        """Whether the record depends on this file, on one in this folder, or on its being there."""
        if self.record is None or self._is_same(os.path.normpath(path)):
            return False
        read = self.record["files"]
        if self._files[0] is not read:
            named = {os.path.normpath(each) for each in read} - self._by_state
            self._files = read, frozenset(spelled for each in named for spelled in (os.path.normcase(each), key(each)))
        wanted = {os.path.normcase(path), key(path)}
        at = os.path.normpath(path)
        if at in self._once or not wanted.isdisjoint(self._files[1]):
            return True
        below = tuple(os.path.join(each, "") for each in wanted)
        if any(each.startswith(below) for each in self._files[1]):
            return True
        if any(each.startswith(below) and self._is_another(each) for each in self.looked.keys() - self._at_rest):
            return True
        while at in self._at_rest or not self._is_another(at):
            at, before = os.path.dirname(at), at
            if at == before:
                return False
        return True

    def _is_same(self, path: str) -> bool:
        """Whether a change of a file that is no source says nothing: its content is the same, or its code changes it at
        each execution and has just been executed. How long that counts doubles each time, so that it comes to an end
        whatever else executes it."""
        if self.rests(path):
            return True
        if _is_data(path):
            self._told.add(path)
        before = self._contents.get(path)
        return before is not None and before == _content(path)

    def rests(self, path: str) -> bool:
        """Whether a change of a file does not count now, since its code may have made it."""
        often = self._moved.get(os.path.normpath(path), 0) >= _OFTEN
        return often and time.monotonic() < self._kept_at + self._patience

    def until_looked_again(self, path: str) -> float | None:
        """Seconds after which it counts; None if it does now, or did so too often."""
        if not self.rests(path) or self._patience > _LONGEST:
            return None
        return self._kept_at + self._patience - time.monotonic()

    def _is_another(self, path: str) -> bool:
        """Whether it was looked at, and is another one now."""
        each, state = self.looked.get(path, ("", None))
        return each != "" and files.state_of(each) != state

    def is_on_disk(self) -> bool:
        """Whether the file on disk has its text, in whatever encoding. Editors leave out a byte-order mark."""
        text = files.read_text(self.path)
        if text is None:
            with contextlib.suppress(OSError, SyntaxError, UnicodeDecodeError):
                text = files.read_source(self.path)
        return text is not None and _without_mark(text).removeprefix("\x0c") == self.text.removeprefix("\x0c")

    def stop_naming(self) -> None:
        for task in self.naming[1].values():
            task.cancel()

    def checks(self, capture: str) -> bool:
        """Whether fixes for a capture are being checked, or will be: for captures other than torch.fx, once all have
        answered."""
        tasks = (self.task, self.verifying) if capture == "fx" else (self.task, self.capturing, self.proving)
        return any(task is not None and not task.done() for task in tasks)

    def forget(self) -> None:
        """Clears everything that views show."""
        self.record, self.record_text, self.record_version, self.judged = None, "", None, None
        self.reached = frozenset()

    def play(self, parts: Mapping[str, Part]) -> bool:
        """Sets the parts of its classes; returns whether they have changed."""
        if parts == self.parts:
            return False
        self.parts = parts
        last = self.record
        if last is not None and last is not self.shown_record:
            self.record = with_parts(last, parts)
        self.lay_over(lambda record: with_parts(record, parts))
        return True

    def lay_over(self, over: Callable[[Record], Record]) -> Record | None:
        """Adds results of a later job to the record and to the shown findings."""
        before = self.shown_record
        if before is None:
            return None
        overlaid = over(before)
        if self.record is before:
            self.record = overlaid
        self.shown_record = overlaid
        return overlaid

    def note(self, found: list[Finding], record: Record | None) -> bool:
        """Sets the shown findings and unreached lines; returns false if the running trace has already shown the
        same."""
        same = record is not None and self.diagnosed is not None and self.diagnosed == self.shown_version
        same = same and self.shown == found and _untaken(self.shown_record) == _untaken(record)
        self.shown, self.shown_text, self.ahead = found, self.text, []
        self.shown_version, self.shown_record = self.version, record
        return not same

    def class_at(self, line: int) -> str | None:
        """The class whose text a line (from 0) belongs to: one at module level, or one with a forward inside of it,
        ``Net.Block``."""
        lines = self.lines
        inside: list[tuple[str, int]] = []
        least = sys.maxsize  # statements indented this far do not contain the line
        for number in range(min(line, len(lines) - 1), -1, -1):
            match = _CLASS.match(lines[number])
            if match is not None and (len(match[1]) < least or not match[1]):
                inside.insert(0, (match[2], number))
            if match is not None and not match[1]:
                return ".".join(name for index, (name, at) in enumerate(inside) if not index or self._has_forward(at))
            if number != line and _OUTSIDE.match(lines[number]):
                break
            if (head := _HEAD.match(lines[number])) or (number == line and lines[number].strip()):
                indent = len(lines[number]) - len(lines[number].lstrip())
                if head is not None and head[1] == "def" and indent < least:
                    inside.clear()  # classes inside a function
                least = min(least, indent)
        return None

    def _has_forward(self, line: int) -> bool:
        """Whether the class that starts on a line defines a forward itself."""
        head = len(self.lines[line]) - len(self.lines[line].lstrip())
        body: int | None = None
        for each in self.lines[line + 1 :]:
            indent = len(each) - len(each.lstrip())
            if each.strip() and indent <= head:
                break
            body = indent if body is None and each.strip() else body
            if indent == body and _FORWARD.match(each):
                return True
        return False

    def remember(self, found: Mapping[str, Captured]) -> None:
        """Keeps the results of captures for models, by their digests."""
        for digest, captured in found.items():
            self.captured.pop(digest, None)
            self.captured[digest] = captured
        for oldest in list(self.captured)[:-_MOST_CAPTURED]:
            del self.captured[oldest]

    def class_here(self) -> str | None:
        """The class at the user's current or last line."""
        if self._class_here[:2] != (self.line, self.text):
            self._class_here = self.line, self.text, None if self.line is None else self.class_at(self.line)
        return self._class_here[2]

    def line_of_record(self, line: int) -> int | None:
        """The line (from 1) in the record's text for this line (from 0); None if it is new or there is no record."""
        if self.record is None:
            return None
        if self.record_text == self.text:
            return line + 1
        return positions.moved_lines(self.lines, positions.lines_of(self.record_text)).get(line + 1)

    def moved(self) -> list[Finding]:
        """The findings shown last whose lines have not been edited since."""
        moved = positions.moved_lines(positions.lines_of(self.shown_text), self.lines)
        kept: list[Finding] = []
        for finding in self.shown:
            if finding["code"] == "FX308" or finding["span"] is None or key(finding["span"]["file"]) != key(self.path):
                continue
            span = positions.moved_span(finding["span"], moved)
            if span is not None:
                kept.append({**finding, "span": span, "stale": True, "fixes": []})
        return kept

    @property
    def is_long(self) -> bool:
        """Whether the text is too long to be parsed in the event loop."""
        return len(self.text) > LONG

    def without_running(self) -> list[Finding]:
        """Findings from reading alone; none for a text that is too long."""
        return [] if self.is_long else _syntax().without_running(self.text, self.path)

    def read_only(self, targets: Collection[str] | None = None, most: int = LONG) -> list[Finding]:
        """Findings from reading, in some classes or all, on lines that differ from the last trace; none for a text of
        more than ``most`` characters."""
        if len(self.text) > most:
            return []
        traced: set[int] = set()
        if self.record is not None:
            traced = {*positions.moved_lines(positions.lines_of(self.record_text), self.lines).values()}
        found = read(self.text, self.path, targets)
        return [each for each in found if each["span"] and each["span"]["line"] not in traced]

    def count_crash(self, found: list[Finding], digest: str) -> None:
        """Counts, once for each version, how often this text has crashed its process."""
        if self.counted_version != self.version and any(each["code"] in ENDED for each in found):
            self.counted_version = self.version
            self.crashes = {digest: self.crashes.get(digest, 0) + 1}

    def forget_crashes(self) -> None:
        self.crashes.clear()
        self.counted_version = None

    def left_alone(self, digest: str | None = None) -> bool:
        """Whether this text, or the document in general, has crashed so many processes that it is not tried again."""
        return (self.crashes.get(digest, 0) if digest else max(self.crashes.values(), default=0)) >= _MAX_CRASHES


def _untaken(record: Record | None) -> list[Sequence[Untaken]] | None:
    return [target["untaken"] for target in record["targets"]] if record else None


def read(text: str, path: str, targets: Collection[str] | None = None) -> list[Finding]:
    """Findings from reading a text, or only in some of its classes."""
    return _syntax().analyse(text, path, targets)


def _syntax() -> Any:
    return importlib.import_module("fxlens.syntax")


def said_left_alone(finding: Finding) -> Finding:
    """A fatal finding that says that the text is not tried again."""
    note = f" {_MAX_CRASHES} processes ended while tracing this text, so it is not traced again until you edit it."
    if finding["code"] not in ENDED or finding["message"].endswith(note):
        return finding
    return {**finding, "message": finding["message"] + note}


def is_library(path: str, folder: str | None) -> bool:
    """Whether a file is installed, so that the user would not fix its problems."""
    inside = path[len(folder) :] if folder and path.startswith(os.path.join(folder, "")) else path
    return bool(_LIBRARY.search(inside.replace(os.sep, "/")))


def _without_mark(text: str) -> str:
    """The text for Python: a byte-order mark becomes a form feed, which Python skips, and IPython lines become
    comments. Columns are kept."""
    return without_magics(f"\x0c{text[1:]}" if text.startswith("\ufeff") else text)


def _is_data(path: str) -> bool:
    return not files.without_content(path) and not path.endswith(_MODULES)


def _content(path: str) -> str | None:
    """A digest of a file; None if there is none, or only a large one."""
    try:
        return hashlib.sha256(files.read_bytes(path, _MOST_BYTES)).hexdigest()
    except OSError:
        return None
