"""Servers that are alike take calls from one queue; a model that batches continuously runs several calls at a time."""

from __future__ import annotations

from typing import Any

import pytest

from rosa_server.plan.placement import Placement, Replica
from tests.unit.server.serving.core.stage import IMAGES, STATE, Stage, codec, m, request

ROBOTS = tuple(f"r{index}" for index in range(6))


def placed(batch: int = 4, standby: bool = False, **changes: Any) -> Placement:
    """Two servers of the policy with one queue, the first six slots on the first of them, and a guard."""
    both = {name: Replica(name, "policy", name, batch=batch, pool="policies") for name in ("gpu0", "gpu1")}
    guard = Replica("gpu2", "guard", "gpu2", batch=64, **changes)
    replicas = {**both, "gpu2": guard}
    standbys = {}
    if standby:
        replicas["gpu3/policy"] = Replica("gpu3/policy", "policy", "gpu3", standby=True)
        standbys = dict.fromkeys(both, ("gpu3/policy",))
    slot = {"system1": "gpu0", "safety": "gpu2", "monitor": "gpu2"}
    return Placement(replicas, {f"pick/{n}": slot for n in range(len(ROBOTS))}, {}, standbys)


def staged(placement: Placement) -> Stage:
    stage = Stage(placement=placement)
    for replica in placement.replicas.values():
        come(stage, replica.id)
    for robot in ROBOTS:
        assert isinstance(stage.greet(robot), m.Welcome)
    return stage


def come(stage: Stage, replica: str, life: int = 1) -> None:
    placed = stage.core.router.placement.replicas[replica]
    needs = (IMAGES, STATE) if placed.model == "policy" else ({}, {})
    ready = m.WorkerReady(f"{replica}/0.{life}", placed.model, 64, *needs, placed.at_once or 1)
    stage.core.on_ready(stage.now_s, ready)
    stage.settle()


def took(stage: Stage) -> dict[str, int]:
    """Worker -> calls that it holds."""
    return {worker: sum(len(d.calls) for d in held) for worker, held in stage.held.items() if held}


def test_every_server_of_a_pool_runs_what_waits_wherever_a_robot_is_placed() -> None:
    stage = staged(placed(batch=1))
    stage.send("r0")
    stage.send("r1")
    assert took(stage) == {"gpu0/0.1": 1, "gpu1/0.1": 1}


def test_warm_workers_are_counted_by_server_not_by_queue() -> None:
    stage = staged(placed(standby=True))
    stage.lose("gpu1/0.1")
    warm = {"gpu0": 1, "gpu1": 0, "gpu2": 1, "gpu3/policy": 1}
    assert stage.core.warm_workers() == warm, "a standby in a pool counts where it was placed"


def test_idle_servers_share_what_comes_at_once() -> None:
    stage = staged(placed(batch=4))
    for robot in ROBOTS[:4]:
        frames = codec.encode(request())
        stage.core.on_request(stage.now_s, robot.encode(), codec.read_header(frames), frames)
    stage.settle()
    assert took(stage) == {"gpu0/0.1": 2, "gpu1/0.1": 2}, "not all four on one"


def test_a_lost_server_shrinks_the_pool_and_nobody_is_refused() -> None:
    stage = staged(placed())
    stage.send("r0")
    busy = next(iter(took(stage)))
    stage.lose(busy)
    left = ({"gpu0/0.1", "gpu1/0.1"} - {busy}).pop()
    assert took(stage) == {left: 1}, "what it held runs elsewhere"
    assert isinstance(stage.greet("r0"), m.Welcome)
    stage.finish(left)
    assert stage.statuses() == [("r0", 0, "ok")]


def test_a_pool_without_a_server_answers_when_the_budget_is_spent() -> None:
    stage = staged(placed())
    for worker in ("gpu0/0.1", "gpu1/0.1"):
        stage.lose(worker)
    stage.send("r0", budget_ms=100)
    stage.wait(0.2)
    assert stage.statuses() == [("r0", 0, "unavailable")]


def test_a_standby_joins_the_pool_of_a_failed_server_and_leaves_it_again() -> None:
    stage = staged(placed(batch=1, standby=True))
    stage.lose("gpu0/0.1")
    stage.send("r0")
    stage.send("r1")
    assert took(stage) == {"gpu1/0.1": 1, "gpu3/policy/0.1": 1}
    come(stage, "gpu0", life=2)
    for worker in list(took(stage)):
        stage.finish(worker)
    stage.send("r0", 1)
    stage.send("r1", 1)
    assert took(stage) == {"gpu0/0.2": 1, "gpu1/0.1": 1}
    assert stage.count() == {"ok": 2}


def test_calls_that_run_at_a_time_are_given_and_answered_one_by_one_within_the_credit() -> None:
    stage = staged(placed(at_once=3))
    for robot in ROBOTS[:4]:
        stage.send(robot, component="safety", budget_ms=500)
    assert [len(dispatch.calls) for dispatch in stage.dispatched] == [1, 1, 1]
    assert [dispatch.size for dispatch in stage.dispatched] == [1, 2, 3]
    assert len({dispatch.buffer for dispatch in stage.dispatched}) == 3, "each has its own memory"
    stage.finish("gpu2/0.1")
    assert len(stage.dispatched) == 4, "the next one runs as soon as one has ended"
    assert stage.statuses() == [("r0", 0, "ok")]


def test_a_call_that_would_be_late_beside_those_that_run_lets_others_go_first() -> None:
    stage = staged(placed(at_once=2, service_ms={1: 100.0, 2: 180.0}))
    for robot in ROBOTS[:2]:
        stage.send(robot, component="safety")
    stage.send("r2", component="safety", budget_ms=150)  # in time alone, and too late beside another one
    stage.send("r3", component="safety", budget_ms=400)
    stage.finish("gpu2/0.1", inference_ms=180.0)
    assert stage.dispatched[-1].calls[0].robot_id == "r3"
    stage.finish("gpu2/0.1", inference_ms=180.0)
    assert stage.dispatched[-1].calls[0].robot_id == "r3", "beside r3 it would be late, and r3 as well"
    stage.finish("gpu2/0.1", inference_ms=180.0)
    assert stage.dispatched[-1].calls[0].robot_id == "r2", "alone it is in time"


def test_what_is_late_in_any_case_runs_by_itself_when_nothing_else_does() -> None:
    """The estimate may be wrong; but it makes nobody else late."""
    stage = staged(placed(at_once=3, service_ms={1: 100.0, 2: 120.0, 4: 200.0}))
    stage.send("r0", component="safety")
    stage.send("r1", component="safety", budget_ms=50)
    stage.send("r2", component="safety", budget_ms=50)
    assert [dispatch.calls[0].robot_id for dispatch in stage.dispatched] == ["r0"]
    stage.finish("gpu2/0.1", inference_ms=100.0)
    assert [dispatch.calls[0].robot_id for dispatch in stage.dispatched] == ["r0", "r1"], "one of them"


def test_a_worker_that_cannot_do_that_gets_batches() -> None:
    stage = Stage(placement=placed(at_once=3))
    stage.core.on_ready(stage.now_s, m.WorkerReady("gpu2/0.1", "guard", 64, {}, {}))
    assert stage.core.pool.of("gpu2")[0].credits == 2


def test_more_than_its_credit_is_refused() -> None:
    stage = staged(placed(at_once=2))
    stage.send("r0", component="safety")
    stage.send("r1", component="safety")
    worker = stage.core.pool.of("gpu2")[0]
    call = worker.batches[min(worker.batches)].calls[0]
    with pytest.raises(RuntimeError, match="credit"):
        stage.core.pool.give(worker, [call], stage.now_s, None)
