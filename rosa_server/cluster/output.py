"""What a worker's libraries print: a line of the server's log at most once a second, of bounded length.

Libraries write where they like: libpng a line about every damaged picture, an engine a bar per batch. A worker's own
events go to the server's standard error; whatever else comes from its process comes here.
"""

from __future__ import annotations

import contextlib
import os

from rosa_server.serving.base import log

EVERY_S = 1.0
MAX_TEXT_BYTES = 4000  # of one event
READ_BYTES = 1 << 16
MAX_READS = 64  # at once: a worker must not wait for its output to be read, nor the server for its worker


class Output:
    """The reading end of a pipe that is both standard output and standard error of one process."""

    def __init__(self) -> None:
        """Raises `OSError`. `theirs` is for the process; close it when it has been started."""
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self._kept, self._left_out = b"", 0
        self._next_s = 0.0

    def read(self, now_s: float, worker_id: str, last: bool = False) -> None:
        """Read what has come, and log it when it is time, or when this was the `last` of it."""
        for _ in range(MAX_READS):
            try:
                come = os.read(self._ours, READ_BYTES)
            except OSError:  # nothing yet
                break
            if not come:
                break
            room = MAX_TEXT_BYTES - len(self._kept)
            self._kept += come[:room]
            self._left_out += max(0, len(come) - room)
        if self._kept and (last or now_s >= self._next_s):
            text = self._kept.decode(errors="replace").strip()
            log.warning("worker_output", worker=worker_id, text=text, left_out_bytes=self._left_out)
            self._kept, self._left_out, self._next_s = b"", 0, now_s + EVERY_S

    def close(self) -> None:
        for end in (self._ours, self.theirs):
            with contextlib.suppress(OSError):
                os.close(end)

    def started(self) -> None:
        """The process has its end: close ours of it."""
        os.close(self.theirs)
        self.theirs = -1
