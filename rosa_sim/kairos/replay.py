"""Replays tasks against one queue under a simulated clock, with production's queue, policies and records of rounds.

As in the paper, robots call asynchronously, before they have finished what they do, wherever the call is answered.
There are no deadlines: a task's end-to-end latency counts.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

from rosa_server.serving.core.ledger import Call, Ledger
from rosa_server.serving.core.order import Order, Ranking
from rosa_server.serving.core.queue import RequestQueue
from rosa_sim.kairos.tiers import Tier, assign
from rosa_sim.kairos.traces import Task


@dataclass
class _Run:
    """One task on a robot."""

    task: Task
    number: int
    began_s: float
    round: int = 0
    acts_until_s: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of a replay. Latencies are in seconds, from a task's first request to its last action."""

    latencies_s: tuple[float, ...]  # in the order of ending
    calls: int
    in_cloud: int
    end_s: float


def poisson(tasks: Sequence[Task], rate_hz: float, seed: int) -> list[tuple[float, Task]]:
    """Each task with its arrival time."""
    random, now_s = Random(f"arrivals/{seed}"), 0.0
    arrivals = []
    for task in tasks:
        now_s += random.expovariate(rate_hz)
        arrivals.append((now_s, task))
    return arrivals


class Replay:
    """Robots, servers and a clock around one queue."""

    def __init__(self, order: Order, edge: Tier, cloud: Tier | None = None, ahead_s: float = 0.0) -> None:
        """`ahead_s`: how long before the end of its actions a robot makes the next call."""
        self._ranking = Ranking(order)
        self._queue = RequestQueue(1_000_000, self._ranking)
        self._ledger = Ledger()
        self._edge, self._cloud = edge, cloud
        self._ahead_s = ahead_s
        self._events: list[tuple[float, int, str, object]] = []
        self._order = count()
        self._runs: dict[str, _Run] = {}
        self._waiting: list[Task] = []  # for a free robot
        self._numbers = count()
        self._latencies_s: list[float] = []
        self._calls = self._in_cloud = 0

    def arriving(self, arrivals: Sequence[tuple[float, Task]]) -> Outcome:
        """Every task has a robot of its own, from its arrival on."""
        for when_s, task in arrivals:
            self._at(when_s, "begin", task)
        return self._play()

    def back_to_back(self, tasks: Sequence[Task], robots: int) -> Outcome:
        """So many robots do the tasks one after another, the first ones from within the first second."""
        self._waiting = list(reversed(tasks))
        for robot in range(min(robots, len(tasks))):
            self._at(robot / robots, "begin", self._waiting.pop())
        return self._play()

    def _play(self) -> Outcome:
        now_s = 0.0
        while self._events:
            now_s, _, kind, what = heapq.heappop(self._events)
            if kind == "begin" and isinstance(what, Task):
                run = _Run(what, next(self._numbers), now_s)
                self._runs[f"r{run.number}"] = run
                self._send(now_s, run)
            elif kind == "send" and isinstance(what, _Run):
                self._send(now_s, what)
            elif kind == "done" and isinstance(what, list):
                for call in what:
                    self._answer(now_s, call)
            elif kind == "end" and isinstance(what, _Run):
                self._end(now_s, what)
            if not self._events or self._events[0][0] > now_s:
                self._dispatch(now_s)
        return Outcome(tuple(self._latencies_s), self._calls, self._in_cloud, now_s)

    def _at(self, when_s: float, kind: str, what: object) -> None:
        heapq.heappush(self._events, (when_s, next(self._order), kind, what))

    def _send(self, now_s: float, run: _Run) -> None:
        robot = f"r{run.number}"
        call = self._ledger.open(
            robot.encode(), robot, "system1", "policy", run.round, now_s, math.inf, [], "policy"
        )
        self._ranking.arrived(now_s, call, run.acts_until_s)
        self._queue.put(call)

    def _dispatch(self, now_s: float) -> None:
        if not len(self._queue):
            return
        free = self._edge.takes(now_s) or (self._cloud is not None and self._cloud.takes(now_s))
        if not free:
            return
        self._queue.rank_at(now_s)
        to_edge, to_cloud = assign(now_s, self._queue.in_order(), self._edge, self._cloud)
        taken = self._queue.take([*to_edge, *to_cloud])
        if taken:
            self._ranking.dispatched(taken, self._queue)
        self._run(now_s, self._edge, to_edge)
        if self._cloud is not None:
            self._run(now_s, self._cloud, to_cloud)
            self._in_cloud += len(to_cloud)

    def _run(self, now_s: float, tier: Tier, calls: list[Call]) -> None:
        if calls:
            for call in calls:
                call.dispatched_s = now_s
            tier.busy_until_s = now_s + tier.profile.service_s(len(calls))
            self._calls += len(calls)
            self._at(now_s + tier.latency_s(len(calls)), "done", calls)
            if tier.link_s:
                self._at(tier.busy_until_s, "free", tier)

    def _answer(self, now_s: float, call: Call) -> None:
        self._ledger.close(call)
        self._ranking.executed(now_s, call, now_s - call.dispatched_s, True)
        run = self._runs[call.robot_id]
        acts_from_s = now_s if run.acts_until_s is None else max(now_s, run.acts_until_s)
        run.acts_until_s = acts_from_s + run.task.executions_s[run.round]
        run.round += 1
        if run.round == len(run.task.executions_s):
            self._at(run.acts_until_s, "end", run)
        else:
            self._at(max(now_s, run.acts_until_s - self._ahead_s), "send", run)

    def _end(self, now_s: float, run: _Run) -> None:
        robot = f"r{run.number}"
        del self._runs[robot]
        self._ranking.forget(robot.encode())
        self._latencies_s.append(now_s - run.began_s)
        if self._waiting:
            self._at(now_s, "begin", self._waiting.pop())
