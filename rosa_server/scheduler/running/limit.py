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

from rosa_contract.config.tasks import SYSTEM1
from rosa_server.plan.engines import SHARING_ENGINE
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.running.policies import service_table

STEPS = 200  # of the search for the price
Choices = list[tuple[float, float]]  # by calls together: how long one takes, and the server time for it; s


def limit_hz(problem: Problem, library: ProfileLibrary) -> float:
    """The bound. Raises `ConfigError` where profiles are missing."""
    left = _left_by_obligations(problem, library)
    if left <= 0:
        return 0.0
    tasks: list[tuple[int, Choices]] = []  # robots, and (round, server time) of an action
    for cls in problem.classes:
        choices = {need.component: _choices(problem, library, need) for need in cls.needs}
        if all(choices.values()):
            tasks.append((cls.robots, _rounds(cls, choices)))
    if not tasks:
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


def none_serves(problem: Problem, library: ProfileLibrary) -> str:
    """Why no schedule and no policy serves this factory, by the same bound; empty where it does not say so."""
    if any(need.engine == SHARING_ENGINE for need in problem.needs.values()):
        return ""  # what calls share is not counted
    for cls in problem.classes:
        for need in cls.needs:
            if not _choices(problem, library, need):
                return f"{cls.name}.{need.component} is late even alone on an idle server"
    left = _left_by_obligations(problem, library)
    return "" if left > 0 else f"periodic calls alone need {problem.servers - left:.1f} servers"


def servers_by_bound(problem: Problem, library: ProfileLibrary) -> float:
    """Servers that periodic calls keep busy at least."""
    return problem.servers - _left_by_obligations(problem, library)


def _choices(problem: Problem, library: ProfileLibrary, need: Need) -> Choices:
    """For each number of calls that may run together in time. None may: they are late even alone."""
    table = service_table(library, problem.gpu_type, need.model, (need.component,))
    times = [(size, table.service_s(size)) for size in range(1, max(table.sizes) + 1)]
    return [(runs_s, runs_s / size) for size, runs_s in times if runs_s <= need.slo_ms / 1000]


def _left_by_obligations(problem: Problem, library: ProfileLibrary) -> float:
    """Servers that periodic calls leave at most."""
    left = float(problem.servers)
    for cls in problem.classes:
        for need in cls.obligations:
            choices = _choices(problem, library, need)
            left -= cls.robots * need.freq_hz * _cheapest_s(choices) if choices else 0.0
    return left


def _cheapest_s(choices: Choices) -> float:
    return min(busy_s for _, busy_s in choices)


def _rounds(cls: TaskClass, choices: dict[str, Choices]) -> Choices:
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
