"""A limit for the time that a node takes to begin or to end: Fast DDS may not come back from either."""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# After this long a clean-up is stuck for good. A supervisor kills after 5 s, and could not say where it was stuck.
END_WITHIN_S = 4.5
# A participant is made in a tenth of a second, or in a few seconds on a busy machine. A bring-up waits 30 s for a node.
BEGIN_WITHIN_S = 20.0


def end_within(within_s: float) -> None:
    """From now on the process has this long; then it ends with status 1 and says where it was. Replaces any limit."""
    faulthandler.dump_traceback_later(within_s, exit=True, file=sys.__stderr__ or sys.stderr)


@contextmanager
def ends_in_time(within_s: float = END_WITHIN_S) -> Iterator[None]:
    """What does not come back ends the process, with status 1, and says where it was.

    Both hold the interpreter's lock, so neither a signal's handler nor another thread of Python could end them:

    - Making a participant: for a port in shared memory Fast DDS waits, without a limit, for a lock that a process may
      have held when it was killed (upstream's issues 2051 and 6117).
    - Ending one: Fast DDS (3.2, that of Kilted) removes the listener of a participant with a wait whose end its clock
      cannot hold. If another participant is being discovered in that moment, it waits for ever, with the lock that the
      discovery needs: once in 1,000 to 1,500 nodes that ended while others began, on a busy machine.
    """
    end_within(within_s)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
