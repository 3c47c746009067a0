"""A limit for the time that a node takes to end: Fast DDS may not come back from that."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# After this long a clean-up is stuck for good. A supervisor kills after 5 s, and could not say where it was stuck.
END_WITHIN_S = 4.5


def end_within(within_s: float) -> None:
    """From now on the process has this long, until the interpreter is taken down; then it ends with status 1 and says
    where it was. A process has one such limit: the newest."""
    file = sys.__stderr__ or sys.stderr or open(os.devnull, "w")  # noqa: SIM115 - faulthandler keeps it
    faulthandler.dump_traceback_later(within_s, exit=True, file=file)


@contextmanager
def ends_in_time(within_s: float = END_WITHIN_S) -> Iterator[None]:
    """A clean-up that does not end ends the process, with status 1, and says where it was.

    Fast DDS (3.2, that of Kilted) removes the listener of a participant with a wait whose end its clock cannot hold. If
    another participant is being discovered in that moment, it waits for ever, with the lock that the discovery needs:
    once in 1,000 to 1,500 nodes that ended while others began, on a busy machine. It holds the interpreter's lock too:
    neither a signal's handler nor another thread of Python could end it.
    """
    end_within(within_s)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
