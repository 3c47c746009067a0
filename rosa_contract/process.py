"""How a process ends: in words, and never later than the one that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)  # loaded here: between fork and exec nothing may be


def ending(status: int) -> str:
    """The exit status, or the signal that killed it (negative, as `subprocess` tells it)."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal, most of which have no name
        return f"ended by signal {-status}"


def die_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Have the kernel send `number` to this process when `parent`, which started it, is gone (Linux).

    Ends this process at once if the parent is gone already.
    """
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(0)
