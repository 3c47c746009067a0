"""How a schedule is carried out: shared queues, sizes of batches, calls at a time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_contract.config.factory import Factory, load_factory
from rosa_contract.config.policies import ADAPTIVE, PLANNED, PUBLISHED, ROUTED, Policies
from rosa_contract.config.tasks import Task
from rosa_server.plan.placement import Phase, Placement, Replica
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.problem import Need, TaskClass, problem_from
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.profiles.profile import EVEN
from rosa_server.scheduler.running.batch_sizes import service_table
from rosa_server.scheduler.running.handover import hand_over, placement_of
from rosa_server.scheduler.running.policies import carried_out, due_together
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.factories import LIBRARY

P4 = Path(__file__).resolve().parents[5] / "configs" / "paper" / "p4.yaml"


def factory(robots: int, **policies: Any) -> Factory:
    loaded = load_factory(P4)
    fleet = tuple(replace(entry, num_robots=robots) for entry in loaded.robot_fleet)
    return replace(loaded, robot_fleet=fleet, policies=Policies(**policies))


@cache
def scheduled(robots: int) -> Schedule:
    return solve(problem_from(factory(robots)), LIBRARY)


def placed(robots: int, **policies: Any) -> Placement:
    return hand_over(factory(robots, **policies), scheduled(robots), "plan", LIBRARY)[0]


def of(placement: Placement, component: str) -> Replica:
    assert placement.routes is not None
    return placement.replicas[placement.routes["assemble_kit/0"][component]]


@pytest.mark.parametrize(("robots", "size"), [(8, 1), (16, 1), (32, 2), (64, 4)])
def test_batches_grow_with_the_load(robots: int, size: int) -> None:
    assert of(placed(robots), "system1").batch == size


@pytest.mark.parametrize("robots", [8, 32, 64])
def test_system_2_runs_few_calls_at_a_time_but_carries_the_load(robots: int) -> None:
    at_once = of(placed(robots), "system2").at_once
    assert at_once is not None and 4 <= at_once <= robots / 4 + 2


def test_what_the_file_says_counts() -> None:
    assert of(placed(32, at_once=3), "system2").at_once == 3
    assert of(placed(32, continuous=False), "system2").at_once is None
    assert of(placed(64, batches=PLANNED), "system1").batch == scheduled(64).server("gpu0").batch


def test_servers_that_are_alike_share_a_queue_unless_routed() -> None:
    shared, routed = placed(32), placed(32, queues=ROUTED)
    assert len({replica.queue for replica in shared.replicas.values()}) == 4, "one for each component"
    assert {replica.queue for replica in routed.replicas.values()} == set(routed.replicas)


def test_where_calls_come_in_turn_tight_verdicts_have_a_queue_apart() -> None:
    """Those that are due soon would let no more of the others run at a time either."""
    described = factory(96)
    (task,) = described.tasks.values()
    safety = task.components["safety"]
    runs_ms = 1000 * service_table(LIBRARY, "NVIDIA H200", safety.model, ("safety",)).service_s(5)

    def within(slo_ms: float) -> Task:
        return replace(task, components={**task.components, "safety": replace(safety, slo_ms=slo_ms)})

    (entry,) = described.robot_fleet
    two = replace(
        described,
        tasks={"assemble_kit": within(1.2 * runs_ms), "other": within(5 * runs_ms)},
        robot_fleet=(replace(entry, num_robots=48), replace(entry, task="other", num_robots=48)),
    )
    problem = problem_from(two).with_servers(12)
    for statistic, apart in (("p90", False), (EVEN, True)):
        options = Options(slo_statistic=statistic, any_arrivals=False)
        schedule = solve(problem, LIBRARY, options)
        guards = [server for server in schedule.servers if server.components == ("safety",)]
        tasks = [{stream.task for stream in server.streams} for server in guards]
        tight = [server.id for server, here in zip(guards, tasks, strict=True) if "assemble_kit" in here]
        loose = [server.id for server, here in zip(guards, tasks, strict=True) if here == {"other"}]
        assert tight and loose
        carried = carried_out(placement_of(schedule), schedule, problem, LIBRARY, two.policies)
        queues, places = (
            [{getattr(carried.replicas[name], what) for name in names} for names in (tight, loose)]
            for what in ("queue", "at_once")
        )
        assert queues[0].isdisjoint(queues[1]) == apart, statistic
        if apart:
            assert max(places[0]) < min(places[1])


def test_routes_and_rates_are_those_of_the_schedule() -> None:
    before, after = placement_of(scheduled(32)), placed(32, batches=ADAPTIVE)
    assert (after.routes, after.rates_hz, after.standbys) == (before.routes, before.rates_hz, before.standbys)


def test_as_published_everything_is_as_planned() -> None:
    plain = placement_of(scheduled(32))
    carried = hand_over(replace(factory(32), policies=PUBLISHED), scheduled(32), "plan", LIBRARY)[0]
    continuous = {s.id for s in scheduled(32).servers if s.batching == "continuous"}
    calls = {name: replace(one, at_once=64) for name, one in plain.replicas.items() if name in continuous}
    assert carried == replace(plain, replicas={**plain.replicas, **calls})


@pytest.mark.parametrize("catch_up", [0.0, 1.0])
def test_without_continuous_batching_the_published_replicas_are_those_of_the_schedule(
    catch_up: float,
) -> None:
    policies = replace(PUBLISHED, continuous=False, catch_up=catch_up)
    carried = hand_over(replace(factory(32), policies=policies), scheduled(32), "plan", LIBRARY)[0]
    assert carried == replace(placement_of(scheduled(32)), catch_up=catch_up)


def sharing(engine: str = "kv_sharing", **freqs_hz: float) -> TaskClass:
    """A task whose obligations run on one model with this engine."""
    goal = Need("system1", "vla", 500.0, calls_per_action=1.0, engine=engine)
    needs = [Need(name, "vla", 500.0, freq_hz=hz, engine=engine) for name, hz in freqs_hz.items()]
    return TaskClass("sort", 8, 0.4, (goal, *needs))


@given(st.integers(0, 200), st.floats(0.0, 1.0, exclude_max=True), st.floats(0.1, 20.0), st.integers(1, 6))
def test_obligations_that_share_what_is_seen_are_due_together(
    number: int, share: float, fastest_hz: float, turns: int
) -> None:
    phases = due_together(sharing(safety=fastest_hz, monitor=fastest_hz / turns), number, share)
    safety, monitor = phases["safety"], phases["monitor"]
    assert (safety.period_s, safety.offset_s) == pytest.approx((1 / fastest_hz, share / fastest_hz))
    assert monitor.period_s == pytest.approx(turns / fastest_hz)
    apart = (monitor.offset_s - safety.offset_s) / safety.period_s
    assert apart == pytest.approx(number % turns, abs=1e-6), (
        "a whole number of turns, other robots take others"
    )


def test_other_engines_and_periods_keep_their_own_phases() -> None:
    assert due_together(sharing("isolated", safety=2.0, monitor=1.0), 3, 0.5) == {}
    assert due_together(sharing(safety=3.0, monitor=2.0), 3, 0.5) == {"safety": Phase(1 / 3, 0.5 / 3)}


@pytest.mark.parametrize("engine", ["isolated", "kv_sharing"])
def test_calls_that_may_leave_early_are_due_at_their_own_period_all_the_same(engine: str) -> None:
    """More of them are planned, as many as there can be: 2.7 and 1.8 a second of 2 and 1."""
    asked = load_factory(P4.parents[1] / "sort_parts.yaml")
    asked = replace(
        asked, models={name: replace(one, options={"engine": engine}) for name, one in asked.models.items()}
    )
    schedule = solve(problem_from(asked), LIBRARY, Options(share_components=True))
    (phases,) = hand_over(asked, schedule, "plan", LIBRARY)[0].phases.values()
    assert (phases["safety"].period_s, phases["monitor"].period_s) == pytest.approx((0.5, 1.0))
    (cls,) = problem_from(asked).classes
    together = {"safety": Phase(0.5, 0.25), "monitor": Phase(1.0, 0.75)}
    assert due_together(cls, 3, 0.5) == (together if engine == "kv_sharing" else {})


@pytest.mark.parametrize(("ratio", "places"), [(0.1, 5), (1.0, 9)])
def test_no_more_calls_run_at_a_time_than_robots_ask_for_in_rounds_that_include_them(
    ratio: float, places: int
) -> None:
    """With room for everybody, robots that plan for each action began and ended together, and met again at System 1."""
    described = factory(64)
    cluster = replace(described.server_cluster, num_servers=16)
    (task,) = described.tasks.values()
    pipeline = replace(task.pipeline, system2_to_system1_call_ratio=ratio)
    described = replace(
        described, server_cluster=cluster, tasks={"assemble_kit": replace(task, pipeline=pipeline)}
    )
    schedule = solve(problem_from(described), LIBRARY)
    placement = hand_over(described, schedule, "plan", LIBRARY)[0]
    assert of(placement, "system2").at_once == places
