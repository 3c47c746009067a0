"""Actions per second that no schedule and no policy exceeds: what each robot and all servers together have time for.

A System 1 call in a batch of k keeps its robot waiting for `S(k)` and the servers busy for `S(k) / k`. So with y(c, k)
calls per second of task c in batches of k,

    sum over k of y(c, k) (t_act + S(k) + S2(1) / H)       <= robots of c         equation (4), without any waiting
    sum over c, k of y(c, k) (S(k) / k + s2 / H) + others  <= servers

where `s2` and the time of each periodic call are the least that any number of calls at a time takes for each. Servers
may be shared by any models at no cost, and batches are always full; prefixes that calls share are not counted. The
greatest sum of all y is found from its dual: any price of server time gives an upper bound, the best price the least.
"""

from __future__ import annotations

from math import inf

from rosa_contract.config.factory import Factory
from rosa_contract.config.tasks import SYSTEM1
from rosa_server.scheduler.problem import Need, TaskClass, problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.running.policies import service_table

STEPS = 200  # of the search for the price


def limit_hz(factory: Factory, library: ProfileLibrary) -> float:
    """The bound. Raises `ConfigError` where profiles are missing."""
    problem = problem_from(factory)

    def choices(need: Need) -> list[tuple[float, float]]:
        """For each number of calls that may run together in time: how long one takes, and the server time for it."""
        table = service_table(library, problem.gpu_type, need.model, (need.component,))
        sizes = range(1, max(table.sizes) + 1)
        times = [(size, table.service_s(size)) for size in sizes]
        kept = [(size, runs_s) for size, runs_s in times if runs_s <= need.slo_ms / 1000]
        return [(runs_s, runs_s / size) for size, runs_s in kept or times[:1]]

    left = float(problem.servers)
    tasks: list[tuple[int, list[tuple[float, float]]]] = []  # robots, and (round, server time) of an action
    for cls in problem.classes:
        left -= cls.robots * sum(need.freq_hz * _cheapest_s(choices(need)) for need in cls.obligations)
        tasks.append((cls.robots, _rounds(cls, {need.component: choices(need) for need in cls.goals})))
    if left <= 0:
        return 0.0

    def bound(price: float) -> float:
        gains = (
            robots * max((1 - price * busy) / round_s for round_s, busy in rounds) for robots, rounds in tasks
        )
        return price * left + sum(max(0.0, gain) for gain in gains)

    low, high = 0.0, max(1 / busy for _, rounds in tasks for _, busy in rounds)
    for _ in range(STEPS):  # it is convex
        third = (high - low) / 3
        if bound(low + third) <= bound(high - third):
            high -= third
        else:
            low += third
    return min(bound(0.0), bound(low), bound(high))


def _cheapest_s(choices: list[tuple[float, float]]) -> float:
    return min(busy_s for _, busy_s in choices)


def _rounds(cls: TaskClass, choices: dict[str, list[tuple[float, float]]]) -> list[tuple[float, float]]:
    """For each size of a System 1 batch: how long a round takes at least, and how much server time."""
    waits_s = busy_s = 0.0
    for need in cls.goals:
        if need.component != SYSTEM1:
            waits_s += need.calls_per_action * min(
                (runs_s for runs_s, _ in choices[need.component]), default=inf
            )
            busy_s += need.calls_per_action * _cheapest_s(choices[need.component])
    if cls.plans_ahead:
        waits_s = 0.0
    found = []
    for runs_s, each_s in choices[SYSTEM1]:
        wait_s = runs_s + waits_s
        round_s = max(cls.action_s, wait_s) if cls.asynchronous else cls.action_s + wait_s
        found.append((round_s, each_s + busy_s))
    return found
