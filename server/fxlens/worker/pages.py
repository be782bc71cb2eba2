"""Copies the memory pages that a job will write, before the job arrives.

A fork shares its memory with its parent until it writes to it: each first write copies a page, some thousand times in a
short job. Jobs of one kept file write the same pages, so a rehearsal records them, and later forks copy them while they
wait.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Iterator
from contextlib import suppress

_MOST = 1 << 14
"""The most pages that are copied ahead, and ranges of them that are recorded."""
_STRETCH = struct.Struct("QQ")
_POPULATE_WRITE = 23  # of Linux 5.14; earlier ones refuse it
_PRESENT, _OF_FILE, _OWN = 1 << 63, 1 << 61, 1 << 56

_noted: mmap.mmap | None = None
"""Shared with all forks: the number of ranges, then the first and last page of each."""


def share() -> None:
    """Share records between this process and its forks."""
    global _noted
    _noted = mmap.mmap(-1, _STRETCH.size * (_MOST + 1))


def note() -> None:
    """Records the pages that this process has written since its fork."""
    if _noted is None:
        return
    count = 0
    with suppress(OSError, ValueError):  # a system without these files
        for first, last in _written():
            if count == _MOST:
                break
            count += 1
            _STRETCH.pack_into(_noted, _STRETCH.size * count, first, last)
    _STRETCH.pack_into(_noted, 0, count, 0)


def copy() -> None:
    """Copies the pages that an earlier fork recorded."""
    if _noted is None:
        return
    populate, left = ctypes.CDLL(None).madvise, _MOST
    populate.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for number in range(min(_STRETCH.unpack_from(_noted, 0)[0], _MOST)):
        first, last = _STRETCH.unpack_from(_noted, _STRETCH.size * (number + 1))
        left -= last - first
        if left < 0:  # user code can write there, too
            return
        populate(first * mmap.PAGESIZE, (last - first) * mmap.PAGESIZE, _POPULATE_WRITE)


def _written() -> Iterator[tuple[int, int]]:
    """Ranges of pages that are private to this process and not file-backed."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        areas = [line.split(maxsplit=2)[:2] for line in file]
    with open("/proc/self/pagemap", "rb", buffering=0) as pages:
        for place, permissions in areas:
            if permissions != "rw-p":
                continue
            begin, end = (int(each, 16) // mmap.PAGESIZE for each in place.split("-"))
            pages.seek(begin * 8)
            data = pages.read((end - begin) * 8)
            first = None
            for at, (entry,) in enumerate(struct.iter_unpack("Q", data), begin):
                own = entry & _PRESENT and entry & _OWN and not entry & _OF_FILE
                if own and first is None:
                    first = at
                elif not own and first is not None:
                    yield first, at
                    first = None
            if first is not None:
                yield first, begin + len(data) // 8
