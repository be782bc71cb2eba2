"""A project's own configuration: ``fxlens.toml``, or ``[tool.fxlens]`` in ``pyproject.toml``.  Read as data; the only
code that it names is the tracer, which runs in the process of the models.

::

    [tool.fxlens]
    select = ["FX1", "FX2"]
    ignore = ["FX207"]
    leaf-modules = ["mylib.layers.Gate"]
    scope = "all"
    captures = ["fx", "export"]
    tracer = "mylib.tracing:LayerTracer"
    tracer-arguments = { depth = 2 }
    [tool.fxlens.severity]
    FX206 = "error"
    [tool.fxlens.targets]
    "models/net.py::Net" = "Net(10, 20) <- torch.randn(1, 3, 32, 32)"
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fxlens import rules

from .settings import CAPTURES, SEVERITIES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from fxlens.ipc.request import Tracer
from fxlens.sources.files import began_now, changed_since, read_bytes, state_of
from fxlens.sources.paths import is_named, is_within, key
from fxlens.sources.roles import SCOPES

_MAX_BYTES = 1 << 20
_OWN = "run fxlens in that folder, or own it"
"""How to use a configuration of somebody else."""
_NAMES = ("fxlens.toml", "pyproject.toml")
_KEYS = (
    "select", "ignore", "severity", "leaf-modules", "tracer", "tracer-arguments", "captures", "targets", "scope",
)  # fmt: skip
_one_reads = threading.Lock()
_read: dict[str, tuple[object, Project | None]] = {}
"""The configurations in files, with the states of these."""


def is_configuration(path: str) -> bool:
    return os.path.basename(path) in _NAMES


def configurations(folder: str, top: str) -> Iterator[str]:
    """Where a configuration for the files of a folder may be, up to the folder ``top``."""
    for at in _above(folder, top):
        yield from (os.path.join(at, name) for name in _NAMES)


def _above(folder: str, top: str | None) -> Iterator[str]:
    """A folder and those above it, up to ``top``."""
    at = os.path.abspath(folder)
    while True:
        yield at
        parent = os.path.dirname(at)
        if parent == at or (top is not None and key(at) == key(top)):
            return
        at = parent


@dataclass(frozen=True)
class Project:
    """The nearest configuration above a folder; empty if there is none."""

    root: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: dict[str, str] = field(default_factory=dict)
    leaf_modules: tuple[str, ...] = ()
    tracer: Tracer | None = None
    """The project's own tracer, which decides instead of torch.fx's; None if it has none."""
    captures: tuple[str, ...] = ()
    """The captures that count: those of ``settings.CAPTURES``; empty if not configured."""
    targets: dict[str, str] = field(default_factory=dict)
    scope: str = ""
    """Which classes have findings of full severity (``sources.roles``); empty if not configured."""
    problems: tuple[str, ...] = ()

    @classmethod
    def read(
        cls, folder: str, opened: Callable[[str], str | None] = lambda path: None, top: str | None = None
    ) -> Project:
        """Looks for a configuration in ``folder`` and above, and stops at the first.

        ``opened`` returns the text of one that is open in an editor. Nothing is read above ``top``, the trusted folder;
        without it, nothing of another user above the current folder, since it could name code to run: a problem."""
        ours = True
        for at in _above(folder, top):
            ours = ours and (top is not None or is_within(at, _present()) or _is_ours(at))
            for name in _NAMES:
                path = os.path.join(at, name)
                if (found := cls._in(path, opened(path))) is not None and not ours:
                    return cls(problems=(f"{path}: not used, since another user owns it or its folder; {_OWN}",))
                if found is not None:
                    return found
        return cls()

    @classmethod
    def _in(cls, path: str, opened: str | None) -> Project | None:
        """The configuration in a file, which is read once for all folders below; None if it has none."""
        state = state_of(path) if opened is None else opened
        if state is None:
            return None
        with _one_reads:
            if (before := _read.get(path)) is not None and before[0] == state:
                return before[1]
            table, problem = _table(path, opened)
            root, found = os.path.dirname(path), None
            if problem:
                found = cls(root=root, problems=(f"{path}: {problem}",))
            elif table is not None:
                found = cls._from(root, path, table)
            if opened is not None or not changed_since(path, began_now()):
                _read[path] = state, found
            return found

    @classmethod
    def _from(cls, root: str, path: str, table: dict[str, Any]) -> Project:
        problems = [
            f"{path}: unknown key {name!r}; the keys are {', '.join(_KEYS)}" for name in table if name not in _KEYS
        ]

        def take(name: str, kind: type, default: Any) -> Any:
            value = table.get(name, default)
            items = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
            if not isinstance(value, kind) or not all(isinstance(each, str) for each in items):
                problems.append(f"{path}: {name} must be a {'list' if kind is list else 'table'} of strings")
                return default
            return value

        scope = table.get("scope", "")
        if scope not in ("", *SCOPES):
            problems.append(f"{path}: scope must be one of {', '.join(SCOPES)}")
            scope = ""
        named = take("captures", list, [])
        captures = [each for each in named if each in CAPTURES]
        if len(captures) < len(named):
            problems.append(f"{path}: captures must be some of {', '.join(CAPTURES)}")
        graded = take("severity", dict, {})
        severity = {code: grade for code, grade in graded.items() if grade in SEVERITIES}
        if len(severity) < len(graded):
            problems.append(f"{path}: severity must map codes to one of {', '.join(SEVERITIES)}")
        select, ignore = take("select", list, []), take("ignore", list, [])
        for name, codes in (("select", select), ("ignore", ignore), ("severity", [*severity])):
            if misspelt := rules.unknown(codes):
                problems.append(f"{path}: {name}: {rules.said_unknown(misspelt)}")
        return cls(
            root=root,
            scope=scope,
            select=tuple(rules.known(select)),
            ignore=tuple(rules.known(ignore)),
            severity={code: severity[code] for code in rules.known(severity)},
            leaf_modules=tuple(take("leaf-modules", list, [])),
            tracer=_tracer(path, table, problems),
            captures=tuple(captures),
            targets=dict(take("targets", dict, {})),
            problems=tuple(problems),
        )

    def targets_of(self, path: str) -> dict[str, str]:
        """The configured targets for classes of this file, by class name.  ``Net`` alone means the class in any
        file."""
        named = self._targets_by_file
        found = dict(named.get("", {}))
        for file, targets in named.items():
            if file and self.root and is_named(file, self.root, path):
                found |= targets
        return found

    @functools.cached_property
    def _targets_by_file(self) -> dict[str, dict[str, str]]:
        """By class name, for each file as it is written; "" for any file. A document asks several times for each
        trace, and there may be thousands of targets."""
        found: dict[str, dict[str, str]] = {}
        for name, text in self.targets.items():
            file, _, kind = name.rpartition("::")
            found.setdefault(file, {})[kind] = text
        return found


def _tracer(path: str, table: dict[str, Any], problems: list[str]) -> Tracer | None:
    name, arguments = table.get("tracer"), table.get("tracer-arguments", {})
    if name is None:
        return None
    if not isinstance(name, str) or not re.fullmatch(r"\w+(\.\w+)*:\w+(\.\w+)*", name):
        problems.append(f"{path}: tracer must name a class as package.module:Class")
        return None
    try:
        json.dumps(arguments)
    except (TypeError, ValueError):
        arguments = None
    if not isinstance(arguments, dict):
        problems.append(f"{path}: tracer-arguments must be a table of texts, numbers and lists")
        return None
    return {"name": name, "arguments": arguments}


def _present() -> list[str]:
    """The current folder; empty if it was removed."""
    try:
        return [os.getcwd()]
    except FileNotFoundError:
        return []


def _is_ours(folder: str) -> bool:
    if not hasattr(os, "getuid"):
        return True
    with contextlib.suppress(OSError):
        for path in (folder, *(os.path.join(folder, name) for name in _NAMES)):
            if os.path.lexists(path) and os.lstat(path).st_uid not in (0, os.getuid()):
                return False
    return True


def _text(path: str) -> str:
    return read_bytes(path, _MAX_BYTES).decode("utf-8-sig").replace("\r\n", "\n")


def _table(path: str, opened: str | None) -> tuple[dict[str, Any] | None, str | None]:
    if opened is not None and len(opened) > _MAX_BYTES:
        return None, f"larger than {_MAX_BYTES >> 20} MiB"
    try:
        data: Any = tomllib.loads(_text(path) if opened is None else opened.replace("\r\n", "\n"))
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except RecursionError:
        return None, "nested too deep"
    except (OSError, ValueError) as error:
        return None, getattr(error, "strerror", None) or str(error)
    if os.path.basename(path) == "pyproject.toml":
        tool = data.get("tool")
        data = tool.get("fxlens") if isinstance(tool, dict) else None
        if data is None:
            return None, None
    return (data, None) if isinstance(data, dict) else (None, "not a table")
