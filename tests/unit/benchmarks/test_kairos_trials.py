"""What is tried beside `remaining_work` does what it is called, and a claim out of reach is told from a miss."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from benchmarks.scheduling.kairos_report import Aims
from benchmarks.scheduling.kairos_runs import EDGE
from benchmarks.scheduling.kairos_trials import (
    TRIALS,
    WIDE,
    Drains,
    GittinsIndex,
    HoldsBack,
    NoKinds,
    OfLikeRank,
    index_of,
)
from rosa_contract.config.gateway import REMAINING_WORK
from rosa_server.serving.core.dispatch.lane import RequestQueue
from rosa_server.serving.core.queueing.actions import Dispatch
from rosa_server.serving.core.queueing.lengths import TaskLengths
from rosa_server.timing.batches import Batcher, BatchProfile, Run
from rosa_sim.kairos.replay import Replay
from rosa_sim.kairos.traces import WORKLOADS, Task, tasks_of


def test_the_gittins_index_is_the_least_work_for_each_task_that_it_ends() -> None:
    assert index_of(np.array([9.0, 1.0]), np.ones(2)) == pytest.approx(2.0), "one second ends half of them"
    assert index_of(np.array([9.0, 8.0]), np.ones(2)) == pytest.approx(8.5), "to the end: the mean"
    random = Random(0)
    for _ in range(50):
        left = [random.uniform(0.1, 9.0) for _ in range(random.randint(1, 6))]
        weights = [random.uniform(0.1, 2.0) for _ in left]
        pairs = list(zip(left, weights, strict=True))
        tried = [
            sum(w * min(s, limit) for s, w in pairs) / sum(w for s, w in pairs if s <= limit)
            for limit in left
        ]
        assert index_of(np.array(left), np.array(weights)) == pytest.approx(min(tried))


def test_it_hears_of_every_task_that_ends() -> None:
    lengths = TaskLengths()
    for acted_s in (1.0, 1.0, 9.0, 9.0, 9.0):
        lengths.ended("pick", acted_s, 2)
    index, blind = GittinsIndex(lengths), NoKinds(lengths)
    assert len(index) == len(blind) == 5
    before_s = index.left_s("pick", 0.0)
    assert before_s == pytest.approx(index_of(np.array([1.0, 1.0, 9.0, 9.0, 9.0]), np.ones(5)))
    for _ in range(20):
        lengths.ended("pick", 1.0, 2)
    assert index.left_s("pick", 0.0) < before_s
    assert blind.left_s("pick", 0.0) == blind.left_s("place", 0.0) == lengths.left_s("", 0.0)


def test_few_waiting_calls_run_one_after_another_where_two_take_almost_twice_as_long() -> None:
    queue, deadlines_s = RequestQueue(20), [1000.0] * 20
    costly = Drains(Batcher(2, BatchProfile(EDGE.profile)), queue)
    assert costly.decide(0.0, deadlines_s[:2], False) == Run(1)
    assert costly.decide(0.0, deadlines_s, False) == Run(2)
    cheap = Drains(Batcher(2, BatchProfile({1: 100.0, 2: 140.0})), queue)
    assert cheap.decide(0.0, deadlines_s[:2], False) == Run(2)


class Sizes(Replay):
    """Remembers the sizes of batches."""

    sizes: list[int]

    def _dispatch(self, now_s: float, batch: Dispatch) -> None:
        self.sizes.append(len(batch.calls))
        super()._dispatch(now_s, batch)


def played(kind: type[OfLikeRank] | type[HoldsBack] | None, arrivals: list[tuple[float, Task]]) -> list[int]:
    known = {"work: short": [[0.5, 1]] * 30, "work: long": [[50.0, 100]] * 30}
    replay = Sizes(REMAINING_WORK, WIDE, known=known)
    replay.sizes = []
    lane = replay.core._dispatcher.lanes["policy"]
    if kind is not None:
        lane.batcher = kind(lane.batcher, lane.queue)
    replay.arriving(arrivals)
    return replay.sizes


def test_a_long_task_does_not_make_a_short_ones_batch_longer() -> None:
    """The first call tells how long the server takes for a round."""
    short, long = Task((0.5,), "short"), Task((0.5,), "long")
    arrivals = [(0.0, short), *[(5.0, long)] * 2, *[(5.0, short)] * 3]
    assert played(None, arrivals) == [1, 5]
    assert played(OfLikeRank, arrivals) == [1, 3, 2]


def test_a_server_waits_for_a_fuller_batch_and_no_longer_than_it_may() -> None:
    """Once it knows that others are there: their second calls come one after another."""

    def three(apart_s: float) -> list[tuple[float, Task]]:
        return [(0.0, Task((0.5 + number * apart_s, 0.5), "short")) for number in range(3)]

    assert played(None, three(0.02)) == [3, 1, 2]
    assert played(HoldsBack, three(0.02)) == [3, 3]
    assert played(HoldsBack, three(0.2)) == [3, 1, 1, 1]


@pytest.mark.parametrize("name", TRIALS)
def test_every_trial_ends_every_task(name: str) -> None:
    tasks = tasks_of(WORKLOADS[0], 20, True, 0)
    found = TRIALS[name].replay(WORKLOADS[0], True, False).back_to_back(tasks, 12)
    assert len(found.latencies_s) == 20


def test_an_aim_says_what_no_schedule_exceeds() -> None:
    aims = Aims()
    aims.within("less by", [37.9], 51.9, 67.9, highest=[49.1])
    aims.within("less by", [35.1, 36.0], 41.0, 42.8, highest=[50.4, 50.5])
    unreachable, missed = aims.found
    assert (unreachable["holds"], unreachable["reachable"]) == (False, False)
    assert unreachable["value"] == "37.9 %, below the range; no schedule: more than 49.1 %"
    assert (missed["holds"], missed["reachable"]) == (False, True)
