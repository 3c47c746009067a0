"""No task starves under `remaining_work`: who may go before whom is bounded, and the longest task still ends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_contract.config.gateway import REMAINING_WORK
from rosa_server.serving.core.queueing.actions import Dispatch
from rosa_server.serving.core.queueing.order import RemainingWork
from rosa_sim.kairos.replay import Replay, Run, Tier
from rosa_sim.kairos.traces import Task

EDGE = Tier({1: 100.0, 2: 180.0}, 2)
KNOWN = {"work: ": [[one / 4, 2] for one in range(1, 40)]}
ROUNDS = st.lists(st.floats(0.05, 2.0), min_size=1, max_size=12)


class Watched(Replay):
    """Looks at every batch: what was taken, and what went on waiting."""

    def __init__(self, weight: float) -> None:
        super().__init__(REMAINING_WORK, EDGE, settings=f"order_age_weight: {weight}", known=KNOWN)
        self.weight, self.compared = weight, 0

    def _dispatch(self, now_s: float, batch: Dispatch) -> None:
        queue = self.core.queues["policy"]
        order = queue.ranking.order
        assert isinstance(order, RemainingWork)
        for waiting in queue.waiting():
            passed = queue.ranking.task(waiting.connection)
            assert passed is not None
            reach_s = order.work_s(passed) / self.weight
            for call in batch.calls:
                taken = queue.ranking.task(call.connection)
                assert taken is not None
                self.compared += 1
                assert taken.began_s <= passed.began_s + reach_s + 1e-6, "it began too late to go before"
        super()._dispatch(now_s, batch)


@settings(max_examples=40)
@given(
    tasks=st.lists(st.tuples(st.floats(0.0, 3.0), ROUNDS), min_size=2, max_size=25),
    weight=st.floats(0.01, 0.5),
    robots=st.integers(0, 6),
)
def test_no_task_goes_before_one_that_began_earlier_by_more_than_its_work_over_the_age_weight(
    tasks: list[tuple[float, list[float]]], weight: float, robots: int
) -> None:
    replay, now_s, arrivals = Watched(weight), 0.0, []
    for gap_s, executions_s in tasks:
        now_s += gap_s
        arrivals.append((now_s, Task(tuple(executions_s))))
    if robots:
        outcome = replay.back_to_back([task for _, task in arrivals], robots)
    else:
        outcome = replay.arriving(arrivals)
    assert len(outcome.latencies_s) == len(tasks)


def test_the_bound_is_compared_with_something() -> None:
    replay = Watched(0.05)
    replay.arriving([(0.1 * number, Task((0.2,) * 8)) for number in range(30)])
    assert replay.compared > 100


class Ending(Replay):
    """Remembers how long the longest task took, and whether others came after it had ended."""

    long_s, began_later = 0.0, 0

    def _ends(self, now_s: float, run: Run) -> None:
        if run.task.kind == "long":
            self.long_s = now_s - run.began_s
        super()._ends(now_s, run)

    def _comes(self, now_s: float, task: Task) -> None:
        self.began_later += self.long_s > 0
        super()._comes(now_s, task)


@pytest.mark.slow
def test_a_task_of_a_thousand_rounds_ends_among_short_ones_that_would_fill_the_server() -> None:
    """With it there is more to do than the server carries. The long task is owed `order_age_weight` of a server."""
    weight, work_s, load = 0.25, 1000 * 0.1, 0.9
    replay = Ending(REMAINING_WORK, EDGE, settings=f"order_age_weight: {weight}")
    rate_hz = load * 2 / 0.18 / 2
    short = [(number / rate_hz, Task((0.1, 0.1))) for number in range(round(1.3 * work_s / weight * rate_hz))]
    long = Task((0.001,) * 1000, "long")
    outcome = replay.arriving(sorted([*short, (20.0, long)], key=lambda one: one[0]))
    assert len(outcome.latencies_s) == len(short) + 1
    assert replay.began_later > 10, "it ended while others still came"
    assert 100.0 < replay.long_s <= work_s / weight + 20.0
