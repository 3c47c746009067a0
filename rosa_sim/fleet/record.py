"""Every call of a fleet, one by one: what robots sent, what workers were given, how each call ended.

Simulated and live fleets write the same record, so that they can be compared call by call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from rosa_client.runtime.commands import CallEnded, Send
from rosa_contract.config.tasks import Task
from rosa_server.plan.placement import replica_name
from rosa_server.serving.core.queueing.actions import Action, Cancel, Dispatch, Reply
from rosa_sim.fleet.measure import Meter
from rosa_sim.fleet.robot import VirtualRobot

Batch = tuple[float, str, tuple[tuple[str, int], ...]]  # when, replica, (robot, request) of each call


class BatchRecord:
    """What the serving core gave its workers; `watch` sees its actions. Times are in s since `started_s`."""

    def __init__(self, started_s: float = 0.0) -> None:
        self.started_s = started_s
        self.batches: list[Batch] = []
        self.replies: dict[tuple[str, int], str] = {}
        self.cancelled: list[tuple[float, str]] = []  # what workers were told

    def watch(self, now_s: float, action: Action) -> None:
        """What the serving core decided."""
        if isinstance(action, Dispatch):
            calls = tuple((call.robot_id, call.request_id) for call in action.calls)
            self.batches.append((now_s - self.started_s, replica_name(action.worker_id), calls))
        elif isinstance(action, Cancel):
            self.cancelled.append((now_s - self.started_s, replica_name(action.worker_id)))
        elif isinstance(action, Reply):
            self.replies[action.call.robot_id, action.call.request_id] = action.status


class CallRecord(Meter, BatchRecord):
    """A meter that keeps every call beside what it counts."""

    def __init__(
        self, tasks: Mapping[str, Task], from_s: float = 0.0, to_s: float = inf, started_s: float = 0.0
    ) -> None:
        Meter.__init__(self, tasks, from_s, to_s)
        BatchRecord.__init__(self, started_s)
        self.sends: list[tuple[float, str, str, int]] = []
        self.ends: list[tuple[float, str, str, int, str]] = []
        self.late_results: list[tuple[str, str]] = []

    def sent(self, robot: VirtualRobot, send: Send, now_s: float) -> None:
        self.sends.append((now_s - self.started_s, robot.name, send.component, send.request_id))

    def ended(self, robot: VirtualRobot, ended: CallEnded, now_s: float) -> None:
        super().ended(robot, ended, now_s)
        at_s = now_s - self.started_s
        self.ends.append((at_s, robot.name, ended.component, ended.request_id, ended.ending))

    def late(self, robot: VirtualRobot, component: str, now_s: float) -> None:
        super().late(robot, component, now_s)
        self.late_results.append((robot.name, component))


def batches_from(plain: Iterable[Any]) -> list[Batch]:
    """Batches as JSON holds them."""
    return [
        (at_s, replica, tuple((robot, number) for robot, number in calls)) for at_s, replica, calls in plain
    ]
