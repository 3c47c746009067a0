"""A gateway on each of two nodes, which `rosa up` starts: robots of both are served, an order at one reaches the other,
and `rosa down` leaves nothing behind. See `test_two_nodes.py`.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rosa_sim.machines.gateway_each import GatewayEvents, gateway_each
from rosa_sim.machines.nodes import Nodes, two_nodes
from rosa_sim.namespaces import denied

WHY_NOT = denied()
ROBOTS = 4
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"no network namespaces here: {WHY_NOT}")


def gateways(nodes: Nodes) -> list[int]:
    return [pid for one in (nodes.one, nodes.two) for pid in nodes.named(one, b"rosa_server.cli")]


def test_a_gateway_on_each_node_and_robots_of_both(tmp_path: Path) -> None:
    with two_nodes() as nodes, gateway_each(nodes, tmp_path) as told:
        GatewayEvents(told, tmp_path, ROBOTS).begin()
        had = told.slots("b")
        assert len(had) == ROBOTS // 2 and len(told.slots("a")) == ROBOTS // 2
        assert len(gateways(nodes)) == 2 and nodes.workers(nodes.one) and nodes.workers(nodes.two)
        again = told.again()
        assert again.returncode == 2 and "rosa down" in again.stderr and len(gateways(nodes)) == 2
        done = told.rosa("drain", "gpu1")
        assert done.returncode == 0 and "b: gpu1 is drained" in done.stdout, done.stderr
        told.until(lambda: not nodes.workers(nodes.two), "no worker")
        assert told.rosa("undrain", "gpu1").returncode == 0
        told.until(lambda: nodes.workers(nodes.two), "the worker again")

        since_s = time.monotonic()
        nodes.kill(nodes.two)
        told.until(lambda: len(told.served(since_s)) == ROBOTS, "every robot served by the one that is left")
        assert {robot: told.slots("a").get(robot) for robot in had} == had
        nodes.mend(nodes.two)
        nodes.start(nodes.two)
        told.until(lambda: told.events_at("a", "peer_here", since_s), "the other gateway again", 180.0)
        assert told.down().split(":")[1].split() == ["a,", "b"]
        assert not gateways(nodes) + nodes.workers(nodes.one) + nodes.workers(nodes.two)
