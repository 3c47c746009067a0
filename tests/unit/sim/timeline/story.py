"""A run written message by message, as a bag holds it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rosa_interfaces.msg import (
    Call,
    Decision,
    RobotStatus,
)

from rosa_client.recording.bag import Recorded
from rosa_sim.timeline.lanes import CallBar, RobotLanes, Span, robots

T0 = 1_700_000_000.0
Said = tuple[float, str, Any]  # s after T0, topic, message


def said(*messages: Said) -> list[Recorded]:
    return [Recorded(topic, T0 + at_s, message) for at_s, topic, message in messages]


def only(messages: Iterable[Said]) -> RobotLanes:
    (robot,) = robots(said(*messages))
    return robot


def status(*states: tuple[float, str], until_s: float, name: str = "panda", **fields: Any) -> list[Said]:
    """robot_status at 10 Hz and at every change, as the runtime publishes it."""
    ticks = {round(number / 10, 3) for number in range(int(until_s * 10) + 1)}
    found: list[Said] = []
    for at_s in sorted(ticks | {at_s for at_s, _ in states}):
        state = [state for since_s, state in states if since_s <= at_s][-1]
        task = "" if state == "idle" else "pick_and_place"
        message = RobotStatus(
            robot=name, state=state, task=task, attempt=int(bool(task)), server_connected=True, **fields
        )
        found.append((at_s, f"/{name}/robot_status", message))
    return found


def decision(at_s: float, action: str, cause: str, component: str = "", name: str = "panda") -> Said:
    return at_s, f"/{name}/decisions", Decision(action=action, cause=cause, component=component)


def call(at_s: float, ending: str, duration_ms: float, component: str = "system1") -> Said:
    return (
        at_s,
        "/panda/calls",
        Call(component=component, ending=ending, duration_ms=duration_ms, slo_ms=500.0),
    )


def times(span: Span) -> tuple[float, float]:
    return round(span.start_s - T0, 3), round(span.end_s - T0, 3)


def rounded(bar: CallBar) -> tuple[float, float, float, str]:
    return (*(round(at_s - T0, 3) for at_s in (bar.start_s, bar.end_s, bar.deadline_s)), bar.ending)
