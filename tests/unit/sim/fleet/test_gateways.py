"""Several gateways under one clock: robots and servers are spread evenly, and a lost node stops its own robots only."""

from __future__ import annotations

import logging

import pytest

from rosa_contract.config.factory import Factory
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_sim.fleet.gateways import Gateways, factories_of, spread
from rosa_sim.fleet.measure import Meter
from rosa_sim.fleet.scenario import load_scenario
from rosa_sim.fleet.simulation import Joining, Simulation, tasks_of
from rosa_sim.fleet.systems import fleet_of, system_of, without_limits


def test_nothing_is_lost_when_it_is_spread() -> None:
    assert spread(10, 4) == [3, 3, 2, 2]
    assert [sum(spread(count, parts)) for count, parts in ((7, 7), (100, 9), (5, 1))] == [7, 100, 5]


def test_each_node_gets_its_part_of_robots_and_servers() -> None:
    parts = factories_of(fleet_of(load_scenario("p4").factory, 33, 17), 2)
    assert [part.robot_fleet[0].num_robots for part in parts] == [17, 16]
    assert [part.server_cluster.num_servers for part in parts] == [9, 8]


@pytest.mark.parametrize(("robots", "servers", "gateways"), [(16, 2, 3), (2, 16, 3)])
def test_a_node_without_a_server_or_a_robot_is_refused(robots: int, servers: int, gateways: int) -> None:
    with pytest.raises(ValueError, match=f"do not suffice for {gateways} gateways"):
        factories_of(fleet_of(load_scenario("p4").factory, robots, servers), gateways)


def nodes(factory: Factory, gateways: int) -> tuple[Gateways, list[Meter]]:
    logging.getLogger("rosa.link").setLevel(logging.ERROR)
    made, meters = [], []
    for number, part in enumerate(factories_of(factory, gateways)):
        system = system_of("rosa", part, ProfileLibrary(), 0.0)
        assert system.serving is not None
        count = part.robot_fleet[0].num_robots
        robots = [Joining(f"node{number}-{i}", "assemble_kit", i / count, 0.0) for i in range(count)]
        meters.append(Meter(tasks_of(part, robots), 8.0, 18.0))
        made.append(Simulation(system.serving, robots, meters[-1], seed=number))
    return Gateways(made), meters


@pytest.mark.slow
def test_robots_act_on_every_node_and_a_lost_node_stops_only_its_own() -> None:
    world, meters = nodes(without_limits(fleet_of(load_scenario("p4").factory, 16, 16)), 2)
    world.run(8.0)
    assert world.welcomed == 16
    assert {node.now_s for node in world.nodes} == {8.0}
    world.lose(1, world.now_s)
    world.run(18.0)
    assert meters[0].executed > 200, "8 robots for 10 s"
    assert meters[1].executed < 20, "what was under way"
    assert world.events == sum(node.events for node in world.nodes)
