"""Tells samples with wrong stamps from samples that do not come: two clocks that differ, or stamps that stand still.

A sample counts as old by its own stamp (`sample_age.py`). Where every sample is old although one comes after the other,
the sensor works, and either its machine's clock differs from this one's or something keeps each sample for so long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

SAMPLES = 5  # the latest of a sensor; all of them have to say the same
AHEAD_S = 0.1  # clocks that are synchronised differ by less; a sample cannot come from the future
STANDS_STILL = 0.8  # of the time that passes, by which the age of equal stamps grows


class StampFault(NamedTuple):
    """What is wrong with the stamps of a sensor, in words; `ahead`: they are in the future, and count as arrival."""

    words: str
    ahead: bool = False


class ClockWatch:
    """Follows the stamps of all sensors of one robot."""

    def __init__(self, limit_s: float) -> None:
        """`limit_s`: an older sample is too old."""
        self._limit_s = limit_s
        self._seen: dict[str, deque[tuple[float, float]]] = {}

    def heard(self, name: str, now_s: float, header_age_s: float | None) -> None:
        """A sample of `name` arrives; its header is `header_age_s` old, None when it says nothing."""
        seen = self._seen.setdefault(name, deque(maxlen=SAMPLES))
        if header_age_s is None:
            seen.clear()
        else:
            seen.append((now_s, header_age_s))

    def fault(self, name: str) -> StampFault | None:
        """What is wrong with the latest stamps of `name`; None when nothing is."""
        return clock_difference(self._seen.get(name, ()), self._limit_s)


def clock_difference(seen: Sequence[tuple[float, float]], limit_s: float) -> StampFault | None:
    """From (arrival, age by the header) of each sample, s: what is wrong with the stamps; None when nothing is."""
    if len(seen) < SAMPLES:
        return None
    ages = [age_s for _, age_s in seen]
    took_s, grew_s = seen[-1][0] - seen[0][0], ages[-1] - ages[0]
    size_s = sorted(ages)[len(ages) // 2]
    if min(ages) > limit_s:
        if took_s > 0 and grew_s > STANDS_STILL * took_s:
            return StampFault("its stamps stand still while it arrives")
        remedy = "synchronise the two clocks (chrony, PTP), or find what delays it"
        return StampFault(f"stamped {_seconds(size_s)} behind this machine's clock: {remedy}")
    if max(ages) < -AHEAD_S:
        words = f"stamped {_seconds(-size_s)} ahead of this machine's clock: synchronise the two clocks (chrony, PTP)"
        return StampFault(words, ahead=True)
    return None


def _seconds(size_s: float) -> str:
    return f"{size_s:.2f} s" if size_s < 1e5 else f"{size_s:.2g} s"
