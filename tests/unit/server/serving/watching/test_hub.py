"""What a gateway tells those who watch it: everything once, in slices, and bounded when nobody reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rosa_contract.config.factory import parse_factory
from rosa_contract.wire.codec import MAX_ROBOT_HEADER_BYTES
from rosa_contract.wire.packing import unpack
from rosa_contract.wire.status import HAS_ALERT, OpenAlert
from rosa_server.dashboard.model import MAX_NEWS_BYTES
from rosa_server.plan.admission import NoAdmission
from rosa_server.serving.watching.hub import (
    ABOUT,
    EVENTS,
    MAX_PENDING,
    MAX_REPORTS,
    ROBOTS,
    SLICE,
    STATE,
    STATUS,
    Hub,
)
from tests.unit.server.serving.core.stage import FACTORY, Stage

ALERT = OpenAlert(3, "arm_fault", "a fault", ("resume",))


class Watched:
    """A stage whose core is watched; `heard` keeps what was told, by topic."""

    def __init__(self, watched: bool = True) -> None:
        self.stage = Stage()
        self.hub = Hub(parse_factory(FACTORY.replace("QUEUE", "100")), {"source": "factory.yaml"})
        self.hub.watch(watched)
        self.heard: list[list[bytes]] = []
        self._answers = 0

    def run(self, seconds: float) -> list[list[bytes]]:
        """Steps of 10 ms, as those of a gateway."""
        first = len(self.heard)
        for _ in range(round(seconds / 0.01)):
            self.stage.wait(0.01)
            self.answers()
            self.heard += self.hub.due(self.stage.now_s, 1e9, self.stage.core)
        return self.heard[first:]

    def answers(self) -> None:
        for answer in self.stage.answers[self._answers :]:
            self.hub.answered(answer)
        self._answers = len(self.stage.answers)

    def run_batch(self, inference_ms: float = 100.0) -> None:
        """As a gateway does: robots get their answers first, what is counted comes after them."""
        calls = len(self.stage.held["p1"][0].calls)
        self.stage.finish("p1", inference_ms)
        worker = self.stage.core.pool.get("p1")
        assert worker is not None
        self.hub.ran(worker, calls, inference_ms)
        self.answers()

    def last(self, topic: bytes) -> dict[str, Any]:
        return body([message for message in self.heard if message[0] == topic][-1])


def body(message: list[bytes]) -> dict[str, Any]:
    return unpack(message[1], "news", 1 << 24, 1 << 20)


def of(messages: list[list[bytes]], topic: bytes) -> list[list[bytes]]:
    return [message for message in messages if message[0] == topic]


def test_nobody_who_watches_costs_nothing_and_keeps_nothing() -> None:
    watched = Watched(watched=False)
    watched.stage.open("r1")
    for number in range(MAX_PENDING * 2):
        watched.hub.reported("r1", b"frame", None, 0)
        watched.hub.happened(1.0, "robot_joined", robot=f"r{number}")
    assert watched.run(3.0) == []
    watched.hub.watch(True)
    assert not of(watched.run(1.0), STATUS), "what was said before is over"


def test_whoever_comes_hears_everything_within_a_second() -> None:
    watched = Watched()
    watched.stage.open(*(f"r{number}" for number in range(200)))
    heard = watched.run(1.0)
    assert {message[0] for message in heard} == {ABOUT, STATE, ROBOTS}
    robots = [robot[0] for message in of(heard, ROBOTS) for robot in body(message)["robots"]]
    assert sorted(robots) == sorted(f"r{number}" for number in range(200)), "each once"
    assert max(len(body(message)["robots"]) for message in of(heard, ROBOTS)) <= SLICE
    assert watched.last(ABOUT)["tasks"]["pick"]["system1"] == ["policy", 300, 0.0]


def test_a_robot_that_leaves_before_its_turn_in_the_round_is_told_of_no_more() -> None:
    watched = Watched()
    watched.stage.open(*(f"r{number}" for number in range(SLICE + 1)))
    [first] = of(watched.hub.due(watched.stage.now_s, 1e9, watched.stage.core), ROBOTS)
    gone = f"r{SLICE}"
    assert gone not in [robot[0] for robot in body(first)["robots"]]
    watched.stage.leave(gone)
    assert gone not in [
        robot[0] for message in of(watched.run(0.5), ROBOTS) for robot in body(message)["robots"]
    ]


def test_servers_are_told_with_what_waits_and_what_they_have_done() -> None:
    watched = Watched()
    watched.stage.open(*"abcdefgh")
    for robot in "abcdefgh":
        watched.stage.send(robot)
    watched.stage.wait(0.05)
    watched.run_batch(100.0)
    watched.run(0.6)
    [policy] = [one for one in watched.last(STATE)["servers"] if one["id"] == "policy"]
    done = policy["calls"]
    assert policy["batches"] == 1 and policy["busy_ms"] == 100.0
    assert policy["filled"] == done and policy["room"] == 4
    assert (policy["workers"], policy["wanted"], policy["standby"]) == (1, 1, False)
    assert watched.last(STATE)["actions"] == done


def test_a_server_that_runs_several_calls_at_a_time_is_as_full_as_when_one_of_them_ended() -> None:
    watched = Watched()
    watched.stage.open(*"ab")
    watched.stage.lose("p1")
    watched.stage.worker("p1", at_once=2)
    for robot in "ab":
        watched.stage.send(robot)
    for _ in "ab":
        watched.run_batch()
    watched.run(0.6)
    [policy] = [one for one in watched.last(STATE)["servers"] if one["id"] == "policy"]
    assert (policy["filled"], policy["room"]) == (2 + 1, 2 + 2)


def test_each_server_is_told_with_the_schedule_since_which_it_is_as_it_is() -> None:
    watched = Watched()
    before = watched.stage.core.router.placement
    watched.stage.core.adopt(
        watched.stage.now_s,
        replace(before, replicas={**before.replicas, "new": replace(before.replicas["policy"], id="new")}),
        NoAdmission(),
    )
    watched.run(0.6)
    told = watched.last(STATE)
    assert told["epoch"] == before.epoch + 1
    assert {one["id"]: one["epoch"] for one in told["servers"]} == {
        **dict.fromkeys(before.replicas, before.epoch),
        "new": before.epoch + 1,
    }


def test_margins_are_those_of_the_worst_call_since_the_last_time() -> None:
    watched = Watched()
    watched.stage.open("r1")
    for number, waits_s in ((0, 0.2), (1, 0.05)):
        watched.stage.send("r1", number)
        watched.stage.wait(waits_s)
        watched.run_batch()
    watched.run(1.1)
    told = [r for m in of(watched.heard, ROBOTS) for r in body(m)["robots"] if r[5]]
    [[name, slo_ms, answered, in_time, last_ms, worst_ms]] = told[0][5]
    assert (name, round(slo_ms), answered, in_time) == ("system1", 300, 2, 2)
    assert worst_ms == pytest.approx(100, abs=15) and last_ms == pytest.approx(250, abs=15)
    [(robot, component, ratio)] = watched.hub.margins()
    assert (robot, component) == ("r1", "system1") and ratio == pytest.approx(250 / 300, abs=0.06)


def test_a_client_that_sets_deadlines_of_its_own_is_measured_by_them() -> None:
    watched = Watched()
    watched.stage.open("r1")
    watched.stage.send("r1", 0, budget_ms=10_000.0)
    watched.stage.wait(1.0)
    watched.run_batch()
    watched.run(1.1)
    *_, (_, deadline_ms, _, in_time, last_ms, _) = [
        one for m in of(watched.heard, ROBOTS) for r in body(m)["robots"] for one in r[5]
    ]
    assert (deadline_ms, in_time) == (pytest.approx(10_000), 1) and 8000 < last_ms < 9000
    [(_, _, ratio)] = watched.hub.margins()
    assert ratio == pytest.approx(last_ms / 10_000), "and not of the 300 ms that the factory file says"


def test_a_late_answer_is_no_qualified_action() -> None:
    watched = Watched()
    watched.stage.open("r1")
    watched.stage.send("r1", 0, budget_ms=50.0)
    watched.stage.wait(0.2)
    watched.run_batch()
    watched.run(0.6)
    assert watched.last(STATE)["actions"] == 0
    assert watched.hub._of["r1"]["system1"].last_ms <= 0


@pytest.mark.parametrize(
    ("say", "topic"),
    [
        (lambda hub, n: hub.reported("r1", b"%d" % n, None, 0), STATUS),
        (lambda hub, n: hub.happened(1.0, "robot_joined", number=n), EVENTS),
    ],
)
def test_a_flood_is_bounded_and_what_is_lost_is_counted(
    say: Callable[[Hub, int], None], topic: bytes
) -> None:
    watched = Watched()
    for number in range(MAX_PENDING + 100):
        say(watched.hub, number)
    assert watched.hub.dropped == 100
    told = 0
    for message in of(watched.run(1.0), topic):
        told += len(body(message)["reports" if topic == STATUS else "events"])
    assert told == MAX_PENDING
    assert watched.last(STATE)["dropped"] == 100


def test_reports_that_are_long_come_in_messages_that_a_dashboard_reads() -> None:
    watched = Watched()
    for number in range(MAX_REPORTS):
        watched.hub.reported(f"r{number}", bytes(MAX_ROBOT_HEADER_BYTES), None, 0)
    told = of(watched.run(5.0), STATUS)
    assert max(len(message[1]) for message in told) <= MAX_NEWS_BYTES
    robots = [robot for message in told for robot, _, _ in body(message)["reports"]]
    assert robots == [f"r{number}" for number in range(MAX_REPORTS)], "all of them, in their order"


def test_who_waits_for_a_person_is_known_until_it_is_settled_or_the_robot_has_left() -> None:
    hub = Watched(watched=False).hub
    hub.reported("r1", b"", ALERT, HAS_ALERT)
    hub.reported("r2", b"", ALERT, HAS_ALERT)
    hub.reported("r1", b"", None, 0)
    assert hub.alerts == {"r2": ALERT}
    hub.left("r2")
    assert hub.alerts == {}
