"""Actions per second that no schedule and no policy exceeds: what each robot and all servers together have time for.

A call keeps its robot waiting for `w` and the servers busy for `b`. In a whole batch of k these are `S(k)` and
`S(k) / k`. Among k calls that come and go one by one (continuous batching) they are `S(k) - (k - 1) P`, its own prompt
and its decoding, and `S(k) / k`: other prompts may come before or after it, and each call takes its share of the server
while it decodes, and all of it for its prompt. A call is beside different numbers of others in turn, so any mixture of
these points is possible, as far as it is in time. So with y(c, j) calls per second of task c at point j, one for each
pair of System 1's points and System 2's,

    sum over j of y(c, j) (t_act + w1(j) + w2(j) / H)             <= robots of c     equation (4), without any waiting
    sum over c, j of y(c, j) (b1(j) + b2(j) / H) + periodic calls <= servers

Servers may be shared by any models at no cost, and no more calls run together than robots may have open; prefixes that
calls share are not counted. The greatest sum of all y is found from its dual: any price of server time gives an upper
bound, the best price the least.
"""

from __future__ import annotations

from itertools import product

from rosa_contract.config.tasks import SYSTEM1
from rosa_server.plan.engines import SHARING_ENGINE
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.profile import CONTINUOUS
from rosa_server.scheduler.running.batch_sizes import prefills_ms, service_table

STEPS = 200  # of the search for the price
# Ways to run a call: how long it keeps its robot waiting, and the server time for it; s. The corners of a convex line,
# the shortest wait first, the least server time last.
Ways = list[tuple[float, float]]
Rounds = list[
    tuple[tuple[float, ...], float]
]  # each of the times that a round takes at least, and its server time; s


def limit_hz(problem: Problem, library: ProfileLibrary) -> float:
    """The bound. Raises `ConfigError` where profiles are missing."""
    left = _left_by_obligations(problem, library)
    if left <= 0:
        return 0.0
    tasks: list[tuple[int, Rounds]] = []
    for cls in problem.classes:
        known = {need.component: ways(problem, library, need) for need in cls.needs}
        if all(known.values()):
            tasks.append((cls.robots, _rounds(cls, known)))
    if not tasks:
        return 0.0

    def bound(price: float) -> float:
        gains = (robots * _gain(price, rounds) for robots, rounds in tasks)
        return price * left + sum(max(0.0, gain) for gain in gains)

    low, high = 0.0, max(1 / busy for _, rounds in tasks for _, busy in rounds)
    for _ in range(STEPS):  # it is convex, but for asynchronous execution; each price gives a bound
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
            if not ways(problem, library, need):
                return f"{cls.name}.{need.component} is late even alone on an idle server"
    left = _left_by_obligations(problem, library)
    return "" if left > 0 else f"periodic calls alone need {problem.servers - left:.1f} servers"


def servers_by_bound(problem: Problem, library: ProfileLibrary) -> float:
    """Servers that periodic calls keep busy at least."""
    return problem.servers - _left_by_obligations(problem, library)


def ways(problem: Problem, library: ProfileLibrary, need: Need) -> Ways:
    """The ways to run a call in time. There is none where it is late even alone."""
    table = service_table(library, problem.gpu_type, need.model, (need.component,))
    profile = library.get_for(need.model, need.component, problem.gpu_type)
    one_by_one = any(one.batching == CONTINUOUS for one in profile.configurations_for(need.component))
    prompts_ms = prefills_ms(library, problem.gpu_type, need.model, (need.component,)) if one_by_one else {}
    prompt_s = prompts_ms.get(need.component, 0.0) / 1000
    # A robot has one call of each component open at most.
    open_calls = sum(cls.robots for cls in problem.classes for each in cls.needs if each.model == need.model)
    sizes = range(1, min(open_calls, max(table.sizes)) + 1)
    points = [(max(table.service_s(k) - k * prompt_s, 0.0) + prompt_s, table.service_s(k) / k) for k in sizes]
    slo_s = need.slo_ms / 1000
    if one_by_one:
        return _until(slo_s, _corners(points))
    return _corners([point for point in points if point[0] <= slo_s])


def _corners(points: Ways) -> Ways:
    """Of these points and all their mixtures, the corners of those than which none is better in both."""
    found: Ways = []
    for wait_s, busy_s in sorted(points):
        if found and busy_s >= found[-1][1]:
            continue
        while len(found) > 1:
            (first_s, first_busy_s), (last_s, last_busy_s) = found[-2:]
            between_s = first_busy_s + (last_s - first_s) / (wait_s - first_s) * (busy_s - first_busy_s)
            if last_busy_s < between_s:
                break
            found.pop()
        found.append((wait_s, busy_s))
    return found


def _until(longest_s: float, corners: Ways) -> Ways:
    """The part of the line with waits of at most so long."""
    kept = [point for point in corners if point[0] <= longest_s]
    if kept and len(kept) < len(corners):
        (last_s, last_busy_s), (next_s, next_busy_s) = kept[-1], corners[len(kept)]
        share = (longest_s - last_s) / (next_s - last_s)
        kept.append((longest_s, last_busy_s + share * (next_busy_s - last_busy_s)))
    return kept


def _left_by_obligations(problem: Problem, library: ProfileLibrary) -> float:
    """Servers that periodic calls leave at most."""
    left = float(problem.servers)
    for cls in problem.classes:
        for need in cls.obligations:
            known = ways(problem, library, need)
            left -= cls.robots * need.freq_hz * known[-1][1] if known else 0.0
    return left


def _rounds(cls: TaskClass, known: dict[str, Ways]) -> Rounds:
    """For each way to run the calls of a round: how long it takes at least, and how much server time."""
    plans = next((need for need in cls.goals if need.component != SYSTEM1), None)
    planning = [(0.0, 0.0)]
    if plans is not None:
        share = plans.calls_per_action
        planning = [(share * wait_s, share * busy_s) for wait_s, busy_s in known[plans.component]]
        if cls.plans_ahead:
            planning = [(0.0, busy_s) for _, busy_s in planning]
    found: Rounds = []
    for (wait_s, busy_s), (plan_s, plan_busy_s) in product(known[SYSTEM1], planning):
        waits_s = wait_s + plan_s
        min_s = (cls.action_s, waits_s) if cls.asynchronous else (cls.action_s + waits_s,)
        found.append((min_s, busy_s + plan_busy_s))
    return found


def _gain(price: float, rounds: Rounds) -> float:
    """Actions per second of one robot, less the price of their server time, at most. Of mixtures of ways it is greatest
    at one of them, for each of the times that a round takes at least."""
    times = range(len(rounds[0][0]))
    return min(max((1 - price * busy_s) / min_s[time] for min_s, busy_s in rounds) for time in times)
