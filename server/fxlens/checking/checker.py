"""Traces many files in parallel and returns one result per file. The engine of the command line."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import cast

from fxlens.config import choices, selection
from fxlens.config.project import Project
from fxlens.config.settings import Settings
from fxlens.host.knowledge import Knowledge
from fxlens.host.launch import Launch
from fxlens.host.pool import Pool
from fxlens.ipc.request import Limits, Request
from fxlens.jobs import fix_all
from fxlens.overlays import findings, with_note, with_parts, with_read, without_graphs
from fxlens.record import Finding, Node, Record, Span, empty_record, finding
from fxlens.sources import positions, targets
from fxlens.sources.files import Changed, read_source, write_source
from fxlens.sources.known import Known
from fxlens.sources.notebook import Notebook, line_of, module_path, python_of
from fxlens.sources.parsing import syntax_problem, without_magics
from fxlens.sources.paths import is_below, is_within, key
from fxlens.sources.roles import Said
from fxlens.syntax import analyse
from fxlens.views import quantities
from fxlens.views.coverage import unjudged
from fxlens.views.fixes import is_proven

from . import patch, records
from .by_links import below_links, not_named
from .cache import Cache
from .files import folder_of, mentions_models

log = logging.getLogger(__name__)

_FIXING = asyncio.Lock()


@dataclass(frozen=True)
class Cost:
    """The size of a graph: nodes, parameters of the modules that they call, known floating-point operations."""

    nodes: int
    parameters: int
    flops: int | None

    @staticmethod
    def of(nodes: Sequence[Node]) -> Cost:
        return Cost(len(nodes), quantities.parameters(nodes), quantities.flops(nodes))


@dataclass
class Checked:
    """One file: its text, its record, and the findings to show."""

    path: str
    text: str
    record: Record
    findings: list[Finding]
    fixed: fix_all.Fixed = field(default_factory=fix_all.Fixed)
    notebook: Notebook | None = None  # if the text is that of its cells
    patches: Mapping[str, bytes] = field(default_factory=dict)  # by real path, what fixes would change, if asked for
    lines: list[str] = field(init=False)
    costs: dict[str, Cost] = field(init=False)  # of each model's graph

    def __post_init__(self) -> None:
        self.lines = positions.lines_of(self.notebook.written if self.notebook else self.text)
        self.costs = {target["name"]: Cost.of(target["nodes"]) for target in self.record["targets"]}

    def place(self, line: int) -> tuple[int | None, int]:
        """The cell of a line of the text, if the file is a notebook, and the line in it."""
        return self.notebook.place(line) if self.notebook else (None, line)

    def said(self, text: str) -> str:
        """A sentence in which a notebook's lines are those of its cells."""
        return self.notebook.said(text) if self.notebook else text

    def line_of(self, line: int) -> Mapping[str, int]:
        """A line of the text as `sources.notebook.line_of` names it."""
        return line_of(self.notebook, line)

    def range_of(self, span: Span | None) -> Mapping[str, object]:
        """``range`` as in LSP, from 0; in a notebook that of its cell, and ``cell``, from 1."""
        found = positions.lsp_range(span, self.lines)
        if self.notebook is None:
            return {"range": found}
        start, end = found["start"]["line"], found["end"]["line"]
        cell, line = self.notebook.place(start + 1)
        return {
            "cell": cell,
            "range": {
                "start": {"line": line - 1, "character": found["start"]["character"]},
                "end": {"line": line - 1 + end - start, "character": found["end"]["character"]},
            },
        }

    def drop_graphs(self) -> None:
        """Drop the graphs, which are most of a record: those of thousands of models would fill the memory."""
        self.record = without_graphs(self.record)

    @property
    def shown(self) -> list[Finding]:
        """The findings without those of classes that are not known to be captured (`quiet`)."""
        return [each for each in self.findings if not self._is_quiet(each)]

    @property
    def quiet(self) -> Counter[str]:
        """The number of obstacles by name, for classes that are not known to be captured."""
        return Counter(each["target"] or "" for each in self.findings if self._is_quiet(each))

    def _is_quiet(self, finding: Finding) -> bool:
        limits = {target["name"]: target["limit"] for target in self.record["targets"]}
        obstacle = finding["code"].startswith(("FX1", "FX2")) and finding["severity"] == "hint"
        return obstacle and limits.get(finding["target"] or "") == "hint"

    @property
    def not_checked(self) -> bool:
        """Whether nothing is known of the file because FX Lens could not run or failed."""
        failed = self.record["failure"] is not None and not self.record["targets"]
        return failed or any(finding["code"] == "FX309" for finding in findings(self.record))

    @property
    def failed(self) -> bool:
        return any(finding["severity"] == "error" for finding in self.findings)


@dataclass(frozen=True)
class Options:
    """How files are checked.  Of ``settings`` those of findings and classes count, together with each project's
    configuration. With ``verify`` fixes are traced again and compared with eager, for each finding until one is proven;
    with ``every`` all of them."""

    launch: Launch
    jobs: int = 1
    limits: Limits = field(default_factory=Limits)
    settings: Settings = field(default_factory=Settings)
    verify: bool = True
    every: bool = False
    cache: Cache | None = None
    light: bool = False  # keep no graphs in the results
    scope: str = ""  # which classes have findings of full severity, whatever the project and the settings say
    lowering: bool = False  # also obstacles to lowering; naming rules FX4 turns it on
    fix: str = ""  # "diff": show the changes of proven fixes; "write": apply them
    unsafe: bool = False  # also fixes that assume what the code does not say
    accepted: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)  # codes and lines of a baseline
    named: tuple[str, ...] = ()  # what fixes may change besides the project's files; empty: the checked file
    written: dict[str, str] = field(default_factory=dict)  # by path, the texts of fixed files so far


async def check(
    files: list[str], options: Options, done: Callable[[str], None] = lambda path: None
) -> AsyncGenerator[Checked, None]:
    """Results in the order of the files, each as soon as it and all before it are done; ``done`` is called for each
    file as soon as it is done."""
    pool, around = Pool(options.launch, options.jobs, once=True), Surroundings()
    try:
        async with aclosing(check_files(pool, files, options, around, done)) as results:
            async for result in results:
                yield result
    finally:
        await pool.close()
        await around.close()


async def check_files(
    pool: Pool,
    files: list[str],
    options: Options,
    around: Surroundings,
    done: Callable[[str], None] = lambda path: None,
) -> AsyncGenerator[Checked, None]:
    """The same in a pool that is kept."""
    gate = asyncio.Semaphore(options.jobs + 2)
    around.linked = below_links(files)

    async def one(path: str) -> Checked:
        async with gate:
            try:
                return await check_file(pool, path, options, around)
            except Exception as error:
                # One file must not make the others lose their results.
                log.exception("checking %s failed", path)
                said = f"FX Lens itself failed on this file, which was not checked: {type(error).__name__}: {error}"
                lost = finding("FX199", "error", said)
                record: Record = {**empty_record(os.path.abspath(path)), "findings": [lost], "failure": said}
                return Checked(path, "", record, [lost])
            finally:
                done(path)

    tasks = [asyncio.create_task(one(path)) for path in files]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Surroundings:
    """Shared by the files of a run: configurations, knowledge of their folders, and the ``unsaved`` texts of an editor,
    by path.  ``top``: as for `Project.read`.  ``linked`` are the checked files that lie below linked folders."""

    def __init__(self, top: str | None = None) -> None:
        self.unsaved: Mapping[str, str] = {}
        self.linked: Sequence[str] = ()
        self._top = top
        self._projects: dict[str, Project] = {}
        self._knowledge: dict[str, Knowledge] = {}

    def project(self, folder: str) -> Project:
        if folder not in self._projects:
            self._projects[folder] = Project.read(folder, self.unsaved.get, self._top)
        return self._projects[folder]

    def knowledge(self, folder: str) -> Knowledge:
        if folder not in self._knowledge:
            self._knowledge[folder] = Knowledge(folder, [path for path in self.linked if is_below(path, folder)])
        return self._knowledge[folder]

    def changed(self, paths: Iterable[str]) -> None:
        """These files have changed on disk, are new, or are gone."""
        self._projects.clear()
        for path in paths:
            for each in self._knowledge.values():
                each.update(os.path.abspath(path), None)

    async def look_again(self) -> None:
        """Learns what else has changed on disk, in files that are not checked."""
        for each in self._knowledge.values():
            await each.look_again(whole=True)

    async def close(self) -> None:
        for each in self._knowledge.values():
            await each.close()


async def request_for(path: str, text: str, folder: str | None, around: Surroundings, unsaved: bool = False) -> Request:
    """The request for a file in ``folder``, with everything from its project and other files.

    ``unsaved``: the text differs from the file, and is passed to the index."""
    project = around.project(os.path.dirname(path))
    own = project.root or folder_of(path, folder or os.getcwd())
    knowledge = around.knowledge(own)
    module = module_path(path)
    if unsaved or module != path:
        await knowledge.start()
        for each, other in {**around.unsaved, module: text}.items():
            knowledge.update(each, other)
    known = await knowledge.of_file(module)
    return Request(
        path=path,
        text=text,
        folder=own,
        overlays={each: other for each, other in around.unsaved.items() if each != path},
        known=knowledge.recorded_for(module) if known is None else known,
        indexed=known is not None,
        config_targets=project.targets_of(path),
        leaf_modules=project.leaf_modules,
        tracer=project.tracer,
    )


async def check_file(
    pool: Pool,
    path: str,
    options: Options,
    around: Surroundings,
    given: str | None = None,
    asked: Callable[[], Awaitable[None]] | None = None,
) -> Checked:
    """One file's result.  A file that cannot be read or parsed gets its finding without a process.

    ``given`` is an unsaved text; ``asked`` is called once ``around`` may change."""
    absolute = os.path.abspath(path)
    project = around.project(os.path.dirname(absolute))
    chosen = choices.selection(options.settings, project, options.accepted.get(key(absolute), ()))
    record = empty_record(absolute)
    text, fixed = "", fix_all.Fixed()
    patches: Mapping[str, bytes] = {}
    refused: Sequence[str] = ()
    notebook: Notebook | None = None
    try:
        text = read_source(absolute) if given is None else given
        text, notebook = python_of(absolute, text)
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError) as error:
        record = {**record, "findings": [finding("FX308", "error", f"The file cannot be read: {error}")]}
    else:
        if not options.fix:
            text = without_magics(text)
        problem = syntax_problem(text, absolute)
        if problem is not None:
            record = {**record, "findings": [problem]}
        elif mentions_models(text):
            if options.cache is None or not options.cache.may_have(absolute, text):
                pool.begin(text)  # while the index is built
            request = await request_for(absolute, text, options.launch.folder, around, unsaved=given is not None)
            request = replace(request, limits=options.limits)
            if asked is not None:
                await asked()
            lowering = options.lowering or records.asks_for_lowering(chosen)
            said = _said(request, options, project)
            record = await records.record_of(pool, request, options, lowering, chosen.captures, said)
            if options.fix and notebook is None:
                fixed, patches, refused = await _fix(pool, request, record, options, chosen, project)
                if options.fix == "write" and (now := _now(absolute, text)) != text:
                    text, request = now, replace(request, text=now)
                    said = _said(request, options, project)
                    record = await records.record_of(pool, request, options, lowering, chosen.captures, said)
            for note in [*refused, *([] if request.indexed else [_not_indexed(request.folder)])]:
                record = with_note(record, note)
            if names := unjudged(record):
                record = with_read(record, names, analyse(text, absolute, names))
            record = with_parts(record, said.parts(records.names(record)))
    for each in project.problems:
        record = with_note(record, each)
    if notebook is not None:
        record = notebook.of_cells({**record, "findings": [*record["findings"], *notebook.problems(absolute)]})
    shown = selection.apply(findings(record), chosen, text, absolute)
    if options.fix and notebook is not None and any(is_proven(fix) for each in shown for fix in each["fixes"]):
        record = with_note(record, f"{path}: fixes for a notebook are shown but not applied")
    shown.sort(key=lambda finding: finding["span"]["line"] if finding["span"] else 0)
    checked = Checked(path, text, record, shown, fixed, notebook, patches)
    if options.light:
        checked.drop_graphs()
    return checked


def _now(path: str, text: str) -> str:
    """The text that a file has now; ``text`` if it is gone or cannot be read any more."""
    try:
        return read_source(path)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return text


def _files_with_fixes(record: Record) -> list[str]:
    """The files with findings that might be fixable."""
    found = [each for target in record["targets"] for each in target["findings"] if each["fixes"]]
    return sorted({each["span"]["file"] for each in found if each["span"]})


def _said(request: Request, options: Options, project: Project) -> Said:
    # An error must not become a warning because nobody could say who captures the class.
    scope = options.scope if request.indexed else "all"
    known, written = cast(dict[str, Known], request.known), targets.written(request.text)
    return choices.said(options.settings, project, request.path, options.launch.folder, known, written, scope=scope)


def _not_indexed(folder: str | None) -> str:
    return (
        f"the index of {folder} ended again and again, or cannot be started: how other files construct and capture "
        "classes is not known, so all of them are taken for ones that are meant to be captured. Check again"
    )


async def _fix(
    pool: Pool,
    request: Request,
    record: Record,
    options: Options,
    chosen: selection.Selection,
    project: Project,
) -> tuple[fix_all.Fixed, Mapping[str, bytes], Sequence[str]]:
    """The file after the checked fixes of the shown findings, and the patches by path; with ``write`` the files are
    changed instead. A sentence says which are not and why. One file at a time, since two may share a helper."""
    within = [*(options.named or [request.path]), *([project.root] if project.root else [])]
    async with _FIXING:
        if (text := options.written.get(key(request.path), request.text)) != request.text:
            # Fixes of a file that uses this one have changed it.
            request = replace(request, text=text)
            record = await records.record_of(pool, request, replace(options, verify=False))
        fixed = await fix_all.run(pool, request, record, chosen, within, unsafe=options.unsafe)
        patches: dict[str, bytes] = {}
        refused: dict[str, str] = {}
        for path, text in sorted(fixed.texts.items()):
            try:
                if options.fix == "diff":
                    part = patch.of_file(path, fixed.before[path], text)
                    if patches.setdefault(os.path.realpath(path), part) != part:
                        refused[path] = f"{path}: has more fixes by another name: apply these, and check again"
                    continue
                if not is_within(path, within):
                    raise PermissionError(None, not_named(path))
                write_source(path, fixed.before[path], text)
                options.written[key(path)] = text
            except Changed:
                refused[path] = f"{path}: not fixed: it was saved while it was being checked. Check it again"
            except (OSError, UnicodeEncodeError) as error:
                refused[path] = f"{path}: not fixed: {getattr(error, 'strerror', None) or error}"
    said = "its problems were not fixed" if options.fix == "write" else "its fixes are not in the patch"
    for other in _files_with_fixes(record):
        if not is_within(other, within):
            refused[other] = f"{other}: {said}: {not_named(other)}"
    written = {path: text for path, text in fixed.texts.items() if path not in refused}
    applied = [each for each in fixed.applied if not refused.keys() & set(each["files"])]
    return replace(fixed, texts=written, applied=applied), patches, list(refused.values())
