"""When periodic calls of one queue are due, so that as few as possible are open at a time.

Where a schedule holds only as the server lets robots call (`choice.py`), its verdicts come one after the other: each
robot's calls are put where those before it have left most room, the ones with short periods first, since they have the
least choice. Multiples of the golden ratio, which need not know what else is there, leave gaps of up to 2.6 times
another, and know nothing of other periods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

HORIZON_S = 10.0  # that the usual periods, 1/3 s to 5 s, all divide
BINS = 4000
OFFSETS = 120  # that are tried for each robot, within its period
PASSES = 3  # the first ones have chosen while nobody else was there
Bins = NDArray[Any]


def offsets_s(periods_s: Sequence[float], takes_s: Sequence[float]) -> list[float]:
    """For each of these calls when it is due after a multiple of its period, s. `takes_s`: how long each is open."""
    load = np.zeros(BINS)
    found: list[float | None] = [None] * len(periods_s)
    for index in PASSES * sorted(range(len(periods_s)), key=lambda each: (periods_s[each], each)):
        period_s = periods_s[index]
        dues = np.arange(max(1, round(HORIZON_S / period_s))) * period_s
        width = min(BINS, max(1, round(takes_s[index] / HORIZON_S * BINS)))
        before = found[index]
        if before is not None:  # it makes room, and looks for a better place
            _add(load, _bins(before + dues), width, -1)
        tried = np.arange(OFFSETS) * min(period_s, HORIZON_S) / OFFSETS
        begins = _bins(tried[:, None] + dues[None, :])  # (offset, call)
        so_far = np.concatenate(
            ([0.0], np.cumsum(np.tile(load**2, 2)))
        )  # many at a time cost more than few each
        crowded = (so_far[begins + width] - so_far[begins]).sum(axis=1)
        best = found[index] = float(tried[int(crowded.argmin())])
        _add(load, _bins(best + dues), width, 1)
    return [each for each in found if each is not None]


def _bins(times_s: Bins) -> Bins:
    return np.rint(times_s / HORIZON_S * BINS).astype(int) % BINS


def _add(load: Bins, begins: Bins, width: int, count: int) -> None:
    for begin in begins:
        load[(begin + np.arange(width)) % BINS] += count
