"""The environment of each folder's documents: settings, project configuration, and the pool of workers that runs its
models."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from fxlens.config import choices
from fxlens.config.project import Project
from fxlens.config.selection import Selection
from fxlens.config.settings import Settings
from fxlens.host.knowledge import Knowledge
from fxlens.host.launch import Launch, choose_python, find_python
from fxlens.host.pool import Pool
from fxlens.sources.files import read_text
from fxlens.sources.paths import is_within, key

log = logging.getLogger(__name__)

_Place: TypeAlias = tuple[str | None, str]
"""The workspace's folder of a file, and the folder that it is in."""


class Environment:
    """A folder is a path, or None for everything outside of the workspace.  ``is_open`` says of a path whether its file
    is open in the editor; ``reconfigured(folder, here)`` is called when the configuration for the files in
    ``here`` has changed."""

    def __init__(self, is_open: Callable[[str], bool], reconfigured: Callable[[str | None, str], None]) -> None:
        self._is_open, self._reconfigured = is_open, reconfigured
        self.pools: dict[Launch, Pool] = {}
        self.configurations: dict[str, str] = {}
        """Texts of the configurations that are open in the editor, by the keys of their paths."""
        self.edited: dict[str, float] = {}
        """When these last changed, and when texts of other files were given up, by the monotonic clock."""
        self._knowledge: dict[str, Knowledge] = {}
        self._settings: dict[str | None, Settings] = {None: Settings()}
        self._projects: dict[_Place, Project] = {}
        self._former: dict[_Place, Project] = {}
        """Those that are being read again."""
        self._logged: set[str] = set()  # problems of configurations
        self._reading: dict[_Place, asyncio.Task[None]] = {}
        self._closed = False

    def settings(self, folder: str | None) -> Settings:
        return self._settings.get(folder, self._settings[None])

    def set_settings(self, settings: dict[str | None, Settings]) -> str:
        """Applies settings; returns whether they change ``nothing``, only what is ``shown`` of records, or the
        ``records`` themselves."""
        before, self._settings = self._settings, settings
        if settings == before:
            return "nothing"
        if _but_shown(before) == _but_shown(settings):
            return "shown"
        self.forget_projects()
        return "records"

    def project(self, folder: str | None, path: str) -> Project:
        """The configuration for a file: the nearest one above it within its folder, or next to it if it is in no
        folder. While it is read again, the one before."""
        place = folder, os.path.dirname(path)
        if place in self._reading and place in self._former:
            return self._former[place]
        if place not in self._projects:
            self._keep(place, self._read_now(place))
        return self._projects[place]

    async def read_project(self, folder: str | None, path: str) -> None:
        """Reads configurations in a thread, so that `project` does not block the event loop."""
        place = folder, os.path.dirname(path)
        if place not in self._projects:
            self._read(place)
            await asyncio.shield(self._reading[place])  # an edit cancels the waiting task

    def _read(self, place: _Place) -> None:
        if place not in self._reading:
            self._reading[place] = asyncio.get_running_loop().create_task(self._read_project(place))

    async def _read_project(self, place: _Place) -> None:
        try:
            while place not in self._projects:
                projects = self._projects
                project = await asyncio.to_thread(self._read_now, place)
                if projects is self._projects:  # nothing has changed since
                    self._keep(place, project)
        finally:
            del self._reading[place]

    def _read_now(self, place: _Place) -> Project:
        folder, here = place
        return Project.read(here, self.configuration, _top(folder, here))

    def _keep(self, place: _Place, project: Project) -> None:
        self._projects.setdefault(place, project)
        former = self._former.pop(place, None)
        # Fixes may extend it, so that its text counts, too.
        if former is not None and former is not project and (former.root or project.root):
            self._reconfigured(*place)
        for problem in {*project.problems} - self._logged:
            self._logged.add(problem)
            log.warning("%s", problem)

    def forget_projects(self) -> None:
        """Reads every known configuration again."""
        self._former |= self._projects
        self._projects = {}
        for place in self._former:
            self._read(place)

    def configuration(self, path: str) -> str | None:
        """The text of a configuration that is open in the editor."""
        return self.configurations.get(key(path))

    def open_configuration(self, path: str, text: str | None) -> bool:
        """A configuration was opened with this text, or closed (None); returns whether its content changes."""
        before = self.configurations.get(key(path), read_text(path))
        if text is None:
            self.configurations.pop(key(path), None)
            text = read_text(path)
        else:
            self.configurations[key(path)] = text
        if text != before:
            self.edited[key(path)] = time.monotonic()
        return text != before

    def selection(self, folder: str | None, path: str) -> Selection:
        """Which findings of a file are shown, and with which severity."""
        return choices.selection(self.settings(folder), self.project(folder, path))

    def launch(self, folder: str | None) -> Launch:
        settings = self.settings(folder)
        return Launch(find_python(settings.python, folder), folder, settings.worker)

    def interpreter(self, folder: str | None) -> str:
        """The interpreter of a folder, and the reason for it, on one line."""
        settings = self.settings(folder)
        python, why = choose_python(settings.python, folder)
        return f"{python} ({settings.pythonFrom or why})"

    def whole(self, folder: str | None) -> Launch:
        """For a job that gets all threads and devices."""
        return Launch(find_python(self.settings(folder).python, folder), folder, "spawn", whole=True)

    def pool(self, folder: str | None) -> Pool:
        launch = self.launch(folder)
        pool = self.pools.get(launch)
        if pool is None:
            pool = Pool(launch, self.settings(launch.folder).jobs, self._is_open, closed=self._closed)
            self.pools[launch] = pool
        return pool

    def knowledge(self, folder: str | None) -> Knowledge | None:
        """Knowledge of a workspace folder besides its open documents."""
        if folder is None or self._closed:
            return None
        if folder not in self._knowledge:
            self._knowledge[folder] = Knowledge(folder)
        return self._knowledge[folder]

    def given_up(self, path: str) -> None:
        """A text of the editor that is not the file's does not count any more."""
        self.edited[key(path)] = time.monotonic()

    def leave_knowledge(self) -> list[Knowledge]:
        """Returns what to close; the next question begins anew."""
        left, self._knowledge = self.known(), {}
        return left

    def known(self) -> list[Knowledge]:
        """The knowledge of the folders that were asked about."""
        return [*self._knowledge.values()]

    def changed(self, path: str, text: str | None) -> None:
        """Handles a change of a file in the editor, or on disk (None)."""
        for each in self._knowledge.values():
            each.update(path, text)

    def leave_but(self, folders: set[str | None]) -> list[Pool | Knowledge]:
        """Returns what to close: unused pools, and indexes of removed folders."""
        gone = [each for each in self._knowledge if each not in self._settings and each not in folders]
        return [*self.unused(folders), *map(self._knowledge.pop, gone)]

    def unused(self, folders: set[str | None]) -> list[Pool]:
        """Returns pools to close: those that no folder uses any more, or uses with another number of jobs."""
        # Every workspace folder has settings.
        wanted = {self.launch(folder) for folder in {*folders, *self._settings}}
        ended = [
            launch
            for launch, pool in self.pools.items()
            if launch not in wanted or pool.slots != self.settings(launch.folder).jobs
        ]
        return [*map(self.pools.pop, ended)]

    async def close(self) -> None:
        """Closes for good: later requests, such as from a task that has just been woken, start nothing."""
        self._closed = True
        pools, self.pools = list(self.pools.values()), {}
        for pool in pools:
            await pool.close()
        for each in self.leave_knowledge():
            await each.close()

    def workers(self) -> list[Mapping[str, object]]:
        """For a report about the server."""
        return [
            {
                "python": launch.python,
                "folder": launch.folder,
                "mode": "fork" if launch.forks else "spawn",
                "started": pool.started_workers,
                "hello": pool.hello,
                "problem": pool.problem,
                "preloaded": pool.branches.describe() + pool.capture_branches.describe(),
                "captures": pool.captures_memory(),
                "log": pool.log(),
            }
            for launch, pool in self.pools.items()
        ]


def _top(folder: str | None, here: str) -> str:
    """The folder above which no configuration applies to the files ``here``."""
    return folder if folder and is_within(here, [folder]) else here


def _but_shown(settings: dict[str | None, Settings]) -> dict[str | None, Settings]:
    """The settings without those that only affect what is shown of a record."""
    shown = Settings()
    same: dict[str, Any] = {
        name: getattr(shown, name) for name in ("shapes", "shapesLength", "scope", "watch", "pythonFrom")
    }
    return {folder: replace(each, **same) for folder, each in settings.items()}
