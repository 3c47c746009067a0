"""The paper's baselines come out as the paper measured them, from the derived profiles."""

from __future__ import annotations

import pytest

from rosa_server.scheduler.commands.table import render
from rosa_server.scheduler.placement.packing import ServerKind
from rosa_server.scheduler.placement.schedule import Refusal, schedule_from
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.solve import solve
from rosa_sim.fleet.baselines import BASELINES, WEIGHTS, partition_counts, solve_baseline
from rosa_sim.fleet.uncapped import uncapped
from tests.unit.server.scheduler.factories import LIBRARY, factory, pool, task

ORDER = ("system1", "system2", "safety", "monitor")


def missed(refusal: Refusal, component: str) -> bool:
    return refusal.cause == "slo_missed" and refusal.reason.startswith(component)


@pytest.mark.parametrize(
    ("name", "split"), [("equal_partition", [2, 2, 2, 2]), ("weighted_partition", [1, 3, 1, 3])]
)
def test_partitions_are_those_of_table_3(name: str, split: list[int]) -> None:
    counts = solve_baseline(factory("paper/p4", 16), LIBRARY, name).servers_by_component()
    assert [counts[component] for component in ORDER] == split


def test_a_partition_with_a_server_for_each_model_is_never_refused_for_want_of_servers() -> None:
    kinds = [ServerKind(f"m-{size}B", ("system1",)) for size in (1, 1, 1, 97)]
    counts = partition_counts(kinds, 5, WEIGHTS["weighted_partition"])
    assert [counts[kind] for kind in kinds] == [1, 1, 1, 2]


def test_equal_partition_holds_at_8_robots_and_collapses_at_32() -> None:
    light = solve_baseline(factory("paper/p4", 8), LIBRARY, "equal_partition")
    assert light.feasible
    assert light.action_throughput_hz == pytest.approx(29.5, rel=0.05)  # ROSA 4.2
    heavy = solve_baseline(factory("paper/p4", 32), LIBRARY, "equal_partition")
    assert not heavy.feasible
    assert any(missed(refusal, "assemble_kit.system1") for refusal in heavy.reasons)


def test_weighted_partition_cannot_keep_safety_at_64_robots() -> None:
    found = solve_baseline(factory("paper/p4", 64), LIBRARY, "weighted_partition")
    assert any(missed(refusal, "assemble_kit.safety") for refusal in found.reasons)


def test_one_gpu_per_model_serves_two_p4_robots() -> None:
    found = solve_baseline(factory("paper/p4", 2), LIBRARY, "gpu_per_model")
    assert found.feasible
    assert found.action_throughput_hz == pytest.approx(7.4, rel=0.05)  # ROSA 4.2
    three = solve_baseline(factory("paper/p4", 3), LIBRARY, "gpu_per_model")
    assert three.reasons[-1].cause == "robots_not_served"
    assert "1 of 3 robots are not served" in three.reasons[-1].reason


def test_one_gpu_per_robot_has_no_qualified_point_on_p4_but_serves_p1() -> None:
    assert not solve_baseline(factory("paper/p4", 8), LIBRARY, "gpu_per_robot").feasible
    alone = solve_baseline(factory("paper/p1", 8), LIBRARY, "gpu_per_robot")
    assert alone.feasible
    assert len(alone.servers) == 8


def test_robots_that_ignore_their_rate_break_the_slo_at_64() -> None:
    problem, options = factory("paper/p4", 64), Options.paper()
    schedule = solve(problem, LIBRARY, options)
    found = uncapped(problem, LIBRARY, schedule, options)
    assert not found.capped
    assert not found.feasible
    assert found.action_throughput_hz > schedule.action_throughput_hz  # raw, not qualified: ROSA 4.3


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_is_a_schedule_like_any_other(name: str) -> None:
    found = solve_baseline(pool(8, task("kit", 2, "12sm"), task("simple", 1, "1m")), LIBRARY, name)
    again = schedule_from(found.to_dict())
    assert again.to_dict() == found.to_dict()
    known = {server.id for server in found.servers}
    assert {target for routes in found.routing.values() for target in routes.values()} <= known
    assert len(found.routing) == 3


@pytest.mark.parametrize("name", BASELINES)
def test_a_pool_that_is_too_small_is_refused_in_words(name: str) -> None:
    found = solve_baseline(pool(1, task("kit", 4, "12sm")), LIBRARY, name)
    assert not found.feasible
    assert {refusal.cause for refusal in found.reasons} & {"too_few_servers", "robots_not_served"}


def test_a_baseline_that_breaks_an_slo_shows_its_placement_and_says_so_first() -> None:
    problem = factory("paper/p4", 32)
    printed = render(solve_baseline(problem, LIBRARY, "equal_partition"), problem)
    assert printed.startswith(
        "NOT FEASIBLE: 32 robots on 8 x NVIDIA H200 (system1 2, system2 2, safety 2, monitor 2)"
    )
    assert "assemble_kit.system1: p99 549 ms against slo_ms 200" in printed


@pytest.mark.parametrize(("baseline", "count"), [("gpu_per_robot", 8), ("gpu_per_model", 2)])
def test_a_baseline_that_serves_some_of_the_robots_says_of_how_many(baseline: str, count: int) -> None:
    problem = factory("paper/p4", 32)
    printed = render(solve_baseline(problem, LIBRARY, baseline), problem)
    assert printed.startswith(f"NOT FEASIBLE: {count} of 32 robots on 8 x NVIDIA H200")
