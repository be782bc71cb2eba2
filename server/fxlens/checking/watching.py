"""``fxlens check --watch``: checks again whenever a file changes.  Unchanged files come from the cache."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import replace

from fxlens.host.pool import Pool
from fxlens.sources.files import began_now, changed_since, state_of, without_content

from .cache import Cache, environment_of
from .checker import Checked, Options, Surroundings, check_files

_SECONDS = 0.3
_REST = 4
"""How much longer it waits than it takes to look at many files."""
_OFTEN = 5
"""Rounds in a row during which a file has changed: then the code itself changes it, and not a user."""
_PATIENCE = 5.0
"""Seconds after a round during which such a change does not count; twice as many each time. What has changed counts
afterwards, since it may have been somebody else, unless they are more than ``_LONGEST``, so that it ends."""
_LONGEST = 60.0
_SOURCES = (".py", ".ipynb", ".toml")
_BESIDE = ("fxlens.toml", "pyproject.toml", "fxlens.examples.toml")
State = dict[str, object]


async def rounds(
    files: Callable[[], list[str]], chosen: Callable[[], Options], also: Sequence[str] = ()
) -> AsyncGenerator[list[Checked], None]:
    """The results now, and again after each change; never ends by itself.

    ``files`` returns the files to check, ``chosen`` the options, which have always the same interpreter. Both are
    called each time, since files come and go. The files ``also`` count for the options.
    """
    options = chosen()
    pool = Pool(options.launch, options.jobs)
    around = Surroundings()
    known: set[str] = set()
    written: set[str] = set()
    patience = _PATIENCE
    moved: dict[str, int] = {}  # in how many rounds, one after the other
    installed = environment_of(options.launch.python)
    took = 0.0
    try:
        while True:
            paths = files()
            watched = [*paths, *_beside(paths), *also]
            before, began = _state([*watched, *known]), began_now()
            options = chosen()
            if (now_installed := environment_of(options.launch.python)) != installed:
                await pool.restart()  # its processes have imported what was installed before
                installed = now_installed
            fresh = replace(options, cache=Cache(options.launch, installed=installed) if options.cache else None)
            results = [result async for result in check_files(pool, paths, fresh, around)]
            read = {path for result in results for path in result.record["files"]}
            own = {path for result in results for path in result.record["written"]}
            looked_at = _looked_at(results)
            new = read - before.keys()
            before.update({**_state(new), **looked_at})
            watched += [*read, *own]
            before = {path: before[path] for path in before.keys() & {*watched}}  # without what is read no more
            now = _state([*before, *own])
            # A file that was not known to be read may have been saved in the meantime. Imports are looked for at paths
            # that do not exist, too.
            saved = {path for path in (new & before.keys()) - looked_at.keys() if changed_since(path, began)}
            changed = saved | {path for path in before if now.get(path) != before[path]}
            moved = {path: moved.get(path, 0) + 1 for path in changed}
            # What the code changes at each execution would have it checked without end. Once counts, since other code
            # may have looked before.
            again, written = own & written, own
            often = {path for path, times in moved.items() if times >= _OFTEN and not path.endswith(_SOURCES)}
            resting = {path for path in [*before, *own] if path in often or os.path.abspath(path) in again}
            patience = 2 * patience if resting else _PATIENCE
            changed -= resting
            before.update({path: now.get(path) for path in {*resting, *(own - before.keys())}})
            known = {*read, *own}
            ended = time.monotonic()
            yield results
            while not changed:
                await asyncio.sleep(max(_SECONDS, _REST * took))
                start = time.perf_counter()
                now = _state([*files(), *watched])
                took = time.perf_counter() - start
                rests = time.monotonic() < ended + patience  # processes that are made ahead execute the code, too
                if rests and patience > _LONGEST:
                    before.update({path: now.get(path) for path in resting})
                looked = (now.keys() | before.keys()) - (resting if rests else set())
                changed = {path for path in looked if now.get(path) != before.get(path)}
            around.changed(changed)
            await around.look_again()
    finally:
        await pool.close()
        await around.close()


def _beside(paths: Iterable[str]) -> Iterable[str]:
    """Configurations and recorded examples that may belong to the files, existing or not."""
    folders = {os.getcwd()}
    for path in paths:
        at = os.path.dirname(os.path.abspath(path))
        while at not in folders:
            folders.add(at)
            at = os.path.dirname(at)
    return [os.path.join(folder, name) for folder in folders for name in _BESIDE]


def _looked_at(results: Iterable[Checked]) -> State:
    """The states that the code saw, which may be others by now; an object for one that changed meanwhile."""
    found: State = {}
    for result in results:
        for path, state in result.record["looked_at"].items():
            found[path] = state if found.get(path, state) == state else object()
    return found


def _state(paths: Iterable[str]) -> State:
    """Time, size and number of the existing files, and the names in folders that were listed. Not the time of the last
    change of any kind: that of a permission, perhaps by the code itself, means nothing."""
    found: State = {}
    for path in paths:
        if without_content(path):
            if (there := state_of(path)) is not None:
                found[path] = there
            continue
        try:
            state = os.stat(path)
        except OSError:
            continue
        found[path] = (state.st_mtime_ns, state.st_size, state.st_ino)
    return found
