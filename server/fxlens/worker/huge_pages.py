"""Memory in pages of 2 MiB.

A fork copies a table of all pages, and the end of the fork goes through that again. With pages of 4 KiB and torch
imported this takes several milliseconds of the processor for each job; with huge ones, a third of that.
"""

from __future__ import annotations

import ctypes
import re

_SIZE = 1 << 21
_COLLAPSE = 25  # MADV_COLLAPSE, of Linux 6.1


def use() -> bool:
    """Puts the writable private memory of this process into huge pages, which takes a tenth of a second with torch.
    False where the kernel refuses it. Forks share what they had before, and would get a copy of their own."""
    try:
        with open("/proc/self/maps") as file:
            areas = re.findall(r"^(\w+)-(\w+) rw-p", file.read(), re.MULTILINE)
    except OSError:
        return False
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    taken = False
    for area in areas:
        begin, end = (int(each, 16) for each in area)
        begin, end = -(-begin // _SIZE) * _SIZE, end // _SIZE * _SIZE
        if begin < end and advise(begin, end - begin, _COLLAPSE) == 0:
            taken = True
    return taken
