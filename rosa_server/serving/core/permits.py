"""When a robot may call before its turn at the rate of the schedule: when a server is about to be free for it.

A robot that is ready says so and waits without an observation; it is told to send when a server frees. So a call spends
its deadline on the server and not in the queue, and batches may be larger. Nothing depends on these messages: a robot
that hears nothing asks again, and calls without a permit at its rate (`rosa_client/runtime/steps.py`).
Robots that wait are taken in the order of their turns at planned rates (start-time fair queueing), so shares stay as
planned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf

Key = tuple[bytes, str]  # connection, component

LEAST_LEAD_S, MOST_LEAD_S = 0.002, 0.06
LEADS = 5  # a permit that brought no call within so many leads is free for another robot
STALE = 100  # robots that no longer wait and still stand in line, before the line is cleared
LOST_AFTER_S = 0.1  # a call that comes later is no answer: its robot has not heard of its permit
NEWEST = 400  # answers that tell how long robots take
LEARN_EVERY = 20  # answers
SLOWEST, MARGIN = 0.99, 1.1  # so many times this share of the answers' times is what one may take
READY_S = 0.002  # a robot that is ready so much after the others still gets a permit for the same batch
SMOOTHING = 0.1  # of the mean

SLACK = 0.95  # of an SLO: what a batch and its calls' wait for a server may take
SPARE = 1.07  # a slow batch takes so many times its usual time
LEAST_WAIT_S = 0.005  # of a call with a permit, where robots answer at once


def in_time(batch_s: float, wait_s: float, slo_s: float) -> bool:
    """Whether a batch whose calls have permits keeps the SLO with some slack. `wait_s`: see `Permits.lead_s`; about
    half of it is one way, which the answer has still before it."""
    wait_s, runs_s = max(wait_s, LEAST_WAIT_S), SPARE * batch_s
    return runs_s + wait_s <= SLACK * slo_s and runs_s + 1.5 * wait_s <= slo_s


def largest(most: int, service_s: Callable[[int], float], wait_s: float, slo_s: float) -> int:
    """The largest batch of at most `most` that is in time; at least 1."""
    sizes = range(2, most + 1)
    return next((size for size in reversed(sizes) if in_time(service_s(size), wait_s, slo_s)), 1)


@dataclass(frozen=True, slots=True)
class Permit:
    """What a robot was given, and has not used yet. Times in s."""

    given_s: float
    waited_s: float  # from its question on


@dataclass(slots=True)
class Permits:
    """Of one queue. Pure: time is an argument."""

    _turns: dict[Key, float] = field(default_factory=dict)  # who waits for a permit, and its turn
    _asked_s: dict[Key, float] = field(default_factory=dict)  # since when
    _order: list[tuple[float, int, Key]] = field(default_factory=list)  # also of some that no longer wait
    _next_turn: dict[Key, float] = field(default_factory=dict)  # after its last permit
    _given: dict[Key, Permit] = field(default_factory=dict)  # that have brought no call, lost ones too
    _clock: float = 0.0  # turn of the last permit
    _answers_s: deque[float] = field(default_factory=lambda: deque(maxlen=NEWEST))
    _learned: int = 0  # answers since `slowest_s` was found
    _count: int = 0
    # How long a robot takes from a permit to its call, the way there and back included: on average, and at most but for
    # a few.
    answer_s: float = LEAST_LEAD_S
    slowest_s: float = LEAST_LEAD_S

    @property
    def asked(self) -> bool:
        """Whether some robot waits."""
        return bool(self._turns)

    @property
    def lead_s(self) -> float:
        """How long before a server is free its calls are asked for: a call that comes later waits for a whole batch.

        Hence it follows the slowest answers and not their mean.
        """
        return min(MOST_LEAD_S, max(LEAST_LEAD_S, self.slowest_s + READY_S))

    def ask(self, now_s: float, key: Key, rate_hz: float) -> None:
        """A robot is ready to call. `rate_hz`: its planned rate. Who asks again keeps its turn."""
        if key in self._turns:
            return
        turn = self._turns[key] = max(self._clock, self._next_turn.get(key, 0.0))
        self._asked_s[key] = now_s
        self._next_turn[key] = turn + (1 / rate_hz if rate_hz > 0 else 0.0)
        self._given.pop(key, None)  # it was lost
        self._count += 1
        heappush(self._order, (turn, self._count, key))
        if (
            len(self._order) > 2 * len(self._turns) + STALE
        ):  # many called without a permit: none was given for long
            self._order = [entry for entry in self._order if self._turns.get(entry[2]) == entry[0]]
            heapify(self._order)

    def called(self, now_s: float, key: Key) -> Permit | None:
        """A call has come, and the robot waits no longer. Its permit, if it has one; that is used up."""
        self._turns.pop(key, None)
        self._asked_s.pop(key, None)
        permit = self._given.pop(key, None)
        if permit is not None and now_s <= permit.given_s + LOST_AFTER_S:
            self._learn(now_s - permit.given_s)
        return permit

    def network_s(self, now_s: float, permit: Permit | None) -> float:
        """The way there and back of a robot that calls now, with this permit or without one.

        A robot that has kept its permit while it was stopped tells nothing about the network.
        """
        took_s = inf if permit is None else now_s - permit.given_s
        return took_s if took_s <= LEADS * MOST_LEAD_S else self.answer_s

    def _learn(self, answer_s: float) -> None:
        self.answer_s += SMOOTHING * (answer_s - self.answer_s)
        self._answers_s.append(answer_s)
        self._learned += 1
        if self._learned >= LEARN_EVERY or len(self._answers_s) < LEARN_EVERY:
            self._learned = 0
            ordered = sorted(self._answers_s)
            self.slowest_s = min(MOST_LEAD_S, MARGIN * ordered[int(SLOWEST * len(ordered))])

    def _expected(self, now_s: float) -> Iterator[Permit]:
        """Permits whose calls are still expected. One that has brought no call for too long is lost."""
        since_s = now_s - LEADS * self.lead_s
        return (permit for permit in self._given.values() if permit.given_s > since_s)

    def given(self, now_s: float) -> int:
        """Permits whose calls are still expected."""
        return sum(1 for _ in self._expected(now_s))

    def next_call_s(self, now_s: float) -> float:
        """By when the first of the calls on their way is here; infinite when none is."""
        dues_s = (permit.given_s + self.slowest_s for permit in self._given.values())
        return min((due_s for due_s in dues_s if due_s > now_s), default=inf)

    def next_free_s(self, now_s: float) -> float:
        """When the first unused permit is free again; infinite when there is none."""
        given_s = min((permit.given_s for permit in self._expected(now_s)), default=inf)
        return given_s + LEADS * self.lead_s

    def give(self, now_s: float, most: float) -> list[Key]:
        """Who may call now; `most`: so many at most."""
        found: list[Key] = []
        while self._turns and len(found) < most:
            turn, _, key = heappop(self._order)
            if self._turns.get(key) != turn:
                continue
            del self._turns[key]
            self._clock = turn
            self._given[key] = Permit(now_s, now_s - self._asked_s.pop(key))
            found.append(key)
        return found

    def forget(self, connection: bytes) -> None:
        """A robot has left."""
        kept: tuple[dict[Key, float] | dict[Key, Permit], ...]
        kept = (self._turns, self._asked_s, self._next_turn, self._given)
        for each in kept:
            for key in [key for key in each if key[0] == connection]:
                del each[key]
