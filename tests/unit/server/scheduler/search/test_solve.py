"""The solvers: the paper's schedules, and what must hold for any schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_server.scheduler.placement.packing import Packer, ServerKind
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog, Load
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.deployment import audit, deploy
from rosa_server.scheduler.search.homogeneous import (
    SERVER_COST_MS,
    ServerConfiguration,
    enumerate_configurations,
    pack_ilp,
)
from rosa_server.scheduler.search.min_servers import servers_needed
from rosa_server.scheduler.search.solve import solve
from tests.examples import examples
from tests.unit.server.scheduler.factories import GR00T, LIBRARY, SMALL, factory, pool, task

PAPER = Options.paper()


@pytest.mark.parametrize(("robots", "allocation"), [(8, "5111"), (16, "5111"), (32, "5111"), (64, "4121")])
def test_p4_is_placed_as_in_table_3(robots: int, allocation: str) -> None:
    counts = solve(factory("paper/p4", robots), LIBRARY, PAPER).servers_by_component()
    assert [counts[c] for c in ("system1", "system2", "safety", "monitor")] == [
        int(digit) for digit in allocation
    ]


@pytest.mark.parametrize(("robots", "published"), [(8, 23.9), (32, 89.4), (64, 78.8)])
def test_p4_rates_are_near_the_papers_with_the_p99_safe_round(robots: int, published: float) -> None:
    schedule = solve(factory("paper/p4", robots), LIBRARY, Options.paper(loop_statistic="p99"))
    assert schedule.action_throughput_hz == pytest.approx(published, rel=0.15)


def test_batch_one_under_light_load_and_sixteen_under_pressure() -> None:
    light = solve(pool(1, task("act", 1, "1", slo_ms=600_000.0)), LIBRARY, PAPER)
    heavy = solve(pool(1, task("act", 16, "1", action_s=0.05, slo_ms=600_000.0)), LIBRARY, PAPER)
    assert light.servers[0].batch == 1
    assert heavy.servers[0].batch == 16


def test_robots_of_one_task_all_have_one_rate_below_their_round() -> None:
    schedule = solve(factory("paper/p4", 32), LIBRARY, PAPER)
    rate = schedule.rates_hz["assemble_kit"]["system1"]
    assert schedule.action_throughput_hz == pytest.approx(32 * rate)
    assert schedule.rates_hz["assemble_kit"]["system2"] == pytest.approx(rate / 10)
    assert schedule.rates_hz["assemble_kit"]["safety"] == 2


def problems() -> st.SearchStrategy[Problem]:
    classes = st.lists(
        st.tuples(
            st.integers(1, 40),
            st.sampled_from(["1", "1m", "1s", "12m", "12sm"]),
            st.sampled_from([0.1, 0.2, 0.5]),
            st.sampled_from([200.0, 300.0, 600.0]),
            st.sampled_from([1.0, 3.0]),
        ),
        min_size=1,
        max_size=4,
    )

    def build(servers: int, made: list[tuple[int, str, float, float, float]]) -> Problem:
        tasks = [
            task(f"t{i}", robots, parts, action_s=action_s, slo_ms=slo_ms, weight=weight)
            for i, (robots, parts, action_s, slo_ms, weight) in enumerate(made)
        ]
        return pool(servers, *tasks)

    return st.builds(build, st.integers(1, 14), classes)


@pytest.mark.slow
@pytest.mark.prove
@settings(max_examples=examples(20, 40))
@given(
    problems(),
    st.sampled_from([PAPER, Options(), Options(dynamic_batching=True), Options(share_components=True)]),
)
def test_every_schedule_keeps_every_promise(problem: Problem, options: Options) -> None:
    schedule = solve(problem, LIBRARY, options)
    if not schedule.feasible:
        assert schedule.reasons
        assert not schedule.servers
        return
    assert len(schedule.servers) + schedule.idle_servers == problem.servers
    assert schedule.idle_servers >= 0
    catalog = Catalog(problem, LIBRARY, options)
    assert audit(deploy(problem, catalog, schedule)) == []


def test_ours_is_not_worse_where_isolated_packing_does_better_than_level_packing() -> None:
    problem = pool(
        9,
        task("single", 1, "1m", action_s=0.1),
        task("watched", 28, "1s", action_s=0.1),
        task("slow", 36, "1s", action_s=0.5, slo_ms=600.0, weight=3.0),
        task("fast", 38, "1", action_s=0.1, slo_ms=300.0, weight=3.0),
    )
    ours = solve(problem, LIBRARY, Options(fair_share=0.0))
    assert ours.objective >= solve(problem, LIBRARY, PAPER).objective


@pytest.mark.slow
@settings(max_examples=20)
@given(problems())
def test_ours_is_never_clearly_worse_than_the_papers(problem: Problem) -> None:
    paper, ours = solve(problem, LIBRARY, PAPER), solve(problem, LIBRARY, Options(fair_share=0.0))
    assert ours.feasible or not paper.feasible
    if paper.feasible:
        assert ours.objective >= paper.objective * 0.97


@settings(max_examples=15)
@given(st.integers(1, 60), st.floats(0.3, 3.5))
def test_isolated_packing_in_closed_form_is_the_ilps_optimum(robots: int, rate: float) -> None:
    from ortools.sat.python import cp_model  # here: it loads pandas, and every process collects this file

    problem = pool(40, task("act", robots, "1"))
    catalog = Catalog(problem, LIBRARY, PAPER)
    demand = Load("act", "system1", robots, rate, 200.0)
    packer = Packer(catalog, ServerKind(GR00T, ("system1",)), [demand])
    limit = packer.max_streams(demand)
    model = cp_model.CpModel()
    counts = [model.new_int_var(0, robots, "") for _ in range(limit)]
    model.add(sum(y * (k + 1) for k, y in enumerate(counts)) == robots)
    model.minimize(sum(counts))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    assert packer.fewest() == solver.objective_value


def test_the_ilp_covers_every_stream_exactly_once() -> None:
    problem = factory("paper/p4", 24)
    catalog, cls = Catalog(problem, LIBRARY, PAPER), problem.classes[0]
    found = enumerate_configurations(catalog, cls, 2.0, 6)
    assert found is not None
    counts = pack_ilp(found, cls, 6)
    assert counts is not None
    assert sum(counts) <= 6
    for need in cls.goals:
        assert sum(y * p.streams for y, p in zip(counts, found, strict=True) if p.need is need) == 24


@pytest.mark.parametrize("rate", [0.5, 1.5, 2.5, 3.0, 3.2])
@pytest.mark.parametrize("servers", [2, 3, 5])
def test_even_splits_lose_nothing_against_all_stream_counts(rate: float, servers: int) -> None:
    problem = factory("paper/p4", 18)
    catalog, cls = Catalog(problem, LIBRARY, PAPER), problem.classes[0]
    every = []
    for need in cls.goals:
        for streams in range(1, 19):
            load = Load(cls.name, need.component, streams, need.rate_hz(rate), need.slo_ms)
            state = catalog.assess(need.model, [load])
            if state is not None:
                every.append(ServerConfiguration(need, streams, load, state))

    def cost(found: list[ServerConfiguration] | None) -> float | None:
        counts = None if found is None else pack_ilp(found, cls, servers)
        if found is None or counts is None:
            return None
        return sum(y * (p.cost_ms + SERVER_COST_MS) for y, p in zip(counts, found, strict=True))

    split, full = cost(enumerate_configurations(catalog, cls, rate, servers)), cost(every)
    assert (split is None) == (full is None)
    if split is not None and full is not None:
        assert split <= full * 1.02


def test_compaction_lets_classes_share_a_server() -> None:
    problem = pool(3, task("a", 2, "1"), task("b", 2, "1"), task("c", 2, "1"), task("d", 2, "1"))
    schedule = solve(problem, LIBRARY, PAPER)
    assert schedule.feasible
    assert any(len(server.streams) > 1 for server in schedule.servers)


def test_a_minimum_rate_is_kept_even_for_a_worthless_task() -> None:
    rich, poor = task("rich", 30, "1", weight=50.0), task("poor", 10, "1", weight=0.1, min_rate_hz=1.0)
    schedule = solve(pool(3, rich, poor), LIBRARY, Options(fair_share=0.0))
    assert schedule.feasible
    assert schedule.rates_hz["poor"]["system1"] >= 1.0


def test_fair_share_keeps_a_cheap_task_from_starving() -> None:
    problem = pool(3, task("rich", 60, "1", weight=50.0), task("poor", 10, "1", weight=0.1))
    greedy = solve(problem, LIBRARY, Options(fair_share=0.0))
    fair = solve(problem, LIBRARY, Options())
    assert fair.rates_hz["poor"]["system1"] > max(0.2, greedy.rates_hz["poor"]["system1"])


def test_a_task_with_a_minimum_rate_has_no_fair_share_beyond_it() -> None:
    rich, poor = task("rich", 60, "1", weight=50.0), task("poor", 10, "1", weight=0.1)
    content = replace(poor, min_rate_hz=0.3)
    fair = solve(pool(3, rich, poor), LIBRARY, Options())
    enough = solve(pool(3, rich, content), LIBRARY, Options())
    assert 0.3 <= enough.rates_hz["poor"]["system1"] < fair.rates_hz["poor"]["system1"]
    assert enough.rates_hz["rich"]["system1"] > fair.rates_hz["rich"]["system1"]


def test_dynamic_batching_never_plans_less() -> None:
    for robots in (16, 64):
        fixed = solve(factory("paper/p4", robots), LIBRARY, Options())
        dynamic = solve(factory("paper/p4", robots), LIBRARY, Options(dynamic_batching=True))
        assert dynamic.objective >= fixed.objective * 0.999


def test_sharing_puts_two_components_of_a_model_on_one_server() -> None:
    problem = factory("paper/p4", 8, servers=3)
    assert not solve(problem, LIBRARY, Options()).feasible
    shared = solve(problem, LIBRARY, Options(share_components=True))
    assert shared.feasible
    assert any(set(server.components) == {"system2", "monitor"} for server in shared.servers)


@pytest.mark.parametrize(
    ("problem", "cause", "words"),
    [
        (pool(8, task("fast", 4, "1", slo_ms=50.0)), "slo_unreachable", "slo_ms 50"),
        (pool(8, task("eager", 4, "1", min_rate_hz=4.5)), "rate_unreachable", "min_action_rate_hz 4.5"),
        (
            pool(3, task("kit", 64, "1sm")),
            "servers_full",
            "safety needs 2 servers at 64 robots: 128 req/s at p99 500 ms",
        ),
        (
            pool(2, task("kit", 60, "1", min_rate_hz=2.0)),
            "servers_full",
            "system1 needs 6 servers at 60 robots",
        ),
    ],
)
def test_a_refusal_names_what_binds(problem: Problem, cause: str, words: str) -> None:
    schedule = solve(problem, LIBRARY)
    assert not schedule.feasible
    found = [refusal.reason for refusal in schedule.reasons if refusal.cause == cause]
    assert any(words in reason for reason in found), schedule.reasons


def test_the_fewest_servers_are_feasible_and_one_less_is_not() -> None:
    problem = factory("paper/p4", 64)
    needed = servers_needed(problem, LIBRARY)
    assert needed is not None
    assert needed.proved
    assert solve(problem.with_servers(needed.servers), LIBRARY).feasible
    assert not solve(problem.with_servers(needed.servers - 1), LIBRARY).feasible
    assert servers_needed(pool(1, task("fast", 4, "1", slo_ms=50.0)), LIBRARY) is None


def test_safety_capacity_is_what_the_refusal_says() -> None:
    problem = factory("paper/p4", 64)
    capacity = Catalog(problem, LIBRARY, PAPER).capacity_hz(SMALL, "safety", 500.0)
    assert 64 <= capacity < 128  # one server for 32 robots, two for 64: ROSA Table 3
