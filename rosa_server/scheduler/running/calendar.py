"""When periodic calls of one queue are due, so that as few as possible are open at a time.

Where a schedule holds only as the server lets robots call (`choice.py`), its verdicts come one after the other: each
robot's calls are put where those before it have left most room, the ones with short periods first, since they have the
least choice. Multiples of the golden ratio, which need not know what else is there, leave gaps of up to 2.6 times
another, and know nothing of other periods.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

HORIZON_S = 10.0  # that the usual periods, 1/3 s to 5 s, all divide
BINS = 4000
OFFSETS = 120  # that are tried for each robot, within its period


def offsets_s(periods_s: Sequence[float], takes_s: Sequence[float]) -> list[float]:
    """For each of these calls when it is due after a multiple of its period, s. `takes_s`: how long each is open."""
    load = np.zeros(BINS)
    found = [0.0] * len(periods_s)
    for index in sorted(range(len(periods_s)), key=lambda each: (periods_s[each], each)):
        period_s = periods_s[index]
        tried = np.arange(OFFSETS) * min(period_s, HORIZON_S) / OFFSETS
        dues = (
            tried[:, None] + np.arange(max(1, round(HORIZON_S / period_s)))[None, :] * period_s
        )  # (offset, call), s
        begins = np.rint(dues / HORIZON_S * BINS).astype(int) % BINS
        width = min(BINS, max(1, round(takes_s[index] / HORIZON_S * BINS)))
        so_far = np.concatenate(
            ([0.0], np.cumsum(np.tile(load**2, 2)))
        )  # many at a time cost more than few each
        crowded = (so_far[begins + width] - so_far[begins]).sum(axis=1)
        best = int(crowded.argmin())
        found[index] = float(tried[best])
        for begin in begins[best]:
            load[(begin + np.arange(width)) % BINS] += 1
    return found
