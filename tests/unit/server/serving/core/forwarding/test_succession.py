"""Several gateways get from one schedule to the next together: one changes it, and nobody is left behind for good."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from rosa_contract.wire import messages as m
from rosa_server.plan.fleet_plan import FleetPlan
from rosa_server.plan.peering import Beat, Forward, PeerPlan
from rosa_server.plan.placement import Placement, Replica
from rosa_server.serving.core.forwarding.handing_out import AGREES_S, AWAY_S, HandingOut
from rosa_server.serving.core.forwarding.succession import (
    ASKED,
    BEGINS,
    CHANGES,
    ENDS,
    FREE,
    LEFT,
    LET_GO,
    OWN,
    Succession,
)
from tests.unit.server.serving.core.forwarding.pair import HOME, SERVER_ON, Node, Pair
from tests.unit.server.serving.core.planned import PLACEMENT

PLAN = FleetPlan(PLACEMENT, SERVER_ON, HOME)
GPU3 = Replica("gpu3", "policy", "gpu3", batch=2, deadline_aware=False)
ROUTES = dict(PLACEMENT.routes or {})
STARTED = replace(PLACEMENT, replicas={**PLACEMENT.replicas, "gpu3": GPU3})
MOVED = replace(STARTED, routes={**ROUTES, "sort/0": {"system1": "gpu3"}})
ON = {**SERVER_ON, "gpu3": "a"}


class Disk:
    """Writes when a test says so."""

    def __init__(self) -> None:
        self.asked = self.done = self.failed = 0

    def keep_plan(self, plan: FleetPlan) -> int:
        self.asked += 1
        return self.asked

    def keep(self, grants: object) -> int:
        self.asked += 1
        return self.asked

    def kept(self, number: int) -> bool | None:
        return True if number <= self.done else False if number <= self.failed else None


def succession(name: str, disk: Disk | None = None) -> Succession:
    return Succession(f"{name}1", PLAN, disk or Disk())


@pytest.mark.parametrize(("state", "event"), list(product((FREE, OWN, LEFT), (BEGINS, ENDS, ASKED, LET_GO))))
def test_what_is_not_in_the_table_raises_and_changes_nothing(state: str, event: str) -> None:
    one = succession("a")
    one.state = state
    if (state, event) in CHANGES:
        one._happens(event)
        assert one.state == CHANGES[state, event]
    else:
        with pytest.raises(ValueError, match=f"{event} cannot happen"):
            one._happens(event)
        assert one.state == state


def told(one: Succession, other: Succession, name: str) -> None:
    """`one` hears a beat of the other one."""
    one.hears(name, f"{name}1", other.says())


def test_of_two_changes_that_begin_at_once_neither_has_the_others_word() -> None:
    a, b = succession("a"), succession("b")
    assert a.begins() and b.begins()
    told(a, b, "b")
    told(b, a, "a")
    assert not a.has_word(b.says()) and not b.has_word(a.says())


def test_a_schedule_is_left_to_one_change_at_a_time_until_that_ends_or_is_lost() -> None:
    a, b, c = (succession(name) for name in "abc")
    assert a.begins() and b.begins()
    told(c, a, "a")
    told(c, b, "b")
    assert a.has_word(c.says()) and not b.has_word(c.says()) and not c.begins()
    a.ends()
    told(c, a, "a")
    assert c.state == FREE
    told(c, b, "b")
    assert b.has_word(c.says())
    c.lost("a")
    assert b.has_word(c.says()), "that one is nothing to it"
    c.lost("b")
    assert c.state == FREE and c.begins()


def test_the_word_for_an_earlier_change_of_the_same_gateway_counts_for_no_later_one() -> None:
    a, b = succession("a"), succession("b")
    assert a.begins()
    told(b, a, "a")
    word = b.says()
    assert a.has_word(word)
    a.ends()
    assert a.begins() and not a.has_word(word)
    told(b, a, "a")
    assert a.has_word(b.says())


def test_a_gateway_that_works_on_servers_leaves_the_schedule_to_nobody() -> None:
    a, b = succession("a"), succession("b")
    b.occupied = True
    assert a.begins()
    told(b, a, "a")
    assert b.state == FREE and not a.has_word(b.says())
    b.occupied = False
    told(b, a, "a")
    assert a.has_word(b.says())


def test_nobody_agrees_or_tells_before_what_it_runs_is_written_down() -> None:
    disk = Disk()
    a, b = succession("a"), succession("b", disk)
    b.runs(PLAN.follows(PLAN))
    assert a.begins()
    told(b, a, "a")
    assert b.says() == "" and not b.to_tell(1.0, "a", 0)
    disk.failed = 1
    assert not b.written() and disk.asked == 2, "it is tried again"
    disk.done = 2
    assert a.has_word(b.says()) and b.to_tell(1.0, "a", 0)
    assert not b.to_tell(1.1, "a", 0), "not with each beat"
    assert b.to_tell(1.1, "c", 0) and not b.to_tell(1.1, "d", 1), "and only who is behind"


# -- two gateways ------------------------------------------------------------------------------------------------------


@pytest.fixture
def pair() -> Pair:
    made = Pair()
    for node, robot, task in ((made.a, "r0", "pick"), (made.a, "s0", "sort"), (made.b, "r1", "pick")):
        assert isinstance(made.greet(node, robot, task), m.Welcome)
    return made


def plan(placement: Placement, closed: tuple[str, ...] = ()) -> FleetPlan:
    return FleetPlan(placement, ON, HOME, closed)


def agreed(pair: Pair) -> HandingOut:
    """a changes the schedule, and b leaves it to it."""
    handing = HandingOut(pair.a.core, pair.now_s)
    pair.wait(0.2)
    assert handing.begun and not handing.waits(pair.now_s)
    return handing


def test_all_run_the_next_schedule_and_calls_that_are_away_come_back(pair: Pair) -> None:
    handing = agreed(pair)
    pair.ask(pair.a, "s0", 7, budget_ms=5000.0)
    handing.hand_out(plan(STARTED))
    assert handing.waits(pair.now_s), "b does not run it yet"
    pair.wait(0.1)
    assert not handing.waits(pair.now_s) and pair.b.core.epoch == pair.a.core.epoch == 1
    assert not handing.warm(["gpu3"])
    pair.a.start(pair.now_s, "gpu3")
    pair.wait(0.2)
    assert handing.warm(["gpu3"]) and pair.b.core.pool.serves("gpu3"), "b may use it, too"
    handing.hand_out(plan(MOVED))
    pair.wait(0.1)
    assert not handing.waits(pair.now_s)
    pair.b.finish(pair.now_s, "gpu1/0.1")
    pair.settle()
    assert [(a.call.request_id, a.cause) for a in pair.a.answers] == [(7, "")], "its answer counts"
    pair.ask(pair.a, "s0", 8)
    assert pair.a.held["gpu3/0.1"] and len(pair.said(Forward)) == 1
    assert not handing.settled(pair.now_s), "what gpu1 was given may still run"
    pair.wait(pair.a.core.longest_s + 0.1)
    handing.waits(pair.now_s)
    assert handing.settled(pair.now_s)
    handing.end(pair.now_s)
    pair.wait(0.2)
    assert pair.b.core.succession.state == FREE


def test_calls_that_wait_at_the_other_gateway_are_in_the_queues_of_its_new_schedule(pair: Pair) -> None:
    handing = agreed(pair)
    for number, robot in ((1, "s0"), (2, "s0"), (3, "s0")):  # one runs, the others wait there
        pair.ask(pair.a, robot, number, budget_ms=9000.0)
    pooled = {name: replace(PLACEMENT.replicas[name], pool="all") for name in ("gpu0", "gpu1")}
    handing.hand_out(plan(replace(PLACEMENT, replicas={**PLACEMENT.replicas, **pooled})))
    pair.wait(0.2)
    while pair.b.held.get("gpu1/0.1"):
        pair.b.finish(pair.now_s, "gpu1/0.1")
        pair.settle()
    assert {a.call.request_id for a in pair.a.answers if not a.cause} >= {1, 3}
    assert not len(pair.b.core.ledger)


def test_a_gateway_that_was_away_gets_the_schedule_when_it_is_back(pair: Pair) -> None:
    handing = agreed(pair)
    pair.cut = True
    handing.hand_out(plan(STARTED))
    pair.wait(1.0)
    assert handing.waits(pair.now_s) == {"b": "is not there"} and pair.b.core.epoch == 0
    assert pair.b.core.succession.state == FREE
    pair.cut = False
    pair.wait(0.5)
    assert pair.b.core.epoch == 1 and not handing.waits(pair.now_s) and not handing.gives_up(pair.now_s)
    assert pair.b.core.succession.state == LEFT, "and leaves it to the same change again"


def test_a_change_that_nobody_agrees_to_is_given_up_and_one_that_waits_for_a_gateway_later(
    pair: Pair,
) -> None:
    pair.b.core.succession.occupied = True
    handing = HandingOut(pair.a.core, pair.now_s)
    pair.wait(AGREES_S)
    assert "works on servers" in handing.waits(pair.now_s)["b"] and not handing.gives_up(pair.now_s)
    pair.wait(0.1)
    assert handing.gives_up(pair.now_s)
    handing.end(pair.now_s)
    pair.b.core.succession.occupied = False
    handing = agreed(pair)
    pair.cut = True
    pair.wait(AWAY_S - 1.0)
    handing.waits(pair.now_s)
    assert not handing.gives_up(pair.now_s)
    pair.wait(2.0)
    assert handing.waits(pair.now_s) and handing.gives_up(pair.now_s)


def test_who_is_started_again_goes_on_with_the_schedule_that_it_had_got_to(pair: Pair) -> None:
    handing = agreed(pair)
    handing.hand_out(plan(MOVED))
    pair.wait(0.1)
    kept = pair.b.core.succession.plan
    pair.nodes["b"] = pair.b = Node("b", PLACEMENT, pair.kept["b"], life=2, plan=kept)
    assert pair.b.core.epoch == 1 and "gpu3" in pair.b.core.router.placement.replicas
    assert pair.b.core.nodes.server_on["gpu3"] == "a"


def test_one_that_is_told_of_an_older_schedule_or_of_its_own_stays_as_it_is(pair: Pair) -> None:
    handing = agreed(pair)
    handing.hand_out(plan(MOVED))
    pair.wait(0.1)
    before = pair.b.core.succession.plan
    for epoch in (0, 1):
        pair.b.core.on_peer(pair.now_s, "a", PeerPlan(plan(replace(STARTED, epoch=epoch))))
    assert pair.b.core.succession.plan is before


# -- slots -------------------------------------------------------------------------------------------------------------

LESS = replace(PLACEMENT, routes={name: each for name, each in ROUTES.items() if name != "pick/1"})


def test_a_closed_slot_is_given_to_nobody_and_known_to_be_free_before_a_schedule_lacks_it() -> None:
    pair = Pair()
    handing = agreed(pair)
    handing.hand_out(plan(PLACEMENT, closed=("pick/1",)))
    pair.wait(0.2)
    refused = pair.greet(pair.b, "r1")
    assert isinstance(refused, m.Refused) and refused.cause == "admission_off"
    assert refused.gateways == ("tcp://127.0.0.1:2", "tcp://127.0.0.1:1"), "a has a slot for it"
    assert handing.has_robots(["pick/1"]) == []
    handing.hand_out(plan(LESS))
    pair.wait(0.2)
    assert "pick/1" not in (pair.b.core.router.placement.routes or {})
    handing.hand_out(plan(PLACEMENT))
    pair.wait(0.2)
    assert isinstance(pair.greet(pair.b, "r1"), m.Welcome), "it is there again, at its home"


def test_a_slot_that_a_robot_has_anywhere_is_known_to_whoever_changes_the_schedule(pair: Pair) -> None:
    handing = agreed(pair)
    handing.hand_out(plan(PLACEMENT, closed=("pick/1",)))
    pair.wait(0.2)
    assert handing.has_robots(["pick/1"]) == ["pick/1"], "r1 has it, from b"
    token = next(s.message.token for s in pair.b.said if isinstance(s.message, m.Welcome))
    pair.b.core.on_gone(pair.now_s, b"r1")
    again = pair.greet(pair.a, "r1", token=token)
    assert isinstance(again, m.Welcome) and again.token == token, "closed or not, it is the robot's"


def test_a_slot_of_a_later_schedule_is_not_exchanged_by_a_gateway_that_does_not_know_it_yet() -> None:
    pair = Pair()
    handing = agreed(pair)
    more = replace(PLACEMENT, routes={**ROUTES, "pick/2": ROUTES["pick/1"]})
    pair.lost = (PeerPlan,)
    handing.hand_out(FleetPlan(more, ON, {**HOME, "pick/2": "a"}))
    for robot in ("r0", "r2"):
        welcome = pair.greet(pair.a, robot)
        assert isinstance(welcome, m.Welcome)
    pair.wait(0.2)
    assert welcome.token.startswith("2x") and pair.b.core.epoch == 0
    pair.a.core.on_gone(pair.now_s, b"r2")
    refused = pair.greet(pair.b, "r2", token=welcome.token)
    assert isinstance(refused, m.Refused) and refused.cause == "not_ready"
    assert len(refused.gateways) == 2
    pair.lost = ()
    pair.wait(0.6)
    assert pair.b.core.epoch == 1
    again = pair.greet(pair.b, "r2", token=welcome.token)
    assert isinstance(again, m.Welcome) and again.token == welcome.token
    pair.a.core.on_gone(pair.now_s, b"r0")
    assert pair.b.core.slots.told["pick/2"] == (1, "r2"), (
        "what it was told before it knew the slot is not lost"
    )


def test_a_beat_carries_whom_the_schedule_is_left_to_and_what_room_there_is(pair: Pair) -> None:
    pair.a.core.room = 3
    agreed(pair)
    said = [(who, beat) for who, beat in pair.carried if isinstance(beat, Beat)]
    assert {beat.change for who, beat in said[-4:]} == {"a1/1"}
    assert pair.b.core.peers["a"].beat is not None and pair.b.core.peers["a"].beat.room == 3
