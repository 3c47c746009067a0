"""Which of several schedules counts (ours): the best by equation (1), and of those as good the most even one.

Equation (1) has ties. Where servers are full it adds up what they answer, and hardly minds who is answered: three tasks
that are alike are worth as much at 3.3, 3.2 and 1.2 Hz as at 2.8, 2.5 and 2.5. Searches end at a corner of such a tie,
where some tasks have everything. So of all schedules that give up no more than `Options.tolerance` of the best one
found, which is what searches stop at anyway, the one counts whose slowest task is fastest, as a share of the rate that
it would have alone; where that is much the same, whose second slowest is; and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rosa_server.scheduler.placement.placement import Worker, fastest_rate_hz
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog

Rates = dict[str, float]
Found = tuple[Rates, list[Worker]]  # class rates and the goal-coupled workers that carry them
STEP = 0.05  # shares in one such step are much the same: the better schedule counts
NEARLY = 0.97  # of the relaxation's share: more is not worth a search


def objective(problem: Problem, rates: Mapping[str, float]) -> float:
    """Equation (1)."""
    return sum(cls.weight * cls.robots * rates[cls.name] for cls in problem.classes)


def shares(catalog: Catalog, problem: Problem, rates: Mapping[str, float]) -> list[float]:
    """The rates as parts of the fastest that each task could have, the slowest first."""
    return sorted(rates[cls.name] / fastest_rate_hz(catalog, cls) for cls in problem.classes)


def chosen(catalog: Catalog, problem: Problem, every: Sequence[Found]) -> Found | None:
    """The best one, or unless `fair_share` is 0 the most even one of those as good; None when there is none."""
    if not every:
        return None
    value = [objective(problem, rates) for rates, _ in every]
    if catalog.options.fair_share <= 0:
        return every[value.index(max(value))]
    enough = max(value) * (1 - catalog.options.tolerance)

    def evenness(index: int) -> tuple[list[int], float]:
        parts = shares(catalog, problem, every[index][0])
        return [int(share / STEP) for share in parts], value[index]

    return every[max((i for i, gained in enumerate(value) if gained >= enough), key=evenness)]


def is_even(catalog: Catalog, problem: Problem, found: Found | None, even: Mapping[str, float]) -> bool:
    """Whether no task is much slower, as a share, than in the most even solution of the relaxation."""
    if found is None:
        return False
    pairs = zip(shares(catalog, problem, found[0]), shares(catalog, problem, even), strict=True)
    return all(has >= NEARLY * aim for has, aim in pairs)
