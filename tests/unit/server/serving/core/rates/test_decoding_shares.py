"""A robot pays for what its pictures take of a worker's time."""

from __future__ import annotations

import itertools

from rosa_contract.wire import messages as m
from rosa_server.serving.core.rates.control import DECODING_SHARE, RECOVERS_IN_S, DecodeBudget
from tests.unit.server.serving.core.stage import Stage


def test_who_keeps_to_its_share_is_never_over() -> None:
    budget = DecodeBudget()
    for step in range(1000):
        assert not budget.charge(step * 0.1, "r1", 0.1 * DECODING_SHARE)
        assert not budget.over(step * 0.1, "r1")


def test_who_takes_more_is_over_and_that_is_said_once() -> None:
    budget = DecodeBudget()
    said = [budget.charge(step * 0.1, "r1", 0.1) for step in range(100)]
    assert said.count(True) == 1
    assert budget.over(10.0, "r1") and not budget.over(10.0, "r2")


def test_it_recovers_within_ten_seconds_however_much_it_took() -> None:
    budget = DecodeBudget()
    budget.charge(0.0, "r1", 1e6)
    assert budget.over(RECOVERS_IN_S - 0.1, "r1")
    assert not budget.over(RECOVERS_IN_S + 0.1, "r1")


def test_nobody_is_remembered_who_owes_nothing() -> None:
    budget = DecodeBudget()
    for robot in range(1000):
        budget.charge(0.0, f"r{robot}", 0.01)
    budget.sweep(100.0)
    assert budget._debts == {}


def finish(stage: Stage, decode_ms: float) -> None:
    """The worker `p1` answers its batch; each picture took so long."""
    batch = stage.held["p1"].pop(0)
    tickets = [call.ticket for call in batch.calls]
    errors, outputs = [("", "")] * len(tickets), [b"output"] * len(tickets)
    times = [decode_ms if call.robot_id == "bomber" else 1.0 for call in batch.calls]
    done = m.Executed(batch.batch_id, tickets, 10.0, errors, outputs, decode_ms=times)
    stage.core.on_executed(stage.now_s, "p1", done)
    stage.settle()


def test_a_robot_with_dear_pictures_runs_when_nothing_else_waits() -> None:
    stage = Stage().open("bomber", "honest")
    numbers = itertools.count()
    for _ in range(3):
        stage.send("bomber", next(numbers))
        finish(stage, decode_ms=400.0)
        stage.wait(0.4)
    assert [(note.event, note.fields["robot"]) for note in stage.notes] == [("decoding_over_share", "bomber")]
    stage.worker("p1", max_batch=1)
    stage.send("honest", next(numbers))  # runs
    stage.send("bomber", next(numbers))
    stage.send("honest", next(numbers))
    waiting = stage.core.queues
    stage.held["p1"] = stage.held["p1"][-1:]
    finish(stage, 1.0)
    ran = [call.robot_id for batch in stage.dispatched for call in batch.calls]
    assert ran[-2:] == ["honest", "honest"], (ran, waiting)
    finish(stage, 1.0)
    assert stage.dispatched[-1].calls[0].robot_id == "bomber", "it is late, not refused"
