"""A worker that retires gets nothing more and finishes what it has; its streams go on with others."""

from __future__ import annotations

from tests.unit.server.serving.core.planned import full, ran_at
from tests.unit.server.serving.core.stage import Stage


def test_what_a_retiring_server_runs_it_answers_and_what_waits_its_standby_runs() -> None:
    stage = full()
    stage.send("r0", 1, budget_ms=5000)
    stage.send("r1", 2, budget_ms=5000)  # waits behind it
    stage.core.retire(stage.now_s, "gpu0/0.1", "drain")
    stage.settle()
    assert ran_at(stage) == {1: "gpu0", 2: "spare/policy"}
    stage.send("s0", 3, budget_ms=5000)
    assert ran_at(stage)[3] == "gpu1", "nobody else notices"
    for worker in ("gpu0/0.1", "spare/policy/0.1", "gpu1/0.1"):
        stage.finish(worker)
    assert stage.count() == {"ok": 3}
    worker = stage.core.pool.get("gpu0/0.1")
    assert worker is not None and not worker.batches
    stage.lose("gpu0/0.1")  # it has ended, as it was told to
    stage.send("r0", 4)
    assert ran_at(stage)[4] == "spare/policy"
    stage.worker("gpu0/0.2")
    stage.send("r1", 5)
    assert ran_at(stage)[5] == "gpu0", "its streams return"


def test_a_retiring_worker_that_dies_hands_over_what_it_ran() -> None:
    stage = full()
    stage.send("r0", 1, budget_ms=5000)
    stage.core.retire(stage.now_s, "gpu0/0.1", "drain")
    stage.core.retire(stage.now_s, "gpu0/0.1", "drain")  # said twice, done once
    stage.lose("gpu0/0.1")
    assert ran_at(stage) == {1: "spare/policy"}
    stage.finish("spare/policy/0.1")
    assert stage.count() == {"ok": 1}


def test_beside_a_retiring_worker_the_others_of_its_model_go_on_without_a_standby() -> None:
    stage = Stage().open("r1", "r2", "r3")
    stage.worker("p2")
    for number, robot in enumerate(("r1", "r2")):
        stage.send(robot, number, budget_ms=5000)
    assert {one.worker_id for one in stage.dispatched} == {"p1", "p2"}
    stage.core.retire(stage.now_s, "p1", "rollout")
    stage.send("r3", 3, budget_ms=5000)
    stage.finish("p1")
    stage.finish("p2")
    assert stage.dispatched[-1].worker_id == "p2" and not stage.held["p1"]
    assert not [note for note in stage.notes if note.event == "streams_moved"]
