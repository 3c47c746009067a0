"""Which of several schedules to take (ours): of those that are nearly the best by equation (1), the most balanced one.

Equation (1) has ties. On full servers it adds up what they answer and hardly cares whose robots get the answers: three
identical tasks are worth as much at 3.3, 3.2 and 1.2 Hz as at 2.8, 2.5 and 2.5. Searches end at a corner of such a tie,
where some tasks have everything. So every schedule within `Options.tolerance` of the best one found (searches stop at
that anyway) counts as equally good, and the one with the fastest slowest task is taken, measured as a share of the rate
that the task would have alone. Where those shares are about equal the second slowest task decides, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rosa_server.scheduler.placement.pool import Pool
from rosa_server.scheduler.placement.servers import PlacedServer

Rates = dict[str, float]
SHARE_STEP = 0.05  # shares within one step count as equal; the objective then decides
NEARLY = 0.97  # of the relaxation's share: more is not worth a search


class Candidate(NamedTuple):
    """Class rates and the goal-coupled servers that carry them."""

    rates_hz: Rates
    placed: list[PlacedServer]


def shares_of_fastest(pool: Pool, rates_hz: Mapping[str, float]) -> list[float]:
    """The rates as parts of the fastest that each task could have, the slowest first."""
    return sorted(rates_hz[name] / fastest for name, fastest in pool.fastest_hz.items())


def best_candidate(pool: Pool, candidates: Sequence[Candidate]) -> Candidate | None:
    """The best by equation (1), or, unless `fair_share` is 0, the most balanced of those within the tolerance.

    None when there are no candidates.
    """
    if not candidates:
        return None
    values = [pool.problem.objective(candidate.rates_hz) for candidate in candidates]
    if pool.catalog.options.fair_share <= 0:
        return candidates[values.index(max(values))]
    enough = max(values) * (1 - pool.catalog.options.tolerance)

    def balance(index: int) -> tuple[list[int], float]:
        shares = shares_of_fastest(pool, candidates[index].rates_hz)
        return [int(share / SHARE_STEP) for share in shares], values[index]

    return candidates[max((i for i, value in enumerate(values) if value >= enough), key=balance)]


def is_balanced(pool: Pool, candidate: Candidate | None, balanced_hz: Mapping[str, float]) -> bool:
    """Whether no task is much slower, as a share, than in the most balanced solution of the relaxation."""
    if candidate is None:
        return False
    pairs = zip(
        shares_of_fastest(pool, candidate.rates_hz), shares_of_fastest(pool, balanced_hz), strict=True
    )
    return all(share >= NEARLY * aim for share, aim in pairs)
