"""A robot of one gateway is served by a worker of another one's node: once, in time, or it is told why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.bounds import MAX_ROBOTS, MAX_TEXT_CHARS
from rosa_server.plan.admission import NoAdmission
from rosa_server.plan.peer_codec import decode_peer, encode_peer
from rosa_server.plan.peering import Beat, Forward, ForwardCancel, Forwarded, PeerPlan
from rosa_server.plan.placement import Placement
from rosa_server.serving.core.forwarding.guests import connection_of
from rosa_server.serving.core.forwarding.peer import ABSENT, HERE
from rosa_server.serving.core.sessions.homes import MAX_TOLD
from tests.unit.server.serving.core.forwarding.pair import GATEWAYS, Node, Pair
from tests.unit.server.serving.core.planned import PLACEMENT
from tests.unit.server.serving.core.stage import Stage, hello, request

GPU1, GPU2 = "gpu1/0.1", "gpu2/0.1"


def welcomed(pair: Pair) -> Pair:
    """r0 is at a, with System 1 there and safety at b; s0 is at a, and its model at b; r1 is at b."""
    for node, robot, task in ((pair.a, "r0", "pick"), (pair.a, "s0", "sort"), (pair.b, "r1", "pick")):
        assert isinstance(pair.greet(node, robot, task), m.Welcome)
    return pair


def ended(node: Node) -> list[tuple[str, int, str]]:
    return [(a.call.robot_id, a.call.request_id, a.cause or a.status) for a in node.answers]


def test_a_call_is_run_at_the_other_node_with_what_is_left_of_its_budget_and_answered_once() -> None:
    pair = welcomed(Pair())
    pair.ask(pair.a, "s0", 7, budget_ms=300.0)
    (forward,) = pair.said(Forward)
    assert (forward.replica, forward.robot_id, forward.request_id, forward.task) == ("gpu1", "s0", 7, "sort")
    assert forward.budget_ms <= 300.0 and forward.frames
    pair.wait(0.05)
    pair.b.finish(pair.now_s, GPU1)
    pair.settle()
    assert ended(pair.a) == [("s0", 7, "ok")] and pair.a.answers[0].output == b"output of b"
    assert pair.b.answers == [], "the robot is not b's"
    assert not len(pair.a.core.ledger) and not len(pair.b.core.ledger)
    (answer,) = pair.said(Forwarded)
    assert (answer.session, answer.request_id, answer.epoch) == (forward.session, 7, 0)


def test_calls_of_both_gateways_run_in_one_batch_of_the_node_that_has_the_model() -> None:
    pair = welcomed(Pair())
    for number in (1, 2):
        pair.ask(pair.a, "r0", number, "safety", budget_ms=5000.0)
    held = len(pair.b.held[GPU2])
    pair.ask(pair.b, "r1", 3, "safety", budget_ms=5000.0)
    pair.ask(pair.a, "r0", 4, "safety", budget_ms=5000.0)
    while any(pair.b.held.values()):
        pair.b.finish(pair.now_s, GPU2)
        pair.settle()
    assert held and ("r1", 3, "ok") in ended(pair.b)
    assert {cause for _, _, cause in ended(pair.a)} <= {"ok", "fresher_request"} and len(ended(pair.a)) == 3


def test_a_message_that_comes_twice_is_run_once_and_an_answer_that_comes_twice_is_told_once() -> None:
    pair = welcomed(Pair())
    pair.ask(pair.a, "s0", 7)
    (forward,) = pair.said(Forward)
    pair.b.core.on_peer(pair.now_s, "a", forward)
    pair.settle()
    assert len(pair.b.held[GPU1]) == 1
    pair.b.finish(pair.now_s, GPU1)
    pair.settle()
    (answer,) = pair.said(Forwarded)
    pair.a.core.on_peer(pair.now_s, "b", answer)
    pair.b.core.on_peer(pair.now_s, "a", forward)
    pair.settle()
    assert ended(pair.a) == [("s0", 7, "ok")] and not pair.b.held[GPU1]
    assert [note.event for note in pair.a.notes if note.event == "late_forward"] == ["late_forward"]


def test_a_call_that_comes_again_to_the_next_life_of_a_gateway_is_not_run_again() -> None:
    pair = welcomed(Pair())
    pair.ask(pair.a, "s0", 7, budget_ms=5000.0)
    (forward,) = pair.said(Forward)
    assert (forward.life, forward.to_life) == ("a1", "b1")
    pair.b.finish(pair.now_s, GPU1)
    pair.settle()
    pair.nodes["b"] = pair.b = Node("b", PLACEMENT, pair.kept["b"], life=2)
    pair.b.start(pair.now_s, "gpu1", "gpu2")
    pair.wait(0.3)
    pair.b.core.on_peer(pair.now_s, "a", forward)
    pair.settle()
    assert not pair.b.held and len(pair.said(Forwarded)) == 1
    assert [note.event for note in pair.b.notes if note.event == "old_life"] == ["old_life"]
    pair.ask(pair.a, "s0", 8)
    assert pair.said(Forward)[-1].to_life == "b2" and pair.b.held[GPU1]


def test_a_call_that_no_gateway_of_the_schedule_makes_is_not_taken_and_breaks_nothing() -> None:
    pair = welcomed(Pair())
    right = Forward(99, "a1", 0, 1, 3, "s0", "system1", "sort", "gpu1", 300.0, 0.0, to_life="b1")
    wrong = (
        {"task": "polish"},
        {"component": "safety"},
        {"replica": "gpu2"},
        {"replica": "gpu0"},
        {"replica": "x"},
    )
    for number, values in enumerate(wrong):
        pair.b.core.on_peer(pair.now_s, "a", replace(right, number=100 + number, **values))
    pair.settle()
    answers = [one.not_taken for one in pair.said(Forwarded)]
    assert answers == ["unknown_call", "unknown_call", "unknown_call", "not_warm", "not_warm"]
    assert not len(pair.b.core.ledger)


def test_what_was_answered_is_remembered_without_its_pictures() -> None:
    pair = welcomed(Pair())
    pair.ask(pair.a, "s0", 7)
    (forward,) = pair.said(Forward)
    guest = pair.b.core.guests.get(connection_of("a", forward.life, forward.number))
    assert guest is not None and guest.asked.frames
    pair.b.finish(pair.now_s, GPU1)
    pair.settle()
    assert not guest.asked.frames and len(pair.b.core.guests) == 1


def test_what_a_call_is_about_has_one_name_however_often_it_is_handed_on() -> None:
    pair = welcomed(Pair())
    frames = codec.encode(request(7, "system1", 5000.0, observation=5))
    pair.a.core.on_request(pair.now_s, b"s0", codec.read_header(frames), frames)
    pair.settle()
    (first,) = pair.said(Forward)
    (batch,) = pair.b.held[GPU1]
    on = batch._replace(
        worker_id=next(one.worker_id for one in pair.b.core.pool if "spare/policy" in one.worker_id)
    )
    second = pair.b.core._forward("a", on)
    assert first.observation == second.observation and first.observation.startswith("a/a1/")


def test_a_reason_without_end_is_cut_before_it_is_told_to_another_gateway() -> None:
    pair = welcomed(Pair())
    pair.ask(pair.a, "s0", 7)
    batch = pair.b.held[GPU1].pop(0)
    (ticket,) = [call.ticket for call in batch.calls]
    error = ("model_error", "x" * (MAX_TEXT_CHARS + 1))
    pair.b.core.on_executed(pair.now_s, GPU1, m.Executed(batch.batch_id, [ticket], 1.0, [error], [b""]))
    pair.settle()
    (answer,) = pair.said(Forwarded)
    assert decode_peer(encode_peer(answer)) == answer
    assert ended(pair.a) == [("s0", 7, "model_error")]


def test_a_slot_that_cannot_be_written_down_is_not_given_out() -> None:
    pair = Pair()
    pair.a.disk_full = True
    refused = pair.greet(pair.a, "r0")
    assert isinstance(refused, m.Refused) and refused.cause == "not_ready"
    assert pair.kept["a"] == {}
    pair.a.disk_full = False
    welcome = pair.greet(pair.a, "r0")
    assert isinstance(welcome, m.Welcome) and welcome.token
    assert pair.kept["a"]["pick/0"][1] == "r0"


class SlowDisk:
    """Writes when a test says so: `done` is the last writing that is on it, `failed` the last one that failed."""

    def __init__(self) -> None:
        self.asked = self.done = self.failed = 0

    def keep(self, grants: object) -> int:
        self.asked += 1
        return self.asked

    def kept(self, number: int) -> bool | None:
        return True if number <= self.done else False if number <= self.failed else None


def slow_pair() -> tuple[Pair, SlowDisk]:
    pair, disk = Pair(), SlowDisk()
    pair.nodes["a"] = pair.a = Node("a", PLACEMENT, {}, life=2, keeper=disk)
    pair.a.start(pair.now_s, "gpu0", "spare/policy", "spare/guard")
    pair.wait(0.3)
    return pair, disk


def test_a_robot_hears_of_its_slot_when_that_is_written_down_and_others_go_on_meanwhile() -> None:
    pair, disk = slow_pair()
    says_hello(pair, "r0")
    assert pair.a.core.tick(pair.now_s) - pair.now_s < 0.01 and not pair.a.said
    assert isinstance(pair.greet(pair.b, "r1"), m.Welcome)
    says_hello(pair, "r0")
    assert disk.asked == 1 and not pair.a.said, "it has said hello again"
    disk.done = 1
    pair.settle()
    (said,) = pair.a.said
    assert isinstance(said.message, m.Welcome) and slot(pair.a, "r0") == "pick/0"
    assert isinstance(pair.greet(pair.b, "r0", token=said.message.token), m.Welcome), "its proof counts"


def test_a_robot_whose_slot_cannot_be_written_down_in_the_end_has_none() -> None:
    pair, disk = slow_pair()
    says_hello(pair, "r0")
    disk.failed = 1
    pair.settle()
    assert pair.a.refusals() == ["not_ready"] and pair.a.core.sessions.of_robot("r0") is None
    says_hello(pair, "r9")
    disk.done = 2
    pair.settle()
    assert slot(pair.a, "r9") == "pick/0" and pair.a.core.slots.grants["pick/0"] == (2, "r9")


def test_a_robot_that_leaves_before_its_slot_is_written_down_is_told_nothing() -> None:
    pair, disk = slow_pair()
    says_hello(pair, "r0")
    pair.a.core.on_robot(pair.now_s, b"r0", m.Bye())
    disk.done = 9
    pair.settle()
    assert not pair.a.said and pair.a.core.slots.grants["pick/0"] == (1, "")


def says_hello(pair: Pair, robot: str) -> None:
    pair.a.core.on_robot(pair.now_s, robot.encode(), hello(robot, task="pick"), proven=True)
    pair.settle()


def test_the_calls_of_a_silent_gateway_go_to_the_standby_with_what_is_left_of_their_budget() -> None:
    pair = welcomed(Pair())
    pair.ask(pair.a, "s0", 7, budget_ms=2000.0)
    pair.cut = True
    pair.wait(0.8)
    assert pair.a.core.peers["b"].state == ABSENT
    (batch,) = pair.a.held["spare/policy/0.1"]
    (call,) = batch.calls
    assert call.request_id == 7 and 1.0 < call.deadline_s - pair.now_s < 1.5
    pair.a.finish(pair.now_s, "spare/policy/0.1")
    pair.settle()
    pair.cut = False
    pair.b.finish(pair.now_s, GPU1)
    pair.wait(0.5)
    assert ended(pair.a) == [("s0", 7, "ok")] and pair.a.answers[0].output == b"output of a"
    assert pair.a.core.peers["b"].state == HERE
    pair.ask(pair.a, "s0", 8)
    assert pair.said(Forward)[-1].request_id == 8, "and its own server has it again"


def test_a_gateway_that_did_nothing_for_a_while_takes_nobody_for_silent() -> None:
    pair = welcomed(Pair())
    pair.now_s += 3.0  # b goes on, but what it says lies unread
    beats = [message for who, message in pair.carried if who == "b" and isinstance(message, Beat)]
    pair.a.core.tick(pair.now_s)
    assert pair.a.core.peers["b"].state == HERE
    pair.a.core.on_peer(pair.now_s, "b", replace(beats[-1], number=beats[-1].number + 1))
    pair.cut = True
    for _ in range(20):
        pair.now_s += 0.05
        pair.a.core.tick(pair.now_s)
    assert pair.a.core.peers["b"].state == ABSENT, "half a second after it has read its last word it does"


def test_a_gateway_of_which_nothing_comes_is_passed_over_where_others_can_run_its_calls_alone() -> None:
    pair = welcomed(Pair())
    for robot, component in (("s0", "system1"), ("r0", "safety")):
        pair.ask(pair.a, robot, 7, component, budget_ms=5000.0)
    pair.a.core.peer_quiet(pair.now_s, "b")
    pair.settle()
    assert [call.request_id for call in pair.a.held["spare/policy/0.1"][0].calls] == [7]
    assert len(pair.said(Forward)) == 2, "safety waits for its answer: one server can stand in for one other"
    pair.b.finish(pair.now_s, GPU2)
    pair.settle()
    assert ended(pair.a) == [("r0", 7, "ok")]
    pair.wait(0.2)
    pair.a.finish(pair.now_s, "spare/policy/0.1")
    pair.ask(pair.a, "s0", 8, budget_ms=5000.0)
    assert pair.said(Forward)[-1].request_id == 8, "heard again, it has its calls again"
    assert pair.a.core.peers["b"].state == HERE


def test_calls_of_a_gateway_of_which_nothing_comes_run_on() -> None:
    pair = welcomed(Pair())
    pair.ask(pair.a, "s0", 7, budget_ms=5000.0)
    pair.b.core.peer_quiet(pair.now_s, "a")
    pair.settle()
    pair.b.finish(pair.now_s, GPU1)
    pair.settle()
    assert ended(pair.a) == [("s0", 7, "ok")], "it had a pause, and waits for its answer"


def test_without_a_standby_a_call_for_a_lost_node_is_refused_when_its_budget_is_spent() -> None:
    pair = welcomed(Pair(replace(PLACEMENT, standbys={})))
    pair.cut = True
    pair.wait(1.0)
    pair.ask(pair.a, "s0", 7, budget_ms=300.0)
    pair.wait(0.4)
    assert ended(pair.a) == [("s0", 7, "no_worker")]


def test_a_call_whose_message_is_lost_is_answered_soon_after_its_budget() -> None:
    pair = welcomed(Pair())
    pair.lost = (Forward,)
    pair.ask(pair.a, "s0", 7, budget_ms=300.0)
    pair.wait(0.6)
    assert ended(pair.a) == [("s0", 7, "no_worker")]
    assert pair.a.core.peers["b"].state == HERE, "its beats come"


def test_who_cancels_and_who_leaves_is_carried_over() -> None:
    pair = welcomed(Pair())
    for number, robot in ((1, "s0"), (2, "s0")):
        pair.ask(pair.a, robot, number, budget_ms=5000.0)
    pair.a.core.on_robot(pair.now_s, b"s0", m.Cancel(2))
    pair.settle()
    assert len(pair.said(ForwardCancel)) == 1 and ended(pair.a)[-1] == ("s0", 2, "cancelled")
    assert len(pair.b.core.ledger) == 1
    pair.a.core.on_gone(pair.now_s, b"s0")
    pair.settle()
    assert not len(pair.b.core.ledger) and len(pair.said(ForwardCancel)) == 2


def test_a_gateway_of_another_schedule_runs_what_is_the_same_in_both() -> None:
    pair = welcomed(Pair())
    pair.lost = (PeerPlan,)
    pair.a.core.adopt(pair.now_s, replace(PLACEMENT, epoch=5), NoAdmission())
    pair.wait(0.3)
    assert pair.a.core.peers["b"].state == pair.b.core.peers["a"].state == HERE
    pair.ask(pair.a, "s0", 7)
    assert pair.said(Forward)[-1].epoch == 5 and pair.b.held[GPU1], "to an older one"
    forward = Forward(99, "b1", 0, 1, 3, "s0", "system1", "sort", "gpu0", 300.0, 0.0, to_life="a1")
    pair.a.core.on_peer(pair.now_s, "b", forward)
    pair.settle()
    assert pair.a.held["gpu0/0.1"], "and from it"
    pair.b.finish(pair.now_s, GPU1)
    pair.settle()
    assert ended(pair.a) == [("s0", 7, "ok")]


def with_another(name: str) -> Placement:
    """A later schedule, in which this replica is another one."""
    changed = {name: replace(PLACEMENT.replicas[name], engine="continuous")}
    return replace(PLACEMENT, epoch=5, replicas={**PLACEMENT.replicas, **changed})


def test_what_is_asked_of_a_replica_that_is_another_one_here_is_not_taken() -> None:
    pair = welcomed(Pair())
    pair.lost = (PeerPlan,)
    pair.a.core.adopt(pair.now_s, with_another("gpu0"), NoAdmission())
    pair.a.start(pair.now_s, "gpu0")
    forward = Forward(99, "b1", 0, 1, 3, "s0", "system1", "sort", "gpu0", 300.0, 0.0, to_life="a1")
    pair.a.core.on_peer(pair.now_s, "b", forward)
    pair.settle()
    (answer,) = pair.said(Forwarded)
    assert (answer.not_taken, answer.epoch) == ("old_epoch", 5) and not pair.a.held
    assert [note for note in pair.a.notes if note.event == "old_epoch"]


def test_of_a_gateway_of_another_schedule_counts_no_replica_that_is_another_one_there() -> None:
    pair = welcomed(Pair())
    pair.lost = (PeerPlan,)
    pair.ask(pair.a, "s0", 6, budget_ms=5000.0)
    pair.a.core.adopt(pair.now_s, with_another("gpu1"), NoAdmission())
    pair.wait(0.3)
    assert [call.request_id for call in pair.a.held["spare/policy/0.1"][0].calls] == [6], "it has its standby"
    pair.a.finish(pair.now_s, "spare/policy/0.1")
    pair.settle()
    pair.b.finish(pair.now_s, GPU1)
    pair.settle()
    assert ended(pair.a) == [("s0", 6, "ok")] and pair.a.answers[0].output == b"output of a"
    pair.lost = ()
    pair.wait(0.6)
    assert pair.b.core.epoch == 5
    pair.b.start(pair.now_s, "gpu1")
    pair.wait(0.2)
    pair.ask(pair.a, "s0", 8)
    assert pair.said(Forward)[-1].request_id == 8, "what it has started for this schedule counts"


def test_an_answer_of_an_older_epoch_does_not_count() -> None:
    pair = welcomed(Pair(replace(PLACEMENT, epoch=3)))
    pair.lost = (Forwarded,)
    pair.ask(pair.a, "s0", 7, budget_ms=300.0)
    pair.b.finish(pair.now_s, GPU1)
    pair.settle()
    (answer,) = pair.said(Forwarded)
    pair.a.core.on_peer(pair.now_s, "b", replace(answer, epoch=2))
    pair.settle()
    assert ended(pair.a) == [] and [n.fields["epoch"] for n in pair.a.notes if n.event == "old_epoch"] == [2]
    pair.a.core.on_peer(pair.now_s, "b", answer)
    pair.settle()
    assert ended(pair.a) == [("s0", 7, "ok")]


@pytest.mark.parametrize("change", [{"life": "a0"}, {"session": 99}, {"request_id": 8}])
def test_an_answer_for_another_call_of_the_same_number_does_not_count(change: dict[str, object]) -> None:
    pair = welcomed(Pair())
    pair.lost = (Forwarded,)
    pair.ask(pair.a, "s0", 7, budget_ms=300.0)
    pair.b.finish(pair.now_s, GPU1)
    pair.settle()
    (answer,) = pair.said(Forwarded)
    pair.a.core.on_peer(pair.now_s, "b", replace(answer, **change))
    pair.settle()
    assert ended(pair.a) == []


def test_what_comes_from_an_earlier_life_of_a_gateway_is_not_heard_again() -> None:
    pair = welcomed(Pair())
    old = next(message for who, message in reversed(pair.carried) if who == "b" and isinstance(message, Beat))
    pair.nodes["b"] = pair.b = Node("b", PLACEMENT, pair.kept["b"], life=2)
    pair.b.start(pair.now_s, "gpu1", "gpu2")
    pair.wait(0.3)
    peer = pair.a.core.peers["b"]
    assert (peer.state, peer.life) == (HERE, "b2")
    pair.a.core.on_peer(pair.now_s, "b", replace(old, number=10_000))
    assert (peer.state, peer.life) == (HERE, "b2")


def test_a_node_whose_worker_is_gone_says_so_at_once_and_the_other_one_knows() -> None:
    pair = welcomed(Pair())
    pair.b.core.on_lost(pair.now_s, GPU1, "killed")
    pair.settle()
    pair.ask(pair.a, "s0", 7)
    assert pair.a.held["spare/policy/0.1"] and not pair.said(Forward)


def test_a_worker_in_the_shadow_is_no_warm_worker_for_the_other_gateway() -> None:
    pair = welcomed(Pair())
    ready = next(one for one in pair.said(Beat)[-1].warm if one.worker_id == GPU1)
    pair.b.core.shadow("gpu1/0.2", "policy", 1.0)
    pair.b.core.on_ready(pair.now_s, replace(ready, worker_id="gpu1/0.2"))
    pair.b.core.on_lost(pair.now_s, GPU1, "killed")
    pair.wait(0.2)
    for number in range(5):
        pair.ask(pair.a, "s0", number)
        pair.wait(0.2)
        pair.a.finish(pair.now_s, "spare/policy/0.1")
        pair.settle()
    assert [cause for _, _, cause in ended(pair.a)] == ["ok"] * 5 and not pair.said(Forward)
    assert sum(note.event == "streams_moved" for note in pair.a.notes) == 1
    assert pair.b.core.enlist(pair.now_s, "gpu1/0.2")
    pair.settle()
    pair.ask(pair.a, "s0", 9)
    assert pair.b.held["gpu1/0.2"], "it has taken the place of the old one"


# -- slots -------------------------------------------------------------------------------------------------------------


def slot(node: Node, robot: str) -> str:
    session = node.core.sessions.of_robot(robot)
    assert session is not None
    return session.slot


def test_a_robot_whose_gateway_is_gone_keeps_its_slot_at_another_one_and_nobody_else_gets_it() -> None:
    pair = welcomed(Pair())
    told = pair.greet(pair.a, "r0")
    assert isinstance(told, m.Welcome) and told.gateways == (GATEWAYS["a"], GATEWAYS["b"])
    pair.cut = True
    pair.wait(1.0)
    again = pair.greet(pair.b, "r0", token=told.token)
    assert isinstance(again, m.Refused) and again.cause == "not_ready", "its System 1 was at a"
    assert again.gateways == (GATEWAYS["b"], GATEWAYS["a"]), "with these its proof counts, too"
    pair = welcomed(
        Pair(
            replace(
                PLACEMENT,
                routes={**(PLACEMENT.routes or {}), "pick/0": {"system1": "gpu1", "safety": "gpu2"}},
            )
        )
    )
    told = pair.greet(pair.a, "r0")
    assert isinstance(told, m.Welcome)
    pair.cut = True
    pair.wait(1.0)
    again = pair.greet(pair.b, "r0", token=told.token)
    assert isinstance(again, m.Welcome) and again.token == told.token and slot(pair.b, "r0") == "pick/0"
    assert isinstance(pair.greet(pair.b, "r9"), m.Refused), "b has given out what it may"
    pair.wait(15.0)
    assert pair.greet(pair.a, "r9").cause in ("not_admitted", "admission_off", "not_ready")  # type: ignore[union-attr]


@pytest.mark.parametrize("token", ["0x1x\u00e9", "0x1x", "0x1x0", "\u0660x1x0"])
def test_what_a_robot_sends_for_a_proof_that_is_none_counts_for_nothing(token: str) -> None:
    pair = Pair()
    sent = codec.decode(codec.encode(replace(hello("r0"), token=token)))
    assert isinstance(sent, m.Hello) and sent.token == token, "such a message gets as far as the core"
    told = pair.greet(pair.a, "r0", token=token)
    assert isinstance(told, m.Welcome) and told.token != token


def test_a_slot_is_free_when_its_robot_says_bye_wherever_it_is() -> None:
    pair = welcomed(Pair())
    token = pair.greet(pair.a, "r0").token  # type: ignore[union-attr]
    pair.a.core.on_gone(pair.now_s, b"r0")
    assert isinstance(pair.greet(pair.b, "r0", token=token), m.Welcome)
    assert isinstance(pair.greet(pair.a, "r9"), m.Refused)
    pair.b.core.on_robot(pair.now_s, b"r0", m.Bye())
    pair.wait(12.0)
    taken = pair.greet(pair.a, "r9")
    assert isinstance(taken, m.Welcome) and slot(pair.a, "r9") == "pick/0"
    stale = pair.greet(pair.b, "r0", token=token)
    assert isinstance(stale, m.Refused), "its proof is of an earlier grant"
    assert pair.b.core.slots.returned == {}


def test_a_gateway_that_is_started_again_knows_what_it_has_given_out() -> None:
    pair = welcomed(Pair())
    token = pair.greet(pair.a, "r0").token  # type: ignore[union-attr]
    pair.nodes["a"] = pair.a = Node("a", PLACEMENT, pair.kept["a"], life=2)
    pair.a.start(pair.now_s, "gpu0", "spare/policy", "spare/guard")
    pair.wait(0.3)
    assert isinstance(pair.greet(pair.a, "r9"), m.Refused)
    assert isinstance(pair.greet(pair.a, "r0", token=token), m.Welcome) and slot(pair.a, "r0") == "pick/0"
    named = pair.greet(pair.a, "s0", "sort")
    assert isinstance(named, m.Welcome) and slot(pair.a, "s0") == "sort/0", "by its name alone"


@pytest.mark.parametrize("at", ["a", "b"])
def test_a_robot_that_comes_back_with_another_task_needs_its_first_slot_no_more(at: str) -> None:
    pair = Pair()
    node, home = (pair.a, pair.a) if at == "a" else (pair.a, pair.b)
    assert isinstance(pair.greet(home, "r0", "pick"), m.Welcome)
    home.core.on_gone(pair.now_s, b"r0")
    assert isinstance(pair.greet(node, "r0", "sort"), m.Welcome)
    pair.wait(15.0)
    assert isinstance(pair.greet(home, "r9", "pick"), m.Refused), (
        "it has not worked yet: its welcome may be lost"
    )
    assert isinstance(pair.greet(node, "r0", "sort"), m.Welcome)
    pair.ask(node, "r0", 1)
    pair.wait(1.5)
    assert isinstance(pair.greet(home, "r9", "pick"), m.Welcome)
    assert slot(node, "r0") == "sort/0" and isinstance(pair.greet(node, "s1", "sort"), m.Refused)
    assert not pair.a.core.slots.returned


def test_a_robot_that_knows_a_full_gateway_alone_is_told_of_one_with_room() -> None:
    pair = Pair()
    assert isinstance(pair.greet(pair.a, "r0"), m.Welcome)
    pair.wait(0.2)
    full = pair.greet(pair.a, "r1")
    assert isinstance(full, m.Refused) and full.gateways == (GATEWAYS["a"], GATEWAYS["b"])
    assert isinstance(pair.greet(pair.b, "r1"), m.Welcome)
    pair.wait(0.2)
    everywhere = pair.greet(pair.a, "r2")
    assert isinstance(everywhere, m.Refused) and everywhere.gateways == ()
    without_proof = pair.greet(pair.b, "r0")
    assert isinstance(without_proof, m.Refused) and without_proof.gateways == (GATEWAYS["b"], GATEWAYS["a"])


def test_beats_name_the_slots_that_have_changed_until_they_are_heard_and_all_of_them_to_a_new_life() -> None:
    pair = Pair()

    def named(since: int) -> list[dict[str, tuple[int, str]]]:
        said = [one for who, one in pair.carried[since:] if who == "a" and isinstance(one, Beat)]
        return [dict(one.grants) for one in said]

    quiet = len(pair.carried)
    pair.wait(0.5)
    assert len(named(quiet)) >= 4 and not any(named(quiet))
    pair.lost = (Beat,)
    pair.greet(pair.a, "r0")
    lost = len(pair.carried)
    pair.wait(0.3)
    assert all(one == {"pick/0": (1, "r0")} for one in named(lost)) and named(lost), "nobody has heard it"
    pair.lost = ()
    pair.wait(0.5)
    heard = len(pair.carried)
    pair.greet(pair.a, "s0", "sort")
    pair.wait(0.5)
    assert {"sort/0": (1, "s0")} in named(heard) and not named(heard)[-1]
    assert pair.b.core.slots.told == {"pick/0": (1, "r0"), "sort/0": (1, "s0")}
    pair.nodes["b"] = pair.b = Node("b", PLACEMENT, pair.kept["b"], life=2)
    pair.b.start(pair.now_s, "gpu1", "gpu2")
    pair.wait(0.5)
    assert pair.b.core.slots.told == {"pick/0": (1, "r0"), "sort/0": (1, "s0")}


def test_a_robot_that_cannot_come_back_leaves_its_slot_with_its_connection() -> None:
    pair = Pair()

    def life(number: int) -> None:
        pair.nodes["a"] = pair.a = Node("a", PLACEMENT, pair.kept["a"], number, passing=("openpi-a-",))
        pair.a.start(pair.now_s, "gpu0", "spare/policy", "spare/guard")
        pair.wait(0.3)

    life(2)
    assert isinstance(pair.greet(pair.a, "openpi-a-1.1"), m.Welcome)
    assert isinstance(pair.greet(pair.a, "openpi-a-2.1"), m.Refused)
    pair.a.core.on_gone(pair.now_s, b"openpi-a-1.1")
    pair.wait(15.0)
    assert isinstance(pair.greet(pair.a, "openpi-a-2.1"), m.Welcome), "its frontend was started again"
    life(3)
    assert isinstance(pair.greet(pair.a, "r0"), m.Welcome), "and so was the gateway"
    pair.a.core.on_gone(pair.now_s, b"r0")
    pair.wait(15.0)
    assert isinstance(pair.greet(pair.a, "openpi-a-1.1"), m.Refused), "r0 comes back"


def test_a_forged_token_gives_nothing() -> None:
    pair = welcomed(Pair())
    token = pair.greet(pair.a, "r0").token  # type: ignore[union-attr]
    for forged in (
        "0x1x" + "0" * 64,
        token.replace("0x1x", "0x2x"),
        "x",
        "0x1",
        "-1x1xab",
        "9" * 40 + "x1xab",
    ):
        assert isinstance(pair.greet(pair.b, "r7", token=forged), m.Refused)
    assert isinstance(pair.greet(pair.b, "r7", token=token), m.Refused), "it is another robot's"


def test_a_person_who_removes_a_robot_frees_its_slot() -> None:
    pair = welcomed(Pair())
    pair.a.core.remove(pair.now_s, "r0", "it is taken away")
    pair.settle()
    assert isinstance(pair.greet(pair.a, "r9"), m.Welcome)


def test_a_server_without_other_gateways_says_nothing_of_any() -> None:
    stage = Stage().open("r1")
    assert stage.greet("r1").gateways == ()  # type: ignore[union-attr]


def test_a_gateway_that_makes_up_slots_does_not_fill_the_memory_of_another_one() -> None:
    """A later schedule may have slots that this one lacks, so names that nobody knows are kept, up to a limit."""
    pair = welcomed(Pair())
    slots = pair.b.core.slots
    for number in range(3):
        slots.hears("a", {f"x/{number * MAX_ROBOTS + one}": (1, "r") for one in range(MAX_ROBOTS)})
    assert len(slots.told) == MAX_TOLD
    own = {slot: (7, "r") for slot, home in pair.b.core.nodes.home.items() if home == "a"}
    slots.hears("a", own)
    assert own and all(slots.told[slot] == grant for slot, grant in own.items())
