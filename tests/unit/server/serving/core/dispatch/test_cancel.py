"""A call that nobody waits for leaves the server: it is answered once, and a worker that can drop it is told."""

from __future__ import annotations

from rosa_contract.wire import messages as m
from rosa_server.serving.core.queueing.actions import Cancel
from tests.unit.server.serving.core.stage import Stage

LATE = [("cancelled", "nobody waits for it any more")]


def continuous(*robots: str, at_once: int = 2) -> Stage:
    """A worker of the policy that runs several calls at a time, and these robots."""
    stage = Stage()
    stage.worker("p1", at_once=at_once)
    stage.worker("g1", "guard")
    for robot in robots:
        assert isinstance(stage.greet(robot), m.Welcome)
    return stage


def test_the_welcome_says_that_the_gateway_understands_it() -> None:
    stage = continuous("r1")
    [welcome] = [say.message for say in stage.said if isinstance(say.message, m.Welcome)]
    assert welcome.cancels


def test_a_call_that_waits_is_never_run() -> None:
    stage = Stage().open("r1", "r2")
    stage.send("r2", 0)
    stage.send("r1", 1)
    stage.cancel("r1", 1)
    assert stage.statuses() == [("r1", 1, "cancelled")]
    stage.finish("p1")
    assert stage.statuses() == [("r1", 1, "cancelled"), ("r2", 0, "ok")]
    assert len(stage.dispatched) == 1
    assert stage.cancelled == []


def test_a_call_that_runs_is_answered_at_once_and_its_worker_is_told() -> None:
    stage = continuous("r1")
    stage.send("r1", 1)
    [call] = stage.dispatched[0].calls
    stage.cancel("r1", 1)
    assert stage.statuses() == [("r1", 1, "cancelled")]
    assert stage.cancelled == [Cancel("p1", [call.ticket])]


def test_the_place_of_a_cancelled_call_is_the_next_ones_when_its_worker_says_so() -> None:
    stage = continuous("r1", "r2", "r3")
    for number, robot in enumerate(("r1", "r2", "r3")):
        stage.send(robot, number)
    assert len(stage.dispatched) == 2, "both places are taken"
    stage.cancel("r1", 0)
    assert len(stage.dispatched) == 2, "the worker still holds it"
    stage.finish("p1", errors=LATE)
    assert [call.robot_id for call in stage.dispatched[2].calls] == ["r3"]
    assert stage.statuses() == [("r1", 0, "cancelled")]


def test_an_answer_that_crosses_the_cancellation_counts_once() -> None:
    stage = continuous("r1")
    stage.send("r1", 1)
    stage.cancel("r1", 1)
    stage.finish("p1")  # it was done before the worker heard of it
    stage.send("r1", 2)
    stage.finish("p1")
    stage.cancel("r1", 2)  # and this one has been answered
    assert stage.statuses() == [("r1", 1, "cancelled"), ("r1", 2, "ok")]


def test_a_batch_in_the_making_goes_on_for_the_others() -> None:
    """A worker that runs whole batches reads nothing while it does, so it is told nothing."""
    stage = Stage().open("r1", "r2", "r3")
    stage.send("r1", 0)
    stage.send("r2", 1)
    stage.send("r3", 2)
    stage.finish("p1")
    [batch] = stage.held["p1"]
    assert [call.robot_id for call in batch.calls] == ["r2", "r3"]
    stage.cancel("r2", 1)
    assert stage.cancelled == []
    stage.finish("p1")
    assert stage.statuses() == [("r1", 0, "ok"), ("r2", 1, "cancelled"), ("r3", 2, "ok")]


def test_nobody_cancels_another_robots_call_or_one_that_is_not_there() -> None:
    stage = continuous("r1", "r2")
    stage.send("r1", 1)
    stage.cancel("r2", 1)
    stage.cancel("r1", 77)
    assert (stage.answers, stage.cancelled, stage.refusals()) == ([], [], [])
    stage.cancel("stranger", 1)
    assert (stage.answers, stage.refusals()) == ([], ["hello_required"])
    stage.finish("p1")
    assert stage.statuses() == [("r1", 1, "ok")]


def test_what_ran_for_a_robot_that_left_leaves_with_it() -> None:
    stage = continuous("r1", "r2")
    stage.send("r1", 1)
    stage.send("r2", 2)
    stage.leave("r1")
    assert stage.statuses() == [("r1", 1, "unavailable")]
    assert [one.worker_id for one in stage.cancelled] == ["p1"]
    stage.wait(11)
    assert stage.statuses()[1:] == [("r2", 2, "unavailable")], "it fell silent"
    assert len(stage.cancelled) == 2
    stage.finish("p1", errors=LATE)
    stage.finish("p1")
    assert len(stage.answers) == 2


def test_a_cancelled_call_does_not_run_again_when_its_worker_dies() -> None:
    stage = continuous("r1")
    stage.send("r1", 1)
    stage.cancel("r1", 1)
    stage.lose("p1")
    stage.worker("p2", at_once=2)
    assert len(stage.dispatched) == 1
    stage.send("r1", 2)
    stage.lose("p2")
    stage.cancel("r1", 2)  # nobody runs it now, so nobody is told
    assert len(stage.cancelled) == 1
    assert stage.statuses() == [("r1", 1, "cancelled"), ("r1", 2, "cancelled")]


def test_what_ended_early_teaches_nothing_about_how_long_calls_take() -> None:
    stage = continuous("r1")
    stage.send("r1", 1)
    stage.finish("p1", inference_ms=100.0)
    profile = stage.core._dispatcher.lanes["policy"].batcher.profile
    assert profile.service_s(1) == 0.1
    stage.send("r1", 2)
    stage.cancel("r1", 2)
    stage.finish("p1", inference_ms=3.0, errors=LATE)
    assert profile.service_s(1) == 0.1
