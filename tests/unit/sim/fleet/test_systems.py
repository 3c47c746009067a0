"""What is executed is what was planned: placement, rates and batch times of every system."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rosa_contract.config.factory import Factory
from rosa_server.models.emulated import EmulatedBackend
from rosa_server.scheduler.choosing.limit import limit_hz, none_serves
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.profile import load_profile
from rosa_server.scheduler.running.batch_sizes import service_table
from rosa_sim.fleet.random_factory import random_factory
from rosa_sim.fleet.scenario import load_scenario
from rosa_sim.fleet.systems import (
    BASELINES,
    READINGS,
    SYSTEMS,
    System,
    fleet_of,
    system_of,
    without_limits,
)
from tests.examples import examples

LIBRARY = ProfileLibrary()


def planned(name: str, robots: int = 8, scenario: str = "p4") -> System:
    return system_of(name, fleet_of(load_scenario(scenario).factory, robots), LIBRARY, 0.0)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_routed_component_has_a_replica_of_its_model(name: str) -> None:
    system = planned(name)
    assert system.serving is not None
    placement, factory = system.serving.placement, system.serving.factory
    for slot, routes in (placement.routes or {}).items():
        models = factory.models_of(slot.rpartition("/")[0])
        assert set(routes) == set(models)
        for component, replica in routes.items():
            assert placement.replicas[replica].model == models[component]
    assert set(system.serving.services) == set(placement.replicas)


@pytest.mark.parametrize("name", SYSTEMS)
def test_baselines_hold_nobody_to_a_rate_and_rosa_does(name: str) -> None:
    system = planned(name)
    assert system.serving is not None
    assert bool(system.serving.placement.rates_hz) == (name not in BASELINES)


def test_one_gpu_per_robot_is_shared_by_its_models() -> None:
    system = planned("gpu_per_robot")
    assert system.serving is not None
    replicas = system.serving.placement.replicas.values()
    assert len({replica.server for replica in replicas}) == 8
    assert len(replicas) == 32


def test_a_batch_takes_what_the_profile_of_its_component_says() -> None:
    system = planned("equal_partition")
    assert system.serving is not None
    routes = (system.serving.placement.routes or {})["assemble_kit/0"]
    services = system.serving.services
    assert services[routes["system1"]].service_s(1) == pytest.approx(0.046933)
    assert services[routes["system2"]].service_s(1) == pytest.approx(0.2326)
    assert services[routes["monitor"]].service_s(1) == pytest.approx(0.049327), (
        "the same model, another component"
    )


def test_a_static_batch_is_padded() -> None:
    system = planned("rosa_published", 64)
    assert system.serving is not None
    server = next(s for s in system.schedule.servers if s.components == ("system1",) and s.batch > 1)
    service = system.serving.services[server.id]
    assert service.service_s(1) == service.service_s(server.batch)


@pytest.mark.parametrize("name", [*READINGS, "equal_partition"])
def test_the_papers_systems_batch_continuously_but_for_system_1(name: str) -> None:
    """ROSA 3.4.1, 4.1: System 2, safety and monitor take and answer calls one by one, also in the baselines."""
    system = planned(name)
    assert system.serving is not None
    for server in system.schedule.servers:
        replica = system.serving.placement.replicas[server.id]
        assert replica.at_once == (None if "system1" in server.components else 64), server.components


def test_the_readings_of_the_paper_differ_in_what_a_late_robot_makes_up_for() -> None:
    servings = [planned(name).serving for name in READINGS]
    assert [serving and serving.placement.catch_up for serving in servings] == [0.0, 1.0]
    first, second = (serving and replace(serving.placement, catch_up=0.0) for serving in servings)
    assert first == second


def test_a_gpu_of_one_robot_runs_one_call_of_each_model() -> None:
    system = planned("gpu_per_robot")
    assert system.serving is not None
    assert {replica.at_once for replica in system.serving.placement.replicas.values()} == {None}


@pytest.mark.slow
def test_planner_gateway_simulator_and_emulated_worker_know_the_same_times() -> None:
    """A batch of 1 took as long as one of 4 in the simulator, where batches of 4 were planned ."""
    system = planned("rosa", 64)
    assert system.serving is not None
    server = next(s for s in system.schedule.servers if s.components == ("system1",))
    replica = system.serving.placement.replicas[server.id]
    profile = load_profile(LIBRARY.path("nvidia/GR00T-N1.6-3B", "NVIDIA H200"))
    emulated = EmulatedBackend(profile=str(LIBRARY.path("nvidia/GR00T-N1.6-3B", "NVIDIA H200")), max_batch=16)
    for size in range(1, 17):
        exists = next(known for known in (1, 2, 4, 8, 16) if known >= size)
        expected_s = profile.batch_latency_ms[str(exists)] / 1000
        assert system.serving.services[server.id].service_s(size) == pytest.approx(expected_s)
        assert replica.times.service_s(size) == pytest.approx(expected_s)
        assert emulated.batch_ms(size) / 1000 == pytest.approx(expected_s)


def test_a_profile_of_a_backend_that_runs_every_size_pads_nothing() -> None:
    table = service_table(
        ProfileLibrary(every_size=True), "NVIDIA H200", "nvidia/GR00T-N1.6-3B", ("system1",)
    )
    assert table.service_s(4) < table.service_s(5) < table.service_s(8)


def test_the_limit_is_the_round_for_few_robots_and_the_servers_for_many() -> None:
    factory = load_scenario("p4").factory
    round_s = 0.2 + 0.046933 + 0.1 * 0.2326
    assert limit_hz(problem_from(fleet_of(factory, 8)), LIBRARY) == pytest.approx(8 / round_s, rel=1e-3)
    assert limit_hz(problem_from(fleet_of(factory, 96)), LIBRARY) < 0.85 * 96 / round_s
    assert limit_hz(problem_from(fleet_of(factory, 64, servers=24)), LIBRARY) == pytest.approx(
        64 / round_s, rel=1e-3
    )


def test_that_nothing_serves_a_factory_is_said_only_where_it_is_proved() -> None:
    factory = fleet_of(load_scenario("p4").factory, 32)
    assert none_serves(problem_from(factory), LIBRARY) == ""

    def changed(component: str, **changes: float) -> Factory:
        (task,) = factory.tasks.values()
        parts = {**task.components, component: replace(task.components[component], **changes)}
        return replace(factory, tasks={"assemble_kit": replace(task, components=parts)})

    assert none_serves(problem_from(changed("system1", slo_ms=40.0)), LIBRARY) == (
        "assemble_kit.system1 is late even alone on an idle server"
    )
    assert limit_hz(problem_from(changed("system1", slo_ms=40.0)), LIBRARY) == 0
    assert none_serves(problem_from(changed("system1", slo_ms=50.0)), LIBRARY) == "", "it takes 46.9 ms"
    busy = changed("safety", freq_hz=100.0)
    assert none_serves(problem_from(busy), LIBRARY).startswith("periodic calls alone need")
    assert limit_hz(problem_from(busy), LIBRARY) == 0


@pytest.mark.slow
@pytest.mark.prove
def test_the_limit_is_above_every_plan() -> None:
    cases = [("p4", 64), ("p1", 8), ("mix4", 8), ("p3", 8), ("p4", 8), ("p1", 64), ("mix4", 64), ("p3", 64)]
    for scenario, robots in cases[: examples(3, len(cases))]:
        factory = fleet_of(load_scenario(scenario).factory, robots)
        assert (
            limit_hz(problem_from(factory), LIBRARY)
            > planned("rosa", robots, scenario).schedule.action_throughput_hz
        )


@pytest.mark.slow
@pytest.mark.parametrize(("robots", "every_size"), [(32, False), (96, False), (96, True)])
def test_the_limit_is_above_what_is_predicted_with_shared_servers_and_large_batches(
    robots: int, every_size: bool
) -> None:
    library = ProfileLibrary(every_size=every_size)
    factory = fleet_of(load_scenario("p4").factory, robots)
    assert limit_hz(problem_from(factory), library) > system_of("rosa", factory, library, 0.0).predicted_hz


def test_a_plan_that_starves_a_task_is_infeasible_and_ends_no_table() -> None:
    """The paper's scheduler plans them: equation (1) gains more elsewhere, and nobody asked for a least rate."""
    drawn = random_factory(5, 60, 12)
    system = system_of("rosa_published", drawn.factory, drawn.library, 0.0)
    assert system.serving is None and "0 actions/s" in system.refused
    assert system.schedule.reasons[0].cause == "task_starved"


def test_a_mix_keeps_its_shares_in_every_size() -> None:
    factory = fleet_of(load_scenario("mix4").factory, 16)
    assert [entry.num_robots for entry in factory.robot_fleet] == [4, 4, 4, 4]


def test_without_limits_only_the_limits_are_gone() -> None:
    factory = load_scenario("p4").factory
    free = without_limits(factory)
    assert free.tasks["assemble_kit"].components == factory.tasks["assemble_kit"].components
    assert free.tasks["assemble_kit"].safety_and_slo_violation.max_consecutive_slo_violation >= 1_000_000
