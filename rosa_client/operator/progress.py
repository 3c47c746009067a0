"""A running task in words, for `rosa run`: what changed since the last line. Pure: facts come as arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rosa_client.operator.robot_view import RobotView

# A round passes through these again and again; any other state is worth its own line.
ROUTINE = ("inferring", "executing")


@dataclass(frozen=True)
class ShownStep:
    """Where a task stands, as the action's feedback says it."""

    state: str
    round: int
    attempt: int


class ShownProgress:
    """Follows one task. `now` is the line that replaces itself on a terminal; `lines` are worth keeping."""

    def __init__(self, robot: str) -> None:
        self._robot = robot
        self._told: ShownStep | None = None
        self._alert = 0

    def now(self, step: ShownStep, view: RobotView) -> str:
        """The task in one line."""
        parts = [f"{self._robot}: attempt {step.attempt}, round {step.round}, {step.state.replace('_', ' ')}"]
        status = view.status
        if status is not None:
            if not status.server_connected:
                parts.append("no server")
            parts += [text for one in status.components if (text := _latency(one))]
        return "; ".join(parts)

    def lines(self, step: ShownStep, view: RobotView) -> list[str]:
        """What is new since the last call: a round, an attempt, a state out of the ordinary, an alert."""
        told, self._told = self._told, step
        new = told is None or (step.round, step.attempt) != (told.round, told.attempt)
        if told is not None and step.state != told.state:
            new = new or step.state not in ROUTINE or told.state not in ROUTINE
        return ([self.now(step, view)] if new else []) + self.alerts(view)

    def alerts(self, view: RobotView) -> list[str]:
        """A new alert, and the command that answers it."""
        alert = view.alert
        if alert is None or alert.id == self._alert:
            return []
        self._alert = alert.id
        choices = " | ".join(alert.choices)
        return [
            f"{self._robot} calls a human: {alert.cause}: {alert.reason}",
            f'  rosa operator decide {self._robot} CHOICE --why "..."    CHOICE: {choices}',
        ]


def _latency(component: Any) -> str:
    """Such as "system1 62 of 500 ms, 1 missed"; empty before the first call."""
    parts = []
    if not math.isnan(component.last_ms):
        parts.append(f"{component.last_ms:.0f} of {component.slo_ms:.0f} ms")
    if component.missed:
        parts.append(f"{component.missed} missed")
    return f"{component.component} {', '.join(parts)}" if parts else ""
