"""What a gateway knows of another one: a table of states, and how far away it is, without comparing clocks."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from rosa_server.plan.nodes import NodePlan, homes, seen_from
from rosa_server.plan.peering import Beat
from rosa_server.serving.core.forwarding import peer as states
from rosa_server.serving.core.forwarding.peer import HERE, TABLE, PeerGateway
from tests.unit.server.serving.core.forwarding.pair import SERVER_ON
from tests.unit.server.serving.core.planned import PLACEMENT

EVENTS = (states.BEATS, states.NEW_LIFE, states.FALLS_SILENT, states.ENDS)
STATES = (states.ABSENT, states.HERE)


def beat(number: int, life: str = "b1", epoch: int = 0, answers: int = 0, held_ms: float = 0.0) -> Beat:
    return Beat("b", life, epoch, number, answers, held_ms)


@pytest.mark.parametrize(("state", "event"), list(product(STATES, EVENTS)))
def test_what_is_not_in_the_table_raises_and_changes_nothing(state: str, event: str) -> None:
    peer = PeerGateway("b", state)
    if (state, event) in TABLE:
        lost = peer.happens(event)
        assert peer.state == TABLE[state, event] and lost == (state == HERE and peer.state != HERE)
    else:
        with pytest.raises(ValueError, match=f"{event} cannot happen"):
            peer.happens(event)
        assert peer.state == state


def test_the_time_there_and_back_is_measured_by_ones_own_clock_less_what_the_other_one_says_it_took() -> None:
    peer = PeerGateway("b")
    number, _, _ = peer.says(10.0)
    peer.hears(10.080, beat(1, answers=number, held_ms=50.0))
    assert peer.rtt_s == pytest.approx(0.030)
    peer.hears(10.2, beat(2, answers=number, held_ms=0.0))
    assert peer.rtt_s == pytest.approx(0.030), "each beat is measured once"
    _, answers, held_ms = peer.says(10.25)
    assert answers == 2 and held_ms == pytest.approx(50.0)


def test_what_was_told_with_a_beat_is_known_when_that_is_answered_and_by_no_other_process() -> None:
    peer = PeerGateway("b")
    peer.hears(0.9, beat(1))
    first, _, _ = peer.says(1.0, 7)
    peer.says(1.1, 8)
    peer.hears(1.2, beat(2, answers=first))
    assert peer.knows == 7
    second, _, _ = peer.says(1.3, 9)
    peer.hears(1.4, beat(1, "b2", answers=second))
    assert peer.knows == 0, "what this process had heard before was the rest of it alone"
    third, _, _ = peer.says(1.5, 9)
    peer.hears(1.6, beat(2, "b2", answers=third))
    assert peer.knows == 9


def test_beats_that_come_late_or_twice_count_once() -> None:
    peer = PeerGateway("b")
    assert peer.hears(1.0, beat(5)) == (True, False)
    assert peer.hears(2.0, beat(5)) == peer.hears(2.0, beat(4)) == (False, False)
    assert peer.heard_s == 1.0
    assert peer.hears(3.0, beat(1, "b2")) == (True, True), "it was started again: what it had is lost"
    assert peer.hears(3.1, beat(99, "b1")) == (False, False)


def test_a_slot_is_given_out_where_most_of_its_components_are_answered() -> None:
    assert homes(PLACEMENT, SERVER_ON, ["a", "b"]) == {"pick/0": "a", "pick/1": "b", "sort/0": "b"}


def test_one_node_sees_replicas_of_others_as_such_and_no_queue_of_two_nodes() -> None:
    pooled = {name: replace(PLACEMENT.replicas[name], pool="both") for name in ("gpu0", "gpu1")}
    whole = replace(PLACEMENT, replicas={**PLACEMENT.replicas, **pooled}, adaptive=True)
    seen = seen_from(whole, NodePlan("a", SERVER_ON, {}, {"a": "", "b": ""}))
    assert {name: one.node for name, one in seen.replicas.items() if one.node} == {"gpu1": "b", "gpu2": "b"}
    assert seen.replicas["gpu0"].queue != seen.replicas["gpu1"].queue
    assert not seen.adaptive
    assert seen_from(seen, NodePlan("a", SERVER_ON, {}, {"a": "", "b": ""})) == seen
