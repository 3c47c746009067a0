"""Ctrl-C while a program starts: most of its first second goes into imports, and none of it is worth a traceback."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

EXIT_STATUS = 130  # 128 + SIGINT, what shells expect of a program that Ctrl-C ended


def interruptible(load: Callable[[], Callable[[], int]]) -> int:
    """Import a program with `load` and run it. Ctrl-C ends it with `EXIT_STATUS` and says nothing.

    A program that has its own way to end on SIGINT sets its handler when it runs.
    """
    usual = signal.getsignal(signal.SIGINT)
    ours = usual is signal.default_int_handler
    try:
        if ours:
            # An exception in the middle of an import may be swallowed by C code, or leave half a module behind.
            signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_STATUS))
        program = load()
        if ours:
            signal.signal(signal.SIGINT, usual)
        return program()
    except KeyboardInterrupt:
        return EXIT_STATUS
