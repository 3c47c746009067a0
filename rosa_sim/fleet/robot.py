"""One virtual robot: production's core and greeting in a body without joints. Pure; a shell carries the messages.

The body plays a chunk for exactly its duration, takes every order, sees fresh samples, and has a person who resumes it
after an escalation, if asked to. The core is asked only when something can change (`next_due_s`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, floor, inf, nextafter
from typing import Protocol

from rosa_client.connection.greeting import Greeting
from rosa_client.runtime.commands import (
    CANCELLED,
    HOLDING,
    MOVING,
    PLAYING,
    Alert,
    Ask,
    CallEnded,
    ClearAlert,
    Command,
    Decision,
    Hold,
    Inputs,
    MoveTo,
    Play,
    Send,
    TaskEnded,
)
from rosa_client.runtime.runtime import RobotRuntime
from rosa_contract.config.robot import RobotSpec
from rosa_contract.config.tasks import Task
from rosa_contract.wire.messages import OK, Response

TAKES_S = 0.002  # how soon an arm takes an order
MOVE_S = 2.0  # how long a move to a named pose takes
STEP_S = 0.001  # never asked more often than this for the same reason
JUST_NOW_S = 1e-9  # a continuous sensor shows what has just ended
ToSend = Send | Ask | CallEnded | TaskEnded  # a call that was cancelled, a task that is over


@dataclass(frozen=True)
class Habits:
    """How closely the body follows a real one; the default is asked, and sees, at any instant."""

    control_period_s: float = 0.0  # the core is asked on this grid only
    camera_period_s: float = 0.0  # a new sample comes on this grid only
    operator_s: float | None = None  # after which a person resumes an escalated robot; none: nobody does


ANY_TIME = Habits()


class Observer(Protocol):
    """Whoever wants to know what a robot does."""

    def sent(self, robot: VirtualRobot, send: Send, now_s: float) -> None: ...

    def ended(self, robot: VirtualRobot, ended: CallEnded, now_s: float) -> None: ...

    def late(self, robot: VirtualRobot, component: str, now_s: float) -> None: ...

    def acted(self, robot: VirtualRobot, now_s: float) -> None: ...

    def escalated(self, robot: VirtualRobot, alert: Alert, now_s: float) -> None: ...


def without_horizon(task: Task) -> Task:
    """The task with its mean action period: what answers a virtual robot has no model that could choose a horizon."""
    return replace(task, pipeline=replace(task.pipeline, horizon=None))


class Samples(Mapping[str, float]):
    """When every sensor delivered last: all of them at the same instants."""

    def __init__(self, period_s: float, phase_s: float) -> None:
        self._period_s, self._phase_s = period_s, phase_s
        self.newest_s = -inf

    def look(self, now_s: float) -> None:
        """Time goes on."""
        if self._period_s:
            frames = floor((now_s - self._phase_s) / self._period_s)
            self.newest_s = self._phase_s + frames * self._period_s
        else:
            self.newest_s = now_s + JUST_NOW_S

    def next_s(self, now_s: float) -> float:
        """When the next sample comes."""
        return self.newest_s + self._period_s if self._period_s else now_s

    def get(self, name: str, default: object = None) -> float:
        return self.newest_s

    def __getitem__(self, name: str) -> float:
        return self.newest_s

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class VirtualRobot:
    """`due_s` says when to call `tick`; what has to be sent is returned."""

    def __init__(
        self,
        name: str,
        task: Task,
        spec: RobotSpec,
        link: Greeting,
        observer: Observer,
        habits: Habits = ANY_TIME,
        phase_s: float = 0.0,
    ) -> None:
        """`phase_s`: where the grids of control and cameras begin."""
        self.name, self.link = name, link
        self.core = RobotRuntime(name, without_horizon(task), spec)
        self.due_s = inf
        self._observer, self._habits, self._phase_s = observer, habits, phase_s
        self._samples = Samples(habits.camera_period_s, phase_s)
        self._inputs = Inputs(self._samples, False)
        self._arm_state, self._arm_sequence = HOLDING, 0
        self._arm_changes_s = inf  # when the arm feels different next
        self._person_s = inf
        self._useful = False  # the response that came last holds a result
        self._sends: list[ToSend] = []

    def start(self, now_s: float) -> list[ToSend]:
        """Begin the task; it waits for the gateway's welcome."""
        self._carry(self.core.start(now_s), now_s)
        return self.tick(now_s)

    def tick(self, now_s: float) -> list[ToSend]:
        """Feel, decide, and say when to be called again."""
        if self._arm_changes_s <= now_s:
            self._arm_state, self._arm_sequence, self._arm_changes_s = HOLDING, self.core.sequence, inf
        if self._person_s <= now_s and self.core.alert is not None:
            self._person_s = inf
            _, commands = self.core.decide(
                now_s, self.core.alert.alert_id, "resume", "the simulated operator"
            )
            self._carry(commands, now_s)
        self._samples.look(now_s)
        self._ask_core(now_s)
        self._plan_wake(now_s, self.core.next_due_s, STEP_S)
        return self._take()

    def receive(self, response: Response, now_s: float) -> list[ToSend]:
        """An answer has come; as in production the core is asked right after."""
        self._useful = response.status == OK
        self._carry(self.core.answer(now_s, response), now_s)
        if self._arm_changes_s <= now_s:
            return self.tick(now_s)
        self._samples.look(now_s)
        went_on = self._ask_core(now_s)
        due_s = self.core.next_due_s
        self._plan_wake(now_s, due_s, STEP_S if went_on or due_s <= now_s else 0.0)
        return self._take()

    def linked(self, now_s: float) -> list[ToSend]:
        """The link has become ready, or lost, or has other rates: the core has to know."""
        return self.tick(now_s) if self.due_s < inf else []

    def _ask_core(self, now_s: float) -> bool:
        """Whether it commanded anything."""
        commands = self.core.tick(now_s, self._feel())
        self._carry(commands, now_s)
        return bool(commands)

    def _feel(self) -> Inputs:
        old, link = self._inputs, self.link
        if (
            old.arm_state != self._arm_state
            or old.arm_sequence != self._arm_sequence
            or old.link_ready != link.ready
            or old.link_reason != link.reason
            or old.rates_hz is not link.rates_hz
            or old.permit_s is not link.permit_s
        ):
            self._inputs = Inputs(
                self._samples,
                link.ready,
                link.reason,
                self._arm_state,
                self._arm_sequence,
                rates_hz=link.rates_hz,
                catch_up=link.catch_up,
                first_call_s=link.first_call_s,
                permits=link.permits,
                permit_s=link.permit_s,
            )
        return self._inputs

    def _plan_wake(self, now_s: float, core_s: float, step_s: float) -> None:
        if core_s <= now_s:  # it lacks a newer sample
            core_s = max(min(self._samples.next_s(now_s), self._deadline_s(now_s)), now_s + step_s)
        wake_s = min(core_s, self._arm_changes_s, self._person_s)
        period_s = self._habits.control_period_s
        if period_s and wake_s < inf:
            grid_s = self._phase_s + ceil((wake_s - self._phase_s) / period_s - 1e-9) * period_s
            wake_s = max(wake_s, grid_s, now_s + step_s)
        self.due_s = wake_s

    def _deadline_s(self, now_s: float) -> float:
        """When the next call in flight is overdue; waiting for a sample must not put that off."""
        open_s = [calls.deadline_s for calls in self.core.calls.values() if calls.in_flight]
        return nextafter(min((due_s for due_s in open_s if due_s >= now_s), default=inf), inf)

    def _carry(self, commands: list[Command], now_s: float) -> None:
        for command in commands:
            if isinstance(command, CallEnded):
                if command.ending == CANCELLED:
                    self._sends.append(command)
                self._observer.ended(self, command, now_s)
            elif isinstance(command, Decision):
                if command.cause == "late_result" and self._useful:
                    self._observer.late(self, command.component, now_s)
            elif isinstance(command, Send):
                self._sends.append(command)
                self._observer.sent(self, command, now_s)
            elif isinstance(command, Ask | TaskEnded):
                self._sends.append(command)
            elif isinstance(command, Play):
                self._arm_state, self._arm_sequence = PLAYING, command.sequence
                self._arm_changes_s = self.core.chunk_ends_s
                self._observer.acted(self, now_s)
            elif isinstance(command, MoveTo):
                self._arm_state, self._arm_sequence = MOVING, command.sequence
                self._arm_changes_s = now_s + MOVE_S
            elif isinstance(command, Hold):
                self._arm_changes_s = now_s + TAKES_S
            elif isinstance(command, Alert):
                self._observer.escalated(self, command, now_s)
                if self._habits.operator_s is not None:
                    self._person_s = now_s + self._habits.operator_s
            elif isinstance(command, ClearAlert):
                self._person_s = inf

    def _take(self) -> list[ToSend]:
        sends, self._sends = self._sends, []
        return sends
