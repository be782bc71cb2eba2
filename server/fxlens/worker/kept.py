"""A file that is executed and whose models are constructed, kept for the next edit.

A process of the server's (``host.kept``) prepares it once; forks of that process put the edited functions in and trace.
That is right as long as the edit is within functions that have not run yet: the code of all others is compared, so
that whatever else changes is found.
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
from typing import Any, Protocol

from fxlens.ipc.processes import children_of
from fxlens.ipc.protocol import Json
from fxlens.sources import parsing
from fxlens.sources.paths import key
from fxlens.sources.targets import Target

from . import assumed, candidates, construct, main_block, moves, pages, placeholders, user_file
from .assume import sandbox
from .job import Job

_HARMLESS = ("staticmethod", "classmethod", "property", "abstractmethod", "override", "no_grad", "inference_mode")
"""Decorators that leave the code of a function as it is; others may have read it, as ``torch.jit.script`` does."""
_LINES = frozenset(("f_lineno", "co_firstlineno", "tb_lineno", "lineno", "extract_stack", "format_exc", "format_stack"))
"""How code comes to know its lines."""
_MOST_PRINTED = 1 << 16
_SHAPE = (
    "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_name", "co_freevars", "co_cellvars",
)  # fmt: skip
_CONTENT = ("co_code", "co_names", "co_varnames", "co_stacksize", "co_exceptiontable")
_TICK = 20_000_000
"""Nanoseconds that the times of files may be behind the clock."""


class Codes(Protocol):
    """Takes codes by their identity."""

    def __setitem__(self, identity: int, code: CodeType, /) -> None: ...


Key = tuple[str, tuple[tuple[str, str], ...]]
"""Of a class: its name, and how it is said to be constructed."""


class NotKept(Exception):
    """The file cannot be kept; the next edit executes it anew."""


@dataclass
class Kept:
    """``ran`` are the codes of the file that were executed, ``read`` those whose lines are known to what is kept,
    ``live`` the functions by their code; all by identity."""

    job: Job
    namespace: ModuleType
    loader: user_file.OverlayLoader
    code: CodeType
    known: frozenset[str]
    files: dict[str, object]
    printed: bytes
    ran: dict[int, CodeType] = field(default_factory=dict)
    read: dict[int, CodeType] = field(default_factory=dict)
    live: dict[int, list[FunctionType]] = field(default_factory=dict)
    made: dict[Key, construct.Made] = field(default_factory=dict)


_kept: Kept | None = None


def prepare(message: Json) -> None:
    """Executes the file and constructs its models in this process.  Raises NotKept, or what user code raises."""
    global _kept
    from fxlib.diagnosis.detectors import LOOKERS
    from fxlib.diagnosis.engine.instrument import Instrumentation

    began = time.time_ns()
    job = _Silent(message)
    tree = ast.parse(job.text)
    targets = candidates.find(job, tree).targets
    known = frozenset(sys.modules)
    ran: dict[int, CodeType] = {}
    read: dict[int, CodeType] = {}
    made: dict[Key, construct.Made] = {}
    with noting(job.path, ran, read):
        replaced = user_file.Replaced()
        namespace = user_file.load(job.path, job.text, job.folder, job.overlays, tree, replaced)
        if replaced or replaced.raised is not None:
            raise NotKept("something stands for what cannot be imported")
        if job.tracer is not None:
            job.tracer.load()  # its file counts among those that were imported
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
    files = {path: state_of(path) for path in user_file.imported_files(known)[0] if path != job.path}
    if any(_written_since(began, path) for path in files):
        raise NotKept("a file that it imports has changed meanwhile")  # before or after it was imported: nobody knows
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
    pages.share()
    gc.collect()
    gc.freeze()


def is_there() -> bool:
    """Whether this process was forked from one that keeps a file."""
    return _kept is not None


def get_ready() -> None:
    """What a job does here before it runs any of the user's code, once for the kept text: what it finds out of the
    models holds for the next text, too, and its pages and caches are there."""
    if _kept is None:
        return
    from fxlib.diagnosis.engine import subject

    job = _kept.job
    try:
        tree = ast.parse(job.text)
        candidates.find(job, tree)
        _match(_kept, _kept.code, compile(user_file.executed(job.path, tree), job.path, "exec", dont_inherit=True), {})
        moves.between(job.text, moves.units(tree), moves.inside(tree), job.text, tree)
        for each in _kept.made.values():
            subject.prepare(each.module, job.leaf_modules, job.tracer)
    except Exception:
        traceback.print_exc()
    pages.copy()


def modules_before() -> frozenset[str]:
    """The names of the modules that were there before the file was executed."""
    assert _kept is not None
    return _kept.known


def printed() -> str:
    """What executing the file has written."""
    assert _kept is not None
    return _kept.printed.decode("utf-8", "replace")


def renewed(job: Job, tree: ast.Module) -> ModuleType | None:
    """The kept module with the functions of the job's text; None where that takes more than to exchange functions."""
    assert _kept is not None
    before = _kept.job
    if (job.path, job.folder, job.overlays) != (before.path, before.folder, before.overlays):
        return None
    if job.tracer != before.tracer:
        return None
    if any(state_of(path) != state for path, state in _kept.files.items()):
        return None
    tree = user_file.executed(job.path, tree)
    try:
        code = compile(tree, job.path, "exec", dont_inherit=True)
    except parsing.ERRORS:  # such as a global that is assigned to before it is declared
        return None
    exchanged: dict[int, CodeType] = {}
    if not _match(_kept, _kept.code, code, exchanged):
        return None
    if any(id(old) in exchanged and _moved(old, exchanged[id(old)]) for old in _kept.read.values()):
        return None
    for old, functions in _kept.live.items():
        for function in functions if old in exchanged else ():
            function.__code__ = exchanged[old]
    os.write(1, _kept.printed)
    linecache.cache[job.path] = (len(job.text), None, job.text.splitlines(keepends=True), job.path)
    _kept.loader.renew(job.text, tree)
    for finder in sys.meta_path:
        if isinstance(finder, user_file.OverlayFinder):
            finder.overlays[key(job.path)] = (job.path, job.text)
            finder.trees[key(job.path)] = tree
    main_block.fill(vars(_kept.namespace), tree, job.path)
    return _kept.namespace


def made(target: Target) -> construct.Made | None:
    """The target as it was constructed from the same sources; None where it was not."""
    found = _kept.made.pop(_key(target), None) if _kept is not None else None
    if found is None:
        return None
    source = found.source
    here = next((each for each in target.construct if (each.text, each.source) == (source.text, source.source)), source)
    return replace(found, source=here)


def _keep(made: dict[Key, construct.Made], namespace: ModuleType, target: Target) -> None:
    construct.fresh()
    try:
        found = construct.Construction(namespace, target).said()
    except (Exception, SystemExit, sandbox.OutOfTime):
        return  # the process that traces says so
    if found is not None:
        made[_key(target)] = found


def _key(target: Target) -> Key:
    return target.name, tuple((each.text, each.source) for each in target.construct)


def _printed() -> bytes:
    """What the user's code has written: standard output is a file in memory."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # user code may have replaced them
            stream.flush()
    return os.pread(1, _MOST_PRINTED, 0)


def _match(kept: Kept, old: CodeType, new: CodeType, exchanged: dict[int, CodeType]) -> bool:
    """Whether the new code does what the old one did, but in functions that have not run; notes what takes whose
    place.  Lines do not count."""
    if _same(old, new):
        inner = [(a, b) for a, b in zip(old.co_consts, new.co_consts, strict=True) if isinstance(a, CodeType)]
        found: dict[int, CodeType] = {}
        if all(_match(kept, a, b, found) for a, b in inner):
            exchanged.update(found)
            exchanged[id(old)] = new
            return True
    if id(old) in kept.ran or id(old) not in kept.live or not all(getattr(old, a) == getattr(new, a) for a in _SHAPE):
        return False
    count = old.co_argcount + old.co_kwonlyargcount + bool(old.co_flags & 4) + bool(old.co_flags & 8)
    exchanged[id(old)] = new
    return old.co_varnames[:count] == new.co_varnames[:count]


def _moved(old: CodeType, new: CodeType) -> bool:
    """Whether code that is the same is on other lines."""
    if (old.co_firstlineno, [*old.co_lines()]) != (new.co_firstlineno, [*new.co_lines()]):
        return True
    pairs = zip(old.co_consts, new.co_consts, strict=True)
    return any(isinstance(a, CodeType) and _moved(a, b) for a, b in pairs)


def _same(old: CodeType, new: CodeType) -> bool:
    """Without what is within inner codes."""
    names = (*_SHAPE, *_CONTENT)
    if any(getattr(old, name, None) != getattr(new, name, None) for name in names):
        return False
    return len(old.co_consts) == len(new.co_consts) and all(map(_same_constant, old.co_consts, new.co_consts))


def _same_constant(old: object, new: object) -> bool:
    if type(old) is not type(new):
        return False
    if isinstance(old, CodeType):
        return True
    if isinstance(old, tuple) and isinstance(new, tuple):
        return len(old) == len(new) and all(map(_same_constant, old, new))
    # 0.0 and -0.0, and the members of a set, differ as text.
    return repr(old) == repr(new) if isinstance(old, (float, complex)) else old == new


def _decorated(code: CodeType, tree: ast.Module) -> Iterator[CodeType]:
    """The codes of functions whose decorators may have read them."""
    marked = {
        (min(each.lineno for each in node.decorator_list), node.name)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not all(map(_harmless, node.decorator_list))
    }
    waiting = [code] if marked else []
    while waiting:
        each = waiting.pop()
        if (each.co_firstlineno, each.co_name) in marked:
            yield each
        waiting += [inner for inner in each.co_consts if isinstance(inner, CodeType)]


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
    """Notes which codes of the file are executed, in every thread, and of which functions the source is ``read``.
    Raises NotKept where user code prevents that."""
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
                each = getattr(each, "__func__", each)
                each = getattr(each, "__code__", getattr(each, "f_code", each))
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


def state_of(path: str) -> object:
    """What changes when a file is written; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _written_since(moment: int, path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False  # only the editor has it
    return max(found.st_mtime_ns, found.st_ctime_ns) >= moment - _TICK


class _Silent(Job):
    """A job that has nobody to report to."""

    def __init__(self, message: Json) -> None:
        super().__init__(message, None)  # type: ignore[arg-type]

    def send(self, event: str, **fields: Any) -> None:
        return None

    def announce(self, name: str, target: str | None, line: int | None) -> None:
        return None
