"""What names hold while a model is traced: parameters, local variables and attributes, where code reads or sets them.

One more run is watched line by line.  That takes a multiple of the time of a trace, so it is done only when somebody
asks.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch import nn

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.detectors import AT_PROBES, LOOKERS
from fxlib.diagnosis.engine.packages import is_installed
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Limits, Search
from fxlib.diagnosis.engine.subject import Subject
from fxlib.diagnosis.engine.values import Unknown, describe
from fxlib.ir.node import Node
from fxlib.ir.objects import attribute, attributes_of
from fxlib.ir.span import is_hidden

__all__ = ["Held", "Name", "names_in"]

_LIMITS = Limits(enough=True)
_MOST = 16  # different values of one name at one place
_MOST_ITEMS = 32
_DEEPEST = 4
_LONGEST = 80
_FAR = 50  # frames up to a method of a module
_READ_OR_SET = re.compile(r"(LOAD|STORE)_(?:FAST|DEREF)")
_DATA = (bool, int, float, complex, str, bytes, type(None), type(...), slice, range)
_OF_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_RESUMABLE = 0x20 | 0x80 | 0x200  # generators and coroutines


class Name(NamedTuple):
    """``x`` or ``self.weight`` in a line; ``stored`` where the line sets it.  Parameters are set in the first line of
    their function, which is that of a decorator."""

    file: str
    line: int
    text: str
    stored: bool


@dataclass
class Held:
    """What a name held at one place: ``values``, each with the name of the node that computes it (empty: Python alone
    does) and the paths of the modules whose code it was; ``times`` counts all visits.  A value has `TensorMeta` for
    tensors and is None where nothing is known of it; the representation of what is no data names its type."""

    values: list[tuple[Any, str, list[str]]] = field(default_factory=list)
    times: int = 0


def names_in(
    root: nn.Module | Any,
    example_inputs: Any = None,
    *,
    concrete_args: Mapping[str, Any] | None = None,
    leaf_modules: Iterable[str] = (),
    tracer: Callable[[], Any] | None = None,
) -> dict[Name, Held]:
    """What the names in the user's functions hold in the trace that `fxlib.diagnosis.diagnose.diagnose` makes of the
    same arguments.  ``root`` is left as it was."""
    subject = Subject.of(root, example_inputs, concrete_args, leaf_modules, LOOKERS, tracer)
    watches: list[_Watch] = []

    @contextlib.contextmanager
    def watched(run: Run) -> Iterator[None]:
        watches.append(_Watch(run))
        before = sys.gettrace()
        sys.settrace(watches[-1].begin)
        try:
            yield
        finally:
            sys.settrace(before)

    try:
        search = Search(subject, AT_PROBES)
        search.explore(_LIMITS)
        subject.snapshot.restore()
        search.once_more(watched)
        return watches[-1].held()
    finally:
        subject.snapshot.restore()


class _Shown:
    """Stands for a value that is no tensor: its text."""

    def __init__(self, text: str) -> None:
        self.text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shown) and self.text == other.text

    __hash__ = None  # type: ignore[assignment]


class _Block(NamedTuple):
    """Instructions of one line that follow each other, and the names that they read and set."""

    line: int
    read: list[str]
    stored: list[str]


class _Watch:
    """Notes names in the frames of the user while a run is under way."""

    def __init__(self, run: Run) -> None:
        self._run = run
        root = run.subject.root
        self._paths = {id(module): path for path, module in root.named_modules()} if isinstance(root, nn.Module) else {}
        self._noted: dict[Name, Held] = {}
        self._written: dict[tuple[str, int], dict[str, None]] = {}
        """By file and line: the names that functions read there as they are written, where the run leaves things out,
        too."""
        for code in run.subject.instrumentation.original.values():
            self._add_written(code)

    def _add_written(self, code: CodeType) -> None:
        for block in _blocks(code)[1]:
            self._written.setdefault((code.co_filename, block.line), {}).update(dict.fromkeys(block.read))
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                self._add_written(inner)

    def begin(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        """At the call of a function; for the interpreter."""
        code = frame.f_code
        if self._run.quiet or not _is_of_user(code.co_filename):
            return None
        starts, blocks = _blocks(code)
        path = self._path(frame)
        current: _Block | None = None

        def note(names: list[str], line: int, stored: bool) -> None:
            local = frame.f_locals if names else {}
            for name in names:
                with contextlib.suppress(Exception):  # objects may be of classes that do not behave
                    self._note(Name(code.co_filename, line, name, stored), _value(local, name), path)

        def at(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
            nonlocal current
            if event == "exception":
                current = None
            if event in ("line", "return") and current is not None:
                note(current.stored, current.line, True)
            if event == "line":
                current = blocks[max(0, bisect_right(starts, frame.f_lasti) - 1)]
                written = self._written.get((code.co_filename, current.line), {})
                note([*dict.fromkeys((*current.read, *written))], current.line, False)
            return at

        if not code.co_flags & _RESUMABLE:
            count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
            note(_named([*code.co_varnames[:count]]), code.co_firstlineno, True)
        return at

    def _note(self, name: Name, value: Any, path: str) -> None:
        if value is _MISSING:
            return
        held = self._noted.setdefault(name, Held())
        held.times += 1
        plain = _plain(value, 0)
        _add(held.values, plain, plain.name if isinstance(plain, Node) else "", [path])

    def _path(self, frame: FrameType | None) -> str:
        """The path of the module whose code runs."""
        for _ in range(_FAR):
            if frame is None:
                break
            code = frame.f_code
            if code.co_argcount and not is_hidden(code.co_filename):
                path = self._paths.get(id(frame.f_locals.get(code.co_varnames[0])))
                if path is not None:
                    return path
            frame = frame.f_back
        return ""

    def held(self) -> dict[Name, Held]:
        """By name, with what is known of the nodes."""
        for held in self._noted.values():
            values, held.values = held.values, []
            for value, node, paths in values:
                _add(held.values, self._described(value), node, paths)
        return self._noted

    def _described(self, value: Any) -> Any:
        if isinstance(value, Node):
            known = self._run.values.of(value) if value.graph is self._run.graph else None
            return None if isinstance(known, Unknown) else known
        if isinstance(value, (tuple, list)):
            return type(value)(map(self._described, value))
        return {key: self._described(each) for key, each in value.items()} if isinstance(value, dict) else value


_MISSING = object()


def _add(values: list[tuple[Any, str, list[str]]], value: Any, node: str, paths: list[str]) -> None:
    """Adds a value, or its paths to those of one that is the same and is computed, or not, as that is."""
    for known, other, where in values:
        if bool(node) == bool(other) and known == value:
            where += [path for path in paths if path not in where]
            return
    if len(values) < _MOST:
        values.append((value, node, [*paths]))


@functools.lru_cache(4096)
def _is_of_user(file: str) -> bool:
    return not (file.startswith("<") or is_hidden(file) or is_installed(file))


@functools.lru_cache(1024)
def _blocks(code: CodeType) -> tuple[list[int], list[_Block]]:
    """The blocks of a function, and the offset at which each begins."""
    lines = [(offset, line) for offset, line in dis.findlinestarts(code) if line is not None]
    starts = [offset for offset, _ in lines]
    blocks = [_Block(line, [], []) for _, line in lines] or [_Block(code.co_firstlineno, [], [])]
    before = ""
    for each in dis.get_instructions(code):
        block = blocks[max(0, bisect_right(starts, each.offset) - 1)]
        ways = [] if each.opname.endswith("AND_CLEAR") else _READ_OR_SET.findall(each.opname)
        if ways:
            names = each.argval if isinstance(each.argval, tuple) else (each.argval,)
            for way, name in zip(ways, names, strict=False):
                (block.read if way == "LOAD" else block.stored).append(name)
            before = names[-1] if ways[-1] == "LOAD" else ""
        elif before and each.opname in ("LOAD_ATTR", "STORE_ATTR"):
            name = f"{before}.{each.argval}"
            (block.read if each.opname == "LOAD_ATTR" else block.stored).append(name)
            before = name if each.opname == "LOAD_ATTR" else ""
        else:
            before = ""
    return starts, [_Block(line, _named(read), _named(stored)) for line, read, stored in blocks]


def _named(names: list[str]) -> list[str]:
    """Each once; without the iterator of a comprehension, ``.0``."""
    return [name for name in dict.fromkeys(names) if name[0] != "."]


def _value(local: Mapping[str, Any], name: str) -> Any:
    """The value of a name or of an attribute path, found without running code of the object's class."""
    first, *path = name.split(".")
    value = local.get(first, _MISSING)
    for part in path:
        if value is _MISSING or isinstance(value, (Proxy, torch.Tensor)):
            return _MISSING
        value = _attribute(value, part)
    return value


def _attribute(value: Any, name: str) -> Any:
    own = attributes_of(value) or {}
    tables = [own]
    if isinstance(value, nn.Module):
        tables += [own[table] for table in ("_parameters", "_buffers", "_modules") if table in own]
    for table in tables:
        if name in table:
            return table[name]
    for kind in type(value).__mro__:
        if name in vars(kind):
            found = vars(kind)[name]
            return found if isinstance(found, _DATA) else _MISSING
    return _MISSING


def _plain(value: Any, depth: int) -> Any:
    """A value as it is now, with nodes for proxies and texts for objects."""
    if isinstance(value, Proxy):
        return value.node
    if isinstance(value, torch.Tensor):
        return describe(value)
    kind = type(value)
    if isinstance(value, (tuple, list, dict)) and depth < _DEEPEST and len(value) <= _MOST_ITEMS:
        if kind is torch.Size:
            return _Shown(str(tuple(value)))
        if isinstance(value, dict):
            return {_key(key): _plain(each, depth + 1) for key, each in value.items()}
        items = [_plain(each, depth + 1) for each in value]
        return items if isinstance(value, list) else tuple(items)
    if kind in _DATA or kind in _OF_TORCH:
        return _Shown(repr(value))
    if isinstance(value, (tuple, list, dict)):
        return _Shown(f"{kind.__name__} of {len(value)}")
    name = attribute(value, "__qualname__")
    return _Shown(name if isinstance(name, str) and callable(value) else kind.__name__)


def _key(key: Any) -> str:
    return _Shown(str(key)).text if type(key) in (str, int, float, bool) else type(key).__name__
