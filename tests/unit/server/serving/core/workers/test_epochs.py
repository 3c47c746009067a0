"""Which schedule a worker was started for: one of an older schedule than its replica counts for nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_server.plan.admission import NoAdmission
from rosa_server.plan.placement import Placement, Replica
from rosa_server.serving.core.workers.epochs import OLD_EPOCH
from tests.examples import examples
from tests.unit.server.serving.core.planned import PLACEMENT, WORKERS, Door, full, planned
from tests.unit.server.serving.core.stage import Stage

GPU3 = Replica("gpu3", "policy", "gpu3", batch=2, deadline_aware=False)
ROUTES = dict(PLACEMENT.routes or {})
WITH = replace(PLACEMENT, replicas={**PLACEMENT.replicas, "gpu3": GPU3})


def adopt(stage: Stage, placement: Placement) -> int:
    stage.core.adopt(stage.now_s, placement, NoAdmission())
    stage.settle()
    return stage.core.router.placement.epoch


def refused(stage: Stage) -> list[tuple[str, str, int, int]]:
    """Worker, what it said, its epoch, and the one that it would need."""
    found = [note.fields for note in stage.notes if note.event == OLD_EPOCH]
    return [(one["worker"], one["what"], one["epoch"], one["expected"]) for one in found]


def test_the_epoch_rises_with_each_schedule_and_never_falls() -> None:
    stage = planned()
    assert stage.core.router.placement.epoch == 0
    assert [adopt(stage, one) for one in (WITH, PLACEMENT, WITH)] == [1, 2, 3]
    assert adopt(stage, replace(PLACEMENT, epoch=9)) == 9
    assert adopt(stage, replace(PLACEMENT, epoch=4)) == 10


def test_admission_changes_the_schedule_that_runs_and_begins_no_epoch() -> None:
    door = Door()
    stage = full(door)
    stage.core.adopt(stage.now_s, PLACEMENT, door)
    assert stage.greet("r2").rates_hz  # type: ignore[union-attr]
    assert door.inside and stage.core.router.placement.epoch == 1
    stage.leave("r2")
    assert not door.inside and stage.core.router.placement.epoch == 1


def test_a_worker_whose_replica_stays_works_on_through_any_number_of_epochs() -> None:
    stage = full()
    stage.send("r0", 1, budget_ms=50_000)
    for _ in range(5):
        adopt(stage, WITH)
        adopt(stage, PLACEMENT)
    stage.finish("gpu0/0.1")
    assert stage.statuses() == [("r0", 1, "ok")]
    stage.lose("gpu0/0.1")
    stage.worker("gpu0/0.2", epoch=0)
    stage.send("r0", 2, budget_ms=50_000)
    stage.finish("gpu0/0.2")
    assert stage.statuses()[1:] == [("r0", 2, "ok")] and refused(stage) == []


def test_a_worker_that_was_away_while_its_replica_left_and_came_back_is_refused_and_ended() -> None:
    stage = full()
    adopt(stage, WITH)
    stage.worker("gpu3/0.1")
    stage.lose("gpu3/0.1")  # cut off
    adopt(stage, PLACEMENT)
    adopt(stage, WITH)
    stage.worker("gpu3/0.1", epoch=1)
    assert stage.core.warm_workers()["gpu3"] == 0
    assert refused(stage) == [("gpu3/0.1", "ready", 1, 3)]
    assert [kill.worker_id for kill in stage.killed] == ["gpu3/0.1"]
    assert OLD_EPOCH in stage.killed[0].reason
    stage.worker("gpu3/0.2")
    assert stage.core.warm_workers()["gpu3"] == 1


@pytest.mark.parametrize("changes", [{"model": "guard"}, {"engine": "other"}, {"server": "gpu9"}])
def test_a_replica_that_is_another_one_now_needs_a_worker_of_its_own_epoch(changes: dict[str, Any]) -> None:
    stage = full()
    adopt(stage, WITH)
    other = replace(GPU3, **changes)
    adopt(stage, replace(WITH, replicas={**WITH.replicas, "gpu3": other}))
    stage.worker("gpu3/0.1", other.model, epoch=1)
    assert refused(stage) == [("gpu3/0.1", "ready", 1, 2)]


def test_an_answer_of_an_older_epoch_is_dropped_and_the_call_stays_with_the_worker_that_holds_it() -> None:
    """As after a restart, when names and numbers begin again, and a worker of before answers the same batch."""
    stage = planned(placement=replace(PLACEMENT, epoch=4))
    for robot, task in (("r0", "pick"), ("s0", "sort")):
        stage.greet(robot, task)
    stage.send("r0", 1, budget_ms=50_000)
    before = list(stage.held["gpu0/0.1"])
    stage.finish("gpu0/0.1", epoch=3)
    assert stage.statuses() == [] and refused(stage) == [("gpu0/0.1", "answer", 3, 4)]
    assert stage.killed == [], "it broke no protocol: its answer is late"
    stage.held["gpu0/0.1"] = before
    stage.finish("gpu0/0.1")
    assert stage.statuses() == [("r0", 1, "ok")]


def test_an_answer_of_a_worker_that_the_schedule_has_no_place_for_any_more_is_counted_and_nobody_is_ended() -> (
    None
):
    stage = full()
    adopt(stage, WITH)
    stage.worker("gpu3/0.1")
    adopt(stage, replace(WITH, routes={**ROUTES, "sort/0": {"system1": "gpu3"}}))
    stage.send("s0", 1, budget_ms=50_000)
    (held,) = stage.held["gpu3/0.1"]
    adopt(stage, PLACEMENT)
    ended = len(stage.killed)
    stage.held["gpu3/0.1"] = [held]
    stage.finish("gpu3/0.1", epoch=1)
    assert refused(stage) == [("gpu3/0.1", "answer", 1, 3)] and len(stage.killed) == ended
    stage.finish("gpu1/0.1")
    assert stage.statuses() == [("s0", 1, "ok")], "its robot has the answer of the server that has it now"


# -- whatever happens --------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["adopt", "adopt", "start", "cut", "back", "send", "answer", "late"]),
        st.integers(0, 5),
    ),
    min_size=20,
    max_size=60,
)


@pytest.mark.prove
@settings(max_examples=examples(60, 3000), deadline=None)
@given(steps=STEPS)
def test_no_worker_of_an_older_epoch_serves_and_every_request_is_answered_once(
    steps: list[tuple[str, int]],
) -> None:
    """Schedules with and without two of the servers, workers that are cut off and come back with what they had."""
    stage = full()
    names = ["gpu3", "spare/guard", "gpu0"]  # two that schedules leave out, and one that is in each
    since = dict.fromkeys(PLACEMENT.replicas, 0)  # a book of our own
    lives = Counter(dict.fromkeys(names, 1))
    away: dict[str, int] = {}  # cut off -> the epoch in which it was started
    kept: dict[str, list[Any]] = {}  # what they were given
    sent = 0
    for step, number in steps:
        name = names[number % len(names)]
        pool = stage.core.pool
        if step == "adopt":
            before = stage.core.router.placement
            replicas = dict(WITH.replicas) if number & 1 else dict(PLACEMENT.replicas)
            if number & 2:
                del replicas["spare/guard"]
            standbys = {
                one: tuple(spare for spare in spares if spare in replicas)
                for one, spares in PLACEMENT.standbys.items()
            }
            epoch = adopt(stage, replace(PLACEMENT, replicas=replicas, standbys=standbys))
            assert epoch == before.epoch + 1
            since = {one: since[one] if one in before.replicas else epoch for one in replicas}
        elif step == "start" and name in since and not pool.serves(name):
            lives[name] += 1
            stage.worker(f"{name}/0.{lives[name]}", {**WORKERS, "gpu3": "policy"}[name])
            assert pool.serves(name)
        elif step == "cut" and (here := [one for one in pool if one.replica == name]):
            away[here[0].worker_id] = here[0].epoch
            kept[here[0].worker_id] = stage.held.get(here[0].worker_id, [])
            stage.lose(here[0].worker_id)
        elif step == "back" and (gone := [one for one in away if one.rpartition("/")[0] == name]):
            started, replica = away.pop(gone[0]), gone[0].rpartition("/")[0]
            if not pool.serves(replica):
                stage.worker(gone[0], {**WORKERS, "gpu3": "policy"}[replica], epoch=started)
                counts = replica in since and started >= since[replica]
                assert (pool.get(gone[0]) is not None) == counts
        elif step == "send":
            sent += 1
            robot = ("r0", "r1", "s0")[number % 3]
            stage.send(robot, sent, budget_ms=(50.0, 50_000.0)[number & 1])
        elif step == "answer" and (busy := [one for one in pool if stage.held.get(one.worker_id)]):
            stage.finish(busy[number % len(busy)].worker_id)
        elif step == "late" and (
            late := [one for one, held in kept.items() if held and pool.get(one) is None]
        ):
            worker = late[number % len(late)]
            if away.get(worker, 0) < since.get(worker.rpartition("/")[0], stage.core.router.placement.epoch):
                answers, ends = len(stage.answers), len(stage.killed)
                stage.held[worker] = [kept[worker].pop()]
                stage.finish(worker, epoch=away.get(worker, 0))
                assert (len(stage.answers), len(stage.killed)) == (answers, ends), "it changes nothing"
        stage.wait(0.01)
    stage.wait(60.0)
    while busy := [one for one in stage.core.pool if stage.held.get(one.worker_id)]:
        stage.finish(busy[0].worker_id)
    counts = Counter(answer.call.request_id for answer in stage.answers)
    assert max(counts.values(), default=1) == 1
    assert len(counts) == sent - sum(1 for refused in stage.refusals() if refused == "hello_required")
