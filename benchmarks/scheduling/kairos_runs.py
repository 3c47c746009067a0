"""What the parts of `kairos.py` have in common: the servers, the orders, the tasks and how they come, and a row."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import Any

from benchmarks.scheduling.kairos_report import (
    BOTH,
    BOUND,
    CLOUD_ONLY,
    EDGE_ONLY,
    FCFS,
    HELD_BOTH,
    HELD_ONLY,
    KNOWN,
    LAS,
    NEW_FIRST,
)
from rosa_contract.config.gateway import KAIROS, REMAINING_WORK, Gateway
from rosa_server.serving.core.queueing.order import Kairos
from rosa_sim.kairos.bound import Clairvoyant
from rosa_sim.kairos.replay import OrderOf, Outcome, Replay, Tier, poisson
from rosa_sim.kairos.traces import WORKLOADS, Task, Workload, tasks_of

# Not published. A 3B model on an RTX A6000 is saturated by two requests; an A100 is about twice as fast.
EDGE_MS, CLOUD_MS, MAX_BATCH = {1: 100.0, 2: 180.0}, {1: 50.0, 2: 90.0}, 2
LINK_S = 0.1
AHEAD_S = EDGE_MS[1] / 1000  # robots call so early that the edge, if free, answers in time
EDGE, CLOUD = Tier(EDGE_MS, MAX_BATCH), Tier(CLOUD_MS, MAX_BATCH, LINK_S)
HELD = replace(CLOUD, held=True)
SYSTEMS = {
    EDGE_ONLY: (EDGE,),
    CLOUD_ONLY: (CLOUD,),
    BOTH: (EDGE, CLOUD),
    HELD_ONLY: (HELD,),
    HELD_BOTH: (EDGE, HELD),
}
MANY_SEEDS = 10  # where ten of 200 tasks, or the last ones, decide
FLEETS = (10, 25, 50, 100)
TASKS_EACH = 40  # tasks of a robot in a fleet that works all day
ENDED = (0, 30, 100, 400)  # tasks that the server has seen end before a run
HISTORY_SEED, HISTORY_LOAD = 900, 0.5
ORDERS: dict[str, str | OrderOf] = {
    FCFS: FCFS,
    LAS: LAS,
    KAIROS: KAIROS,
    NEW_FIRST: lambda replay: Kairos(Gateway.order_buckets, 1e9, new_first=True),
    REMAINING_WORK: REMAINING_WORK,
    KNOWN: REMAINING_WORK,
    BOUND: Clairvoyant,
}
Row = dict[str, Any]


@cache
def history(workload: str, dynamic: bool, ended: int = ENDED[-1]) -> Any:
    """What a server remembers after this number of tasks, none of them part of the runs, at half load."""
    of = next(one for one in WORKLOADS if one.name == workload)
    if not ended:
        return None
    tasks = tasks_of(of, ended, dynamic, HISTORY_SEED)
    replay = new_replay(REMAINING_WORK)
    replay.arriving(poisson(tasks, rate_hz(of, HISTORY_LOAD, tasks), HISTORY_SEED))
    return replay.core.lengths.to_data()


def rate_hz(workload: Workload, load: float, static: list[Task], server: Tier = EDGE) -> float:
    rounds = fmean(len(task.executions_s) for task in static)
    return load * 1000 * server.max_batch / server.profile[server.max_batch] / rounds


def new_replay(
    order: str | OrderOf,
    edge: Tier = EDGE,
    cloud: Tier | None = None,
    *,
    settings: str = "",
    known: Any = None,
) -> Replay:
    """One edge server unless said otherwise."""
    return Replay(order, edge, cloud, ahead_s=AHEAD_S, settings=settings, known=known)


class Bench:
    """The tasks of every seed, and how they arrive."""

    def __init__(self, count: int, seeds: int) -> None:
        # Not the seeds 0 to 9, with which policies and settings were chosen.
        self.count, self.seeds = count, range(100, 100 + seeds)

    def tasks(self, workload: Workload, dynamic: bool, seed: int) -> list[Task]:
        return tasks_of(workload, self.count, dynamic, seed)

    def online(
        self,
        workload: Workload,
        load: float,
        dynamic: bool,
        replay: Callable[[], Replay],
        server: Tier = EDGE,
    ) -> list[Outcome]:
        """Poisson arrivals of tasks, once per seed."""
        return [
            replay().arriving(self.arrivals(workload, load, dynamic, seed, server)) for seed in self.seeds
        ]

    def arrivals(
        self, workload: Workload, load: float, dynamic: bool, seed: int, server: Tier = EDGE
    ) -> list[tuple[float, Task]]:
        hz = rate_hz(workload, load, self.tasks(workload, False, seed), server)
        return poisson(self.tasks(workload, dynamic, seed), hz, seed)


def of_order(name: str, workload: Workload, dynamic: bool, *tiers: Tier) -> Callable[[], Replay]:
    known = history(workload.name, dynamic) if name == KNOWN else None
    return lambda: new_replay(ORDERS[name], *tiers, known=known)


def row(kind: str, what: Row, outcomes: Iterable[Outcome]) -> Row:
    """P25, mean and P95 of the latencies, the mean of what robots stood still for in a task, and the longest wait of
    any call: of each seed, averaged over seeds. And tasks finished per hour."""
    found = []
    for outcome in outcomes:
        ranked = sorted(outcome.latencies_s)
        last = len(ranked) - 1
        hourly = 3600 * len(ranked) / outcome.end_s
        stalls = sorted(outcome.stalls_s)
        found.append(
            (
                *(ranked[round(0.25 * last)], fmean(ranked), ranked[round(0.95 * last)]),
                *(fmean(stalls), stalls[-1], outcome.longest_wait_s, hourly),
            )
        )
    names = ("p25_s", "mean_s", "p95_s", "stall_s", "longest_stall_s", "longest_wait_s", "tasks_per_hour")
    means = [round(fmean(column), 2) for column in zip(*found, strict=True)]
    return {"part": kind, **what, **dict(zip(names, means, strict=True))}


def horizon(dynamic: bool) -> str:
    return "dynamic" if dynamic else "static"


def said(part: str) -> None:
    print(f"{part}: done", file=sys.stderr, flush=True)
