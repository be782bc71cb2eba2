"""Traces many files: finds them, runs the jobs side by side, gives one result per file.  The command line's engine."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import tempfile
import tokenize
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from fxlens.config import selection
from fxlens.config.project import Project
from fxlens.host import lowering_hints, tracing, verifying
from fxlens.host.launch import Launch
from fxlens.host.outcome import Limits
from fxlens.host.pool import Pool
from fxlens.sources import positions

from .cache import Cache

_LEFT_OUT = {
    ".git",
    ".hg",
    ".venv",
    "venv",
    "node_modules",
    "__pycache__",
    ".tox",
    ".mypy_cache",
    "site-packages",
    "build",
}

_MENDING = asyncio.Lock()


class CannotCheck(Exception):
    """A path that does not exist or cannot be read, or a configuration that says nothing sensible."""


@dataclass
class Checked:
    """One file: its text, its record, and the findings to show."""

    path: str
    text: str
    record: dict[str, Any]
    findings: list[dict[str, Any]]
    mended: verifying.Mended = field(default_factory=verifying.Mended)
    lines: list[str] = field(init=False)
    nodes: dict[str, int] = field(init=False)  # how many each model's graph has

    def __post_init__(self) -> None:
        self.lines = positions.lines_of(self.text)
        self.nodes = {target["name"]: len(target["nodes"]) for target in self.record["targets"]}

    def drop_graphs(self) -> None:
        """They are most of a record, and those of thousands of models would fill the memory."""
        for target in self.record["targets"]:
            target.update(nodes=[], modules={}, code="", code_lines={})

    @property
    def failed(self) -> bool:
        return any(finding["severity"] == "error" for finding in self.findings)


@dataclass(frozen=True)
class Options:
    """How files are checked.  ``select``, ``ignore`` and ``severity`` come on top of what each project configures.
    With ``verify`` the fixes are traced again and compared with eager."""

    launch: Launch
    jobs: int = 1
    limits: Limits = field(default_factory=Limits)
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    verify: bool = True
    cache: Cache | None = None
    light: bool = False  # keep no graphs in the results
    lowering: bool = False  # what an engine could not take, too; rules FX4 that are asked for by name turn it on
    mend: str = ""  # "diff": show what the proven fixes would do; "write": do it


def python_files(paths: Iterable[str]) -> list[str]:
    """The files, and every ``.py`` file below the folders, in order and once.  Raises CannotCheck for a path that is
    not there."""
    found: dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            for folder, folders, files in os.walk(path):
                folders[:] = sorted(name for name in folders if name not in _LEFT_OUT and not name.startswith("."))
                found.update(
                    dict.fromkeys(os.path.join(folder, name) for name in sorted(files) if name.endswith(".py"))
                )
        elif os.path.isfile(path):
            found[path] = None
        else:
            raise CannotCheck(f"{path}: no such file or folder")
    return list(found)


def mentions_models(text: str) -> bool:
    """Whether a file can define a model at all; one that does not need not be executed."""
    return "class " in text and ("torch" in text or "nn.Module" in text or "Module)" in text or "fxlens:" in text)


async def check(files: list[str], options: Options) -> AsyncIterator[Checked]:
    """Results in the order of the files, each as soon as it and those before it are done."""
    pool = Pool(options.launch, options.jobs)
    gate = asyncio.Semaphore(options.jobs + 2)
    projects: dict[str, Project] = {}

    async def one(path: str) -> Checked:
        async with gate:
            return await check_file(pool, path, options, projects)

    tasks = [asyncio.create_task(one(path)) for path in files]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await pool.close()


async def check_file(pool: Pool, path: str, options: Options, projects: dict[str, Project]) -> Checked:
    """One file's result.  What cannot be read or parsed gets its finding without a process."""
    absolute = os.path.abspath(path)
    folder = os.path.dirname(absolute)
    if folder not in projects:
        projects[folder] = Project.read(folder)
    project = projects[folder]
    chosen = selection.Selection(
        select=options.select or project.select,
        ignore=options.ignore + project.ignore,
        severity=project.severity,
    )
    record = tracing.empty_record(absolute)
    text, mended = "", verifying.Mended()
    try:
        text = read_source(absolute)
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        record["findings"].append(tracing.finding("FX308", "error", f"The file cannot be read: {error}"))
    else:
        problem = tracing.syntax_problem(text, absolute)
        if problem is not None:
            record["findings"].append(problem)
        elif mentions_models(text):
            request = tracing.Request(
                path=absolute,
                text=text,
                folder=project.root or options.launch.folder,
                config_targets=project.targets_of(absolute),
                leaf_modules=project.leaf_modules,
                limits=options.limits,
            )
            lowering = options.lowering or _asks_for_lowering(options, project)
            record = await _record(pool, request, options, lowering)
            if options.mend:
                mended = await _mend(pool, request, record, options, chosen)
                if mended.texts and options.mend == "write":
                    text = read_source(absolute)
                    record = await _record(pool, replace(request, text=text), options, lowering)
    shown = selection.apply(tracing.findings(record), chosen, text, absolute)
    shown.sort(key=lambda finding: (finding["span"] or {}).get("line", 0))
    checked = Checked(path, text, record, shown, mended)
    if options.light:
        checked.drop_graphs()
    return checked


def _asks_for_lowering(options: Options, project: Project) -> bool:
    named = [*(options.select or project.select), *(code for code, grade in project.severity.items() if grade != "off")]
    return any(code.startswith("FX4") for code in named)


async def _record(pool: Pool, request: tracing.Request, options: Options, lowering: bool = False) -> dict[str, Any]:
    """The record with its fixes checked, from the cache where nothing has changed since."""
    verified = options.verify or bool(options.mend)
    record = options.cache.get(request, verified, lowering) if options.cache else None
    if record is None:
        record = await tracing.trace(pool, request)
        if verified:
            note = await verifying.verify(pool, request, record)
            record["notes"] = [note] if note else []
        if lowering:
            await lowering_hints.add(pool, request, record)
            if note := record.get("lowering_note"):
                record["notes"] = [*record.get("notes", ()), note]
        if options.cache:
            options.cache.put(request, verified, record, lowering)
    return record


async def _mend(
    pool: Pool,
    request: tracing.Request,
    record: dict[str, Any],
    options: Options,
    chosen: selection.Selection,
) -> verifying.Mended:
    """What the proven fixes of the findings that are shown make of the file; written where that is asked.  One file at
    a time: two may share a helper."""
    async with _MENDING:
        mended = await verifying.mend(pool, request, record, chosen)
        for path, text in mended.texts.items() if options.mend == "write" else ():
            write_source(path, text)
    return mended


def write_source(path: str, text: str) -> None:
    """Replaces a file's text in the encoding it has, all at once."""
    with open(path, "rb") as file:
        encoding, _ = tokenize.detect_encoding(file.readline)
    data = text.encode(encoding)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".fxlens-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read_source(path: str) -> str:
    """The text as Python would decode it: byte-order mark and coding comment honoured, line ends kept."""
    with open(path, "rb") as file:
        data = file.read()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding)
