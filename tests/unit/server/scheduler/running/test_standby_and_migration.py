"""A server dies, or a better schedule is found: robots keep being served (ROSA 3.4.4)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_server.scheduler.commands.table import render_migration
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.placement.standby import failover_table
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.catalog import Catalog, Load
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.migration import Migration, plan_migration
from rosa_server.scheduler.search.solve import solve
from tests.examples import examples
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


def migrated(old: Schedule, problem: Problem, spare: int = 0) -> Migration:
    """The migration from `old` to the schedule of `problem` with `spare` servers more, replayed."""
    new = solve(problem, LIBRARY)
    assert old.feasible
    assert new.feasible
    catalog, cluster = Catalog(problem, LIBRARY, Options()), problem.with_servers(problem.servers + spare)
    migration = plan_migration(old, new, cluster, catalog)
    replayed(old, migration, cluster, catalog)
    return migration


def replayed(old: Schedule, migration: Migration, problem: Problem, catalog: Catalog) -> None:
    """Walk through a migration and check what must hold at every step."""
    rates_hz: dict[str, float] = {}
    running = {server.id: " + ".join(server.models) for server in old.servers}
    new = migration.schedule.routing
    routing = {r: {c: t for c, t in old.routing[r].items() if c in new[r]} for r in old.routing if r in new}
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
        rates_hz.update(step.rates_hz)
        assert len(running) <= problem.servers
        busy = too_busy(problem, catalog, routing, rates_hz, running)
        assert set(step.overloads) <= busy
        if not any(earlier.overloads for earlier in migration.steps):
            assert not busy, step
        assert all(target in running for routes in routing.values() for target in routes.values())
    assert routing == migration.schedule.routing
    assert running == hosts


def too_busy(
    problem: Problem,
    catalog: Catalog,
    routing: dict[str, dict[str, str]],
    rates_hz: dict[str, float],
    running: dict[str, str],
) -> set[str]:
    """Servers that cannot keep every SLO of their streams with the model that they run, if it can be judged."""
    needs = problem.needs
    loads: dict[tuple[str, str], list[Load]] = {}
    for robot, routes in routing.items():
        name = robot.rsplit("/", 1)[0]
        for component, server in routes.items():
            need = needs[name, component]
            load = Load(name, component, 1, need.rate_hz(rates_hz[name]), need.slo_ms)
            if running.get(server) in {each.model for each in needs.values()}:
                loads.setdefault((server, running[server]), []).append(load)
    return {server for (server, model), of_it in loads.items() if catalog.assess(model, of_it) is None}


def test_a_spare_server_makes_a_migration_seamless() -> None:
    old = solve(factory("paper/p4", 32, servers=8), LIBRARY)
    assert migrated(old, factory("paper/p4", 40, servers=9), spare=1).interrupted == ()


def test_without_a_spare_server_a_server_that_turns_to_another_model_is_emptied_first() -> None:
    migration = migrated(solve(factory("paper/p4", 32), LIBRARY), factory("paper/p4", 64))
    assert migration.interrupted == ()
    changes = [(step.action, step.model) for step in migration.steps if step.model]
    assert changes == [("stop", GR00T), ("start", SMALL)], "servers that keep their model are not restarted"


def test_new_robots_wait_for_a_server_until_those_before_them_have_left_it() -> None:
    # 30 robots share a safety server. 60 get two, and old robots move to the second, which is not there yet: if all new
    # ones came to the first at once, it would have more than its SLO allows.
    old = solve(pool(8, guarded("a", 10), guarded("b", 20)), LIBRARY)
    migration = migrated(old, pool(8, guarded("a", 40), guarded("b", 20)))
    switches = [step for step in migration.steps if step.action == "switch"]
    assert len(switches) == 2
    early = {robot for robot, component, _ in switches[0].routes if component == "safety"}
    late = {robot for robot, component, _ in switches[1].routes if component == "safety"}
    was, now = old.routing, migration.schedule.routing
    moving = {robot for robot in was if was[robot]["safety"] != now[robot]["safety"]}
    assert moving
    assert moving <= late, "their new server is not warm before"
    assert early
    assert early.isdisjoint(was), "there was room for some of the new robots"


def guarded(name: str, robots: int, model: str = SMALL, slo_ms: float = 500.0) -> TaskClass:
    needs = (
        Need("system1", GR00T, 200.0, calls_per_action=1.0),
        Need("safety", model, slo_ms, freq_hz=2.0),
    )
    return TaskClass(name, robots, 1.0, needs)


@pytest.mark.slow
@pytest.mark.prove
@settings(max_examples=examples(8, 20))
@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 40), st.integers(1, 30), st.integers(0, 1))
def test_no_step_of_a_migration_breaks_an_slo(a: int, b: int, c: int, d: int, spare: int) -> None:
    old = solve(pool(6, guarded("a", a), guarded("b", b)), LIBRARY)
    migration = migrated(old, pool(6, guarded("a", c), guarded("b", d)), spare)
    assert not any(step.overloads for step in migration.steps)
    assert migration.interrupted == ()


def test_a_component_with_another_model_and_no_free_server_names_the_streams_it_interrupts() -> None:
    def planner(model: str) -> TaskClass:
        return TaskClass(
            "kit", 4, 0.2, (Need("system1", GR00T, 200.0, 1.0), Need("guard", model, 900.0, 0.0, 1.0))
        )

    both = library_of("old", "new")
    problem = pool(2, planner("new"))
    old, new = solve(pool(2, planner("old")), both), solve(problem, both)
    catalog = Catalog(problem, both, Options())
    migration = plan_migration(old, new, problem, catalog)
    assert sorted(migration.interrupted) == [(f"kit/{n}", "guard", "gpu1") for n in range(4)]
    assert [step.action for step in migration.steps if step.server == "gpu1"] == ["drain", "stop", "start"]
    replayed(old, migration, problem, catalog)


def watched(robots: int, safety: str) -> TaskClass:
    """A safety checker of one of two models beside a monitor of the first."""
    needs = (
        Need("system1", GR00T, 200.0, calls_per_action=1.0),
        Need("safety", safety, 500.0, freq_hz=5.0),
        Need("monitor", "first", 500.0, freq_hz=5.0),
    )
    return TaskClass("kit", robots, 1.0, needs)


def library_of(*models: str) -> ProfileLibrary:
    """GR00T and some models that answer any component as fast as the safety checker."""
    anyone = tuple(replace(c, components=()) for c in LIBRARY.get(SMALL, H200).configurations)
    profiles = [replace(LIBRARY.get(SMALL, H200), model=m, configurations=anyone) for m in models]
    return ProfileLibrary(profiles=[LIBRARY.get(GR00T, H200), *profiles])


@pytest.mark.parametrize(("before", "after", "servers"), [(10, 20, 6), (13, 26, 9), (20, 10, 8)])
def test_a_component_that_leaves_its_model_loads_its_old_server_until_it_has_left(
    before: int, after: int, servers: int
) -> None:
    # 13 checkers or monitors fill a server, and one that had checkers is to get monitors.
    library, problem = library_of("first", "second"), pool(servers, watched(after, "second"))
    old, new = solve(pool(servers, watched(before, "first")), library), solve(problem, library)
    assert old.feasible
    assert new.feasible
    catalog = Catalog(problem, library, Options())
    migration = plan_migration(old, new, problem, catalog)
    assert not any(step.overloads for step in migration.steps)
    replayed(old, migration, problem, catalog)


@pytest.mark.parametrize("robots", [1, 8])
def test_servers_that_were_added_are_used_before_one_is_emptied(robots: int) -> None:
    library = library_of("first", "second")
    problem = pool(6, watched(robots, "second"))
    old, new = solve(pool(3, watched(robots, "first")), library), solve(problem, library)
    assert old.feasible
    assert not old.idle_servers
    catalog = Catalog(problem, library, Options())
    migration = plan_migration(old, new, problem, catalog)
    assert migration.interrupted == ()
    replayed(old, migration, problem, catalog)


def test_an_older_plan_that_breaks_a_new_slo_is_named_with_the_step_from_which_it_does() -> None:
    old = solve(pool(8, guarded("a", 20)), LIBRARY)
    migration = migrated(old, pool(8, guarded("a", 20, slo_ms=140.0)))
    assert migration.steps[0].overloads
    assert "cannot keep every SLO from here on" in render_migration(migration)


def test_a_component_that_the_new_plan_drops_holds_no_server_back() -> None:
    old = solve(pool(4, task("kit", 4, "1sm")), LIBRARY)
    migration = migrated(old, pool(4, task("kit", 4, "1m")))
    assert SMALL not in {model for server in migration.schedule.servers for model in server.models}
    assert [step.model for step in migration.steps if step.action == "stop"] == [SMALL]


@pytest.mark.slow
@pytest.mark.prove
@settings(max_examples=examples(8, 20))
@given(st.integers(1, 30), st.integers(0, 30), st.integers(1, 30), st.integers(0, 30), st.integers(0, 2))
def test_any_migration_keeps_every_route_on_a_running_server(
    a: int, b: int, c: int, d: int, spare: int
) -> None:
    old = solve(pool(8, task("simple", a, "1m"), task("kit", b + 1, "12sm")), LIBRARY)
    migrated(old, pool(8, task("simple", c, "1m"), task("kit", d + 1, "12sm")), spare)
