"""One light per component of a robot, against its deadline: green in time, yellow close, red missing, grey unknown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rosa_client.operator.robot_view import RobotView

IN_TIME, CLOSE, MISSING, UNKNOWN = "in time", "close", "missing", "unknown"
CLOSE_SHARE = 0.8  # a p99 above this share of the deadline counts as close


@dataclass(frozen=True)
class Light:
    """What one light shows."""

    name: str
    level: str  # IN_TIME, CLOSE, MISSING or UNKNOWN
    text: str


def lights(view: RobotView, now_s: float) -> list[Light]:
    """The server's light, then one per component; all grey while the robot is silent."""
    if view.status is None:
        return []
    silent = view.silent_for_s(now_s) > 0
    up = bool(view.status.server_connected)
    server = Light("server", UNKNOWN if silent else IN_TIME if up else MISSING, "up" if up else "lost")
    return [server, *(_component(status, silent) for status in view.status.components)]


def _component(status: Any, silent: bool) -> Light:
    last_ms, p99_ms, slo_ms = float(status.last_ms), float(status.p99_ms), float(status.slo_ms)
    in_a_row = int(status.consecutive_missed)
    text = f"{last_ms:.0f} of {slo_ms:.0f} ms" if math.isfinite(last_ms) else f"- of {slo_ms:.0f} ms"
    slow = math.isfinite(p99_ms) and p99_ms > CLOSE_SHARE * slo_ms
    if slow:
        text += f", p99 {p99_ms:.0f} ms"  # the last call alone may have been fast
    if in_a_row:
        text += f", {in_a_row} missed"
    if silent:
        level = UNKNOWN
    elif in_a_row >= 2:
        level = MISSING
    elif in_a_row == 1 or slow:
        level = CLOSE
    elif math.isfinite(last_ms):
        level = IN_TIME
    else:
        level = UNKNOWN
    return Light(str(status.component), level, text)
