"""How long a batch of each size is expected to run."""

from __future__ import annotations

from collections.abc import Mapping

LEARNING_RATE = 0.2  # of every new measurement


class BatchProfile:
    """Estimated service time per batch size, in seconds: measured beforehand or learned from finished batches."""

    def __init__(self, measured_ms: Mapping[int, float] | None = None) -> None:
        self._seconds = {size: ms / 1000 for size, ms in (measured_ms or {}).items()}
        self._between: dict[int, float] = {}  # sizes that were asked for and never measured

    def learn(self, batch_size: int, service_ms: float) -> None:
        """Move the estimate towards what was just measured."""
        old = self._seconds.get(batch_size)
        new = service_ms / 1000
        self._seconds[batch_size] = new if old is None else old + LEARNING_RATE * (new - old)
        self._between.clear()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that were measured."""
        return tuple(sorted(self._seconds))

    @property
    def known(self) -> bool:
        """False until the first measurement."""
        return bool(self._seconds)

    def service_s(self, batch_size: int) -> float:
        """Estimate for a batch size: interpolated, proportional beyond the largest known one, 0 before any is known."""
        known = self._seconds.get(batch_size)
        if known is None:
            known = self._between.get(batch_size)
        if known is None:
            known = self._between[batch_size] = self._estimate_s(batch_size)
        return known

    def _estimate_s(self, batch_size: int) -> float:
        below = max((size for size in self._seconds if size < batch_size), default=None)
        above = min((size for size in self._seconds if size > batch_size), default=None)
        if below is None:
            return self._seconds[above] if above is not None else 0.0
        if above is None:
            return self._seconds[below] * batch_size / below
        share = (batch_size - below) / (above - below)
        return self._seconds[below] + share * (self._seconds[above] - self._seconds[below])

    def alone_s(self) -> float:
        """Estimate for one request by itself; while none has run alone, the lower bound that batches give: their share.

        With too high a guess, requests that could be in time would count as late and never run to correct it.
        """
        known = self._seconds.get(1)
        return (
            known if known is not None else min((s / size for size, s in self._seconds.items()), default=0.0)
        )
