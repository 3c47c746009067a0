"""A lane owns its queue, its policy and when it is due; nobody else writes that."""

from __future__ import annotations

import math

import pytest

from rosa_contract.wire import messages as m
from rosa_server.plan.placement import Replica
from rosa_server.serving.core.dispatch.cloud import CloudLane
from rosa_server.serving.core.dispatch.dispatcher import Dispatcher
from rosa_server.serving.core.dispatch.lane import Lane
from rosa_server.serving.core.workers.worker_state import ContinuousState
from tests.unit.server.serving.core.stage import Stage


def waiting() -> tuple[Stage, Lane]:
    """A robot's call waits for a worker that runs another one."""
    stage = Stage().open("r1", "r2")
    lane = stage.core._dispatcher.lanes["policy"]
    stage.send("r1", 1)
    stage.send("r2", 1)
    return stage, lane


def test_only_the_lane_says_when_it_is_due() -> None:
    _, lane = waiting()
    with pytest.raises(AttributeError):
        lane.due_s = 1.0  # type: ignore[misc]


def test_an_empty_lane_is_never_due_and_one_that_was_woken_is_due_now() -> None:
    stage = Stage().open("r1")
    lane = stage.core._dispatcher.lanes["policy"]
    assert lane.due_s == math.inf
    lane.wake(stage.now_s)
    assert lane.due_s == stage.now_s
    stage.settle()
    assert lane.due_s == math.inf, "nothing waits"


def test_a_lane_is_due_again_at_the_latest_when_a_call_expires() -> None:
    stage, lane = waiting()
    assert len(lane.queue) == 1
    assert stage.now_s < lane.due_s <= lane.queue.next_expiry_s
    stage.now_s = lane.queue.next_expiry_s
    stage.settle()
    assert not lane.queue and lane.due_s == math.inf


def test_lanes_overflow_only_where_a_replica_is_a_link_away() -> None:
    edge, cloud = Replica("e", "policy", "gpu0"), Replica("c", "policy", "far", link_ms=20.0)
    assert [type(lane) for lane in Dispatcher([edge], 8).lanes.values()] == [Lane]
    assert {type(lane) for lane in Dispatcher([edge, cloud], 8).lanes.values()} == {CloudLane}


def test_a_worker_that_has_only_some_batch_sizes_tells_its_lane() -> None:
    stage = Stage()
    profile = stage.core._dispatcher.lanes["policy"].batcher.profile
    assert profile.runs_as(3) == 3
    stage.core.on_ready(stage.now_s, m.WorkerReady("p1", "policy", 8, batch_sizes=(1, 4, 8)))
    assert profile.runs_as(3) == 4


def test_a_worker_whose_model_batches_continuously_takes_one_call_at_a_time_beside_others() -> None:
    stage = Stage()
    stage.core.on_ready(stage.now_s, m.WorkerReady("g1", "guard", 4, {}, {}, 3))
    (worker,) = stage.core.pool
    assert isinstance(worker, ContinuousState)
    assert (worker.largest, worker.beside, worker.credits) == (1, 0, 3)
