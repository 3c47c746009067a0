"""What a fleet achieves: raw and SLO-qualified action throughput, meet rate and latency per component (ROSA 4.2).

An action is qualified when every latency and invocation requirement of its robot holds at the moment it begins: System
1 answered in time, the last call of every other component was in time, the plan is not older than the call ratio
allows, and the last verdict of every periodic component not older than its period plus its SLO. Raw counts every
System 1 answer that reached a robot, late ones too.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, inf

import numpy as np

from rosa_client.runtime.commands import Alert, CallEnded, Send
from rosa_contract.config.tasks import GOAL_COUPLED, SYSTEM1, SYSTEM2, Task
from rosa_sim.fleet.robot import VirtualRobot


@dataclass
class Calls:
    """The calls of one component that ended in the window."""

    in_time: int = 0
    missed: int = 0
    cancelled: int = 0
    latency_ms: array[float] = field(
        default_factory=lambda: array("f")
    )  # a missed call counts as long as it was waited for

    @property
    def meet(self) -> float:
        """Share in time of the calls that were not cancelled; 1 when there were none."""
        return self.in_time / max(1, self.in_time + self.missed) if self.in_time + self.missed else 1.0

    def percentile_ms(self, percent: float) -> float:
        return float(np.percentile(self.latency_ms, percent)) if self.latency_ms else 0.0


@dataclass
class _Standing:
    """Which requirements of one robot hold now."""

    others: tuple[tuple[str, float], ...]  # component, greatest age of its last verdict in s
    rounds_per_plan: int  # 0: no System 2
    in_time: dict[str, bool] = field(default_factory=dict)
    answered_s: dict[str, float] = field(default_factory=dict)
    rounds: int = 0  # since the last plan in time

    def qualified(self, now_s: float) -> bool:
        if self.rounds_per_plan and not (self.in_time.get(SYSTEM2) and self.rounds <= self.rounds_per_plan):
            return False
        return all(
            self.in_time.get(name) and now_s - self.answered_s.get(name, -inf) <= age_s
            for name, age_s in self.others
        )


def _standing(task: Task) -> _Standing:
    others = tuple(
        (name, 1 / (part.freq_hz or 1.0) + part.slo_ms / 1000)
        for name, part in task.components.items()
        if name not in GOAL_COUPLED
    )
    plans = SYSTEM2 in task.components
    ratio = task.pipeline.system2_to_system1_call_ratio
    return _Standing(others, ceil(1 / ratio - 1e-9) if plans else 0)


@dataclass(frozen=True)
class Outcome:
    """One run. Rates are per second of the measured window."""

    raw_hz: float
    executed_hz: float
    qualified_hz: float
    meet: dict[str, float]
    p50_ms: dict[str, float]
    p99_ms: dict[str, float]
    utilisation: dict[str, float]  # server -> share of the window in which it ran something
    escalations: int
    served: int  # robots that a gateway has welcomed
    events: int
    wall_s: float


class Meter:
    """Observes every robot of a fleet; only what happens in the window `[from_s, to_s)` counts."""

    def __init__(self, tasks: Mapping[str, Task], from_s: float, to_s: float) -> None:
        """`tasks`: robot -> its task."""
        self.from_s, self.to_s = from_s, to_s
        self.calls: dict[str, Calls] = {}
        self.raw = self.executed = self.qualified = self.escalations = 0
        self.acted_s: dict[str, float] = {}  # robot -> its last action
        self._standing = {robot: _standing(task) for robot, task in tasks.items()}
        for task in tasks.values():
            for name in task.components:
                self.calls.setdefault(name, Calls())

    def add(self, robot: str, task: Task) -> None:
        """One more robot comes."""
        self._standing[robot] = _standing(task)

    # -- what robots do ------------------------------------------------------------------------------------------------

    def sent(self, robot: VirtualRobot, send: Send, now_s: float) -> None:
        """Nothing is counted before a call ends."""

    def ended(self, robot: VirtualRobot, ended: CallEnded, now_s: float) -> None:
        name, ending = ended.component, ended.ending
        in_time = ending == "in_time"
        if name != SYSTEM1 and ending != "cancelled":
            standing = self._standing[robot.name]
            standing.in_time[name] = in_time
            if in_time:
                standing.answered_s[name] = now_s
                if name == SYSTEM2:
                    standing.rounds = 0
        if self.from_s <= now_s < self.to_s:
            calls = self.calls[name]
            if ending == "cancelled":
                calls.cancelled += 1
                return
            calls.latency_ms.append(ended.duration_ms)
            if in_time:
                calls.in_time += 1
                self.raw += name == SYSTEM1
            else:
                calls.missed += 1

    def late(self, robot: VirtualRobot, component: str, now_s: float) -> None:
        if component == SYSTEM1 and self.from_s <= now_s < self.to_s:
            self.raw += 1

    def acted(self, robot: VirtualRobot, now_s: float) -> None:
        standing = self._standing[robot.name]
        standing.rounds += 1
        self.acted_s[robot.name] = now_s
        if self.from_s <= now_s < self.to_s:
            self.executed += 1
            self.qualified += standing.qualified(now_s)

    def escalated(self, robot: VirtualRobot, alert: Alert, now_s: float) -> None:
        self.escalations += self.from_s <= now_s < self.to_s

    # -- what came of it -----------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        return self.to_s - self.from_s

    def outcome(self, utilisation: dict[str, float], served: int, events: int, wall_s: float) -> Outcome:
        """What the window shows."""
        return Outcome(
            self.raw / self.seconds,
            self.executed / self.seconds,
            self.qualified / self.seconds,
            {name: calls.meet for name, calls in self.calls.items()},
            {name: calls.percentile_ms(50) for name, calls in self.calls.items()},
            {name: calls.percentile_ms(99) for name, calls in self.calls.items()},
            utilisation,
            self.escalations,
            served,
            events,
            wall_s,
        )
