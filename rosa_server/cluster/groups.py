"""Nothing that a worker has started outlives it: each worker leads a process group, which ends with it.

The server ends the group of every worker that has ended. When the server itself is killed, its workers end with it (the
kernel sees to that), and a `Reaper`, a small process that notices the end of a pipe, ends their groups. A process that
leaves its group on purpose (a daemon) is not followed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

# Reads lines `+GROUP` and `-GROUP` until the pipe ends, and then ends the groups that are left. It has a group of its
# own, so that Ctrl-C does not reach it.
_REAPER = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


def end_group(group: int) -> None:
    """Kill what is left of a process group."""
    if group > 1:
        with contextlib.suppress(OSError):  # nobody is left
            os.killpg(group, signal.SIGKILL)


class Reaper:
    """Ends process groups when this process has ended, in whatever way."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        """Raises no `OSError`: without a reaper a worker still ends with its server, only its children may not."""
        if group <= 1:
            return
        if self._process is None:
            command = [sys.executable, "-I", "-S", "-c", _REAPER]
            with contextlib.suppress(OSError):
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, bufsize=0, process_group=0, stderr=subprocess.DEVNULL
                )
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """End it, and with it what it still watches."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _tell(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):  # somebody has ended it
                self._process.stdin.write(line.encode())
