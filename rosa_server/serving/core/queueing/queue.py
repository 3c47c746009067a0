"""The waiting requests of one replica: at most the newest per (robot, component), in the order of a policy, bounded."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from rosa_server.serving.core.queueing.ledger import Call
from rosa_server.serving.core.queueing.order import EarliestDeadline, Rank
from rosa_server.serving.core.queueing.ranking import Ranking


class RequestQueue:
    """Waiting calls in the order in which workers take them.

    The order is that of `ranking`; none: by deadline. A fresher request takes the place of the waiting one of the same
    robot and component and keeps its rank, so that a robot that sends often is not pushed back by its own later
    deadlines.
    """

    def __init__(self, limit: int, ranking: Ranking | None = None) -> None:
        self.limit = limit
        self.ranking = ranking if ranking is not None else Ranking(EarliestDeadline())
        self._now_s = 0.0  # of the last `rank_at`, or a later arrival
        self._calls: dict[tuple[str, str], Call] = {}
        # Sorted, with their ranks; None after a change, where ranks depend on the time.
        self._order: list[Call] | None = []
        self._ranks: list[Rank] = []
        self._moving: set[int] = set()  # tickets of the waiting calls whose ranks change
        self._next_expiry_s = math.inf  # no waiting call expires before this

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(self.in_order())

    def waiting(self) -> Iterable[Call]:
        """The waiting calls in no particular order."""
        return self._calls.values()

    def full_for(self, key: tuple[str, str]) -> bool:
        """True when a call with this key would make the queue longer than its limit."""
        return len(self._calls) >= self.limit and key not in self._calls

    def put(self, call: Call) -> Call | None:
        """Queue a call; returns the waiting call that it replaces, if any. Raises `OverflowError` when full."""
        if self.full_for(call.key):
            raise OverflowError(f"the queue holds its limit of {self.limit} requests; check full_for() first")
        replaced = self._calls.get(call.key)
        call.since_s = call.arrived_s
        if replaced is not None:
            call.rank_s = min(call.rank_s, replaced.rank_s)
            call.over_rate &= replaced.over_rate
            call.since_s = replaced.since_s
            self._drop(replaced)
        self._calls[call.key] = call
        self._now_s = max(self._now_s, call.arrived_s)
        self._insert(call)
        self._next_expiry_s = min(self._next_expiry_s, call.deadline_s)
        return replaced

    def __contains__(self, call: Call) -> bool:
        """Whether this very call waits here."""
        return self._calls.get(call.key) is call

    def newer_waits(self, key: tuple[str, str]) -> bool:
        return key in self._calls

    def remove(self, key: tuple[str, str]) -> Call | None:
        call = self._calls.pop(key, None)
        if call is not None:
            self._drop(call)
        return call

    def rank_at(self, now_s: float) -> None:
        """From here on the order is that of this time, where the policy's ranks change while calls wait."""
        self._now_s = now_s
        if self._moving:
            self._order = None

    def in_order(self) -> list[Call]:
        """The waiting calls, first to run first."""
        if len(self._calls) == 1:
            return list(self._calls.values())
        if self._order is None:
            ranked = sorted((self.ranking.rank(self._now_s, call), call.key) for call in self._calls.values())
            self._ranks = [rank for rank, _ in ranked]
            self._order = [self._calls[key] for _, key in ranked]
        return self._order

    def take(self, calls: list[Call]) -> list[Call]:
        """Remove these waiting calls and return them. Call `expire` first: an expired call must not be run."""
        for call in calls:
            del self._calls[call.key]
            self._drop(call)
        return calls

    def _insert(self, call: Call) -> None:
        order = self.ranking.order
        if order.moves and order.moves_while_waiting(call.arrived_s, call):
            self._moving.add(call.ticket)
        if self._moving:
            self._order = None
        elif self._order is not None:
            rank = self.ranking.rank(self._now_s, call)
            place = bisect_left(self._ranks, rank)
            self._ranks.insert(place, rank)
            self._order.insert(place, call)

    def _drop(self, call: Call) -> None:
        """Out of the order. Ranks end with the ticket, so no two are equal."""
        if self._moving:
            self._moving.discard(call.ticket)
            self._order = None
        elif self._order is not None:
            place = bisect_left(self._ranks, self.ranking.rank(self._now_s, call))
            del self._ranks[place], self._order[place]

    def expire(self, now_s: float) -> list[Call]:
        """Remove and return the calls whose deadline has passed."""
        if now_s < self._next_expiry_s:
            return []
        late = [call for call in self._calls.values() if call.deadline_s <= now_s]
        for call in late:
            del self._calls[call.key]
            self._drop(call)
        self._next_expiry_s = min((call.deadline_s for call in self._calls.values()), default=math.inf)
        return late

    @property
    def next_expiry_s(self) -> float:
        """A time before which no waiting call expires; infinite when none waits."""
        return self._next_expiry_s
