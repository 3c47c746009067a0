"""What no order can beat: lower bounds of the mean latency of a replay, whatever is decided about what to serve, where,
in which batches and when, even by somebody who knows the future.

Two things hold in every schedule. A task alone on idle servers is not slower than among others. And the servers
together answer at most `rounds_hz` calls per second: in a batch of k calls that keeps a server for S(k) seconds each
call has 1/k of the server, so no round costs less than the smallest S(k)/k.

*Open arrivals* (`open_bound_s`). A task's latency is from its arrival to the end of its last execution, which starts at
X and lasts e. X is not before the task alone would get there. X is not before its last round is answered either, and if
all servers were one machine that could be divided at will and began with all of a task's rounds at its arrival, they
would be a single machine with preemption. On it the shortest remaining work first has ended at least as many tasks at
every instant as any other schedule (Schrage 1968). So sorted by time, the j-th X of any schedule is not before the
larger of the j-th start alone and the j-th end under that order. Sums over all tasks do not depend on the sorting.

*Robots that take tasks from one list without a pause* (`fleet_bound_s`). A task begins when some other one ends, so all
latencies together are the last N ends of N robots, less the first N beginnings: all other ends are beginnings, too. The
j-th end of any schedule is not before the j-th if each task took as long as alone, as earlier ends only make later
tasks begin earlier. And by then j tasks have been answered, all of them among the first N + j - 1 of the list: at least
the rounds of the j shortest of these, and one last execution.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Sequence
from itertools import pairwise

from rosa_server.timing.batches import BatchProfile
from rosa_sim.kairos.replay import Tier
from rosa_sim.kairos.traces import Task


def rounds_hz(tiers: Sequence[Tier]) -> float:
    """The most calls per second that these servers answer together."""
    hz = 0.0
    for tier in tiers:
        profile, away_s = BatchProfile(tier.profile), 2 * tier.link_s if tier.held else 0.0
        hz += max(size / (profile.service_s(size) + away_s) for size in range(1, tier.max_batch + 1))
    return hz


def answer_s(tiers: Sequence[Tier]) -> float:
    """The least time from sending a call to its answer."""
    return min(
        2 * tier.link_s + min(BatchProfile(tier.profile).service_s(n + 1) for n in range(tier.max_batch))
        for tier in tiers
    )


def alone_s(task: Task, answer_s: float, ahead_s: float) -> float:
    """The latency of a task whose every call is answered after `answer_s`. It calls `ahead_s` before its actions end,
    but not before the last answer."""
    answered_s = answer_s
    acts_until_s = answered_s + task.executions_s[0]
    for execution_s in task.executions_s[1:]:
        answered_s = max(answered_s, acts_until_s - ahead_s) + answer_s
        acts_until_s = max(answered_s, acts_until_s) + execution_s
    return acts_until_s


def open_bound_s(arrivals: Sequence[tuple[float, Task]], tiers: Sequence[Tier], ahead_s: float) -> float:
    """No schedule of tasks that arrive at these times has a smaller mean latency."""
    hz, fastest_s = rounds_hz(tiers), answer_s(tiers)
    alone = sorted(
        when + alone_s(task, fastest_s, ahead_s) - task.executions_s[-1] for when, task in arrivals
    )
    ends = shortest_first([(when, len(task.executions_s) / hz) for when, task in arrivals])
    way_s = 2 * min(tier.link_s for tier in tiers)
    last_s = sum(max(start, end + way_s) for start, end in zip(alone, ends, strict=True))
    return (last_s + sum(task.executions_s[-1] - when for when, task in arrivals)) / len(arrivals)


def shortest_first(jobs: Sequence[tuple[float, float]]) -> list[float]:
    """When jobs (arrival, work) end on one machine that always runs the one with the least work left: sorted."""
    arrivals = sorted(jobs)
    left: list[float] = []
    ends: list[float] = []
    times = [when for when, _ in arrivals] + [float("inf")]
    for (now_s, next_s), (_, work_s) in zip(pairwise(times), arrivals, strict=True):
        heapq.heappush(left, work_s)
        while left and now_s < next_s:
            runs_s = min(left[0], next_s - now_s)
            now_s += runs_s
            if runs_s == left[0]:
                heapq.heappop(left)
                ends.append(now_s)
            else:
                heapq.heapreplace(left, left[0] - runs_s)
    return ends


def fleet_bound_s(tasks: Sequence[Task], robots: int, tiers: Sequence[Tier], ahead_s: float) -> float:
    """No schedule in which `robots` robots take these tasks in this order, each the next one when it has ended one, has
    a smaller mean latency. As in `Replay.back_to_back` robot k of N begins after k/N seconds."""
    hz, fastest_s = rounds_hz(tiers), answer_s(tiers)
    way_s = 2 * min(tier.link_s for tier in tiers)
    robots = min(robots, len(tasks))
    begins = [robot / robots for robot in range(robots)]
    free = [begun_s + alone_s(task, fastest_s, ahead_s) for begun_s, task in zip(begins, tasks, strict=False)]
    ends = list(free)
    heapq.heapify(free)
    for task in tasks[robots:]:
        end_s = free[0] + alone_s(task, fastest_s, ahead_s)
        heapq.heapreplace(free, end_s)
        ends.append(end_s)
    ends.sort()
    lengths: list[int] = sorted(len(task.executions_s) for task in tasks[: robots - 1])
    last_s = min((task.executions_s[-1] for task in tasks[: robots - 1]), default=float("inf"))
    total_s = 0.0
    for ended in range(1, len(tasks) + 1):
        if robots + ended - 2 < len(tasks):
            begun = tasks[robots + ended - 2]
            insort(lengths, len(begun.executions_s))
            last_s = min(last_s, begun.executions_s[-1])
        if ended > len(tasks) - robots:
            served_s = sum(lengths[:ended]) / hz + way_s + last_s
            total_s += max(served_s, ends[ended - 1])
    return (total_s - sum(begins)) / len(tasks)
