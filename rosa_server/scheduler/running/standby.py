"""Hot standby and failover (ROSA 3.4.4): weights loaded, nothing routed; a failure is a table look-up, not a search."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.schedule import Schedule, ServerPlan


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
        covered = [server for server in schedule.servers if server.model in chosen]
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


@dataclass(frozen=True)
class Failover:
    """What to do about a failed server."""

    failed: str
    replacement: str | None
    moved: tuple[tuple[str, str], ...]  # (robot, component) routed elsewhere now, or nowhere
    schedule: Schedule
    reason: str


def fail_over(
    schedule: Schedule, failed: str, table: dict[str, tuple[str, ...]], down: Collection[str] = ()
) -> Failover:
    """Redirect the streams of `failed` to its first standby that is not itself `down`; nothing else changes.

    The standby takes over model, batch and streams, so every prediction of the schedule still holds. Without a standby
    the streams lose their route: robots fall back locally and the caller reschedules.
    """
    server = schedule.server(failed)
    moved = tuple(
        (r, c) for r, routes in schedule.routing.items() for c, target in routes.items() if target == failed
    )
    free = {s.id for s in schedule.servers if s.standby} - set(down) - {failed}
    replacement = next((s for s in table.get(failed, ()) if s in free), None)
    touched = {robot for robot, _ in moved}
    routing: dict[str, dict[str, str]] = {}
    for robot, routes in schedule.routing.items():
        if robot not in touched:
            routing[robot] = dict(routes)
        elif replacement is None:
            routing[robot] = {c: target for c, target in routes.items() if target != failed}
        else:
            routing[robot] = {c: replacement if target == failed else target for c, target in routes.items()}
    rest = [s for s in schedule.servers if s.id not in (failed, replacement)]
    if replacement is None:
        reason = f"{failed} ({server.model}) failed and no standby holds its model; {len(moved)} streams have no route"
        after = replace(
            schedule,
            servers=tuple(rest),
            routing=routing,
            feasible=server.standby and schedule.feasible,
            reasons=(*schedule.reasons, reason) if not server.standby else schedule.reasons,
        )
        return Failover(failed, None, moved, after, reason)
    taking = replace(server, id=replacement, standby=False, covers=())
    reason = f"{failed} ({server.model}) failed; {replacement} takes its {len(moved)} streams"
    after = replace(schedule, servers=(*rest, taking), routing=routing)
    return Failover(failed, replacement, moved, after, reason)
