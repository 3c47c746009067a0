"""`rosa plan --exact`: the best schedule of a small factory, and what is proved about all others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from time import monotonic
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_contract.errors import ConfigError
from rosa_server.commands.parser import run
from rosa_server.scheduler.exact.mixes import server_mixes
from rosa_server.scheduler.exact.solve import fewest_obligations, solve_exact
from rosa_server.scheduler.placement.packing import ServerKind
from rosa_server.scheduler.placement.schedule import schedule_from
from rosa_server.scheduler.placement.servers import (
    fastest_rate_hz,
    latencies_ms,
    loop_rate_hz,
    placed_servers,
)
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.catalog import Catalog, Load
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.deployment import audit, deploy
from rosa_server.scheduler.search.relaxation import upper_bound
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.factories import BIG, CONFIGS, GR00T, LIBRARY, SMALL, factory, pool, task

ROUNDING = 1 + 1e-9
SYSTEM1 = ServerKind(GR00T, ("system1",))
TOLERANCE = 0.005


def splits(streams: tuple[int, ...], servers: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every way to put the streams of each class on identical servers."""
    mixes = list(product(*(range(n + 1) for n in streams)))
    for chosen in combinations_with_replacement(mixes, servers):
        if tuple(map(sum, zip(*chosen, strict=True))) == streams:
            yield chosen


def brute_force(problem: Problem, steps: int = 40) -> float:
    """The best objective of two System 1 classes: all placements, all rates of the first, bisection for the second."""
    catalog = Catalog(problem, LIBRARY, Options(fair_share=0.0))
    a, b = problem.classes
    best = 0.0

    def carries(split: tuple[tuple[int, ...], ...], rates: tuple[float, float]) -> bool:
        packed = [
            [
                Load(cls.name, "system1", n, rate, cls.needs[0].slo_ms)
                for cls, n, rate in zip((a, b), mix, rates, strict=True)
                if n
            ]
            for mix in split
        ]
        placed = placed_servers(catalog, SYSTEM1, [loads for loads in packed if loads])
        if placed is None:
            return False
        latency = latencies_ms(placed)
        return all(rate <= loop_rate_hz(cls, latency) for cls, rate in zip((a, b), rates, strict=True))

    for split in splits((a.robots, b.robots), problem.servers):
        for step in range(steps, 0, -1):
            first = fastest_rate_hz(catalog, a) * step / steps
            low, high = 0.0, fastest_rate_hz(catalog, b)
            reach = a.weight * a.robots * first
            if reach + b.weight * b.robots * high <= best or not carries(split, (first, low)):
                continue
            for _ in range(12):
                middle = (low + high) / 2
                low, high = (middle, high) if carries(split, (first, middle)) else (low, middle)
            best = max(best, reach + b.weight * b.robots * low)
    return best


@pytest.mark.slow
@settings(max_examples=8)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from([0.02, 0.05, 0.2]),
    st.sampled_from([(150.0, 150.0), (200.0, 300.0), (600.0, 200.0)]),
    st.sampled_from([(1.0, 1.0), (1.0, 3.0)]),
    st.integers(1, 2),
)
def test_brute_force_over_placements_and_rates_finds_nothing_better(
    robots: tuple[int, int],
    action_s: float,
    slos: tuple[float, float],
    weights: tuple[float, float],
    servers: int,
) -> None:
    a, b = (
        task(f"t{i}", robots[i], "1", action_s=action_s, slo_ms=slos[i], weight=weights[i]) for i in (0, 1)
    )
    problem = pool(servers, a, b)
    found = solve_exact(problem, LIBRARY, Options(tolerance=TOLERANCE), clock=lambda: 0.0)
    tried = brute_force(problem)
    assert found.proved
    assert tried <= found.bound * ROUNDING
    assert found.schedule.objective >= tried / (1 + TOLERANCE) / ROUNDING


def small() -> st.SearchStrategy[Problem]:
    classes = st.lists(
        st.tuples(
            st.integers(1, 6),
            st.sampled_from(["1", "1m", "1s", "12m"]),
            st.sampled_from([0.05, 0.1, 0.2]),
            st.sampled_from([200.0, 300.0, 600.0]),
            st.sampled_from([1.0, 3.0]),
        ),
        min_size=1,
        max_size=3,
    )

    def build(servers: int, made: list[tuple[int, str, float, float, float]]) -> Problem:
        tasks = [
            task(f"t{i}", robots, parts, action_s=action_s, slo_ms=slo_ms, weight=weight)
            for i, (robots, parts, action_s, slo_ms, weight) in enumerate(made)
        ]
        return pool(servers, *tasks)

    return st.builds(build, st.integers(1, 6), classes)


@pytest.mark.slow
@settings(max_examples=12)
@given(
    small(), st.sampled_from([{}, {"loop_statistic": "p99"}, {"network_ms": 4.0}, {"dynamic_batching": True}])
)
def test_an_exact_schedule_keeps_every_promise_and_lies_between_the_heuristic_and_the_bound(
    problem: Problem, changes: dict[str, Any]
) -> None:
    options = Options(fair_share=0.0, time_budget_s=1.0, **changes)
    heuristic, found = solve(problem, LIBRARY, options), solve_exact(problem, LIBRARY, options, monotonic)
    if not found.schedule.feasible:
        assert not heuristic.feasible
        return
    bound = upper_bound(problem, LIBRARY, options)
    assert bound is not None
    assert heuristic.objective <= found.schedule.objective <= min(bound, found.bound) * ROUNDING
    assert audit(deploy(problem, Catalog(problem, LIBRARY, options), found.schedule)) == []
    assert schedule_from(found.schedule.to_dict()) == found.schedule


@pytest.mark.slow
def test_the_best_schedule_of_mix4_is_known_within_one_per_cent() -> None:
    found = solve_exact(factory("paper/mix4"), LIBRARY, Options(tolerance=0.01), clock=lambda: 0.0)
    assert found.proved
    assert 106.5 < found.schedule.objective <= found.bound < 108.0  # Hz; the linear bound alone says 108.01


@pytest.mark.slow
def test_a_search_for_the_best_schedule_gives_none_worse_than_the_plan_without_it() -> None:
    quick, kit = task("quick", 3, "1", action_s=0.02), task("kit", 2, "1", weight=0.2, slo_ms=300.0)
    problem = pool(2, quick, kit)
    plain, without = (solve(problem, LIBRARY, options) for options in (Options(), Options(fair_share=0.0)))
    assert plain.objective > without.objective, "fair shares led the heuristic to a better end"
    assert solve_exact(problem, LIBRARY, Options()).schedule.objective >= plain.objective


def test_without_time_the_heuristics_schedule_comes_back_with_what_is_known_about_others() -> None:
    found = solve_exact(factory("paper/mix4"), LIBRARY, Options(time_budget_s=0.0))
    assert not found.proved
    assert found.schedule.objective == found.heuristic
    assert found.gap > 0.01
    assert found.in_words().startswith("Not proved")


def test_a_task_worth_nothing_does_not_keep_the_search_from_ending() -> None:
    rich, poor = task("rich", 6, "1", action_s=0.05, weight=50.0), task("poor", 4, "1", weight=0.01)
    found = solve_exact(pool(1, rich, poor), LIBRARY, clock=lambda: 0.0)
    assert found.proved
    assert found.schedule.feasible


def test_a_factory_that_does_not_fit_is_refused_with_the_ordinary_reasons() -> None:
    problem = pool(2, task("kit", 12, "1", action_s=0.05, min_rate_hz=9.0))
    found = solve_exact(problem, LIBRARY)
    assert not found.schedule.feasible
    assert found.schedule.reasons == solve(problem, LIBRARY).reasons


def test_obligations_of_different_sizes_are_packed_on_the_fewest_servers() -> None:
    capacity = Catalog(pool(1, task("a", 1, "1s")), LIBRARY, Options()).capacity_hz(SMALL, "safety", 500.0)
    parts = (0.42, 0.42, 0.3, 0.28, 0.3, 0.28)  # two servers hold 0.42 + 0.3 + 0.28 each
    classes = [
        TaskClass(
            f"t{i}",
            1,
            0.2,
            (
                Need("system1", GR00T, 200.0, calls_per_action=1.0),
                Need("safety", SMALL, 500.0, freq_hz=part * capacity),
            ),
        )
        for i, part in enumerate(parts)
    ]
    placed = fewest_obligations(Catalog(pool(9, *classes), LIBRARY, Options()), pool(9, *classes))
    assert placed is not None
    assert len(placed) == 2


@pytest.mark.parametrize(
    ("problem", "options", "words"),
    [
        (pool(9, task("a", 1)), Options(), "at most 8 servers and 4 tasks, got 9 servers and 1 tasks"),
        (pool(4, *(task(f"t{i}", 1) for i in range(5))), Options(), "got 4 servers and 5 tasks"),
        (pool(4, task("a", 200), task("b", 200)), Options(), "40,401 mixes of streams"),
        (pool(4, task("a", 1)), Options(share_components=True), "cannot be combined with --share-components"),
    ],
)
def test_what_it_cannot_search_is_refused_clearly(problem: Problem, options: Options, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        solve_exact(problem, LIBRARY, options)


def test_every_mix_is_listed_once_with_its_lowest_slo() -> None:
    problem = pool(2, task("a", 2, "12", slo_ms=300.0), task("b", 1, "1", slo_ms=200.0))
    system1 = server_mixes(problem, SYSTEM1)
    found = {tuple(row): slo for row, slo in zip(system1.streams.tolist(), system1.slo_ms, strict=True)}
    assert found == {(0, 1): 200, (1, 0): 300, (1, 1): 200, (2, 0): 300, (2, 1): 200}
    assert len(server_mixes(problem, ServerKind(BIG, ("system2",))).streams) == 2


@pytest.mark.slow
def test_the_command_says_what_is_proved(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(CONFIGS / "paper" / "mix2.yaml"), "--exact", "20"]) == 0
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert last.startswith("Proved within the tolerance: at most 0.")
    assert "the heuristic reaches" in last.lower()
    assert run(["plan", str(CONFIGS / "paper" / "mix2.yaml"), "--exact", "-1"]) == 2
    assert "--exact" in capsys.readouterr().err
