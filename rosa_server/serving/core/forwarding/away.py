"""The calls that this gateway has forwarded to others and that are not answered. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf


@dataclass(slots=True)
class AwayCall:
    """One of them. `number`: that of the batch, and of `Forward`."""

    number: int
    worker_id: str
    node: str
    ticket: int
    session: int
    request_id: int
    ends_s: float  # whatever its node does, it is answered here then


class AwayCalls:
    """By number."""

    def __init__(self) -> None:
        self._calls: dict[int, AwayCall] = {}
        self._ends: list[tuple[float, int]] = []

    def add(self, call: AwayCall) -> None:
        self._calls[call.number] = call
        heapq.heappush(self._ends, (call.ends_s, call.number))

    def get(self, number: int) -> AwayCall | None:
        return self._calls.get(number)

    def ended(self, number: int) -> None:
        del self._calls[number]

    def lost(self, worker_id: str) -> None:
        """Nobody waits for what this worker was given."""
        self._calls = {number: one for number, one in self._calls.items() if one.worker_id != worker_id}

    def of(self, tickets: Sequence[int]) -> list[int]:
        """The numbers of the calls with these tickets."""
        return [number for number, one in self._calls.items() if one.ticket in tickets]

    def late(self, now_s: float) -> Iterator[AwayCall]:
        """Those whose time is over; each comes once."""
        while self._ends and self._ends[0][0] <= now_s:
            one = self._calls.pop(heapq.heappop(self._ends)[1], None)
            if one is not None:
                yield one

    def next_s(self) -> float:
        """When the next one may be late."""
        return self._ends[0][0] if self._ends else inf
