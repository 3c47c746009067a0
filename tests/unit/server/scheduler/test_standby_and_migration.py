"""A server dies, or a better schedule is found: robots keep being served (ROSA 3.4.4)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_server.scheduler.catalog import Options
from rosa_server.scheduler.library import ProfileLibrary
from rosa_server.scheduler.migration import Migration, plan_migration
from rosa_server.scheduler.schedule import Schedule
from rosa_server.scheduler.solve import solve
from rosa_server.scheduler.standby import fail_over, failover_table
from tests.unit.server.scheduler.factories import BIG, GR00T, LIBRARY, SMALL, factory, pool, task

H200 = "NVIDIA H200"


def scheduled(robots: int = 16, standby: int = 1) -> Schedule:
    schedule = solve(factory("paper/p4", robots), LIBRARY, Options(standby=standby))
    assert schedule.feasible, schedule.reasons
    return schedule


def test_a_standby_holds_every_model_and_serves_nobody() -> None:
    schedule = scheduled()
    [standby] = [server for server in schedule.servers if server.standby]
    assert set(standby.models) == {GR00T, BIG, SMALL}
    assert standby.id not in {target for routes in schedule.routing.values() for target in routes.values()}
    assert all(failover_table(schedule)[server.id] for server in schedule.servers if not server.standby)


def test_standbys_too_small_for_all_models_divide_them() -> None:
    profiles = [
        replace(LIBRARY.get(model, H200), hardware_memory_mb=25_000.0) for model in (GR00T, BIG, SMALL)
    ]
    schedule = solve(factory("paper/p4", 8), ProfileLibrary(profiles=profiles), Options(standby=2))
    held = [set(server.models) for server in schedule.servers if server.standby]
    assert set().union(*held) == {GR00T, BIG, SMALL}
    assert {BIG} in held


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 6), st.integers(4, 40))
def test_failover_changes_only_the_streams_of_the_failed_server(index: int, robots: int) -> None:
    before = scheduled(robots)
    active = [server for server in before.servers if not server.standby]
    failed = active[index % len(active)]
    result = fail_over(before, failed.id, failover_table(before))
    assert result.replacement == "standby0"
    assert len(result.moved) == sum(failed.streams.values())
    for robot, routes in before.routing.items():
        for component, target in routes.items():
            now = result.schedule.routing[robot][component]
            assert now == (result.replacement if target == failed.id else target)
    taking = result.schedule.server("standby0")
    assert (taking.models, taking.batch, taking.streams) == (failed.models, failed.batch, failed.streams)
    assert not taking.standby
    assert result.schedule.rates_hz == before.rates_hz


def test_a_second_failure_without_a_standby_says_so() -> None:
    before = scheduled()
    first = fail_over(before, "gpu0", failover_table(before))
    second = fail_over(first.schedule, "gpu1", failover_table(before), down={"gpu0", "standby0"})
    assert second.replacement is None
    assert not second.schedule.feasible
    assert "no standby" in second.reason
    assert all("gpu1" not in routes.values() for routes in second.schedule.routing.values())


def test_a_standby_that_is_down_is_passed_over() -> None:
    before = scheduled(standby=2)
    result = fail_over(before, "gpu0", failover_table(before), down={"standby0"})
    assert result.replacement == "standby1"


def test_a_lost_standby_costs_no_stream() -> None:
    before = scheduled()
    result = fail_over(before, "standby0", failover_table(before))
    assert result.moved == ()
    assert result.schedule.feasible
    assert result.schedule.routing == before.routing


def replayed(old: Schedule, migration: Migration, servers: int) -> None:
    """Walk through a migration and check what must hold at every step."""
    running = {server.id: " + ".join(server.models) for server in old.servers}
    routing = {
        robot: dict(routes) for robot, routes in old.routing.items() if robot in migration.schedule.routing
    }
    hosts = {server.id: " + ".join(server.models) for server in migration.schedule.servers}
    for step in migration.steps:
        if step.action == "start":
            assert step.server not in running
            running[step.server] = step.model
        elif step.action == "stop":
            assert all(step.server not in routes.values() for routes in routing.values())
            del running[step.server]
        elif step.action == "drain":
            for robot, component, _ in step.routes:
                del routing[robot][component]
        elif step.action == "switch":
            for robot, component, target in step.routes:
                assert running[target] == hosts[target]
                routing.setdefault(robot, {})[component] = target
        assert len(running) <= servers
        assert all(target in running for routes in routing.values() for target in routes.values())
    assert routing == migration.schedule.routing
    assert running == hosts


def test_a_spare_server_makes_a_migration_seamless() -> None:
    old = solve(factory("paper/p4", 32, servers=8), LIBRARY)
    new = solve(factory("paper/p4", 40, servers=9), LIBRARY)
    migration = plan_migration(old, new, 10)
    assert migration.interrupted == ()
    replayed(old, migration, 10)


def test_without_a_spare_server_the_interrupted_streams_are_named() -> None:
    old = solve(factory("paper/p4", 32), LIBRARY)
    new = solve(factory("paper/p4", 64), LIBRARY)
    migration = plan_migration(old, new, 8)
    replayed(old, migration, 8)
    lost = {component for _, component, _ in migration.interrupted}
    assert lost <= {"system1"}  # one System 1 server becomes a safety server


def test_servers_that_keep_their_model_are_not_restarted() -> None:
    old = solve(factory("paper/p4", 32), LIBRARY)
    migration = plan_migration(old, solve(factory("paper/p4", 64), LIBRARY), 8)
    assert len([step for step in migration.steps if step.action == "start"]) == 1


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 30), st.integers(0, 30), st.integers(1, 30), st.integers(0, 30), st.integers(0, 2))
def test_any_migration_keeps_every_route_on_a_running_server(
    a: int, b: int, c: int, d: int, spare: int
) -> None:
    old = solve(pool(8, task("simple", a, "1m"), task("kit", b + 1, "12sm")), LIBRARY)
    new = solve(pool(8, task("simple", c, "1m"), task("kit", d + 1, "12sm")), LIBRARY)
    assert old.feasible
    assert new.feasible
    replayed(old, plan_migration(old, new, 8 + spare), 8 + spare)
