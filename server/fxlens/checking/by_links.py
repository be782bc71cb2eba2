"""Files to which links lead, so that they are checked by another name than their own, or by two."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from fxlens.record import Finding
from fxlens.sources.paths import key

if TYPE_CHECKING:
    from .checker import Checked

_Mark: TypeAlias = tuple[object, ...]


def below_links(files: Iterable[str]) -> list[str]:
    """Those of the files that lie below a linked folder."""
    straight: dict[str, bool] = {}

    def is_straight(folder: str) -> bool:
        if folder not in straight:
            above = os.path.dirname(folder)
            straight[folder] = above == folder or (not os.path.islink(folder) and is_straight(above))
        return straight[folder]

    paths = map(os.path.abspath, files)
    return [path for path in paths if not is_straight(os.path.dirname(path))]


def not_named(path: str) -> str:
    """Why fixes leave a file alone. What a link in a named folder leads to was not named by that."""
    real = os.path.realpath(path)
    which = "it" if real == os.path.abspath(path) else f"a link leads from there to {real}, which"
    return f"{which} was not named and is not part of the project"


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
