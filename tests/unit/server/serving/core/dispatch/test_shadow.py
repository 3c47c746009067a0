"""A worker in the shadow answers copies of calls; whatever it does, no robot and no other worker notices."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_server.serving.core.queueing.actions import Action, Dispatch, Reply
from rosa_server.serving.core.workers.shadowing import Shadow
from tests.unit.server.serving.core.planned import full
from tests.unit.server.serving.core.stage import Stage


def output(value: float, verdict: str = "") -> bytes:
    ramp = np.arange(8, dtype=np.float32).reshape(4, 2)
    return codec.encode_output(m.Output({"actions": ramp + np.float32(value)}, verdict))


def answer(stage: Stage, worker: str, frame: bytes, cause: str = "") -> None:
    """The worker answers the oldest batch that it holds."""
    batch = stage.held[worker].pop(0)
    tickets = [call.ticket for call in batch.calls]
    errors = [(cause, cause)] * len(tickets)
    stage.core.on_executed(
        stage.now_s, worker, m.Executed(batch.batch_id, tickets, 10.0, errors, [frame] * len(tickets))
    )
    stage.settle()


OLD, NEW = "policy/0.1", "policy/0.2"


def shadowed() -> tuple[Stage, Shadow]:
    stage = Stage()
    stage.worker(OLD)
    stage.worker("g1", "guard")
    for robot in ("r1", "r2"):
        stage.greet(robot)
    shadow = stage.core.shadow(NEW, "policy", 1.0)
    stage.worker(NEW)
    return stage, shadow


def test_a_copy_is_given_when_its_call_is_answered_and_its_answer_is_laid_beside_and_dropped() -> None:
    stage, shadow = shadowed()
    stage.send("r1", 7, budget_ms=5000)
    assert not stage.held.get(NEW), "the robot's call comes first"
    stage.wait(0.05)
    answer(stage, OLD, output(0.0))
    (copy,) = stage.held[NEW][0].calls
    assert copy.robot_id == "r1" and copy.frames is stage.answers[0].call.frames
    stage.wait(0.02)
    answer(stage, NEW, output(1.0))
    assert stage.statuses() == [("r1", 7, "ok")], "nobody hears of it"
    assert (shadow.new.answers, shadow.new.failed, shadow.new.late) == (1, 0, 0)
    assert shadow.likeness.actions == 1
    # Steps 0, 2, 4, 6 in the one column and 1, 3, 5, 7 in the other: a variance of 5 in each.
    assert shadow.likeness.distance == pytest.approx(1 / 5**0.5)
    assert stage.core.warm_workers()["policy"] == 1, "it counts for nobody"


def test_it_waits_until_the_queue_is_empty_and_what_is_late_by_then_is_dropped() -> None:
    stage, shadow = shadowed()
    stage.send("r1", 1, budget_ms=1000)
    for number in range(2, 9):
        stage.send("r2", number, budget_ms=1000)
        stage.wait(0.2)
        answer(stage, OLD, output(0.0))
        assert not stage.held.get(NEW), "another call runs"
    assert shadow.dropped == 1 and shadow.passed_over > 0
    answer(stage, OLD, output(0.0))
    assert len(stage.held[NEW][0].calls) == 1, "now nobody calls"


def test_only_robots_of_the_share_are_copied_and_at_least_one() -> None:
    names = [f"arm{i}" for i in range(200)]
    some = Shadow("w", "policy", 0.25)
    chosen = [name for name in names if some.chosen(name)]
    assert chosen[0] == "arm0" and 25 <= len(chosen) <= 80
    assert [name for name in names if some.chosen(name)] == chosen, "always the same ones"
    few = Shadow("w", "policy", 1e-9)
    assert [name for name in names if few.chosen(name)] == ["arm0"]


def test_answers_that_fail_or_have_another_shape_count_as_failed() -> None:
    stage, shadow = shadowed()
    wrong = codec.encode_output(m.Output({"actions": np.zeros((4, 3), np.float32)}))
    for number, (frame, cause) in enumerate([(b"", "model_error"), (wrong, ""), (b"no output", "")]):
        stage.send("r1", number, budget_ms=5000)
        answer(stage, OLD, output(0.0))
        answer(stage, NEW, frame, cause)
    assert (shadow.new.answers, shadow.new.failed, shadow.old.failed) == (3, 3, 0)


def test_verdicts_are_laid_side_by_side() -> None:
    stage = Stage().open("r1")
    shadow = stage.core.shadow("guard/0.2", "guard", 1.0)
    stage.worker("guard/0.2", "guard")
    for number, verdict in enumerate(("safe", "safe", "unsafe")):
        stage.send("r1", number, "safety", budget_ms=5000)
        answer(stage, "g1", codec.encode_output(m.Output({}, "safe")))
        answer(stage, "guard/0.2", codec.encode_output(m.Output({}, verdict)))
    assert (shadow.likeness.verdicts, shadow.likeness.other_verdicts) == (3, 1)


def test_an_answer_is_late_by_the_time_that_it_would_have_taken_in_the_place_of_the_other() -> None:
    stage, shadow = shadowed()
    stage.send("r1", 1, budget_ms=300)
    stage.wait(0.25)
    answer(stage, OLD, output(0.0))
    stage.wait(0.1)  # beyond the call's own deadline, not beyond the copy's
    answer(stage, NEW, output(0.0))
    assert (shadow.new.late, shadow.old.late) == (0, 0)
    stage.send("r1", 2, budget_ms=300)
    answer(stage, OLD, output(0.0))
    stage.wait(0.4)
    answer(stage, NEW, output(0.0))
    assert (shadow.new.late, shadow.old.late) == (1, 0)


def test_it_is_enlisted_when_it_has_answered_its_copies_and_serves_then() -> None:
    stage, _ = shadowed()
    stage.send("r1", 1, budget_ms=5000)
    answer(stage, OLD, output(0.0))
    assert not stage.core.enlist(stage.now_s, NEW), "it still runs a copy"
    stage.send("r1", 2, budget_ms=5000)
    answer(stage, OLD, output(0.0))
    answer(stage, NEW, output(0.0))
    assert not stage.held[NEW], "it gets no more copies"
    assert stage.core.enlist(stage.now_s, NEW)
    stage.lose(OLD)
    stage.send("r2", 3, budget_ms=5000)
    answer(stage, NEW, output(0.0))
    assert stage.statuses()[-1] == ("r2", 3, "ok") and not stage.killed


def test_a_shadow_that_ends_or_hangs_takes_no_call_along() -> None:
    for ends in (True, False):
        stage, _ = shadowed()
        stage.send("r1", 1, budget_ms=5000)
        answer(stage, OLD, output(0.0))
        assert stage.held[NEW]
        if ends:
            stage.lose(NEW)
        else:
            stage.wait(8.0)
            stage.core.on_robot(stage.now_s, b"r1", m.Ready("system1"))
            stage.wait(300.0)
            assert [kill.worker_id for kill in stage.killed] == [NEW]
        assert stage.statuses() == [("r1", 1, "ok")]
        assert stage.core.warm_workers()["policy"] == 1


def test_a_shadow_of_a_schedule_leaves_standbys_and_streams_alone() -> None:
    stage = full()
    stage.core.shadow("gpu0/0.2", "policy", 1.0)
    stage.worker("gpu0/0.2")
    assert not [note for note in stage.notes if note.event == "streams_moved"]
    stage.lose("gpu0/0.1")
    assert [note.fields["to"] for note in stage.notes if note.event == "streams_moved"] == ["spare/policy"]


def real(actions: Sequence[Action]) -> list[Any]:
    """What robots and workers hear of, without what the shadow is given."""
    told: list[Any] = []
    for one in actions:
        if isinstance(one, Dispatch) and one.worker_id != NEW:
            calls = [(call.robot_id, call.request_id) for call in one.calls]
            told.append(("dispatch", one.worker_id, one.buffer, one.size, calls))
        elif isinstance(one, Reply):
            told.append((one.call.robot_id, one.call.request_id, one.status, one.cause, one.ended_s))
        elif not isinstance(one, Dispatch):
            told.append(one)
    return told


def day(seed: int, with_shadow: bool) -> tuple[list[Any], int]:
    """A random day of four robots and two workers. Returns what was decided about real calls, and copies."""
    rng, decided, copies = random.Random(seed), list[Any](), 0
    stage = Stage(queue=3).open("r1", "r2", "r3", "r4")
    stage.worker("p2", max_batch=2)
    if with_shadow:
        stage.core.shadow(NEW, "policy", 0.8)
        stage.worker(NEW)
    for number in range(300):
        stage.now_s += rng.choice((0.0, 0.001, 0.02, 0.1))
        robot, budget_ms, act = f"r{rng.randint(1, 4)}", rng.choice((30.0, 200.0, 900.0)), rng.random()
        worker, ms = rng.choice(("p1", "p2")), rng.uniform(1.0, 40.0)
        if act < 0.45:
            stage.send(robot, number, budget_ms=budget_ms)
        elif act < 0.5:
            stage.cancel(robot, number - 1)
        elif stage.held.get(worker):
            stage.finish(worker, ms)
        decided += real(stage.settle())
        while with_shadow and stage.held.get(NEW):
            copies += len(stage.held[NEW][0].calls)
            answer(stage, NEW, output(0.0))
    log = [*real(stage.dispatched), *real(stage.answers), *decided]
    return [*log, *stage.said, *stage.killed, *stage.notes], copies


@pytest.mark.parametrize("seed", range(8))
def test_what_is_decided_about_real_calls_is_the_same_with_and_without_a_shadow(seed: int) -> None:
    without, none = day(seed, False)
    with_one, copies = day(seed, True)
    assert without == with_one
    assert none == 0 and copies > 10, "there was something to notice"
