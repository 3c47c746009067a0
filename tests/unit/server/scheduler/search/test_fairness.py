"""Identical tasks get about the same rate: equation (1) has ties, and searches end at their corners."""

from __future__ import annotations

from random import Random
from statistics import median

import pytest

from rosa_server.scheduler.placement.pool import Pool
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.fairness import Candidate, best_candidate, shares_of_fastest
from rosa_server.scheduler.search.rounding import relaxations
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.factories import LIBRARY, factory, pool, task

WITHIN = 1 - Options().tolerance
UNFAIR = Options(fair_share=0.0)  # equation (1) and nothing else
THREE = pool(8, *(task(name, 20) for name in "abc"))


def apart(schedule: Schedule, names: list[str]) -> float:
    """How many times as fast as the slowest of these tasks the fastest is."""
    rates = [schedule.rates_hz[name]["system1"] for name in names]
    return max(rates) / min(rates)


def test_three_identical_tasks_get_about_the_same_rate_and_it_costs_nothing() -> None:
    balanced, unfair = solve(THREE, LIBRARY), solve(THREE, LIBRARY, UNFAIR)
    assert apart(unfair, ["a", "b", "c"]) > 2
    assert apart(balanced, ["a", "b", "c"]) < 1.2
    assert balanced.objective >= unfair.objective * WITHIN


def test_on_full_servers_the_three_tasks_of_mix4_with_the_same_loop_get_about_the_same_rate() -> None:
    problem = factory("paper/mix4", 64)
    balanced, unfair = solve(problem, LIBRARY), solve(problem, LIBRARY, UNFAIR)
    names = [cls.name for cls in problem.classes if len(cls.goals) == 1]
    assert len(names) == 3
    assert apart(balanced, names) < 1.25
    assert balanced.objective >= unfair.objective * WITHIN


def fleets() -> list[Problem]:
    rng = Random(5)
    found = []
    for _ in range(8):
        alike = task(
            "", 1, rng.choice(["1", "12", "1m"]), rng.choice([0.1, 0.2]), slo_ms=rng.choice([200.0, 300.0])
        )
        numbers = [rng.randint(4, 30) for _ in range(rng.randint(2, 4))]
        classes = [
            task(f"t{i}", n, action_s=alike.action_s, slo_ms=alike.needs[0].slo_ms)
            for i, n in enumerate(numbers)
        ]
        found.append(pool(rng.randint(6, 14), *classes))
    return found


@pytest.mark.slow
def test_identical_tasks_differ_by_no_more_than_whole_streams_require() -> None:
    """One stream more or less on every server changes rates by a sixth at six streams a server, by a quarter at four.

    In one of these fleets every balanced schedule is slightly more than the tolerance below the best one.
    """
    ratios = []
    for problem in fleets():
        balanced, unfair = solve(problem, LIBRARY), solve(problem, LIBRARY, UNFAIR)
        assert balanced.feasible
        assert balanced.objective >= unfair.objective * WITHIN
        ratios.append(apart(balanced, [cls.name for cls in problem.classes]))
    assert sum(ratio > 4 / 3 for ratio in ratios) <= 1
    assert median(ratios) < 1.15


def test_tasks_beside_one_with_little_weight_are_balanced_too() -> None:
    problem = pool(8, task("held", 20, "1m", weight=0.2), task("a", 20), task("b", 20), task("c", 20))
    catalog = Catalog(problem, LIBRARY, Options())
    best, balanced = relaxations(Pool(catalog, problem, 7))
    rates = [balanced.rates_hz[name] for name in "abc"]
    assert max(rates) == pytest.approx(min(rates), rel=0.02)
    assert balanced.rates_hz["held"] < min(rates)
    assert problem.objective(balanced.rates_hz) >= best.objective * WITHIN * (1 - 1e-6)


def candidate(problem: Problem, *rates_hz: float) -> Candidate:
    return Candidate(dict(zip((cls.name for cls in problem.classes), rates_hz, strict=True)), [])


def test_of_schedules_within_the_tolerance_the_most_balanced_is_taken_and_a_worse_one_never() -> None:
    corner = candidate(THREE, 3.3, 3.2, 1.3)
    balanced = candidate(THREE, 2.6, 2.6, 2.58)
    worse = candidate(THREE, 2.5, 2.5, 2.5)
    fair = Pool(Catalog(THREE, LIBRARY, Options()), THREE, 8)
    assert best_candidate(fair, [corner, balanced, worse]) == balanced
    assert best_candidate(fair, [corner, worse]) == corner
    unfair = Pool(Catalog(THREE, LIBRARY, UNFAIR), THREE, 8)
    assert best_candidate(unfair, [balanced, corner]) == corner
    assert best_candidate(fair, []) is None


def test_a_share_is_a_part_of_what_the_task_would_have_alone() -> None:
    servers = Pool(Catalog(THREE, LIBRARY, Options()), THREE, 8)
    top = servers.fastest_hz["a"]
    rates_hz = {"a": top, "b": top / 4, "c": top / 2}
    assert shares_of_fastest(servers, rates_hz) == pytest.approx([0.25, 0.5, 1.0])
