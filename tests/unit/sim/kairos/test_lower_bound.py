"""The lower bounds: no schedule of small instances is below them, with every one tried, nor is any order's replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_contract.config.gateway import ORDERS
from rosa_sim.kairos.bound import Clairvoyant
from rosa_sim.kairos.lower_bound import (
    alone_s,
    answer_s,
    fleet_bound_s,
    open_bound_s,
    rounds_hz,
    shortest_first,
)
from rosa_sim.kairos.replay import Replay, Tier, poisson
from rosa_sim.kairos.traces import WORKLOADS, Task, tasks_of

EDGE = Tier({1: 100.0, 2: 180.0}, 2)
CLOUD = Tier({1: 50.0, 2: 90.0}, 2, link_s=0.1)
AHEAD_S = 0.1
LENGTHS = st.sampled_from((0.05, 0.1, 0.3, 1.0))
TASKS = st.lists(st.lists(LENGTHS, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3)


@dataclass(frozen=True)
class State:
    """One server and its robots. Of each task under way: how many rounds are answered, when it calls or has called, and
    until when it acts."""

    now_s: float
    running: tuple[tuple[int, int, float, float], ...]  # (task, rounds, calls at, acts until)
    listed: int  # tasks of the list that have begun
    total_s: float  # of the latencies that are known


class Search:
    """Every schedule of one server: at each instant each choice of waiting calls, and also none. A batch that begins
    between two events may begin at the earlier one without making anything later."""

    def __init__(self, arrivals: Sequence[tuple[float, Task]], listed: Sequence[Task] = ()) -> None:
        """`listed`: tasks that are taken in this order, one whenever another one ends."""
        self.tasks = [task for _, task in arrivals] + list(listed)
        self.began = len(arrivals)
        self.best_s = inf
        begun = tuple((index, 0, when, when) for index, (when, _) in enumerate(arrivals))
        self._look(State(0.0, begun, self.began, -sum(when for when, _ in arrivals)))

    @property
    def mean_s(self) -> float:
        return self.best_s / len(self.tasks)

    def _look(self, state: State) -> None:
        state = self._ended(state)
        if state.total_s + sum(run[3] for run in state.running) >= self.best_s:
            return  # each of them ends later than it acts now
        if not state.running:
            self.best_s = state.total_s
            return
        for after in self._after(state):
            self._look(after)

    def _ended(self, state: State) -> State:
        """Tasks whose last round was answered: each ends, in the order of time, and another one begins."""
        while True:
            over = [run for run in state.running if run[1] == len(self.tasks[run[0]].executions_s)]
            over = [run for run in over if state.listed == len(self.tasks) or run[3] <= state.now_s]
            if not over:
                return state
            first = min(over, key=lambda run: run[3])
            running = tuple(run for run in state.running if run is not first)
            total_s, listed, end_s = state.total_s + first[3], state.listed, first[3]
            if listed < len(self.tasks):
                running, total_s = (*running, (listed, 0, end_s, end_s)), total_s - end_s
                listed += 1
            state = State(state.now_s, running, listed, total_s)

    def _after(self, state: State) -> Iterator[State]:
        wants = [run for run in state.running if run[1] < len(self.tasks[run[0]].executions_s)]
        waiting = [run for run in wants if run[2] <= state.now_s + 1e-9]
        for size in range(1, EDGE.max_batch + 1):
            for chosen in combinations(waiting, size):
                ends_s = state.now_s + EDGE.profile[size] / 1000
                answered = tuple(
                    self._answered(run, ends_s) if run in chosen else run for run in state.running
                )
                yield replace(state, now_s=ends_s, running=answered)
        later = [run[2] for run in wants if run[2] > state.now_s + 1e-9]
        later += [run[3] for run in state.running if run not in wants and run[3] > state.now_s]
        if later:
            yield replace(state, now_s=min(later))

    def _answered(self, run: tuple[int, int, float, float], now_s: float) -> tuple[int, int, float, float]:
        index, rounds, _, acts_until_s = run
        acts_until_s = max(now_s, acts_until_s) + self.tasks[index].executions_s[rounds]
        return index, rounds + 1, max(now_s, acts_until_s - AHEAD_S), acts_until_s


def few_rounds(tasks: list[tuple[float, ...]]) -> bool:
    return sum(map(len, tasks)) <= 6


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(TASKS.filter(few_rounds), st.lists(st.sampled_from((0.0, 0.05, 0.4)), min_size=3, max_size=3))
def test_no_schedule_of_open_arrivals_is_below_the_bound(
    lengths: list[tuple[float, ...]], gaps_s: list[float]
) -> None:
    tasks = [Task(executions_s) for executions_s in lengths]
    arrivals = [(sum(gaps_s[: number + 1]), task) for number, task in enumerate(tasks)]
    bound_s, best_s = open_bound_s(arrivals, [EDGE], AHEAD_S), Search(arrivals).mean_s
    assert 0.5 * best_s <= bound_s <= best_s + 1e-9
    for order in (*ORDERS, Clairvoyant):
        found = Replay(order, EDGE, ahead_s=AHEAD_S).arriving(arrivals)
        assert best_s <= sum(found.latencies_s) / len(tasks) + 1e-3, "the search leaves schedules out"


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(LENGTHS, min_size=1, max_size=2).map(tuple), min_size=1, max_size=4).filter(few_rounds),
    st.integers(1, 3),
)
def test_no_schedule_of_robots_without_a_pause_is_below_the_bound(
    lengths: list[tuple[float, ...]], robots: int
) -> None:
    tasks = [Task(executions_s) for executions_s in lengths]
    robots = min(robots, len(tasks))
    first = [(number / robots, task) for number, task in enumerate(tasks[:robots])]
    bound_s, best_s = fleet_bound_s(tasks, robots, [EDGE], AHEAD_S), Search(first, tasks[robots:]).mean_s
    assert 0.5 * best_s <= bound_s <= best_s + 1e-9
    for order in (*ORDERS, Clairvoyant):
        found = Replay(order, EDGE, ahead_s=AHEAD_S).back_to_back(tasks, robots)
        assert best_s <= sum(found.latencies_s) / len(tasks) + 1e-3, "the search leaves schedules out"


def test_the_search_finds_what_is_best_by_hand() -> None:
    """The short task alone first, the long one's first round after it: in one batch the short one would be late."""
    short, long = Task((0.3,)), Task((0.3, 0.3, 0.3))
    assert Search([(0.0, long), (0.0, short)]).mean_s == pytest.approx((0.1 + 0.3 + 0.2 + 0.9) / 2)
    assert Search([(0.0, long)], [short]).mean_s == pytest.approx((0.1 + 0.9 + 0.1 + 0.3) / 2)


def test_the_bound_is_reached_by_a_task_that_is_alone_and_by_single_rounds_without_batches() -> None:
    task = Task((1.0, 0.05, 0.5))
    assert open_bound_s([(2.0, task)], [EDGE], AHEAD_S) == pytest.approx(alone_s(task, 0.1, AHEAD_S))
    assert fleet_bound_s([task] * 5, 1, [EDGE], AHEAD_S) == pytest.approx(alone_s(task, 0.1, AHEAD_S))
    one = Tier({1: 100.0}, 1)
    arrivals = [(0.0, Task((0.5,)))] * 20
    assert open_bound_s(arrivals, [one], AHEAD_S) == pytest.approx(0.5 + 0.1 * 21 / 2)
    assert fleet_bound_s([Task((0.5,))] * 20, 20, [one], AHEAD_S) == pytest.approx(
        0.5 + 0.1 * 21 / 2 - 19 / 40
    )


def test_what_servers_answer_together() -> None:
    assert rounds_hz([EDGE]) == pytest.approx(2 / 0.18)
    assert rounds_hz([EDGE, CLOUD]) == pytest.approx(2 / 0.18 + 2 / 0.09)
    assert rounds_hz([replace(CLOUD, held=True)]) == pytest.approx(2 / 0.29)
    assert answer_s([EDGE, CLOUD]) == pytest.approx(0.1)
    assert answer_s([CLOUD]) == pytest.approx(0.25)


def test_the_shortest_work_left_runs_first() -> None:
    assert shortest_first([(0.0, 5.0), (1.0, 1.0), (4.0, 3.0)]) == pytest.approx([2.0, 6.0, 9.0])
    assert shortest_first([(0.0, 1.0), (3.0, 1.0)]) == pytest.approx([1.0, 4.0])


@pytest.mark.parametrize("load", [0.5, 3.0])
@pytest.mark.parametrize("servers", [(EDGE,), (CLOUD,), (EDGE, CLOUD), (EDGE, replace(CLOUD, held=True))])
def test_no_replay_of_a_workload_is_below_the_bound(load: float, servers: tuple[Tier, ...]) -> None:
    tasks = tasks_of(WORKLOADS[0], 40, True, 3)
    arrivals = poisson(tasks, load, 3)
    bound_s = open_bound_s(arrivals, servers, AHEAD_S)
    found = Replay(Clairvoyant, *servers, ahead_s=AHEAD_S).arriving(arrivals)
    assert 0.5 * sum(found.latencies_s) / 40 < bound_s <= sum(found.latencies_s) / 40 + 1e-3
