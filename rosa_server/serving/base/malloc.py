"""Keep freed memory for the next message, and hand it back to the kernel when a peak is over."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h
LARGEST_MMAP_THRESHOLD = 32 << 20  # glibc's own limit
KEPT_BYTES = 256 << 20
LOOK_EVERY_S, MAX_WAIT_S = 10.0, 60.0
WORTH_BYTES = 4 << 20  # less is not worth the page faults


def keep_freed_memory() -> None:
    """Tune glibc's malloc for buffers of image size; elsewhere nothing happens.

    By default a buffer of 150 KB is given back when freed, and its next use pays a page fault per 4 KB: 0.3 to 0.6 ms
    per message in a virtual machine, more than all other work on it. One arena for all threads: of the others
    `malloc_trim` does not give back what is free at the top.
    """
    mallopt = _of_glibc("mallopt")
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(M_ARENA_MAX, 1)


def trim() -> None:
    """Hand freed memory back to the kernel; milliseconds."""
    malloc_trim = _of_glibc("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(0)


def resident_bytes() -> int:
    """Of this process; 0 where that cannot be read."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class Peaks:
    """Trims when this process has grown, so that what an attack took is free again when it is over.

    Where it grows again at once, the memory is in use: then the next trim waits, up to `MAX_WAIT_S`. What was in use at
    a trim may be free by now, so one more follows when the growth has ended.
    """

    def __init__(self, resident: Callable[[], int] = resident_bytes, trim: Callable[[], None] = trim) -> None:
        self._resident, self._trim = resident, trim
        self._floor = 0  # bytes; 0: nothing is known yet
        self._wait_s, self._next_s = LOOK_EVERY_S, 0.0
        self._once_more = False

    def look(self, now_s: float) -> None:
        """Often."""
        if now_s < self._next_s:
            return
        resident = self._resident()
        grows = bool(self._floor) and resident - self._floor >= WORTH_BYTES
        if grows or self._once_more:
            self._trim()
            self._floor = self._resident()
        else:
            self._floor = min(self._floor or resident, resident)
        self._once_more = grows
        self._wait_s = min(2 * self._wait_s, MAX_WAIT_S) if grows else LOOK_EVERY_S
        self._next_s = now_s + self._wait_s


def _of_glibc(name: str) -> Callable[..., object] | None:
    """None where there is another C library."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
