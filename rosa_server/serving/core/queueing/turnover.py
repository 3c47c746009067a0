"""How a fleet takes its tasks: one after another without a pause (closed), or as they come (open).

In an open fleet the shortest work first shortens the mean for everybody. In a closed one the mean is given by the
number of robots and what the servers carry (Little's law): to favour some only makes others late, so there age has to
count for more.
"""

from __future__ import annotations

from collections import OrderedDict

CLOSED_SHARES = 16.0  # a closed fleet's age weight, in shares of a server that a task gets
AT_ONCE = 0.25  # of a task's time: a robot that begins its next one within it has not waited for work
MIN_AT_ONCE_S = 1.0
SMOOTHING = 0.1  # weight of the newest ended task


class Turnover:
    """What ended tasks say about the fleet. It counts as closed until its robots are seen to wait for work."""

    def __init__(self) -> None:
        self.closed = 1.0  # share of ended tasks whose robot began another one at once
        self.took_s = 0.0  # a task's time, from its first call to its end
        self.work_s = 0.0  # of a server, per task
        self.gpu_s = 0.0  # of a server, per round: of the last answered one
        self._ended_s: OrderedDict[bytes, float] = OrderedDict()  # robots that have not begun another one

    @property
    def age_weight(self) -> float:
        """Seconds of work for a second of age: what a task gets of a server while it lasts, where the fleet is closed.

        A task that waits while others get that share is then owed a multiple of what it would have had. The square: a
        fleet that half of the time waits for work is an open one rather, and a server that has seen little is soon rid
        of the assumption that the fleet is closed.
        """
        return CLOSED_SHARES * self.closed**2 * self.work_s / self.took_s if self.took_s else 0.0

    def begins(self, now_s: float, connection: bytes) -> None:
        """A robot begins a task."""
        self._look(now_s)
        if self._ended_s.pop(connection, None) is not None:
            self._count(1.0)

    def ends(self, now_s: float, connection: bytes, took_s: float, work_s: float) -> None:
        """A robot's task is over."""
        self._look(now_s)
        self._ended_s[connection] = now_s
        first = not self.took_s
        self.took_s += (1.0 if first else SMOOTHING) * (took_s - self.took_s)
        self.work_s += (1.0 if first else SMOOTHING) * (work_s - self.work_s)

    def leaves(self, connection: bytes) -> None:
        """A robot is gone, without another task."""
        if self._ended_s.pop(connection, None) is not None:
            self._count(0.0)

    def _look(self, now_s: float) -> None:
        """Robots that have not begun another task for a while wait for work."""
        limit_s = now_s - max(MIN_AT_ONCE_S, AT_ONCE * self.took_s)
        while self._ended_s and next(iter(self._ended_s.values())) < limit_s:
            self._ended_s.popitem(last=False)
            self._count(0.0)

    def _count(self, closed: float) -> None:
        self.closed += SMOOTHING * (closed - self.closed)
