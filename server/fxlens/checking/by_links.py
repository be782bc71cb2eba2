"""Files that are checked by more than one name, since links lead to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from fxlens.record import Finding
from fxlens.sources.paths import key

from .checker import Checked

_Mark: TypeAlias = tuple[object, ...]


def once(results: Iterable[Checked]) -> Iterator[Checked]:
    """The results without what was found in the same file by an earlier name. By another name it may import other
    files, so that something else is found."""
    seen: dict[str, set[_Mark]] = {}
    for result in results:
        before = seen.setdefault(key(result.record["path"]), set())
        result.findings = [each for each in result.findings if _mark(each) not in before]
        before.update(map(_mark, result.findings))
        yield result


def _mark(finding: Finding) -> _Mark:
    span = finding["span"]
    place = span and (key(span["file"]), span["line"], span["column"])
    return finding["code"], finding["target"], finding["message"], place
