"""Which calls of a robot find the prefix of their observation at their server, because another one was about it.

Only what is known to meet is counted (OxyGen 3.3; `rosa_client/runtime/observing.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from rosa_contract.config.tasks import SYSTEM1, SYSTEM2
from rosa_server.scheduler.problem import Need


def prefixes_saved_hz(calls: Sequence[tuple[Need, float]]) -> dict[str, float]:
    """Component -> calls per second of one robot that find a prefix. `calls`: what it asks of one server, at which
    rates, Hz.

    Where calls may leave early (`share_observation_ms`), periodic ones meet System 1's rounds if a round ends while
    they may leave, and System 1's calls meet those of System 2. Elsewhere the slower periodic components meet the
    fastest one, which they are called with (`running/policies.py`).
    """
    obligations = sorted((need for need, _ in calls if not need.is_goal), key=lambda need: need.freq_hz)
    rates_hz = {need.component: rate_hz for need, rate_hz in calls if need.is_goal and need.shares_s}
    saved = {}
    if SYSTEM1 in rates_hz and SYSTEM2 in rates_hz:
        saved[SYSTEM1] = rates_hz[SYSTEM2]
    for need in obligations:
        if need.early_s:
            meets = _meets_rounds(need, rates_hz.get(SYSTEM1, 0.0))
        else:
            fastest = obligations[-1]
            turns = fastest.freq_hz / need.freq_hz
            meets = need is not fastest and not fastest.early_s and abs(turns - round(turns)) < 1e-9
        if meets:
            saved[need.component] = need.freq_hz
    return saved


def _meets_rounds(need: Need, rounds_hz: float) -> bool:
    """Whether some round begins between the earliest time of a call and the time when it is due."""
    earliest_s = need.period_s - need.early_s
    return rounds_hz > 0 and floor(need.period_s * rounds_hz + 1e-9) / rounds_hz >= earliest_s - 1e-9
