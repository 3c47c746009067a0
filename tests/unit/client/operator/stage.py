"""Messages as an operator's panel hears them, without ROS: only their fields matter."""

from __future__ import annotations

import math
from types import SimpleNamespace as Message
from typing import Any

from rosa_client.operator.robot_view import RobotView

CHOICES = ("resume", "retry", "return_to_safe_state", "abort")


def component(
    name: str = "system1",
    last_ms: float = math.nan,
    p99_ms: float = math.nan,
    slo_ms: float = 500.0,
    in_a_row: int = 0,
    missed: int = 0,
) -> Message:
    return Message(
        component=name,
        last_ms=last_ms,
        p99_ms=p99_ms,
        slo_ms=slo_ms,
        consecutive_missed=in_a_row,
        missed=missed,
    )


def status(state: str = "executing", *components: Any, connected: bool = True) -> Message:
    return Message(
        robot="panda0",
        task="pick",
        state=state,
        round=3,
        attempt=1,
        server_connected=connected,
        components=list(components),
    )


def alert(number: int = 1, active: bool = True, reason: str = "3 in a row") -> Message:
    choices = CHOICES if active else ()
    return Message(id=number, active=active, cause="slo_missed", reason=reason, choices=list(choices))


def arm(state: int = 0, stopped: bool = False, fault: str = "", cut_short: str = "") -> Message:
    return Message(state=state, emergency_stop=stopped, fault=fault, cut_short=cut_short)


def decision(action: str, cause: str, component: str = "") -> Message:
    return Message(action=action, cause=cause, component=component)


def audit(choice: str, by: str = "anna", accepted: bool = True, reason: str = "", sec: int = 100) -> Message:
    return Message(
        header=Message(stamp=Message(sec=sec, nanosec=500_000_000)),
        choice=choice,
        decided_by=by,
        why="because",
        accepted=accepted,
        reason=reason,
        alert_id=1,
    )


def robot(now_s: float = 100.0, state: str = "executing") -> RobotView:
    """A robot that has just told its status."""
    view = RobotView("/panda0", now_s)
    view.hear_status(now_s, status(state))
    return view


def waiting(now_s: float = 100.0, number: int = 1) -> RobotView:
    """A robot that waits for a decision."""
    view = robot(now_s, "waiting_for_human")
    view.hear_alert(now_s, alert(number))
    return view
