"""Several gateways of one schedule under random faults: no promise is broken, and every kind of defect is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rosa_server.plan.peering import Forward
from rosa_server.serving.core.forwarding.guests import Guests
from rosa_server.serving.core.forwarding.handing_out import HandingOut
from rosa_server.serving.core.forwarding.node import NodeCore
from rosa_server.serving.core.forwarding.peer import BEATS, NEW_LIFE, PeerGateway
from rosa_server.serving.core.forwarding.succession import Succession
from rosa_server.serving.core.sessions.homes import HomeSlots
from rosa_sim.chaos.__main__ import main
from rosa_sim.chaos.node import ChaosNode
from rosa_sim.chaos.nodes_plan import nodes_plan_of
from rosa_sim.chaos.plan import NODE_KINDS, Fault, Plan
from rosa_sim.chaos.roaming import RoamingLink
from rosa_sim.chaos.run import Verdict, run
from tests.examples import examples

Patch = pytest.MonkeyPatch
KILLED = Fault(3.0, "node_killed", 3.0, 0.2, (0,))
CUT = Fault(2.0, "node_cut", 2.0, 0.2, (0,))


def plan(*faults: Fault, **fields: Any) -> Plan:
    """Three gateways; with this seed a robot's gateway is seldom where its model is."""
    return replace(Plan(SPREAD, "p4", 8, 10.0, faults, standby=1, control_period_s=0.02, nodes=3), **fields)


SPREAD = 0


@pytest.mark.slow
@pytest.mark.prove
@pytest.mark.parametrize("seed", range(examples(4, 12)))
def test_every_promise_holds_whatever_goes_wrong_between_gateways(seed: int) -> None:
    verdict = run(nodes_plan_of(seed, 8.0, 8, nodes=(2, 3, 4, 8)[seed % 4]))
    assert not verdict.rule, f"{verdict.words}\n{verdict.plan}"
    # With seed 8 one of two gateways is away for 6 of the 8 s.
    assert verdict.counts["answer ok"] > (50 if seed == 8 else 100)


@pytest.mark.slow
@pytest.mark.parametrize("kind", NODE_KINDS)
def test_each_fault_happens_and_every_promise_holds(kind: str) -> None:
    faulty = run(plan(Fault(2.0, kind, 3.0, NODE_KINDS[kind][2] * 0.6, (0,))))
    assert not faulty.rule, faulty.words
    assert faulty.counts[kind] == 1
    assert (faulty.events, faulty.counts) != (quiet().events, quiet().counts)


@cache
def quiet() -> Verdict:
    """The same fleet on a day without faults."""
    return run(plan())


@pytest.mark.slow
def test_without_faults_everybody_is_answered_and_the_same_plan_does_the_same_again() -> None:
    again = run(plan())
    assert (again.events, again.counts) == (quiet().events, quiet().counts)
    assert not quiet().rule and set(quiet().counts) <= {"answer ok", "answer cancelled", "forwarded"}
    assert quiet().counts["forwarded"] > 50


def test_the_robots_of_a_killed_node_go_on_at_the_others_with_their_slots() -> None:
    verdict = run(plan(KILLED))
    assert not verdict.rule, verdict.words
    assert verdict.counts["moves"] >= 2


# A call that a gateway had answered comes once more after its restart.
TWO_LIVES = Plan(
    530910,
    "p4",
    5,
    5.7,
    (
        Fault(1.0, "peer_duplication", 5.0, 0.63, (0,)),
        Fault(5.026, "node_killed", 0.125, 0.9, (0,)),
    ),
    control_period_s=0.02,
    nodes=2,
)


@pytest.mark.slow
def test_a_doubled_message_that_reaches_the_next_life_of_a_gateway_is_not_taken() -> None:
    verdict = run(TWO_LIVES)
    assert not verdict.rule, verdict.words
    assert verdict.counts["node_killed"] == 1


# A call comes back in the very step in which its gateway goes on to a schedule without the server that ran it.
ANSWERED_AND_ADOPTED = Plan(
    506,
    "p4",
    32,
    14.88,
    (
        Fault(5.179676, "peer_loss", 0.389001, 0.249953, (1,)),
        Fault(8.267375, "adopted", 7.143417, 797.200162),
        Fault(12.54621, "adopted", 0.062245, 841.425667),
    ),
    control_period_s=0.02,
    nodes=6,
)


@pytest.mark.slow
def test_what_was_answered_before_a_schedule_is_adopted_is_of_the_schedule_before() -> None:
    verdict = run(ANSWERED_AND_ADOPTED)
    assert not verdict.rule, verdict.words
    assert verdict.counts["adopted"] == 2


# A robot that was started again is refused where it has its slot, as the servers of that are down, and looks further.
LOOKS_FURTHER = Plan(
    2183,
    "p4",
    8,
    78.54,
    (
        Fault(69.744843, "node_killed", 9.408178, 0.446898, (1,)),
        Fault(70.120423, "robot_restarted", 2.393635, 0.0, (2, 6, 7)),
    ),
    control_period_s=0.02,
    nodes=3,
)


@pytest.mark.slow
def test_a_robot_that_looks_further_while_its_servers_are_down_keeps_its_slot() -> None:
    verdict = run(LOOKS_FURTHER)
    assert not verdict.rule, verdict.words
    assert verdict.counts["node_killed"] == 1


# -- the watches can fail ----------------------------------------------------------------------------------------------


def waits_for_nobody(patch: Patch) -> None:
    def waits(self: HandingOut, now_s: float) -> dict[str, str]:
        self._same_s = min(self._same_s, now_s)
        return {}

    patch.setattr(HandingOut, "waits", waits)


def tells_of_a_schedule_that_is_not_written_down(patch: Patch) -> None:
    patch.setattr(Succession, "written", lambda self: True)


def takes_a_word_for_another_change(patch: Patch) -> None:
    patch.setattr(Succession, "has_word", lambda self, change: True)


def takes_slots_from_robots(patch: Patch) -> None:
    patch.setattr(HomeSlots, "taken", lambda self: set())


def forwards_the_whole_budget(patch: Patch) -> None:
    usual = NodeCore._forward

    def forward(self: NodeCore, node: str, given: Any) -> Forward:
        (call,) = given.calls
        return replace(usual(self, node, given), budget_ms=(call.deadline_s - call.arrived_s) * 1000)

    patch.setattr(NodeCore, "_forward", forward)


def takes_a_call_twice(patch: Patch) -> None:
    def takes(self: Guests, guest: Any) -> bool:
        self._guests.setdefault(guest.connection, guest)
        return True

    patch.setattr(Guests, "takes", takes)


def takes_what_was_sent_to_an_earlier_life(patch: Patch) -> None:
    usual = NodeCore._take_in
    patch.setattr(
        NodeCore,
        "_take_in",
        lambda self, now_s, node, asked: usual(self, now_s, node, replace(asked, to_life=self.life)),
    )


def waits_for_a_lost_answer(patch: Patch) -> None:
    patch.setattr(NodeCore, "_give_up_late", lambda self, now_s: self._away._ends.clear())


def gives_out_slots_of_others(patch: Patch) -> None:
    usual = HomeSlots.__init__

    def init(
        self: HomeSlots, placement: Any, admission: Any, failover: Any, home: Any, here: str, *rest: Any
    ) -> None:
        usual(self, placement, admission, failover, dict.fromkeys(home, here), here, *rest)

    patch.setattr(HomeSlots, "__init__", init)


def forgets_what_it_has_given_out(patch: Patch) -> None:
    usual = ChaosNode.__init__

    def init(self: ChaosNode, *about: Any) -> None:
        usual(self, *about[:-2], {}, about[-1])

    patch.setattr(ChaosNode, "__init__", init)


def robots_forget_their_slot(patch: Patch) -> None:
    usual = RoamingLink.begin_anew
    patch.setattr(RoamingLink, "begin_anew", lambda self, token: usual(self, ""))


def takes_any_answer_for_its_own(patch: Patch) -> None:
    """After a restart numbers begin again, and answers to those of before still come."""
    usual = NodeCore._answered

    def answered(self: NodeCore, now_s: float, node: str, answer: Any) -> None:
        away = self._away.get(answer.number)
        if away is not None:
            whose = {"session": away.session, "request_id": away.request_id, "not_taken": ""}
            answer = replace(answer, life=self.life, **whose)
            away.node = node
        usual(self, now_s, node, answer)

    patch.setattr(NodeCore, "_answered", answered)


def does_not_notice_that_another_one_was_started_again(patch: Patch) -> None:
    usual = PeerGateway.happens
    patch.setattr(
        PeerGateway, "happens", lambda self, event: event not in (NEW_LIFE, BEATS) and usual(self, event)
    )


def gives_a_slot_to_two_robots(patch: Patch) -> None:
    patch.setattr(HomeSlots, "_holds", lambda *_: True)
    patch.setattr(HomeSlots, "_granted", _not_written_down(HomeSlots._granted))


def _not_written_down(usual: Callable[..., Any]) -> Callable[..., Any]:
    def granted(self: HomeSlots, slot: str, robot: str) -> Any:
        taken = usual(self, slot, robot)
        self.grants[slot] = (self.grants[slot][0], "")
        self._put(slot)
        return taken

    return granted


RESTARTED = Fault(7.0, "robot_restarted", 0.2, 0.0, (6,))
SOME_STAY_OUT = 4  # of the robots, with this seed, so that slots are free
LOST = Fault(1.0, "peer_loss", 5.0, 0.3)
DOUBLED = Fault(1.0, "peer_duplication", 6.0, 0.8)
ALONE = Fault(2.0, "node_cut", 2.0, 0.2, (0,))
TWICE = (Fault(2.6, "adopted", 1.0, 569.204), Fault(2.7, "adopted", 1.0, 802.265))  # on both sides
AT_ONCE = (Fault(2.0, "adopted", 0.3, 956.034), Fault(2.0002, "adopted", 0.4, 947.827))
FORGOTTEN = (
    Fault(2.0, "adopted", 2.0, 844.422),
    Fault(2.0296, "node_killed", 0.3, 0.2, (0, 1, 2)),  # all, before what they run is on their disks
    Fault(3.5, "adopted", 1.0, 420.572),
)
EARLY = Fault(0.169, "adopted", 1.5, 544.229)  # while robots come
AGAIN = Fault(1.6, "node_killed", 0.0005, 0.2, (0, 1, 2))  # back before its robots look for others
DELAYED = Fault(0.0, "peer_delay", 5.0, 0.9)
MUTANTS: list[tuple[Callable[[Patch], None], Plan, str]] = [
    (waits_for_nobody, plan(ALONE, *TWICE, seconds=5.0), "one_schedule"),
    (takes_a_word_for_another_change, plan(*AT_ONCE, seconds=5.0), "one_schedule"),
    (
        tells_of_a_schedule_that_is_not_written_down,
        plan(*FORGOTTEN, seconds=6.0),
        "one_schedule",
    ),
    (takes_slots_from_robots, plan(EARLY, seconds=6.0, seed=SOME_STAY_OUT), "one_slot"),
    (forwards_the_whole_budget, plan(CUT, LOST, seed=1), "budget_shrinks"),
    (takes_a_call_twice, plan(DOUBLED), "one_answer"),
    (takes_what_was_sent_to_an_earlier_life, TWO_LIVES, "one_gateway"),
    (waits_for_a_lost_answer, plan(LOST), "one_answer"),
    (gives_out_slots_of_others, plan(), "one_slot"),
    (gives_a_slot_to_two_robots, plan(), "one_slot"),
    (forgets_what_it_has_given_out, plan(KILLED, RESTARTED), "one_slot"),
    (robots_forget_their_slot, plan(KILLED, seed=SOME_STAY_OUT), "one_slot"),
    (takes_any_answer_for_its_own, plan(AGAIN, DELAYED, seconds=5.0), "its_own_answer"),
    (does_not_notice_that_another_one_was_started_again, plan(KILLED), "recovers"),
]


@cache
def rule_without_a_defect(faults: Plan) -> str:
    """Several defects have the same plan. Not to be asked after a defect was put in."""
    return run(faults).rule


@pytest.mark.slow
@pytest.mark.parametrize(("mutate", "faults", "rule"), MUTANTS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_defect_is_noticed(
    mutate: Callable[[Patch], None], faults: Plan, rule: str, monkeypatch: Patch
) -> None:
    assert not rule_without_a_defect(faults), "without the defect nothing is broken"
    mutate(monkeypatch)
    verdict = run(faults)
    assert verdict.rule == rule, verdict.words


@pytest.mark.slow
def test_the_command_plays_plans_with_several_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ["--nodes", "--processes", "1", "--folder", str(tmp_path)]
    assert main(["--robot-hours", "0.01", *short]) == 0
    path = tmp_path / "plan.json"
    plan(CUT, seconds=4.0).save(path)
    assert main(["replay", str(path)]) == 0
    assert "3 nodes" in capsys.readouterr().out
