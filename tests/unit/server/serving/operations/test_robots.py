"""A robot that a person removes is out at every gateway of a schedule, and its slot is free wherever it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rosa_contract.wire import messages as m
from rosa_contract.wire.watching import Order
from rosa_server.plan.nodes import NodePlan
from rosa_server.plan.peering import ToDesk
from rosa_server.serving.core.workers.comparing import WorkerTally
from rosa_server.serving.operations.names import ADMIT, REMOVE
from rosa_server.serving.operations.operations import Operations
from rosa_server.serving.operations.order import Site
from rosa_server.serving.operations.relay import OrderRelay
from tests.unit.server.serving.core.forwarding.pair import GATEWAYS, HOME, SERVER_ON, Node, Pair
from tests.unit.server.serving.core.planned import PLACEMENT

AT_B = replace(
    PLACEMENT, routes={**(PLACEMENT.routes or {}), "pick/0": {"system1": "gpu1", "safety": "gpu2"}}
)


class Desk:
    """Takes the orders of one gateway, and is all that its relay and its operations need."""

    workers_bind = misconfigured = ""

    def __init__(self, both: Both, node: Node) -> None:
        self.both, self.node = both, node
        self.orders: list[Order] = []
        self.heard: list[tuple[str, ToDesk]] = []
        self.told: list[tuple[str, str]] = []
        nodes = NodePlan(node.name, SERVER_ON, HOME, GATEWAYS)
        self.relay = OrderRelay(lambda: nodes, self, self, lambda: AT_B)
        cluster: Any = self
        site = Site(node.core, cluster, lambda worker_id: None, lambda step: None, self.relay)
        self.operations = Operations(site, node.core, self.relay.stop)

    def step(self) -> None:
        orders, self.orders = self.orders, []
        heard, self.heard = self.heard, []
        self.operations.step(self.both.pair.now_s, self.relay.step(orders, heard), {})

    # -- its cluster
    def room(self) -> int:
        return 0

    # -- the other gateways
    def reaches(self, node: str) -> bool:
        return not self.both.pair.cut

    def say(self, node: str, message: ToDesk) -> bool:
        self.both.desks[node].heard.append((self.node.name, message))
        return True

    # -- whoever gave an order
    def going(self, order: Order, words: str) -> None: ...

    def compare(self, workers: Sequence[str]) -> Mapping[str, WorkerTally]:
        return {}

    def rescheduled(self, about: Mapping[str, Any]) -> None: ...

    def obeyed(self, order: Order, cause: str, words: str) -> None:
        self.told.append((cause, words))


class Both:
    """Two gateways. `pick/0` has its home at a, and all that it needs is at b."""

    def __init__(self) -> None:
        self.pair = Pair(AT_B)
        self.desks = {name: Desk(self, node) for name, node in self.pair.nodes.items()}

    def order(self, at: str, what: str, target: str) -> tuple[str, str]:
        """What its person is told in the end. Beats come between any two steps."""
        desk = self.desks[at]
        desk.orders.append(Order(b"\0person", 7, what, target, "", "jan"))
        for _ in range(6):
            for one in self.desks.values():
                one.step()
                self.pair.wait(0.2)
        return desk.told.pop()

    def refused(self, node: Node, robot: str, token: str = "") -> str:
        answer = self.pair.greet(node, robot, token=token)
        return answer.cause if isinstance(answer, m.Refused) else ""

    def slot(self, node: Node, robot: str) -> str:
        session = node.core.sessions.of_robot(robot)
        assert session is not None
        return session.slot


@pytest.fixture
def both() -> Both:
    return Both()


def roams(both: Both) -> str:
    """r0 got pick/0 at a, and works at b. Returns its proof."""
    welcome = both.pair.greet(both.pair.a, "r0")
    assert isinstance(welcome, m.Welcome)
    both.pair.a.core.on_gone(both.pair.now_s, b"r0")
    assert isinstance(both.pair.greet(both.pair.b, "r0", token=welcome.token), m.Welcome)
    return welcome.token


@pytest.mark.parametrize("at", ["a", "b"])
def test_the_slot_of_a_robot_that_works_elsewhere_is_free_and_every_gateway_refuses_it(
    both: Both, at: str
) -> None:
    pair, token = both.pair, roams(both)
    cause, words = both.order(at, REMOVE, "r0")
    assert not cause and "a: r0 is out and its slot pick/0 is free" in words and "b: r0 is out;" in words
    assert [both.refused(node, "r0", token) for node in (pair.a, pair.b)] == ["removed", "removed"]
    assert not both.refused(pair.a, "r9"), "it has the slot"
    assert both.order(at, ADMIT, "r0")[0] == ""
    assert both.refused(pair.a, "r0", token) not in ("", "removed"), "its proof is of an earlier grant"
    assert not both.refused(pair.b, "r0", token) and both.slot(pair.b, "r0") == "pick/1"


def test_a_robot_that_has_died_is_removed_and_its_slot_is_free(both: Both) -> None:
    pair = both.pair
    assert not both.refused(pair.a, "r0")
    pair.a.core.on_gone(pair.now_s, b"r0")
    pair.wait(200.0)
    assert both.refused(pair.a, "r9"), "nobody knows that it does not come back"
    assert both.order("b", REMOVE, "r0")[0] == ""
    assert not both.refused(pair.a, "r9")
    assert both.order("b", REMOVE, "r1")[0] == "unknown_target"


def test_a_home_that_was_away_frees_the_slot_when_it_is_back_and_can_be_told_the_name_again(
    both: Both,
) -> None:
    pair, token = both.pair, roams(both)
    pair.wait(0.2)
    pair.cut = True
    pair.wait(1.0)
    cause, words = both.order("b", REMOVE, "r0")
    assert not cause and "is free" not in words and "the gateway of node a is not there" in words
    pair.cut = False
    pair.wait(1.0)
    assert both.order("b", REMOVE, "r0")[0] == ""
    assert both.refused(pair.a, "r0", token) == "removed" and not both.refused(pair.a, "r9")
    assert not pair.b.core.slots.returned


def test_a_robot_that_is_admitted_again_does_not_get_a_slot_that_was_given_back_for_it(both: Both) -> None:
    pair, token = both.pair, roams(both)
    pair.cut = True
    pair.wait(1.0)
    both.order("b", REMOVE, "r0")
    assert both.order("b", ADMIT, "r0")[0] == ""
    assert both.refused(pair.b, "r0", token) == "not_ready", "all that pick/0 needs is here, but not for it"
