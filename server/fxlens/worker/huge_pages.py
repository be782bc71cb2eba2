"""Memory in pages of 2 MiB.

A fork copies a table of all pages, and the end of the fork goes through that again. With pages of 4 KiB and torch
imported this takes several milliseconds of the processor for each job; with huge ones, a third of that.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator

_SIZE = 1 << 21
_AT_ONCE = 8 * _SIZE
_COLLAPSE = 25  # MADV_COLLAPSE, of Linux 6.1


def parts() -> Iterator[tuple[int, int]]:
    """Places and lengths of the writable private memory of this process, in parts that take a few milliseconds each;
    none where there is no such table."""
    try:
        with open("/proc/self/maps") as file:
            areas = re.findall(r"^(\w+)-(\w+) rw-p", file.read(), re.MULTILINE)
    except OSError:
        return
    for area in areas:
        begin, end = (int(each, 16) for each in area)
        begin, end = -(-begin // _SIZE) * _SIZE, end // _SIZE * _SIZE
        for part in range(begin, end, _AT_ONCE):
            yield part, min(_AT_ONCE, end - part)


def collapse(place: int, length: int) -> bool:
    """Puts what is in this part into huge pages; False where the kernel refuses it."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return advise(place, length, _COLLAPSE) == 0
