"""A server of a real schedule dies: its standby takes over, and nobody else notices (ROSA 3.4.4)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_server.plan.placement import Placement
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.placement.standby import failover_table
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.handover import placement_of
from rosa_server.scheduler.search.solve import solve
from rosa_server.serving.core.sessions.router import Failover
from tests.unit.server.scheduler.factories import LIBRARY, factory


def scheduled(robots: int = 16, standby: int = 1) -> Schedule:
    schedule = solve(factory("paper/p4", robots), LIBRARY, Options(standby=standby))
    assert schedule.feasible, schedule.reasons
    return schedule


def warm(placement: Placement, without: Iterable[str] = ()) -> Failover:
    failover = Failover(placement.replicas, placement.standbys)
    for name, replica in placement.replicas.items():
        if replica.server not in without:
            failover.warm(name)
    return failover


def now(placement: Placement, failover: Failover) -> dict[tuple[str, str], str]:
    """(slot, component) -> the replica that runs this stream."""
    assert placement.routes is not None
    return {
        (slot, component): failover.now(replica)
        for slot, routes in placement.routes.items()
        for component, replica in routes.items()
    }


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(0, 6), st.integers(4, 40))
def test_failover_moves_only_the_streams_of_the_failed_server(index: int, robots: int) -> None:
    schedule = scheduled(robots)
    placement = placement_of(schedule)
    active = [server for server in schedule.servers if not server.standby]
    failed = active[index % len(active)]
    failover = warm(placement)
    before = now(placement, failover)
    moves = failover.lost(failed.id)
    (standby,) = moves.values()
    assert set(moves) == {failed.id}
    assert placement.replicas[standby].server == "standby0"
    assert placement.replicas[standby].model == failed.model
    assert failover.served_by(standby)[-1] == failed.id, "it batches as planned for the failed server"
    after = now(placement, failover)
    assert sum(replica == standby for replica in after.values()) == sum(failed.streams.values())
    for stream, replica in before.items():
        assert after[stream] == (standby if replica == failed.id else replica)


@settings(max_examples=20)
@given(st.integers(0, 6), st.integers(4, 40), st.integers(1, 2))
def test_every_server_fails_over_to_the_first_standby_of_the_schedules_table(
    index: int, robots: int, standby: int
) -> None:
    schedule = scheduled(robots, standby)
    placement = placement_of(schedule)
    active = [server for server in schedule.servers if not server.standby]
    failed = active[index % len(active)]
    failover = warm(placement)
    failover.lost(failed.id)
    assert placement.replicas[failover.now(failed.id)].server == failover_table(schedule)[failed.id][0]


def test_a_second_failure_without_a_standby_leaves_its_streams_where_they_were() -> None:
    placement = placement_of(scheduled())
    failover = warm(placement)
    assert failover.lost("gpu0")
    before = now(placement, failover)
    assert failover.lost("gpu1") == {}
    assert failover.now("gpu1") == "gpu1"
    assert not failover.is_live("gpu1")
    assert failover.is_live("gpu0")
    cold = failover.first_cold(["gpu0", "gpu1"])
    assert cold is not None
    assert cold.id == "gpu1"
    assert now(placement, failover) == before


def test_a_standby_that_is_down_is_passed_over() -> None:
    placement = placement_of(scheduled(standby=2))
    failover = warm(placement, without={"standby0"})
    failover.lost("gpu0")
    assert placement.replicas[failover.now("gpu0")].server == "standby1"


def test_a_lost_standby_moves_no_stream() -> None:
    placement = placement_of(scheduled())
    failover = warm(placement)
    before = now(placement, failover)
    for name, replica in placement.replicas.items():
        if replica.standby:
            assert failover.lost(name) == {}
    assert now(placement, failover) == before
    assert all(failover.is_live(replica) for replica in before.values())


def test_what_would_be_without_a_server_is_played_through_and_changes_nothing() -> None:
    placement = placement_of(scheduled())
    failover = warm(placement)
    assert failover.stranded(["gpu0"]) == []
    assert failover.stranded(["gpu0", "gpu1"]) == ["gpu1"], "the first gets the only standby"
    (standby,) = failover.lost("gpu0").values()
    assert failover.stranded(["gpu0"]) == [], "it is stood in for already"
    assert failover.stranded([standby]) == ["gpu0"]
    assert failover.stranded(["gpu1"]) == ["gpu1"]
    assert failover.now("gpu0") == standby and failover.is_live("gpu1")


def test_a_standby_may_go_where_another_one_takes_its_streams() -> None:
    placement = placement_of(scheduled(standby=2))
    failover = warm(placement)
    (standby,) = failover.lost("gpu0").values()
    assert failover.stranded([standby]) == []
