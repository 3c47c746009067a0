"""When a robot may call before its turn at the rate of the schedule: when a server is about to be free for it.

A robot that is ready says so and waits without an observation; it is told to send when a server frees. So a call spends
its deadline on the server and not in the queue, and batches may be larger. Nothing depends on these messages: a robot
that hears nothing asks again, and calls without a permit at its rate (`rosa_client/runtime/steps.py`).
Robots that wait are taken in the order of their turns at planned rates (start-time fair queueing), so shares stay as
planned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

Key = tuple[bytes, str]  # connection, component

LEAST_LEAD_S, MOST_LEAD_S = 0.002, 0.06
LEADS = 5  # a permit that brought no call within so many leads is free for another robot
SMOOTHING = 0.1  # of the time from a permit to its call
AHEAD = 1.5  # so many times that is the lead


@dataclass(slots=True)
class Permits:
    """Of one queue. Pure: time is an argument."""

    _turns: dict[Key, float] = field(default_factory=dict)  # who waits for a permit, and its turn
    _order: list[tuple[float, int, Key]] = field(default_factory=list)  # also of some that no longer wait
    _next_turn: dict[Key, float] = field(default_factory=dict)  # after its last permit
    _given: dict[Key, float] = field(default_factory=dict)  # permit without a call yet -> when it was given
    _clock: float = 0.0  # turn of the last permit
    _answer_s: float = LEAST_LEAD_S
    _count: int = 0

    @property
    def asked(self) -> bool:
        """Whether some robot waits."""
        return bool(self._turns)

    @property
    def given(self) -> int:
        """Permits that have brought no call yet."""
        return len(self._given)

    @property
    def answer_s(self) -> float:
        """How long a robot takes from a permit to its call, the way there and back included."""
        return self._answer_s

    @property
    def lead_s(self) -> float:
        """How long before a server is free its calls are asked for."""
        return min(MOST_LEAD_S, max(LEAST_LEAD_S, AHEAD * self._answer_s))

    def ask(self, key: Key, rate_hz: float) -> None:
        """A robot is ready to call. `rate_hz`: its planned rate. Who asks again keeps its turn."""
        if key in self._turns:
            return
        turn = self._turns[key] = max(self._clock, self._next_turn.get(key, 0.0))
        self._next_turn[key] = turn + (1 / rate_hz if rate_hz > 0 else 0.0)
        self._given.pop(key, None)  # it was lost
        self._count += 1
        heappush(self._order, (turn, self._count, key))

    def called(self, now_s: float, key: Key) -> bool:
        """A call has come. Whether it has a permit; that is used up, and the robot waits no longer."""
        self._turns.pop(key, None)
        given_s = self._given.pop(key, None)
        if given_s is None:
            return False
        self._answer_s += SMOOTHING * (now_s - given_s - self._answer_s)
        return True

    def expire(self, now_s: float) -> None:
        """Permits that have brought no call for too long are lost."""
        for key in [key for key, given_s in self._given.items() if now_s >= given_s + LEADS * self.lead_s]:
            del self._given[key]

    def give(self, now_s: float, most: float) -> list[Key]:
        """Who may call now; `most`: so many at most."""
        found: list[Key] = []
        while self._turns and len(found) < most:
            turn, _, key = heappop(self._order)
            if self._turns.get(key) != turn:
                continue
            del self._turns[key]
            self._clock = turn
            self._given[key] = now_s
            found.append(key)
        return found

    def next_free_s(self) -> float:
        """When the first unused permit is free again; infinite when there is none."""
        return min(self._given.values(), default=inf) + LEADS * self.lead_s

    def forget(self, connection: bytes) -> None:
        """A robot has left."""
        for kept in (self._turns, self._next_turn, self._given):
            for key in [key for key in kept if key[0] == connection]:
                del kept[key]
