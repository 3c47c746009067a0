"""Ctrl-C: while a program imports, which is most of its first second, and in the middle of what must not stop there."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EXIT_STATUS = 130  # 128 + SIGINT, what shells expect of a program that Ctrl-C ended
SIGNALS = (signal.SIGINT, signal.SIGTERM)


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


@contextmanager
def signals_wait() -> Iterator[None]:
    """SIGINT and SIGTERM wait for the end of this block.

    For what an exception in the middle would leave half done: nobody would know a process that is being started, and
    C++ that calls Python turns Ctrl-C into an error of its own. A signal that is blocked for this thread may reach
    another one, and Python then calls the handler in this one nevertheless; so the handlers wait as well.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    handlers, came = {}, list[int]()
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            handlers[number] = signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for one in came:
            signal.raise_signal(one)
