"""Orders about robots: take one out, let it come back, make room for one more. Each is done at once."""

from __future__ import annotations

from rosa_contract.wire.messages import Refused
from rosa_contract.wire.watching import Order
from rosa_contract.wording import nearest
from rosa_server.serving.core.forwarding.node import NodeCore
from rosa_server.serving.operations.names import DRY_RUN, KNOWN
from rosa_server.serving.operations.order import OperationError, Site

MAX_REMOVED = 10_000  # names that are remembered
MAX_COMPARED = 512  # names that a misspelt one is compared with: the gateway waits meanwhile


def remove(site: Site, order: Order, now_s: float, node: NodeCore | None) -> str:
    """End the session of a robot, and refuse it from now on. Raises `OperationError`. `node`: the core, where this is
    one of several gateways: there a robot that is not here may still have its slot, or be removed before."""
    robot, sessions = order.target, site.core.sessions
    session = sessions.of_robot(robot)
    elsewhere = node is not None and (node.slots.knows(robot) or robot in sessions.removed)
    if session is None and not elsewhere and order.value != KNOWN:
        words = f"no robot {robot!r} is here{nearest(robot, sessions.robots[:MAX_COMPARED])}; `rosa robots` lists them"
        raise OperationError("unknown_target", words)
    if len(sessions.removed) >= MAX_REMOVED:
        raise OperationError("too_many", f"{MAX_REMOVED} robots are removed; admit some of them")
    if node is not None:  # others are free when their homes hear of it
        slots = node.slots.of_robot(robot)
    else:
        slots = [session.slot] if session is not None and session.slot else []
    free = "".join(f" and its slot {slot} is free" for slot in slots)
    site.core.remove(
        now_s, robot, f"{order.by} has removed this robot; `rosa admit {robot}` lets it come back"
    )
    site.state.removed = dict(sessions.removed)
    site.state.save()
    return f"{robot} is out{free}; it is refused until `rosa admit {robot}`"


def admit(site: Site, order: Order, now_s: float) -> str:
    """Let a robot come back that was removed. Raises `OperationError`."""
    removed = site.core.sessions.removed
    if order.target not in removed:
        there = f"; removed are {', '.join(sorted(removed))}" if removed else "; no robot is removed"
        words = f"robot {order.target!r} was not removed{nearest(order.target, removed)}{there}"
        raise OperationError("not_removed", words)
    del removed[order.target]
    site.state.removed = dict(removed)
    site.state.save()
    return f"{order.target} may come back"


def add_slot(site: Site, order: Order, now_s: float) -> str:
    """Make room for one more robot of a task, or say what would follow. Raises `OperationError`."""
    task, dry_run = order.target, order.value == DRY_RUN
    tasks = site.core.router.tasks
    if task not in tasks:
        raise OperationError(
            "unknown_target", f"no task {task!r}{nearest(task, tasks)}; there are {', '.join(tasks)}"
        )
    try:
        answer = site.core.add_slot(now_s, task, dry_run)
    except ValueError as error:
        raise OperationError("no_slots", str(error)) from None
    if isinstance(answer, Refused):
        raise OperationError("not_admitted", f"{answer.reason} ({answer.cause})")
    if not dry_run:
        site.state.slots.append(task)
        site.state.save()
    return f"{'this would follow: ' if dry_run else ''}{answer.reason}"
