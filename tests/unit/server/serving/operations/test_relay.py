"""An order at one of several gateways reaches those that it concerns, and its person hears what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rosa_contract.wire.watching import Order
from rosa_server.plan.nodes import NodePlan
from rosa_server.plan.peering import PeerOrder, PeerOrderTold, ToDesk
from rosa_server.serving.base.log import LOGGER
from rosa_server.serving.core.workers.comparing import WorkerTally
from rosa_server.serving.operations.names import ADMIT, CANCEL, DRAIN, KNOWN, REMOVE, RESCHEDULE, ROLLOUT
from rosa_server.serving.operations.relay import MAX_RELAYED, NODE_AWAY, OrderRelay
from tests.unit.server.serving.core.forwarding.pair import GATEWAYS, HOME, SERVER_ON
from tests.unit.server.serving.core.planned import PLACEMENT


class OneOfThem:
    """The relay of one node. `persons`: what the persons of its machine are told; `obeys`: what it is to carry out."""

    def __init__(self, world: Several, name: str) -> None:
        self.name, self._world = name, world
        self.persons: list[tuple[str, str, str]] = []
        self.heard: list[tuple[str, ToDesk]] = []
        self.obeys: list[Order] = []
        nodes = NodePlan(name, SERVER_ON, HOME, GATEWAYS)
        self.relay = OrderRelay(lambda: nodes, self, self, lambda: PLACEMENT)

    def order(self, what: str, target: str, value: str = "") -> None:
        self._world.run(self, Order(b"\0person", 7, what, target, value, "jan"))

    def ends(self, cause: str = "", words: str = "done", number: int = 0) -> None:
        """What it carries out has ended."""
        self.relay.obeyed(self.obeys.pop(number), cause, words)
        self._world.run()

    # -- the others, as its relay has them
    def reaches(self, node: str) -> bool:
        return node not in self._world.away

    def say(self, node: str, message: ToDesk) -> bool:
        self._world.said.append((self.name, message))
        self._world.nodes[node].heard.append((self.name, message))
        return True

    # -- the persons of its machine
    def going(self, order: Order, words: str) -> None:
        assert order.watcher == b"\0person"
        self.persons.append(("going", "", words))

    def obeyed(self, order: Order, cause: str, words: str) -> None:
        assert order.watcher == b"\0person" and order.number == 7
        self.persons.append(("obeyed", cause, words))

    def compare(self, workers: Sequence[str]) -> Mapping[str, WorkerTally]:
        return {}

    def rescheduled(self, about: Mapping[str, Any]) -> None: ...


class Several:
    def __init__(self) -> None:
        self.away: set[str] = set()
        self.said: list[tuple[str, ToDesk]] = []
        self.nodes = {name: OneOfThem(self, name) for name in "ab"}

    def run(self, where: OneOfThem | None = None, *orders: Order) -> None:
        if where is not None:
            where.obeys += where.relay.step(orders, [])
        for _ in range(3):
            for node in self.nodes.values():
                heard, node.heard = node.heard, []
                node.obeys += node.relay.step([], heard)


@pytest.fixture
def several() -> Several:
    return Several()


def test_what_concerns_this_node_alone_is_carried_out_as_ever(several: Several) -> None:
    a = several.nodes["a"]
    for what, target in ((DRAIN, "gpu0"), (DRAIN, "gpu0/0"), (DRAIN, "no_such"), (RESCHEDULE, "schedule")):
        a.order(what, target)
        assert a.obeys[-1] == Order(b"\0person", 7, what, target, "", "jan")
        a.ends()
    assert not several.said and a.persons == [("obeyed", "", "done")] * 4


@pytest.mark.parametrize("target", ["gpu1", "gpu1/0"])
def test_a_drain_goes_to_the_node_that_has_the_server(several: Several, target: str) -> None:
    a, b = several.nodes["a"], several.nodes["b"]
    a.order(DRAIN, target)
    (order,) = b.obeys
    assert (order.what, order.target, order.by) == (DRAIN, target, "jan at a") and not a.obeys
    b.relay.going(order, "its calls move")
    b.ends("nobody_else", "nobody else can run it")
    assert a.persons == [
        ("going", "", "b: its calls move"),
        ("obeyed", "nobody_else", "b: nobody else can run it"),
    ]
    assert not b.persons


def test_a_rollout_goes_from_node_to_node(several: Several) -> None:
    a, b = several.nodes["a"], several.nodes["b"]
    b.order(ROLLOUT, "policy", "/new")
    assert [one.value for one in b.obeys] == ["/new"] and not a.obeys, "one after the other"
    b.relay.going(b.obeys[0], "it loads")
    b.ends()
    assert [one.value for one in a.obeys] == ["/new"] and len(b.persons) == 1
    a.ends()
    assert b.persons == [("going", "", "b: it loads"), ("obeyed", "", "b: done; a: done")]


def test_a_rollout_that_one_node_gives_up_goes_no_further(several: Several) -> None:
    a, b = several.nodes["a"], several.nodes["b"]
    a.order(ROLLOUT, "policy", "/new")
    a.ends("worse", "the old weights serve on")
    assert not b.obeys
    assert a.persons == [("obeyed", "worse", "a: the old weights serve on; b: was not asked")]


def test_who_removes_a_robot_need_not_know_where_it_is(several: Several) -> None:
    a, b = several.nodes["a"], several.nodes["b"]
    a.order(REMOVE, "r1")
    a.ends("unknown_target", "no robot r1 is here")
    b.ends(words="r1 is out")
    assert a.obeys[0].value == KNOWN, "it remembers the name"
    a.ends(words="r1 is out")
    assert a.persons == [("obeyed", "", "b: r1 is out; a: r1 is out")]
    a.order(ADMIT, "r9")
    a.ends("not_removed", "it was not")
    b.ends("not_removed", "it was not")
    assert a.persons[-1] == ("obeyed", "not_removed", "a: it was not; b: it was not")


def test_a_cancel_is_heard_by_all(several: Several) -> None:
    a, b = several.nodes["a"], several.nodes["b"]
    a.order(DRAIN, "gpu1")
    a.order(CANCEL, "gpu1")
    a.ends("nothing_at_work", "nothing is at work")
    assert [one.what for one in b.obeys] == [DRAIN, CANCEL]
    b.ends(words="the drain is cancelled", number=1)
    b.ends("cancelled", "it starts again")
    assert a.persons == [
        ("obeyed", "", "b: the drain is cancelled"),
        ("obeyed", "cancelled", "b: it starts again"),
    ]


def test_whoever_could_not_be_told_of_a_removed_robot_is_named(several: Several) -> None:
    a = several.nodes["a"]
    several.away.add("b")
    for what in (REMOVE, ADMIT):
        a.order(what, "r1")
        a.ends(words="done here")
        assert a.persons[-1] == ("obeyed", "", "a: done here; b: the gateway of node b is not there")


@pytest.mark.parametrize("begun", [False, True])
def test_a_node_that_is_not_there_is_named(several: Several, begun: bool) -> None:
    a = several.nodes["a"]
    if not begun:
        several.away.add("b")
    a.order(DRAIN, "gpu1")
    several.away.add("b")
    several.run()
    assert a.persons == [("obeyed", NODE_AWAY, "b: the gateway of node b is not there")]
    numbers = [one.number for _, one in several.said if isinstance(one, PeerOrder)] or [
        1
    ]  # or none was asked
    late = PeerOrderTold(numbers[0], True, "", "it is done")
    assert a.relay.step([], [("b", late)]) == [] and len(a.persons) == 1


def test_what_was_not_asked_here_is_answered_to_nobody(several: Several) -> None:
    a = several.nodes["a"]
    a.order(DRAIN, "gpu1")
    (asked,) = [message for _, message in several.said if isinstance(message, PeerOrder)]
    a.relay.step([], [("c", PeerOrderTold(asked.number, True)), ("b", PeerOrderTold(99, True))])
    assert not a.persons


def test_the_answer_to_an_order_of_a_gateways_life_before_ends_no_order_of_this_one(several: Several) -> None:
    a, b = several.nodes["a"], several.nodes["b"]
    a.order(DRAIN, "gpu1")
    again = several.nodes["a"] = OneOfThem(several, "a")  # it was killed, and is back
    again.order(DRAIN, "gpu1/0")
    b.ends(words="gpu1 is drained")
    assert not again.persons, "this was the first order"
    b.ends("busy", "gpu1/0 is drained")
    assert again.persons == [("obeyed", "busy", "b: gpu1/0 is drained")]


def test_an_order_for_others_beyond_those_that_are_remembered_is_refused_and_not_half_done(
    several: Several,
) -> None:
    a = several.nodes["a"]
    for _ in range(MAX_RELAYED):
        a.order(DRAIN, "gpu1")
    a.order(REMOVE, "r1")
    assert not a.obeys and a.persons[-1][:2] == ("obeyed", "busy")


def test_each_order_for_others_has_an_audit_line_at_its_end(
    several: Several, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", LOGGER.name)
    a, b = several.nodes["a"], several.nodes["b"]
    a.order(DRAIN, "gpu1")
    b.ends()
    several.away.add("b")
    a.order(DRAIN, "gpu1")
    lines: list[dict[str, str]] = [
        vars(one)["fields"] for one in caplog.records if one.message == "operation"
    ]
    assert [(one["what"], one["target"], one["by"], one["step"], one["cause"]) for one in lines] == [
        (DRAIN, "gpu1", "jan", "answered", ""),
        (DRAIN, "gpu1", "jan", "answered", NODE_AWAY),
    ]
