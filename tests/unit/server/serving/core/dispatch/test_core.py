"""Stories of single requests through the server's decisions."""

from __future__ import annotations

from typing import Any

import pytest

from rosa_contract.config.gateway import ORDERS
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_server.serving.core.queueing.actions import Reply
from tests.unit.server.serving.core.stage import FACTORY, IMAGES, STATE, Stage, hello, request


def test_an_idle_worker_gets_a_request_at_once_and_its_answer_goes_back() -> None:
    stage = Stage().open()
    stage.send(request_id=7)
    assert [[c.request_id for c in d.calls] for d in stage.dispatched] == [[7]]
    stage.finish("p1", inference_ms=12.0)
    (answer,) = stage.answers
    assert (answer.status, answer.call.request_id, answer.inference_ms, answer.batch_size) == (
        "ok",
        7,
        12.0,
        1,
    )
    assert answer.output == b"output"


def test_without_a_schedule_a_worker_that_batches_continuously_gets_as_many_calls_as_it_takes() -> None:
    stage = Stage()
    stage.worker("g1", "guard")
    stage.core.on_ready(stage.now_s, m.WorkerReady("p1", "policy", 4, IMAGES, STATE, at_once=3))
    for number in range(4):
        stage.greet(f"r{number}")
        stage.send(f"r{number}", number, budget_ms=5000)
    assert [[c.request_id for c in d.calls] for d in stage.dispatched] == [[0], [1], [2]]
    stage.finish("p1")
    assert [c.request_id for c in stage.dispatched[-1].calls] == [3]


def test_a_fresher_request_replaces_the_waiting_one() -> None:
    stage = Stage().open("r1", "r2")
    stage.send("r2", 0)  # keeps the worker busy
    stage.send("r1", 1)
    stage.send("r1", 2)
    assert stage.statuses() == [("r1", 1, "replaced")]
    stage.finish("p1")
    assert [c.request_id for c in stage.dispatched[-1].calls] == [2]


def test_a_request_that_the_link_delivers_twice_runs_once_and_does_not_replace_itself() -> None:
    stage = Stage().open("r1", "r2")
    stage.send("r2", 0)  # keeps the worker busy
    stage.send("r1", 1)
    stage.send("r1", 1)
    assert stage.statuses() == []
    stage.finish("p1")
    stage.send("r1", 1)
    stage.finish("p1")
    assert stage.statuses() == [("r2", 0, "ok"), ("r1", 1, "ok")]
    assert len(stage.dispatched) == 2


def test_the_components_of_one_robot_do_not_replace_each_other() -> None:
    stage = Stage().open("r1", "r2")
    stage.send("r2", 0, "monitor")
    stage.send("r1", 1, "monitor")
    stage.send("r1", 2, "safety")
    stage.finish("g1")
    assert {c.request_id for c in stage.dispatched[-1].calls} == {1, 2}
    assert stage.count()["replaced"] == 0


def test_a_request_whose_budget_ends_in_the_queue_is_answered_and_never_runs() -> None:
    stage = Stage().open("r1", "r2")
    stage.send("r2", 0, budget_ms=5000)
    stage.send("r1", 1, budget_ms=50)
    stage.wait(0.051)
    assert stage.statuses() == [("r1", 1, "expired")]
    stage.finish("p1")
    assert len(stage.dispatched) == 1


def test_a_request_without_budget_is_expired_on_arrival() -> None:
    stage = Stage().open()
    stage.send(budget_ms=0)
    assert stage.count() == {"expired": 1}


def test_a_full_queue_says_so() -> None:
    stage = Stage(queue=2).open("r1", "r2", "r3", "r4")
    for number, robot in enumerate(("r1", "r2", "r3", "r4")):
        stage.send(robot, number)
    assert stage.statuses() == [("r4", 3, "overloaded")]


def test_without_a_worker_a_request_waits_for_one_within_its_budget() -> None:
    stage = Stage().open("r1", "r2")
    stage.lose("p1")
    stage.send("r1", 1, budget_ms=100)
    stage.send("r2", 2, budget_ms=1000)
    stage.wait(0.2)
    assert stage.statuses() == [("r1", 1, "unavailable")]
    stage.worker("p2")
    stage.finish("p2")
    assert stage.statuses()[-1] == ("r2", 2, "ok")


def test_what_a_lost_worker_held_runs_on_another_one() -> None:
    stage = Stage().open()
    stage.worker("p2")
    stage.send("r1", 1)
    lost = stage.dispatched[-1].worker_id
    stage.lose(lost)
    other = stage.dispatched[-1].worker_id
    assert other != lost
    stage.finish(other)
    assert stage.statuses() == [("r1", 1, "ok")]


def test_a_request_that_two_workers_died_with_fails_instead_of_killing_a_third() -> None:
    stage = Stage().open()
    stage.send("r1", 1)
    stage.lose("p1")
    stage.worker("p2")
    stage.lose("p2")
    stage.worker("p3")
    assert stage.statuses() == [("r1", 1, "failed")]
    assert len(stage.dispatched) == 2


def test_a_lost_request_gives_way_to_the_fresher_one_that_waits() -> None:
    stage = Stage().open()
    stage.send("r1", 1)
    stage.send("r1", 2)
    stage.lose("p1")
    assert stage.statuses() == [("r1", 1, "replaced")]
    stage.worker("p2")
    stage.finish("p2")
    assert stage.statuses()[-1] == ("r1", 2, "ok")


def test_a_batch_that_never_ends_ends_its_worker() -> None:
    stage = Stage().open()
    stage.send("r1", 1, budget_ms=300)
    stage.now_s += 31.0
    stage.core.on_robot(stage.now_s, b"r1", hello())  # it says so every second
    stage.settle()
    assert [kill.worker_id for kill in stage.killed] == ["p1"]
    assert stage.statuses() == [("r1", 1, "expired")]


def test_a_worker_that_runs_many_calls_at_a_time_hangs_no_longer_than_any_other() -> None:
    """Its calls run beside each other, so the last one has nothing to wait for."""
    stage = Stage().open(*(f"r{number}" for number in range(8)))
    stage.lose("p1")
    stage.worker("p2", at_once=8)
    for number in range(8):
        stage.send(f"r{number}", number)
    assert len(stage.dispatched) == 8
    for _ in range(7):
        stage.finish("p2")
    stage.wait(29.0)
    assert not stage.killed
    stage.wait(2.0)
    assert [kill.worker_id for kill in stage.killed] == ["p2"]


def test_a_large_budget_does_not_hide_a_worker_that_hangs() -> None:
    """How long a batch may run follows from the component's SLO: a robot may say any budget."""
    stage = Stage().open()
    stage.send("r1", 1, budget_ms=600_000.0)
    stage.wait(29.0)
    assert not stage.killed
    stage.wait(2.0)
    assert [kill.worker_id for kill in stage.killed] == ["p1"]


def test_a_component_with_a_long_slo_may_run_three_times_as_long() -> None:
    slow = FACTORY.replace("{model: policy, slo_ms: 300}", "{model: policy, slo_ms: 60000}")
    stage = Stage(factory=slow).open()
    stage.send("r1", 1, budget_ms=60_000.0)
    stage.wait(179.0)
    assert not stage.killed
    stage.wait(2.0)
    assert [kill.worker_id for kill in stage.killed] == ["p1"]


def test_a_worker_that_answers_what_it_was_not_given_is_ended() -> None:
    stage = Stage().open()
    stage.send("r1", 1)
    stage.core.on_executed(stage.now_s, "p1", m.Executed(99, [5], 1.0, [("", "")], [b""]))
    stage.settle()
    assert [kill.worker_id for kill in stage.killed] == ["p1"]
    stage.worker("p2")
    stage.finish("p2")
    assert stage.statuses() == [("r1", 1, "ok")]


def test_one_bad_request_of_a_batch_fails_alone() -> None:
    stage = Stage().open("r1", "r2", "r3")
    stage.send("r3", 0)
    stage.send("r1", 1)
    stage.send("r2", 2)
    stage.finish("p1")
    stage.finish("p1", errors=[("bad_output", "not finite"), ("", "")])
    assert stage.statuses()[1:] == [("r1", 1, "failed"), ("r2", 2, "ok")]


def test_after_bye_the_waiting_request_is_not_run() -> None:
    stage = Stage().open("r1", "r2")
    stage.send("r2", 0)
    stage.send("r1", 1)
    stage.core.on_robot(stage.now_s, b"r1", m.Bye())
    stage.settle()
    assert stage.statuses() == [("r1", 1, "unavailable")]
    assert stage.core.sessions.robots == ["r2"]


def test_a_silent_robot_is_forgotten_and_has_to_say_hello_again() -> None:
    stage = Stage().open()
    stage.wait(11)
    stage.send()
    assert stage.refusals() == ["hello_required"]
    assert stage.answers == []


def test_draining_answers_new_requests_and_runs_the_waiting_ones() -> None:
    stage = Stage().open("r1", "r2")
    stage.send("r1", 1)
    stage.send("r2", 2, budget_ms=5000)
    stage.core.drain(stage.now_s)
    stage.send("r1", 3)
    stage.core.on_robot(stage.now_s, b"r9", hello("r9"))
    stage.settle()
    stage.finish("p1")
    stage.finish("p1")
    assert stage.statuses() == [("r1", 3, "unavailable"), ("r1", 1, "ok"), ("r2", 2, "ok")]
    assert stage.refusals() == ["not_ready"]


@pytest.mark.parametrize("order", ORDERS)
def test_giving_up_answers_everything_and_runs_nothing_more(order: str) -> None:
    factory = FACTORY.replace("queue_per_model: QUEUE", f"queue_per_model: QUEUE, order: {order}")
    robots = [f"r{number}" for number in range(12)]
    stage = Stage(factory=factory).open(*robots)
    for number, robot in enumerate(robots):
        stage.send(robot, number, budget_ms=9000)
    run = len(stage.dispatched)
    stage.core.give_up(stage.now_s, "the server is shutting down")
    stage.settle()
    stage.finish("p1")
    assert stage.count() == {"unavailable": len(robots)}
    assert len(stage.core.ledger) == 0 and len(stage.dispatched) == run


def test_health_is_ready_when_every_model_has_a_worker() -> None:
    stage = Stage()
    stage.worker("p1")
    assert not stage.core.health().ready
    stage.worker("g1", "guard")
    assert stage.core.health().ready
    assert stage.core.health().workers == {"p1": "policy: idle", "g1": "guard: idle"}


def experienced(*robots: str) -> Stage:
    """A worker that is known to need 50 ms a call, one at a time."""
    stage = Stage()
    stage.worker("p1", max_batch=1)
    stage.worker("g1", "guard")
    for robot in robots:
        stage.greet(robot)
    for number in range(60):
        stage.send(robots[0], number)
        stage.finish("p1", inference_ms=50.0)
    stage.dispatched.clear()
    stage.answers.clear()
    return stage


def test_a_batch_that_ends_late_delays_what_is_sent_ahead_behind_it() -> None:
    stage = experienced("r1", "r2", "r3")
    for number, robot in enumerate(("r1", "r2", "r3")):
        stage.send(robot, 100 + number, budget_ms=5000)
    stage.wait(0.049)
    assert len(stage.dispatched) == 2, "the second is sent ahead, just before the first is expected to end"
    stage.wait(0.031)
    stage.finish("p1", inference_ms=80.0)  # 30 ms late: the second begins only now
    stage.wait(0.030)
    assert len(stage.dispatched) == 2, "the third may still be replaced by a fresher one"
    stage.wait(0.025)
    assert len(stage.dispatched) == 3


def test_a_call_that_is_late_whatever_happens_does_not_make_others_late() -> None:
    stage = experienced("r1", "r2", "r3")
    stage.send("r1", 1, budget_ms=5000)
    stage.send("r2", 2, budget_ms=80)  # 30 ms are left when the worker is free, and it needs 50
    stage.send("r3", 3, budget_ms=300)
    stage.wait(0.050)
    stage.finish("p1", inference_ms=50.0)
    stage.wait(0.031)
    assert [call.request_id for dispatch in stage.dispatched for call in dispatch.calls] == [1, 3]
    assert stage.statuses()[-1] == ("r2", 2, "expired")


def test_a_call_that_seems_late_is_tried_when_nobody_else_waits() -> None:
    stage = experienced("r1", "r2")
    stage.send("r2", 1, budget_ms=30)
    assert [call.request_id for call in stage.dispatched[-1].calls] == [1], "the estimate may be wrong"


def test_the_next_tick_is_due_before_the_gateway_sweeps_or_settles_the_pace() -> None:
    core = Stage().core
    assert core.tick(0.0) == 0.5, "silent robots are looked for every 0.5 s"
    assert core.tick(0.7) == 1.0, "the window that began at 0 s ends"
    assert core.tick(1.0) == 1.2


def test_the_next_batch_is_sent_as_much_earlier_as_its_pictures_take_to_decode() -> None:
    stage = experienced("r1", "r2", "r3")
    stage.decode_ms = 20.0
    for number in range(40):  # until it has learned
        stage.send("r1", 100 + number, budget_ms=5000)
        stage.finish("p1", inference_ms=50.0)
    stage.dispatched.clear()
    for number, robot in enumerate(("r1", "r2")):
        stage.send(robot, 200 + number, budget_ms=5000)
    stage.wait(0.027)
    stage.send("r2", 300, budget_ms=5000)
    assert [call.request_id for dispatch in stage.dispatched for call in dispatch.calls] == [200]
    stage.wait(0.002)  # 21 ms before the first ends
    assert [call.request_id for dispatch in stage.dispatched for call in dispatch.calls] == [200, 300], (
        "until then the freshest observation replaces the one that waits"
    )


def test_pictures_that_are_said_to_take_for_ever_do_not_move_the_next_batch_for_ever() -> None:
    stage = experienced("r1", "r2")
    stage.decode_ms = 1e6
    for number in range(5):
        stage.send("r1", 100 + number, budget_ms=5000)
        stage.finish("p1", inference_ms=5000.0)
    worker = stage.core.pool.get("p1")
    assert worker is not None and worker.lead_s < 1.0


@pytest.mark.plain
@pytest.mark.parametrize("then", ["request", "task ends", "bye", "tick"])
def test_an_answer_leaves_before_its_batch_is_learned_from_which_is_once_and_before_anything_else(
    then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage().open("r1")
    stage.send("r1", 1)
    ranking, lane = stage.core._dispatcher.ranking, stage.core._dispatcher.lanes["policy"]
    done: list[str] = []

    def noted(owner: Any, name: str) -> None:
        plain = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            done.append(name)
            return plain(*given, **named)

        monkeypatch.setattr(owner, name, call)

    noted(lane, "ran")
    for name in ("executed", "arrived", "task_ends", "forget"):
        noted(ranking, name)
    [batch] = stage.held.pop("p1")
    answer = m.Executed(batch.batch_id, [batch.calls[0].ticket], 10.0, [("", "")], [b"output"])
    stage.core.on_executed(stage.now_s, "p1", answer)
    assert [type(action) for action in stage.core.actions()] == [Reply] and not done
    if then == "request":
        frames = codec.encode(request(2))
        stage.core.on_request(stage.now_s, b"r1", codec.read_header(frames), frames)
    elif then != "tick":
        said = m.Bye() if then == "bye" else m.TaskEnds(1, "done")
        stage.core.on_robot(stage.now_s, b"r1", said)
    else:
        stage.core.tick(stage.now_s)
    follows = {"request": ["arrived"], "task ends": ["task_ends"], "bye": ["forget"], "tick": []}[then]
    assert done == ["ran", "executed", *follows]
    stage.wait(2.0)
    assert done.count("ran") == done.count("executed") == 1
