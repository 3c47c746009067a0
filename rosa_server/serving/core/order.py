"""In which order waiting calls go to workers: one interface, several policies (`gateway.order`).

A policy is a pure function of the time, a call and what the server has seen of its stream; the smallest rank runs
first. No policy can break a deadline's rules: expired calls leave the queue before it is asked, and the batcher
decides how many of the first calls can run together in time.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable

from rosa_contract.gateway import (
    EARLIEST_DEADLINE,
    EXECUTION_AWARE,
    FIRST_COME,
    LEAST_ATTAINED_SERVICE,
    Gateway,
)
from rosa_server.serving.core.ledger import Call
from rosa_server.serving.core.rounds import Rounds

Rank = tuple[float, ...]


class Order(ABC):
    """One policy."""

    uses_rounds = False  # whether it looks at `Rounds`; otherwise none are kept
    moves = False  # whether the rank of a waiting call changes

    @abstractmethod
    def rank(self, now_s: float, call: Call, rounds: Rounds) -> Rank:
        """Where a waiting call stands."""


class EarliestDeadline(Order):
    """The call with the least time left. A fresher request keeps the deadline of the one that it replaced."""

    def rank(self, now_s: float, call: Call, rounds: Rounds) -> Rank:
        return (call.rank_s,)


class FirstCome(Order):
    """The stream that has waited longest. A fresher request keeps the place of the one that it replaced."""

    def rank(self, now_s: float, call: Call, rounds: Rounds) -> Rank:
        return (call.since_s,)


class LeastAttainedService(Order):
    """The stream for which models have run the shortest time (Autellix)."""

    uses_rounds = True
    moves = True

    def rank(self, now_s: float, call: Call, rounds: Rounds) -> Rank:
        return rounds.attained_s, call.since_s


class ExecutionAware(Order):
    """Kairos, Algorithm 1: buckets of the wait ratio, the longest expected execution first within a bucket.

    A stream without a finished round goes first: nothing is known of it, and behind all others it would begin last.
    `buckets`: B, 0 for none (the ratio itself). `ageing`: A, skipped dispatches after which a call rises by one bucket.
    `longest_first`: false orders a bucket by arrival, as in the ablation of Figure 16.
    """

    uses_rounds = True
    moves = True

    def __init__(self, buckets: int, ageing: int, longest_first: bool = True) -> None:
        self._buckets, self._ageing, self._longest_first = buckets, ageing, longest_first

    def rank(self, now_s: float, call: Call, rounds: Rounds) -> Rank:
        if not self._longest_first:
            return -self.bucket(now_s, rounds), call.since_s
        estimate_s = rounds.last_execution_s * (1 + rounds.skipped)
        return -self.bucket(now_s, rounds), -estimate_s, call.since_s

    def bucket(self, now_s: float, rounds: Rounds) -> float:
        """Lines 6 to 8 of Algorithm 1. The highest bucket runs first."""
        ratio = rounds.wait_ratio(now_s)
        if not self._buckets:
            return ratio
        bucket = min(self._buckets - 1, math.floor(ratio * self._buckets))
        if rounds.skipped >= self._ageing:
            bucket = min(self._buckets - 1, bucket + math.ceil(rounds.skipped / self._ageing))
        return bucket


def order_of(gateway: Gateway) -> Order:
    """The policy that a factory file chooses."""
    if gateway.order == EXECUTION_AWARE:
        return ExecutionAware(gateway.order_buckets, gateway.order_ageing)
    plain: dict[str, type[Order]] = {
        EARLIEST_DEADLINE: EarliestDeadline,
        FIRST_COME: FirstCome,
        LEAST_ATTAINED_SERVICE: LeastAttainedService,
    }
    return plain[gateway.order]()


class Ranking:
    """A policy with the rounds of the streams that it ranks: a few numbers per stream, kept while its session lasts."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._rounds: dict[bytes, dict[str, Rounds]] = {}  # connection -> component

    def __len__(self) -> int:
        return sum(len(streams) for streams in self._rounds.values())

    def rank(self, now_s: float, call: Call) -> Rank:
        """Where a waiting call stands: behind all others if its robot sends too fast. Equal ranks go by ticket."""
        rounds = self.rounds(call) or Rounds(call.arrived_s)
        return call.over_rate, *self.order.rank(now_s, call, rounds), call.ticket

    def rounds(self, call: Call) -> Rounds | None:
        """What is known of a call's stream; None when nothing is kept, or its robot has left."""
        return self._rounds.get(call.connection, {}).get(call.component)

    def arrived(self, now_s: float, call: Call, acts_until_s: float | None = None) -> None:
        """A robot has sent a call that may wait."""
        if self.order.uses_rounds:
            streams = self._rounds.setdefault(call.connection, {})
            streams.setdefault(call.component, Rounds(now_s)).arrived(now_s, acts_until_s)

    def dispatched(self, taken: Iterable[Call], left: Iterable[Call]) -> None:
        """A worker was given `taken` while `left` went on waiting."""
        if self.order.uses_rounds:
            for call in taken:
                if (rounds := self.rounds(call)) is not None:
                    rounds.skipped = 0
            for call in left:
                if (rounds := self.rounds(call)) is not None:
                    rounds.skipped += 1

    def executed(self, now_s: float, call: Call, service_s: float, good: bool) -> None:
        """A worker has run a call for `service_s` and has just returned it. Without a good output no round began."""
        rounds = self.rounds(call)
        if rounds is not None:
            rounds.attained_s += service_s
            if good:
                rounds.answered(max(call.dispatched_s, now_s - service_s), now_s)

    def forget(self, connection: bytes) -> None:
        """The session on this connection has ended."""
        self._rounds.pop(connection, None)
