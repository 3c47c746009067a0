"""Several gateways under one simulated clock: one for each node, with its servers and the robots that talk to it.

Nothing passes between nodes: each plans for itself, and what fails on one does not reach the others. What that costs is
the pool: a server helps the robots of its own node only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from rosa_contract.config.factory import Factory
from rosa_sim.fleet.simulation import Simulation
from rosa_sim.fleet.systems import fleet_of


def spread(count: int, gateways: int) -> list[int]:
    """Divides a number into whole parts that differ by at most one; the first ones are the larger."""
    return [count // gateways + (index < count % gateways) for index in range(gateways)]


def factories_of(factory: Factory, gateways: int) -> list[Factory]:
    """One factory for each node. Raises `ValueError` when a node would have no server or not one robot per task."""
    robots = sum(entry.num_robots for entry in factory.robot_fleet)
    servers = factory.server_cluster.num_servers
    if gateways > servers or robots < gateways * len(factory.robot_fleet):
        raise ValueError(f"{robots} robots and {servers} servers do not suffice for {gateways} gateways")
    parts = zip(spread(robots, gateways), spread(servers, gateways), strict=True)
    return [replace(fleet_of(factory, *part), gateway=factory.gateway) for part in parts]


class Gateways:
    """The nodes, each a separate simulation that is moved on in turn."""

    def __init__(self, nodes: Sequence[Simulation], step_s: float = 0.1) -> None:
        """`step_s`: no node is further ahead of another than this."""
        self.nodes = list(nodes)
        self._step_s = step_s
        self.now_s = 0.0

    @property
    def events(self) -> int:
        """What the clocks stopped at."""
        return sum(node.events for node in self.nodes)

    @property
    def welcomed(self) -> int:
        """Robots that their gateway serves."""
        return sum(robot.link.ready for node in self.nodes for robot in node.robots.values())

    def lose(self, node: int, now_s: float) -> None:
        """A node with all its servers is gone; its gateway answers that nobody can run the calls."""
        lost = self.nodes[node]
        for server in list(lost.gpus):
            lost.lose_server(server, now_s)

    def run(self, until_s: float) -> None:
        """Let time pass on every node."""
        begun_s = self.now_s
        steps = max(1, ceil((until_s - begun_s) / self._step_s - 1e-9))
        for number in range(1, steps + 1):
            self.now_s = until_s if number == steps else begun_s + number * self._step_s
            for node in self.nodes:
                node.run(self.now_s)
