"""The robots of one queue that wait for a permit, and how long those that got one take to call.

Nothing depends on permits: a robot that hears nothing asks again, and calls without one at its rate
(`rosa_client/runtime/steps.py`). Robots that wait are taken in the order of their turns at planned rates (start-time
fair queueing), so shares stay as planned. Whom to give one is decided in `rates.py`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf, isinf
from typing import Any

Key = tuple[bytes, str]  # connection, component
Entry = tuple[float, int, Key]  # of the line: turn, number, robot's key

MEMORY_S = 4.0  # what was measured longer ago is forgotten
MIN_LEAD_S, MAX_LEAD_S = 0.002, 0.2
# Times what nearly all robots take: one that is later finds the batch of another model running.
WAITED_FOR = 2
LEADS = 5  # a permit that brought no call within this many leads is free for another robot
STALE = 100  # robots that no longer wait and still stand in line, before the line is cleared
MAX_PASSED = 32  # at most this many robots are passed over because their calls do not fit into a batch
TINY, APART_S = 1e-9, 1e-6
LOST_AFTER_S = 0.2  # a call that comes later is no answer: its robot has not heard of its permit
# So is one that takes this multiple of the median, and at least this long: it has called at its rate in the meantime.
LOST_TIMES, LOST_FROM_S = 10, 0.02
MAX_ANSWERS = 1000  # of those seconds: the newest tell how long robots take
LEARN_EVERY = 20  # answers
FASTEST, SLOWEST = 0.01, 0.99  # shares of the answers' times between which nearly all are
MARGIN = 0.1  # of what is between them: one may take longer than the slowest by this share
READY_S = 0.002  # a robot that is ready this long after the others still gets a permit for the same batch
SMOOTHING = 0.1  # of the mean


@dataclass(frozen=True, slots=True)
class Permit:
    """What a robot was given, and has not used yet. Times in s."""

    given_s: float
    waited_s: float  # from its question on
    limit: int = 1  # the largest batch that its call may be in
    rank_s: float = 0.0  # when that was, a little later for each batch of the same instant: they do not mix


@dataclass(slots=True)
class Permits:
    """Of one queue. Pure: time is an argument."""

    _turns: dict[Key, tuple[float, int]] = field(default_factory=dict)  # what waits, its turn and its number
    _asked_s: dict[Key, float] = field(default_factory=dict)  # since when
    _slo_s: dict[Key, float] = field(default_factory=dict)  # of the call that it would make
    _order: list[tuple[float, int, Key]] = field(default_factory=list)  # also of some that no longer wait
    _next_turn: dict[Key, float] = field(default_factory=dict)  # after its last permit
    _given: dict[Key, Permit] = field(default_factory=dict)  # that have brought no call, lost ones too
    _clock: float = 0.0  # turn of the last permit
    _rank_s: float = 0.0  # of the last batch that permits were given for
    # When they came, and how long they took.
    _answers_s: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=MAX_ANSWERS))
    _learned: int = 0  # answers since `slowest_s` was found
    _count: int = 0
    # How long a robot takes from a permit to its call, the way there and back included: on average, and at most but for
    # a few.
    answer_s: float = MIN_LEAD_S
    slowest_s: float = MIN_LEAD_S
    spread_s: float = 0.0  # between the fastest and the slowest

    @property
    def asked(self) -> bool:
        """Whether some robot waits."""
        return bool(self._turns)

    def __len__(self) -> int:
        """How many robots wait."""
        return len(self._turns)

    @property
    def lead_s(self) -> float:
        """How long before a server is free its calls are asked for: a call that comes later waits for a whole batch.

        Hence it follows the slowest answers and not their mean.
        """
        return min(MAX_LEAD_S, max(MIN_LEAD_S, self.slowest_s + READY_S))

    @property
    def wait_s(self) -> float:
        """What a call with a permit takes beside the server's time, at most but for a few: its robot's way there and
        back, and the wait for others that are slower. Its answer's way may be a slow one, too."""
        return self.lead_s + self.spread_s / 2

    def ask(self, now_s: float, key: Key, rate_hz: float, slo_s: float = inf) -> None:
        """A robot is ready to call. `rate_hz`: its planned rate. One that asks again keeps its turn."""
        if key in self._turns:
            return
        # No robot is further behind the others than by what its last turn costs, however it came to that.
        period = 1 / rate_hz if rate_hz > 0 else 0.0
        turn = max(self._clock, min(self._next_turn.get(key, 0.0), self._clock + period))
        self._asked_s[key], self._slo_s[key] = now_s, slo_s
        self._next_turn[key] = turn + period
        self._given.pop(key, None)  # it was lost
        self._count += 1
        self._turns[key] = (turn, self._count)
        heappush(self._order, (turn, self._count, key))
        if (
            len(self._order) > 2 * len(self._turns) + STALE
        ):  # many called without a permit: none was given for long
            self._order = [entry for entry in self._order if self._turns.get(entry[2]) == entry[:2]]
            heapify(self._order)

    def called(self, now_s: float, key: Key) -> Permit | None:
        """A call has come, and the robot waits no longer. Its permit, if it has one; that is used up."""
        self._turns.pop(key, None)
        self._asked_s.pop(key, None)
        permit = self._given.pop(key, None)
        if permit is not None and now_s <= permit.given_s + LOST_AFTER_S:
            self._learn(now_s, now_s - permit.given_s)
        return permit

    def network_s(self, now_s: float, permit: Permit | None) -> float:
        """The way there and back of a robot that calls now, with this permit or without one.

        A robot that has kept its permit while it was stopped tells nothing about the network.
        """
        took_s = inf if permit is None else now_s - permit.given_s
        return took_s if took_s <= LOST_AFTER_S else self.answer_s

    def _learn(self, now_s: float, answer_s: float) -> None:
        self.answer_s += SMOOTHING * (answer_s - self.answer_s)
        self._answers_s.append((now_s, answer_s))
        self._learned += 1
        if self._learned >= LEARN_EVERY or len(self._answers_s) < LEARN_EVERY:
            self._find_slowest()

    def window(self, now_s: float) -> None:
        """A second has passed: what is old is forgotten."""
        while self._answers_s and self._answers_s[0][0] < now_s - MEMORY_S:
            self._answers_s.popleft()
        self._find_slowest()

    def _find_slowest(self) -> None:
        self._learned = 0
        ordered = sorted(answer_s for _, answer_s in self._answers_s)
        if not ordered:
            self.answer_s = self.slowest_s = MIN_LEAD_S
            self.spread_s = 0.0
            return
        lost_s = max(LOST_TIMES * ordered[len(ordered) // 2], LOST_FROM_S)
        ordered = ordered[: bisect_right(ordered, lost_s)]
        slowest_s, fastest_s = (ordered[int(share * len(ordered))] for share in (SLOWEST, FASTEST))
        self.spread_s = slowest_s - fastest_s
        self.slowest_s = min(MAX_LEAD_S, slowest_s + MARGIN * self.spread_s)

    def _expected(self, now_s: float) -> Iterator[Permit]:
        """Permits whose calls are still expected. One that has brought no call for too long is lost."""
        lost_s = LEADS * self.lead_s
        return (permit for permit in self._given.values() if permit.given_s + lost_s > now_s)

    def given(self, now_s: float) -> int:
        """Permits whose calls are still expected."""
        return sum(1 for _ in self._expected(now_s))

    def limits(self, now_s: float) -> list[int]:
        """The largest batches that their calls may be in."""
        return [permit.limit for permit in self._expected(now_s)]

    def next_call_s(self, now_s: float) -> float:
        """By when the first of the calls on their way is here; infinite when none is."""
        if not self._given:
            return inf
        dues_s = (permit.given_s + self.slowest_s for permit in self._given.values())
        return min((due_s for due_s in dues_s if due_s > now_s), default=inf)

    def on_their_way(self, now_s: float) -> list[tuple[float, float]]:
        """Of each call that a shared GPU waits for: when it was asked for, and the SLO that it will have."""
        from_s = now_s - WAITED_FOR * self.slowest_s
        return [
            (permit.given_s, self._slo_s.get(key, inf))
            for key, permit in self._given.items()
            if permit.given_s > from_s
        ]

    def waited_for_s(self, now_s: float) -> float:
        """Until when a shared GPU waits for the first of these calls; infinite when there is none."""
        return (
            min((given_s for given_s, _ in self.on_their_way(now_s)), default=inf)
            + WAITED_FOR * self.slowest_s
        )

    def next_free_s(self, now_s: float) -> float:
        """When the first unused permit is free again; infinite when there is none."""
        given_s = min((permit.given_s for permit in self._expected(now_s)), default=inf)
        return given_s + LEADS * self.lead_s

    def give(
        self,
        now_s: float,
        batches: float,
        size: Callable[[float], int],
        begun: int = 1,
        left: float = inf,
        runs: Callable[[int], int] = lambda count: count,
    ) -> list[Key]:
        """What may call now, in `batches` batches. `size`: the largest batch that a call with an SLO may be in. `runs`:
        how many of a number of calls one batch takes; the others stay in line, or they would wait for a whole batch.

        For each batch the first in line chooses, and those after it that may be in one as large come with it. Part of a
        batch is left of one that others are in, so it is filled with those that may be in one of `begun` calls, up to
        `left` of them.
        """
        found: list[Key] = []
        if isinf(batches):
            while (entry := self._pop()) is not None:
                found += self._granted(now_s, [entry], 1)
            return found
        whole = int(batches + TINY)
        if (room := int(min(left, (batches - whole) * begun + TINY))) > 0:
            found += self._granted(now_s, self._take(room, begun, size), begun, begun - room, runs)
        for _ in range(whole):
            first = self._pop()
            if first is None:
                break
            limit = size(self._slo_s[first[2]])
            found += self._granted(now_s, [first, *self._take(limit - 1, limit, size)], limit, 0, runs)
        return found

    def _take(self, count: int, limit: int, size: Callable[[float], int]) -> list[Entry]:
        """The first in line that may be in a batch of `limit`, at most `count`, taken out of it."""
        found, passed = list[Entry](), list[Entry]()
        while len(found) < count and len(passed) < MAX_PASSED and (entry := self._pop()) is not None:
            (found if size(self._slo_s[entry[2]]) >= limit else passed).append(entry)
        for entry in passed:
            heappush(self._order, entry)
        return found

    def _granted(
        self,
        now_s: float,
        group: list[Entry],
        limit: int,
        before: int = 0,
        runs: Callable[[int], int] = lambda count: count,
    ) -> list[Key]:
        """`before`: calls that are in the batch already."""
        kept = max(0, runs(before + len(group)) - before)
        for entry in group[kept:]:
            heappush(self._order, entry)
        group = group[:kept]
        self._rank_s = max(now_s, min(self._rank_s, now_s + APART_S * len(self._given)) + APART_S)
        for turn, _, key in group:
            del self._turns[key]
            self._clock = max(self._clock, turn)
            self._given[key] = Permit(now_s, now_s - self._asked_s.pop(key), limit, self._rank_s)
        return [key for _, _, key in group]

    def _pop(self) -> Entry | None:
        """The next in line that still waits, taken out of it."""
        while self._order:
            entry = heappop(self._order)
            if self._turns.get(entry[2]) == entry[:2]:
                return entry
        return None

    def forget(self, connection: bytes) -> None:
        """A robot has left."""
        kept: tuple[dict[Key, Any], ...]
        kept = (self._turns, self._asked_s, self._slo_s, self._next_turn, self._given)
        for each in kept:
            for key in [key for key in each if key[0] == connection]:
                del each[key]
