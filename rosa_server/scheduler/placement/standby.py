"""Hot standby servers (ROSA 3.4.4): weights loaded, nothing routed, and which failed servers each can replace."""

from __future__ import annotations

from dataclasses import replace

from rosa_server.scheduler.placement.schedule import Schedule, ServerPlan
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.library import ProfileLibrary


def with_standby(schedule: Schedule, problem: Problem, library: ProfileLibrary, count: int) -> Schedule:
    """`schedule` with `count` standby servers that cover all active ones as well as their memory allows.

    A standby keeps the weights of as many models as fit its memory. Models are taken by the number of active servers
    per standby that already holds them, most exposed first, so that with several standbys every model is covered
    before any is covered twice.
    """
    if count <= 0 or not schedule.feasible:
        return schedule
    users: dict[str, int] = {}
    for server in schedule.servers:
        users[server.model] = users.get(server.model, 0) + 1
    profiles = {model: library.get(model, problem.gpu_type) for model in users}
    copies = dict.fromkeys(users, 0)
    standbys = []
    for index in range(count):
        free = next(iter(profiles.values())).hardware_memory_mb
        chosen: list[str] = []
        for model in sorted(users, key=lambda m: (copies[m], -users[m] / (copies[m] + 1), m)):
            if profiles[model].memory_mb <= free:
                free -= profiles[model].memory_mb
                copies[model] += 1
                chosen.append(model)
        # A standby stands in for one server: that several go with their GPU is more than one.
        covered = [server for server in schedule.servers if server.model in chosen and not server.gpu]
        components = sorted({component for server in covered for component in server.components})
        standbys.append(
            ServerPlan(
                id=f"standby{index}",
                models=tuple(chosen),
                components=tuple(components),
                batch=1,
                standby=True,
                covers=tuple(server.id for server in covered),
            )
        )
    idle = schedule.idle_servers - count
    return replace(schedule, servers=(*schedule.servers, *standbys), idle_servers=idle)


def failover_table(schedule: Schedule) -> dict[str, tuple[str, ...]]:
    """Active server -> standbys that can replace it, best first: those that cover the fewest others."""
    standbys = sorted((s for s in schedule.servers if s.standby), key=lambda s: (len(s.covers), s.id))
    return {
        server.id: tuple(standby.id for standby in standbys if server.id in standby.covers)
        for server in schedule.servers
        if not server.standby
    }
