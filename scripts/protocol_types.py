"""Writes vscode-extension/src/protocol/record.ts: the types of server/fxlens/record.py in TypeScript.

    python scripts/protocol_types.py [--check]

With ``--check`` nothing is written, and the exit status says whether the file is up to date.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "vscode-extension" / "src" / "protocol" / "record.ts"
sys.path.insert(0, str(ROOT / "server"))

from fxlens import record  # noqa: E402


class _ReadOnly:
    """Annotations that matter only to type checkers."""

    def __class_getitem__(cls, kind: Any) -> Any:
        return kind


record.ReadOnly = _ReadOnly  # type: ignore[attr-defined]
HEAD = "/** What one trace of a file found. Written by scripts/protocol_types.py from server/fxlens/record.py. */\n"
PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", NoneType: "null"}


def types() -> Iterator[type]:
    """The kinds of entry, in the order of the file."""
    for value in vars(record).values():
        if typing.is_typeddict(value):
            yield value


def declaration(kind: type) -> str:
    fields = typing.get_type_hints(kind)
    summary = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
    lines = [f"/** {summary} */", f"export interface {kind.__name__} {{"]
    lines += [f"  {name}: {written(hint)};" for name, hint in fields.items()]
    return "\n".join([*lines, "}"])


def written(hint: Any) -> str:
    """A Python type in TypeScript."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if typing.is_typeddict(hint):
        return hint.__name__
    if origin is Literal:
        return " | ".join(f"'{each}'" for each in arguments)
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(written(each) for each in arguments))
    if origin is Sequence:
        inner = written(arguments[0])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if origin is Mapping:
        return f"Record<{written(arguments[0])}, {written(arguments[1])}>"
    if hint is object:
        return "unknown"
    raise TypeError(f"no TypeScript for {hint}")


def text() -> str:
    # The outermost type would hide TypeScript's own Record.
    found = "\n\n".join(map(declaration, types())).replace(
        "export interface Record {", "export interface TraceRecord {"
    )
    return f"{HEAD}\n{found}\n"


def main() -> int:
    wanted = text()
    if "--check" in sys.argv[1:]:
        return int(OUT.read_text() != wanted)
    OUT.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
