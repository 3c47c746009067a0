"""Failover (ROSA 3.4.4): what happens to the streams of a failed server is a table look-up, not a search."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from rosa_server.scheduler.schedule import Schedule


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
