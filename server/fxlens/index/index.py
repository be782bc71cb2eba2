"""The index: built from a folder, kept up to date, and queried about the classes of a file. Nothing is executed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from . import answers, bounded, captures, declarations, files, roles
from .answers import Answer
from .embedded import EXAMPLES
from .facts import Facts, digest_of, of_file
from .links import Links
from .matching import is_settings
from .runs import Entry, Run, read
from .store import Stamp, Store
from .symbols import Symbol
from .values import Value
from .workspace import Workspace, distance

_MAKERS = (
    "ArgumentParser", "HfArgumentParser", "OmegaConf", "CfgNode", "CN", "tyro", "hydra", "yaml", "EasyDict", "edict",
    "ConfigDict", "ArgParser", "argparse", "FLAGS", "json",
)  # fmt: skip
_MOST_MAKERS = 8
_MOST_HOLDERS = 40
_SECONDS = 2.0  # for one file, or one entry point in it
_MOST_WHOLES = 3


@dataclass(frozen=True)
class Built:
    """Statistics of a build: files read, those with facts on disk, seconds."""

    files: int
    known: int
    seconds: float


class Index:
    """An index of one folder.

    Args:
        root: the workspace folder.
        exclude: patterns of paths below it that are left out.
        store: stores facts between starts; None for no storage.
    """

    def __init__(self, root: str, exclude: tuple[str, ...] = (), store: Store | None = None) -> None:
        self.root = os.path.abspath(root)
        self.exclude = exclude
        self.workspace = Workspace(self.root)
        self._links = Links(self.root, exclude)
        self._store = store
        self._stamps: dict[str, Stamp] = {}
        self._runs: dict[Entry, Run] = {}
        self._answers: dict[Symbol, Answer] = {}
        self._settings: dict[str, list[tuple[Value, tuple[str, int]]]] = {}
        self._declarations = declarations.Declarations(self.workspace)
        self.workspace.settings, self.workspace.declared = self.settings, self._declarations.fitting

    # ---- files

    def build(self) -> Built:
        """Reads the whole folder. Unchanged files come from the store."""
        started, known, count = time.perf_counter(), 0, 0
        kept = self._store.load() if self._store else {}
        found: dict[str, tuple[Stamp, Facts]] = {}
        for entry in files.walk(self.root, self.exclude):
            path = entry.path
            bounded.watch()
            if (seen := _stamp(path)) is not None:
                self._stamps[path] = seen
            if not files.is_python(path):
                self.workspace.put_configuration(path, True)
                continue
            if entry.is_symlink() and self._named(path) != path:
                continue
            count += 1
            if seen is None:
                continue
            stamp = seen
            old = kept.get(path)
            if old is not None and old[0] == stamp and path not in self.workspace.overlays:
                known += 1
                facts = old[1]
            else:
                text = self.workspace.raw(path)
                if text is None:
                    continue
                facts = old[1] if old is not None and old[1].digest == digest_of(text) else _read(path, text)
            found[path] = (stamp, facts)
            self.workspace.put(path, facts)
        if self._store and (known < count or len(kept) != len(found)):
            self._store.save({path: each for path, each in found.items() if path not in self.workspace.overlays})
        return Built(count, known, time.perf_counter() - started)

    def look_again(self, whole: bool = True) -> bool:
        """Handles all changes on disk that nobody has told, and returns whether there are some; unless ``whole``, only
        those of files behind links out of the workspace."""
        names = [entry.path for entry in files.walk(self.root, self.exclude)] if whole else self._links.behind()
        now = {path: stamp for path in names if (stamp := _stamp(path)) is not None}
        asked = self._stamps.keys() if whole else {*names}
        before = {path: stamp for path, stamp in self._stamps.items() if path in asked}
        changed = [path for path in sorted(now.keys() | before.keys()) if now.get(path) != before.get(path)]
        for path in changed:
            bounded.watch()
            if path not in self.workspace.overlays:
                self.update(path)
        self._stamps = {path: stamp for path, stamp in self._stamps.items() if path not in asked} | now
        return bool(changed)

    def update(self, path: str, text: str | None = None) -> bool:
        """Handles a changed, new or deleted file or folder. ``text`` is the editor's text; None for the file on disk.
        Returns whether it may be, or hold, a file that is read."""
        path = os.path.abspath(path)
        if text is None and not path.endswith(files.PYTHON + files.CONFIGURATION):
            inside = os.path.join(path, "")
            if not files.belongs(f"{inside}any.py", self.root, self.exclude):
                return False
            all_known = [*self.workspace.facts, *self.workspace.configuration_files, *self.workspace.modules.links]
            known = {each for each in all_known if each.startswith(inside)}
            if not os.path.islink(path):
                known.update(entry.path for entry in files.walk(path, self.exclude))
            for each in sorted(known):
                if each not in self.workspace.overlays:
                    self.update(each)
            return bool(known)
        if not files.belongs(path, self.root, self.exclude):
            return False
        if files.is_python(path):
            path = self._named(path)
        if text is None:
            self.workspace.overlays.pop(path, None)
        else:
            self.workspace.overlays[path] = text
        if not files.is_python(path):
            self.workspace.put_configuration(path, text is not None or os.path.isfile(path))
            self._forget(path, shape=path not in self._read_files())
            return True
        raw = self.workspace.raw(path)
        facts = None if raw is None else _read(path, raw)
        old = self.workspace.facts.get(path)
        if (facts and facts.digest) != (old and old.digest):
            self._forget(path, self.workspace.put(path, facts))
        for each in [link for link, name in self.workspace.modules.links.items() if name == path]:
            if self._links.name(each) != path:  # the link by whose name the file was known leads elsewhere
                self.update(each)
        return True

    def known_as(self, path: str) -> str:
        """The name that a file has here, whatever links lead to it. One behind a link out of the workspace, or below a
        linked folder, is read when it is asked about."""
        name = self._links.name(os.path.abspath(path))
        if name not in self.workspace.facts and os.path.realpath(name) != name:
            self.update(name)
        return name

    def _named(self, path: str) -> str:
        """The name that a file is read by. If the path has become another link, or is none any more, what it was is
        forgotten."""
        name, modules = self._links.name(path), self.workspace.modules
        other = name if name != path else None
        if modules.links.get(path) != other:
            self.workspace.overlays.pop(path, None)
            self._forget(path, self.workspace.put(path, None))
            if other is not None:
                modules.link(path, other)
        if other is None:
            self._links.use(path)
        return name

    def _read_files(self) -> set[str]:
        return {path for run in self._runs.values() for path in run.files}

    def _forget(self, path: str, shape: bool) -> None:
        self._settings.clear()
        self._declarations.forget()
        if shape:
            self._runs.clear()
            self._answers.clear()
            return
        changed = {path, path + EXAMPLES}
        gone = {entry for entry, run in self._runs.items() if not changed.isdisjoint(run.files)}
        for entry in gone:
            del self._runs[entry]
        # A changed body may name other classes: recompute who leads to a class.
        self._answers.clear()

    # ---- questions

    def classes(self, path: str) -> list[str]:
        """Qualified names of the module classes of a file, in the order of the text."""
        found = sorted(self.workspace.symbols.module_classes(os.path.abspath(path)), key=lambda kind: kind.line)
        return [kind.name for kind in found]

    def answer(self, path: str, name: str) -> Answer:
        """The workspace's knowledge of one class."""
        symbol = Symbol("class", os.path.abspath(path), name)
        if symbol not in self._answers:
            self._answers[symbol] = answers.answer(self, symbol)
        return self._answers[symbol]

    def captured(self, path: str, name: str) -> list[tuple[str, str, int]]:
        """How and where a class is captured: itself, or else a model that contains it."""
        seen = {(path, name)}
        queue = [(path, name)]
        while queue and len(seen) < _MOST_HOLDERS:
            found = self.answer(*queue.pop(0))
            if found.captured:
                return found.captured
            queue += [each for each in found.parents if each not in seen]
            seen.update(found.parents)
        return []

    def wholes(self, path: str, name: str) -> Iterator[Answer]:
        """Models of other files that contain the class, the nearest first: used if its own constructions have holes or
        its inputs are unknown. Written for its file."""
        found = self.answer(path, name)
        if found.inputs and any(not each.holes and each.sure for each in found.constructions):
            return
        seen, queue, count = {(path, name)}, list(found.parents), 0
        while queue and count < _MOST_WHOLES and len(seen) < _MOST_HOLDERS:
            holder = queue.pop(0)
            if holder in seen:
                continue
            seen.add(holder)
            if holder[0] != path:
                whole = answers.whole(self, Symbol("class", *holder), path)
                if whole is not None:
                    count += 1
                    yield whole
            queue += self.answer(*holder).parents

    def aside(self, path: str, name: str) -> str:
        """Why a class does not look like a model; empty if it does. Parts of such classes alone count, too."""
        found = self.answer(path, name)
        if found.aside or found.root or not found.parents:
            return found.aside
        holders = [self.answer(*each) for each in found.parents]
        return f"part of {found.parents[0][1]}" if all(each.aside for each in holders) else ""

    def functions(self, path: str) -> list[tuple[str, str, str, int]]:
        """Functions of a file that are captured: name, how, and where."""
        path = os.path.abspath(path)
        found = dict.fromkeys(roles.decorated_functions(self.workspace, path))
        names = [scope.name for scope in self.workspace.symbols.scopes(path).values() if "." not in scope.name]
        readers = {reader for name in names if name for reader in self.workspace.readers(name)}
        for reader in sorted(readers):
            for scope in roles.capturing_scopes(self.workspace, reader):
                for event in self.run(Entry(reader, scope.partition(".<locals>.")[0])).events:
                    if event.kind == "capture":
                        how = captures.kind_of(event.what) or event.what
                        found.update(
                            {(name, how, *event.place): None for name in roles.captured_functions(event, path)}
                        )
        return list(found)

    def settings(self, near: str) -> list[tuple[Value, tuple[str, int]]]:
        """Configurations of scripts near a file: from their command line, files, or variables."""
        folder = os.path.dirname(near)
        if folder not in self._settings:
            self._settings[folder] = []  # while they are being computed
            self._settings[folder] = list(self._find_settings(near))
        return self._settings[folder]

    def _find_settings(self, near: str) -> Iterator[tuple[Value, tuple[str, int]]]:
        workspace = self.workspace
        paths = {path for name in _MAKERS for path in workspace.readers(name)}
        for path in sorted(paths, key=lambda path: (distance(near, path), path))[:_MOST_MAKERS]:
            yield from self.run(Entry(path, "")).settings
            for name, value in workspace.base_names(path)[0].items():
                if isinstance(value, Value) and is_settings(value) and not name.startswith("__"):
                    yield value, (path, 1)
        yield from declarations.given_by_functions(workspace, near)

    def run(self, entry: Entry) -> Run:
        """The reading of an entry point, cached."""
        found = self._runs.get(entry)
        if found is None:
            nothing = Run(entry, files={entry.file}, exhausted=True)
            found = self._runs[entry] = bounded.within(_SECONDS, lambda: read(self.workspace, entry), nothing)
        return found


def _read(path: str, text: str) -> Facts:
    """The facts of a file; none if reading it takes too long."""
    return bounded.within(_SECONDS, lambda: of_file(path, text), Facts(digest_of(text)))


def _stamp(path: str) -> Stamp | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size
