"""Calls about one observation go to the worker that knows it; nobody can name what another robot has sent."""

from __future__ import annotations

import pytest

from rosa_contract.errors import CodecError
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_server.serving.core.queueing.ledger import Call
from rosa_server.serving.core.workers.pool import Gathering
from rosa_server.serving.core.workers.sharing import sharing
from tests.unit.server.serving.core.stage import FACTORY, IMAGES, STATE, Stage, request

ONE_MODEL = FACTORY.replace("model: guard", "model: policy")
COMPONENTS = ("system1", "safety", "monitor")


def staged(shares: bool = True, at_once: int = 4, workers: int = 2) -> Stage:
    stage = Stage(factory=ONE_MODEL)
    for number in range(workers):
        come(stage, f"w{number}", shares, at_once)
    for robot in ("r1", "r2"):
        assert isinstance(stage.greet(robot), m.Welcome)
    return stage


def come(stage: Stage, worker: str, shares: bool = True, at_once: int = 4) -> None:
    stage.core.on_ready(stage.now_s, m.WorkerReady(worker, "policy", 4, IMAGES, STATE, at_once, shares))
    stage.settle()


def ask(stage: Stage, robot: str, component: str, observation: int | None, number: int = 0) -> str:
    """The worker that gets this call."""
    before = len(stage.dispatched)
    front = request().images
    stage.send_as(robot.encode(), request(number, component, 5000.0, images=front, observation=observation))
    (given,) = stage.dispatched[before:]
    return given.worker_id


def test_the_components_of_a_robot_meet_at_one_worker() -> None:
    stage = staged()
    first = {ask(stage, "r1", component, 7) for component in COMPONENTS}
    second = {ask(stage, "r2", component, 7) for component in COMPONENTS}
    assert len(first) == len(second) == 1
    assert first != second, "another robot's observation is another one, and the other worker has less to do"


@pytest.mark.parametrize(("shares", "observation"), [(False, 7), (True, None)])
def test_without_sharing_or_an_observation_the_work_is_spread(shares: bool, observation: int | None) -> None:
    stage = staged(shares)
    assert {ask(stage, "r1", component, observation) for component in COMPONENTS} == {"w0", "w1"}


def test_a_worker_that_holds_as_much_as_it_may_does_not_keep_calls_waiting() -> None:
    stage = staged(at_once=2)
    assert len({ask(stage, "r1", component, 7) for component in COMPONENTS[:2]}) == 1
    known = stage.dispatched[0].worker_id
    assert ask(stage, "r1", COMPONENTS[2], 7) != known


def test_a_worker_that_is_gone_is_not_waited_for() -> None:
    stage = staged()
    known = ask(stage, "r1", "system1", 7)
    stage.finish(known)
    stage.lose(known)
    assert ask(stage, "r1", "safety", 7) == ({"w0", "w1"} - {known}).pop()
    come(stage, known)
    assert ask(stage, "r1", "monitor", 7) != known


def test_a_new_session_of_a_robot_shares_nothing_with_the_one_before() -> None:
    stage = staged()
    ask(stage, "r1", "system1", 7)
    stage.finish(stage.dispatched[0].worker_id)
    stage.leave("r1")
    stage.greet("r1")
    ask(stage, "r1", "system1", 7)
    before, after = (given.calls[0].observation for given in stage.dispatched)
    assert before and after and before != after


@pytest.mark.parametrize("observation", [-1, 1 << 63, "7", 1.0, True, [7]])
def test_an_observation_that_is_no_number_is_refused(observation: object) -> None:
    stage = staged()
    frames = codec.encode(request())
    header = codec.read_header(frames) | {"observation": observation}
    with pytest.raises(CodecError, match="observation: expected a whole number"):
        stage.core.on_request(stage.now_s, b"r1", header, frames)


def test_the_oldest_observation_is_forgotten_first() -> None:
    def call(observation: str) -> list[Call]:
        return [Call(0, b"", "r", "system1", "policy", 0, 0.0, 1.0, (), 1.0, observation=observation)]

    gathering = Gathering(max_observations=2)
    for name in ("a", "b", "a", "c"):
        gathering.given("w0", call(name))
    assert [gathering.worker_of(call(name)) for name in "abc"] == ["w0", None, "w0"]
    assert gathering.worker_of(call("")) is None


def test_health_says_what_a_worker_has_shared() -> None:
    stage = staged(workers=1)
    ask(stage, "r1", "system1", 7)
    batch = stage.held["w0"].pop()
    counts = {"prefills": 10, "prefills_saved": 30, "evictions": 2, "held_bytes": 1_500_000}
    tickets = [call.ticket for call in batch.calls]
    stage.core.on_executed(
        stage.now_s, "w0", m.Executed(batch.batch_id, tickets, 5.0, [("", "")], [b"output"], counts)
    )
    words = "10 prefills, 30 saved, 2 prefixes evicted, 1.5 MB held"
    assert stage.core.health().workers == {"w0": f"policy: idle, {words}"}
    assert sharing({}) == ""
