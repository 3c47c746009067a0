"""How much faster than planned robots may act: raised while servers have room, withdrawn before answers are late.

The rates of the schedule are safe whatever the phases of the robots; they are the floor. What is allowed beyond them
follows from what the workers that are there can run in a second and from how many robots are here (*feed-forward*: a
lost worker, or a robot that comes, counts at once), corrected by how much of their budget calls spent (*feedback*).
All robots of a queue get the same multiple of their planned rates, so shares stay as planned.
"""

from __future__ import annotations

from collections import deque
from math import inf

LEAST_CALLS = 20  # in a window, before anything follows from how long they took
MOST_CALLS = 10_000  # of a window; the newest count. Without adaptive rates no window ever ends.
LATE = 1.0  # share of its budget that a call has spent that is late
FULL = 0.95  # from this share at the 99th percentile on robots are slowed down
ROOM = 0.85  # up to this share they may be faster
MANY = 0.1  # share of late calls
MUCH_SLOWER, SLOWER, SLOWLY, FASTER = 0.8, 0.93, 1.002, 1.02  # per window
NEAR = 0.9
LEAST_TRIM, MOST_TRIM = 0.4, 1.25
MOST_PACE = 20.0  # as good as no limit
STEP = 0.02  # smaller changes are not told


class Pace:
    """Of one queue. Pure: it is told how calls ended, and `settle` is called once per window."""

    def __init__(self) -> None:
        self.pace = 1.0
        self._trim = 1.0  # of what the servers should be able to run
        self._most = MOST_TRIM / NEAR  # where it was too much, the last time
        # Share of its budget that each call of this window has spent.
        self._spent: deque[float] = deque(maxlen=MOST_CALLS)
        self._nearly = 0
        self.nearly_late: float | None = None  # share of the last window's calls; None: too few to tell

    def ended(
        self, arrived_s: float, deadline_s: float, ended_s: float, in_time: bool, network_s: float = 0.0
    ) -> None:
        """A call got its final answer. `network_s`: what the way there and back may take."""
        budget_s = deadline_s - arrived_s
        self._nearly += not in_time or ended_s + network_s > deadline_s
        self._spent.append((ended_s - arrived_s) / budget_s if in_time and budget_s > 0 else inf)

    def settle(self, capacity_hz: float, planned_hz: float, there: float, fixed_hz: float = 0.0) -> float:
        """What is allowed in the next window, as a multiple of the planned rates.

        `capacity_hz`: calls per second that the workers run now. `planned_hz`: of the robots that are here, at their
        planned rates. `there`: share of the planned workers that are here; with all of them it never falls below 1.
        `fixed_hz`: calls per second that come whatever is allowed.
        """
        self.nearly_late = None
        if len(self._spent) >= LEAST_CALLS:
            self.nearly_late = self._nearly / len(self._spent)
            self._nearly = 0
            ordered = sorted(self._spent)
            slowest = ordered[max(0, -(-99 * len(ordered) // 100) - 1)]
            late = sum(spent > LATE for spent in self._spent) / len(self._spent)
            if slowest > FULL:
                self._most = self._trim
                self._trim = max(LEAST_TRIM, self._trim * (SLOWER if late < MANY else MUCH_SLOWER))
            elif slowest < ROOM:
                # Where it was too much before is approached slowly, or it would be too much again and again.
                faster = FASTER if self._trim < NEAR * self._most else SLOWLY
                self._trim = min(MOST_TRIM, self._trim * faster)
            self._spent.clear()
        wanted = (self._trim * capacity_hz - fixed_hz) / planned_hz if planned_hz > 0 else MOST_PACE
        pace = min(MOST_PACE, max(min(1.0, there), wanted))
        if abs(pace - self.pace) > STEP * self.pace or pace == MOST_PACE:
            self.pace = pace
        return self.pace
