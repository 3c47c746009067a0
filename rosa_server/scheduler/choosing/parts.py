"""A large fleet is planned as equal parts: one of them is planned, and the schedule repeats it.

What a schedule decides does not depend on the size of a fleet once every model has many servers, and planning 100,000
robots as one takes a thousand times as long as planning 1,000. Each part has the robots of each task, rounded up, and
the servers, rounded down; parts with a robot less leave its place empty. The servers of all parts share their queues
when the schedule is carried out, so the whole fleet does no worse than each part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from rosa_contract.config.tasks import SYSTEM1
from rosa_server.scheduler.placement.schedule import Schedule, ServerPlan, slot_name
from rosa_server.scheduler.problem import Problem, StreamClass

LARGE = 4000  # robots; a smaller fleet is planned as a whole
MIN_PART, MAX_PART = 1000, 2500  # robots
MIN_ROBOTS = 8  # of each task in a part: a rare task would get servers in every part
MAX_LOST = 0.02  # of servers and robots, by rounding


@dataclass(frozen=True)
class Parts:
    """`count` parts of a fleet, none of which is larger than `part`."""

    count: int
    part: Problem


def parts_of(problem: Problem, standby: int = 0) -> Parts | None:
    """The parts that lose least by rounding; None where the fleet is planned as a whole. `standby`: servers that are
    kept for the whole."""
    servers, robots = problem.servers - standby, problem.robots
    fewest = min((cls.robots for cls in problem.classes), default=0)
    if robots <= LARGE or servers < 1:
        return None
    counts = range(ceil(robots / MAX_PART), min(robots // MIN_PART, fewest // MIN_ROBOTS) + 1)
    found = [Parts(count, _part(problem, servers, count)) for count in counts]

    def lost(parts: Parts) -> float:
        kept = parts.count * parts.part.servers / servers
        return parts.count * parts.part.robots / robots - kept

    best = min(found, key=lost, default=None)
    return best if best is not None and lost(best) <= MAX_LOST else None


def _part(problem: Problem, servers: int, count: int) -> Problem:
    robots = {cls.name: ceil(cls.robots / count) for cls in problem.classes}
    return problem.with_robots(robots).with_servers(servers // count)


def repeated(schedule: Schedule, problem: Problem, parts: Parts) -> Schedule:
    """The schedule of the whole fleet from a feasible one of its part, which has no standbys and shares no GPUs."""
    servers: list[ServerPlan] = []
    routing: dict[str, dict[str, str]] = {}
    placed = dict.fromkeys(schedule.robots, 0)  # robots of each task that have a place
    for number in range(parts.count):
        counts = {c.name: (c.robots + parts.count - 1 - number) // parts.count for c in problem.classes}
        here = _without(schedule, counts)
        names = {server.id: f"gpu{len(servers) + index}" for index, server in enumerate(here)}
        servers += [replace(server, id=names[server.id]) for server in here]
        for task, count in counts.items():
            for place in range(count):
                routes = schedule.routing[slot_name(task, place)]
                routing[slot_name(task, placed[task] + place)] = {
                    component: names[server] for component, server in routes.items()
                }
            placed[task] += count
    rates_hz = {task: rates[SYSTEM1] for task, rates in schedule.rates_hz.items()}
    return replace(
        schedule,
        servers=tuple(servers),
        robots=placed,
        routing=routing,
        action_throughput_hz=problem.action_throughput_hz(rates_hz),
        objective=problem.objective(rates_hz),
        idle_servers=problem.servers - len(servers),
    )


def _without(schedule: Schedule, counts: Mapping[str, int]) -> list[ServerPlan]:
    """The servers of a part with fewer robots, those that are left without any taken out. Latencies stay: they are no
    higher."""
    found = {server.id: server for server in schedule.servers}
    for task, count in counts.items():
        for place in range(count, schedule.robots[task]):
            for component, name in schedule.routing[slot_name(task, place)].items():
                server, key = found[name], StreamClass(task, component)
                streams = {**server.streams, key: server.streams[key] - 1}
                found[name] = replace(
                    server,
                    streams={each: number for each, number in streams.items() if number},
                    rate_hz=server.rate_hz - schedule.rates_hz[task][component],
                )
    return [server for server in found.values() if server.streams]
