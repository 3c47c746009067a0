"""A time limit around a long computation, and a sign of life on the way."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rosa_contract.errors import ContractError

LOOK_EVERY_S = 0.5
FIRST_WORD_S = 5.0  # then at twice the time, and again


class OutOfTimeError(ContractError):
    """The limit has passed; the text says how much time there was."""


@contextmanager
def within(limit_s: float, what: str) -> Iterator[None]:
    """Raise `OutOfTimeError` in what runs longer than `limit_s`, and say on standard error that it still runs.

    By an alarm signal, so it interrupts Python anywhere and a native solver at its end. Where nothing can be raised, as
    in what runs when an object goes, it is raised at the next look. Only the main thread gets signals; elsewhere, and
    with a limit of 0, nothing is limited.
    """
    if not limit_s:
        yield
        return
    began_s, next_word_s = time.monotonic(), FIRST_WORD_S

    def look(number: int, frame: FrameType | None) -> None:
        nonlocal next_word_s
        passed_s = time.monotonic() - began_s
        if passed_s >= limit_s:
            raise OutOfTimeError(f"{what} was not finished within {limit_s:g} s")
        if passed_s >= next_word_s:
            next_word_s *= 2
            print(f"{what}: {passed_s:.0f} s of at most {limit_s:g} s", file=sys.stderr, flush=True)

    try:
        before = signal.signal(signal.SIGALRM, look)
    except ValueError:  # not the main thread
        yield
        return
    ignored = sys.unraisablehook
    sys.unraisablehook = lambda one: None if isinstance(one.exc_value, OutOfTimeError) else ignored(one)
    signal.setitimer(signal.ITIMER_REAL, min(LOOK_EVERY_S, limit_s), LOOK_EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = ignored
