"""A file that is executed and whose models are constructed, kept for the next edit.

A process of ``host.kept`` prepares it once; its forks insert the edited functions and trace. This is correct as long as
the edit is within functions that have not run yet: all other code is compared, so that any other change is detected.
"""

from __future__ import annotations

import ast
import gc
import inspect
import itertools
import linecache
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from fxlens.ipc.processes import children_of, locks_files, shared_by_forks
from fxlens.ipc.protocol import Json
from fxlens.sources import parsing
from fxlens.sources.files import changed_since, state_of, without_content
from fxlens.sources.paths import key
from fxlens.sources.targets import Target

from . import assumed, candidates, codes, construct, main_block, outside, pages, placeholders, reading, user_file
from .assume import sandbox
from .job import Job

if TYPE_CHECKING:
    from fxlib.diagnosis.fixes.loaded import Loaded

_HARMLESS = ("staticmethod", "classmethod", "property", "abstractmethod", "override", "no_grad", "inference_mode")
"""Decorators that do not read the code of a function; others may, like ``torch.jit.script``."""
_LINES = frozenset(("f_lineno", "co_firstlineno", "tb_lineno", "lineno", "extract_stack", "format_exc", "format_stack"))
"""Ways in which code reads its own lines."""
_MOST_PRINTED = 1 << 16
_TICK = 20_000_000
"""Nanoseconds by which file times may lag behind the clock."""


class Codes(Protocol):
    """Takes codes by their identity."""

    def __setitem__(self, identity: int, code: CodeType, /) -> None: ...


Key = tuple[str, tuple[tuple[str, str], ...]]
"""A key for a class: its name, and its given constructions."""


class NotKept(Exception):
    """The file cannot be kept; the next edit executes it again."""


@dataclass
class Kept:
    """``ran`` are the executed codes of the file, ``read`` those whose lines something kept has read, ``live`` the
    functions by their code; all by identity."""

    job: Job
    namespace: ModuleType
    loader: user_file.OverlayLoader
    code: CodeType
    known: Loaded
    files: dict[str, object]
    printed: bytes
    ran: dict[int, CodeType] = field(default_factory=dict)
    read: dict[int, CodeType] = field(default_factory=dict)
    live: dict[int, list[FunctionType]] = field(default_factory=dict)
    made: dict[Key, construct.Made] = field(default_factory=dict)
    codes: dict[int, CodeType] = field(default_factory=dict)
    now: _Now | None = None


@dataclass
class _Now:
    """The current state in place of the kept text: the text of a ``job``, the original codes of the ``functions`` among
    its parts, by identity, and their ``current`` replacements. ``missing`` are the names of its main block that the
    module lacks."""

    job: Job
    reading: reading.Reading
    functions: list[int | None]
    current: dict[int, CodeType]
    missing: frozenset[str]


_kept: Kept | None = None


def prepare(message: Json) -> None:
    """Executes the file and constructs its models in this process. Raises NotKept, or an error of user code."""
    global _kept
    from fxlib.diagnosis.detectors import LOOKERS
    from fxlib.diagnosis.engine.instrument import Instrumentation
    from fxlib.diagnosis.fixes.loaded import Loaded

    began, before = time.time_ns(), shared_by_forks()
    job = _Silent(message)
    tree = ast.parse(job.text)
    targets = candidates.find(job, tree).targets
    known = Loaded()
    ran: dict[int, CodeType] = {}
    read: dict[int, CodeType] = {}
    made: dict[Key, construct.Made] = {}
    with noting(job.path, ran, read):
        replaced = user_file.Replaced()
        namespace = user_file.load(job.path, job.text, job.folder, job.overlays, tree, replaced)
        if replaced or replaced.raised is not None:
            raise NotKept("something stands for what cannot be imported")
        if outside.notes:
            raise NotKept("something was not started")
        if job.tracer is not None:
            job.tracer.load()  # its file counts as imported
        for target in targets:
            if not construct.is_model(namespace, target):
                continue
            target.leaf = construct.is_leaf(namespace, target, job.leaf_modules)
            if not construct.left_out(namespace, target):
                _keep(made, namespace, target)
    if placeholders.replaced() or placeholders.former():
        raise NotKept("something stands for what constructors cannot import")
    assumed.forget(namespace)
    loader = namespace.__loader__
    if not isinstance(loader, user_file.OverlayLoader) or loader.code is None:
        raise NotKept("it was not executed from its text")
    if children_of(os.getpid()):
        raise NotKept("its code has started processes")
    if shared_by_forks() - before or locks_files():
        raise NotKept("its code holds a port, a lock, an open file or memory, which other jobs of the file need")
    files = user_file.states(known, job.path)
    unread = {*job.overlays, *(path for path in user_file.looked_for() if files.get(path) is None)}
    unread.update(filter(without_content, files))
    if any(changed_since(path, began - _TICK) for path in files.keys() - unread):
        raise NotKept("a file that it imports has changed meanwhile")  # before or after its import, which is unknown
    for code in _decorated(loader.code, tree):
        ran.setdefault(id(code), code)
    printed = _printed()
    ran.update(read)
    named = os.path.basename(job.path).encode()
    if named in printed or any(not _LINES.isdisjoint(code.co_names) for code in ran.values()):
        read = ran
    live = _live(job.path)
    Instrumentation(itertools.chain.from_iterable(live.values()), LOOKERS)  # parsed and rewritten once for all forks
    _kept = Kept(job, namespace, loader, loader.code, known, files, printed, ran, read, live, made)
    _kept.codes = {id(each): each for each in codes.within(loader.code)}
    pages.share()
    gc.collect()
    gc.freeze()


def is_there() -> bool:
    """Whether this process is a fork of one that keeps a file."""
    return _kept is not None


def get_ready(message: Json) -> None:
    """Does a job's work before user code runs for the text of the previous job: the next text differs in one place, so
    the rest is ready, and the memory to be written is already allocated."""
    if _kept is None:
        return
    from fxlib.diagnosis.detectors import LOOKERS
    from fxlib.diagnosis.engine import subject
    from fxlib.diagnosis.engine.instrument import Instrumentation

    job = _Silent(message)
    try:
        read = reading.whole(job, ast.parse(job.text))
        module = _replace_functions(job, read.tree)
        missing = main_block.missing(vars(_kept.namespace), read.tree)
        if module is not None and missing is not None and reading.prepared(read):
            current, code = module
            before = {id(new): old for old, new in current.items()}
            functions = [each and before.get(id(each)) for each in codes.of_functions(read.parts, code)]
            _kept.now = _Now(job, read, functions, current, missing)
        Instrumentation(itertools.chain.from_iterable(_kept.live.values()), LOOKERS)
        for each in _kept.made.values():
            subject.prepare(each.module, job.leaf_modules, _kept.job.tracer)
    except Exception:
        traceback.print_exc()
    pages.copy()


def modules_before() -> Loaded:
    """The modules that were loaded before the file was executed."""
    assert _kept is not None
    return _kept.known


def printed() -> str:
    """The output of executing the file."""
    assert _kept is not None
    return _kept.printed.decode("utf-8", "replace")


def renewed(job: Job, tree: ast.Module) -> ModuleType | None:
    """The kept module with the functions of the job's text; None if replacing functions is not enough."""
    assert _kept is not None
    if _replace_functions(job, tree) is None:
        return None
    os.write(1, _kept.printed)
    main_block.fill(vars(_kept.namespace), user_file.executed(job.path, tree), job.path)
    return _kept.namespace


def grafted(job: Job) -> tuple[reading.Reading, ModuleType] | None:
    """The reading of the job's text, and the kept module with its functions, if it differs in one place from the
    previous job's text; None if the whole text must be read."""
    assert _kept is not None
    now = _kept.now
    if now is None or not _is_of(job) or job.config_targets != now.job.config_targets:
        return None
    graft = reading.grafted(now.reading, job, now.missing)
    if graft is None or (graft.moved and _kept.read):
        return None
    exchanged: dict[int, CodeType] = {}
    if graft.function is not None:
        identity, part = now.functions[graft.number], now.reading.parts[graft.number]
        code = codes.compiled(graft.function, part.classes, graft.reading.imports, job.path, _kept.code)
        if identity is None or code is None:
            return None
        if not codes.match(_kept.codes[identity], code, _kept.ran, _kept.live, exchanged):
            return None
    if graft.moved:
        _move(now.current, graft.begins, graft.moved, exchanged)
    _put_in(job, exchanged, None)
    os.write(1, _kept.printed)
    return graft.reading, _kept.namespace


def _move(current: dict[int, CodeType], begins: int, by: int, exchanged: dict[int, CodeType]) -> None:
    """Adds the replacements of functions from this line on, which have moved down by so many lines."""
    from fxlib.diagnosis.engine import trees

    assert _kept is not None
    known: dict[int, CodeType] = {}
    for identity in _kept.live.keys() & current.keys():
        if (code := current[identity]).co_firstlineno >= begins:
            exchanged[identity] = codes.moved(code, by, known)
            trees.moved(code, exchanged[identity])


def _is_of(job: Job) -> bool:
    """Whether the job has the kept file in an unchanged environment."""
    assert _kept is not None
    before = _kept.job
    if (job.path, job.folder, job.overlays) != (before.path, before.folder, before.overlays):
        return False
    return job.tracer == before.tracer and all(state_of(path) == state for path, state in _kept.files.items())


def _replace_functions(job: Job, tree: ast.Module) -> tuple[dict[int, CodeType], CodeType] | None:
    """Inserts the functions of a job's text into the kept module; returns the codes by the identity of those that they
    replace, and the module's code. None if replacing functions is not enough."""
    assert _kept is not None
    if not _is_of(job):
        return None
    tree = user_file.executed(job.path, tree)
    try:
        code = compile(tree, job.path, "exec", dont_inherit=True)
    except parsing.ERRORS:  # such as a global assigned before its declaration
        return None
    exchanged: dict[int, CodeType] = {}
    if not codes.match(_kept.code, code, _kept.ran, _kept.live, exchanged):
        return None
    if any(id(old) in exchanged and codes.have_moved(old, exchanged[id(old)]) for old in _kept.read.values()):
        return None
    _put_in(job, exchanged, tree)
    return exchanged, code


def _put_in(job: Job, exchanged: dict[int, CodeType], tree: ast.Module | None) -> None:
    assert _kept is not None
    for identity in exchanged.keys() & _kept.live.keys():
        for function in _kept.live[identity]:
            function.__code__ = exchanged[identity]
    linecache.cache[job.path] = (len(job.text), None, job.text.splitlines(keepends=True), job.path)
    _kept.loader.renew(job.text, tree)
    for finder in sys.meta_path:
        if isinstance(finder, user_file.OverlayFinder):
            finder.overlays[key(job.path)] = (job.path, job.text)
            finder.trees.pop(key(job.path), None)
            if tree is not None:
                finder.trees[key(job.path)] = tree


def made(target: Target) -> construct.Made | None:
    """The target constructed from the same sources; None if it was not."""
    found = _kept.made.pop(_key(target), None) if _kept is not None else None
    if found is None:
        return None
    source = found.source
    here = next((each for each in target.construct if (each.text, each.source) == (source.text, source.source)), source)
    return replace(found, source=here)


def _keep(made: dict[Key, construct.Made], namespace: ModuleType, target: Target) -> None:
    construct.fresh()
    noted = len(outside.notes)
    try:
        found = construct.Construction(namespace, target).said()
    except (Exception, SystemExit, sandbox.OutOfTime):
        return  # the tracing process reports it
    finally:
        lacking = len(outside.notes) > noted
        del outside.notes[noted:]
    if found is not None and not lacking:  # what it lacks is told each time
        made[_key(target)] = found


def _key(target: Target) -> Key:
    return target.name, tuple((each.text, each.source) for each in target.construct)


def _printed() -> bytes:
    """The output of user code, since standard output is a file in memory."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # user code may have replaced them
            stream.flush()
    return os.pread(1, _MOST_PRINTED, 0)


def _decorated(code: CodeType, tree: ast.Module) -> Iterator[CodeType]:
    """The codes of functions whose decorators may have read their code."""
    marked = {
        (min(each.lineno for each in node.decorator_list), node.name)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not all(map(_harmless, node.decorator_list))
    }
    for each in codes.within(code) if marked else ():
        if (each.co_firstlineno, each.co_name) in marked:
            yield each


def _harmless(decorator: ast.expr) -> bool:
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(named).rpartition(".")[2] in _HARMLESS


def _live(path: str) -> dict[int, list[FunctionType]]:
    """The functions of the file, by the identity of their code."""
    found: dict[int, list[FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename == path:
            found.setdefault(id(each.__code__), []).append(each)
    return found


@contextmanager
def noting(path: str, ran: Codes, read: Codes | None = None) -> Iterator[None]:
    """Records which codes of the file are executed, in every thread, and whose source is ``read``. Raises NotKept if
    user code prevents that."""
    from fxlib.ir.objects import attribute

    finds = inspect.findsource.__code__

    def note(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call":
            return
        if code.co_filename == path:
            ran[id(code)] = code
        elif code is finds and read is not None:
            found = frame.f_locals["object"]
            for each in (found, *(vars(found).values() if isinstance(found, type) else ())):
                each = attribute(each, "__func__", each)
                each = attribute(each, "__code__", attribute(each, "f_code", each))
                if isinstance(each, CodeType) and each.co_filename == path:
                    read[id(each)] = each

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
        if sys.getprofile() is not note:
            raise NotKept("its code sets a profiler")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


class _Silent(Job):
    """A job without a channel for reports."""

    def __init__(self, message: Json) -> None:
        super().__init__(message, None)  # type: ignore[arg-type]

    def send(self, event: str, **fields: Any) -> None:
        return None

    def announce(self, name: str, target: str | None, line: int | None) -> None:
        return None
