"""Tasks that are alike get about the same rate: equation (1) has ties, and searches end at their corners."""

from __future__ import annotations

from random import Random
from statistics import median

import pytest

from rosa_server.scheduler.placement.obligations import goal_kinds
from rosa_server.scheduler.placement.placement import fastest_rate_hz
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog, Options
from rosa_server.scheduler.schedule import Schedule
from rosa_server.scheduler.search.fairness import Found, chosen, objective, shares
from rosa_server.scheduler.search.rounding import ideals
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.factories import LIBRARY, factory, pool, task

WITHIN = 1 - Options().tolerance
ALONE = Options(fair_share=0.0)  # equation (1) and nothing else
THREE = pool(8, *(task(name, 20) for name in "abc"))


def apart(schedule: Schedule, names: list[str]) -> float:
    """How many times as fast as the slowest of these tasks the fastest is."""
    rates = [schedule.rates_hz[name]["system1"] for name in names]
    return max(rates) / min(rates)


def test_three_tasks_that_are_alike_are_served_alike_and_it_costs_nothing() -> None:
    even, alone = solve(THREE, LIBRARY), solve(THREE, LIBRARY, ALONE)
    assert apart(alone, ["a", "b", "c"]) > 2
    assert apart(even, ["a", "b", "c"]) < 1.2
    assert even.objective >= alone.objective * WITHIN


def test_mix4_on_full_servers_serves_its_three_tasks_with_the_same_loop_alike() -> None:
    problem = factory("paper/mix4", 64)
    even, alone = solve(problem, LIBRARY), solve(problem, LIBRARY, ALONE)
    names = [cls.name for cls in problem.classes if len(cls.goals) == 1]
    assert len(names) == 3
    assert apart(even, names) < 1.25
    assert even.objective >= alone.objective * WITHIN


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


def test_fleets_of_tasks_that_are_alike_are_apart_by_no_more_than_whole_streams_ask_for() -> None:
    """One stream more or less on every server changes rates by a sixth at six streams a server, by a quarter at four.

    In one of these fleets the even schedules are all just more than the tolerance below the best one.
    """
    ratios = []
    for problem in fleets():
        even, alone = solve(problem, LIBRARY), solve(problem, LIBRARY, ALONE)
        assert even.feasible
        assert even.objective >= alone.objective * WITHIN
        ratios.append(apart(even, [cls.name for cls in problem.classes]))
    assert sum(ratio > 4 / 3 for ratio in ratios) <= 1
    assert median(ratios) < 1.15


def test_tasks_beside_one_that_is_held_back_are_even_too() -> None:
    problem = pool(8, task("held", 20, "1m", weight=0.2), task("a", 20), task("b", 20), task("c", 20))
    catalog = Catalog(problem, LIBRARY, Options())
    best, even = ideals(catalog, problem, goal_kinds(catalog, problem), 7)
    rates = [even.rates_hz[name] for name in "abc"]
    assert max(rates) == pytest.approx(min(rates), rel=0.02)
    assert even.rates_hz["held"] < min(rates)
    assert objective(problem, even.rates_hz) >= best.objective * WITHIN * (1 - 1e-6)


def found(problem: Problem, *rates_hz: float) -> Found:
    return dict(zip((cls.name for cls in problem.classes), rates_hz, strict=True)), []


def test_of_those_as_good_as_the_best_the_most_even_counts_and_a_worse_one_never() -> None:
    corner, even, lame = (
        found(THREE, 3.3, 3.2, 1.3),
        found(THREE, 2.6, 2.6, 2.58),
        found(THREE, 2.5, 2.5, 2.5),
    )
    catalog = Catalog(THREE, LIBRARY, Options())
    assert chosen(catalog, THREE, [corner, even, lame]) == even
    assert chosen(catalog, THREE, [corner, lame]) == corner
    assert chosen(Catalog(THREE, LIBRARY, ALONE), THREE, [even, corner]) == corner
    assert chosen(catalog, THREE, []) is None


def test_a_share_is_a_part_of_what_the_task_would_have_alone() -> None:
    catalog = Catalog(THREE, LIBRARY, Options())
    top = fastest_rate_hz(catalog, THREE.classes[0])
    assert shares(catalog, THREE, {"a": top, "b": top / 4, "c": top / 2}) == pytest.approx([0.25, 0.5, 1.0])
