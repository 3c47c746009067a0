"""The state of one robot and its task, and the few operations that change it. No decision is taken here."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from rosa_client.motion.limits import MotionLimits
from rosa_client.runtime.calls import ComponentCalls
from rosa_client.runtime.chunks import Asked, Playing
from rosa_client.runtime.commands import (
    Alert,
    Command,
    Decision,
    Hold,
    Inputs,
    MoveTo,
    Order,
    Play,
)
from rosa_client.runtime.machines.machine import advance
from rosa_client.runtime.machines.side_machines import (
    LEG_PROGRESS,
    SAFETY_VERDICTS,
    UNFINISHED,
    LegEvent,
    LegProgress,
    Safety,
    SafetyEvent,
    Unfinished,
    UnfinishedEvent,
)
from rosa_client.runtime.machines.task_machine import MAY_MOVE, NOT_TIMED, TRANSITIONS, Event, State
from rosa_client.runtime.planned import Planned
from rosa_client.runtime.route import TO_SAFETY, Leg
from rosa_contract.config.robot import RobotSpec
from rosa_contract.config.tasks import GOAL_COUPLED, MONITOR, SAFETY, SYSTEM2, Task
from rosa_contract.fallbacks import FallbackAction, fallback

JOINT_STATE = "joint_state"


@dataclass(frozen=True)
class Timeouts:
    """How long the core waits for what no SLO bounds. Each of them leads to an escalation."""

    connect_s: float = 60.0  # the server's welcome, the first sensor samples, and an arm that answers
    sensor_s: float = 3.0  # a camera or the joint states that went silent, stay too old or cannot be used
    arm_s: float = 3.0  # an arm that does not take an order
    move_s: float = 20.0  # a move to a named pose, or an arm that does not come to rest after a chunk


@dataclass
class Counters:
    """Figures for the task's result."""

    rounds: int = 0  # executed action chunks
    retries: int = 0
    system1_ms: list[float] = field(default_factory=list)


class Observed(NamedTuple):
    """One observation: its number, when it was taken, and the time of its oldest sample."""

    number: int
    taken_s: float
    oldest_s: float


@dataclass(frozen=True)
class Held:
    """A cause that holds the arm until it clears."""

    action: FallbackAction
    since_s: float


@dataclass(frozen=True)
class Cause:
    """Why a human is called, and what that human should look at, in words; empty where the reason says it."""

    cause: str
    reason: str
    component: str = ""
    advice: str = ""


@dataclass(frozen=True)
class Settled:
    """Who or what settled an alert."""

    by: str
    choice: str
    at_s: float


class Mission:
    """One robot with one task: states, calls, counters, what holds the arm, and the commands not yet taken.

    The states are those of four tables: `state` of the task, `safety`, `unfinished` and `leg_progress` beside it. All
    else is data: times, counters, the plan, and causes by name.
    """

    def __init__(
        self,
        name: str,
        task: Task,
        robot: RobotSpec,
        timeouts: Timeouts | None = None,
        first_alert: int = 1,
    ) -> None:
        self.name = name
        self.task = task
        self.robot = robot
        self.limits = MotionLimits.of(robot)
        self.sensors = (*robot.cameras, JOINT_STATE)
        self.timeouts = timeouts or Timeouts()
        self.state = State.IDLE
        self.safety = Safety.UNKNOWN if SAFETY in task.components else Safety.UNGUARDED
        self.unfinished = Unfinished.NOTHING
        self.leg_progress = LegProgress.ARRIVED
        self.entered_s = 0.0  # when the present state was entered
        self.deadline_s: float | None = None  # of the task; None: no limit
        self.attempt = 0
        self.task_number = 0  # of the tasks that this core has begun
        self.counters = Counters()
        self.inputs = Inputs({}, False)
        self.out: list[Command] = []
        # calls
        self.calls = self.new_calls()
        self.request_id = 0
        self.fresh_after_s = 0.0  # an older observation does not show the present scene
        self.looks_from_s = -inf  # the arm settles after its chunk until then; what a round sees comes later
        self.observed = Observed(0, -inf, -inf)  # the newest
        self.observed_now = False  # it was taken in this control period
        self.round_observed: Observed | None = None  # what this round's System 1 or 2 was asked about
        self.plan: str | None = None
        self.plan_credit = 1.0  # System 2 calls that are due; grows by the call ratio with each round
        self.forget_steps()
        self.verdicts: dict[str, deque[str]] = {}
        self.monitor_says = ""  # the kind of its last text, so that each is told once
        # the arm
        self.sequence = 0
        self.last_order: Order | None = None
        self.ordered_s = 0.0
        self.unheard_since_s = 0.0  # since when the arm has not taken an order that it should
        self.play_until_s = 0.0
        self.playing: Playing | None = None  # the newest chunk
        self.ask_next_s = inf  # when the next chunk is asked for while this one plays
        self.asked_ahead: Asked | None = (
            None  # how the newest System 1 call continues a chunk; None: it does not
        )
        self.leg = TO_SAFETY  # the move under way
        self.stay_until_s = 0.0  # until then it stays at the end of the leg
        # the ladder
        self.held_by: dict[str, Held] = {}  # sensors, components or the arm that `holding` waits for, by name
        self.unsafe_in_a_row = 0
        self.cut_short_in_a_row = 0
        self.stops_in_a_row = 0  # since the last chunk that was carried out
        self.failures = 0  # failed attempts since the start or an operator's decision
        # people
        self.alert: Alert | None = None
        self.alert_id = first_alert - 1  # of the newest alert
        self.call_human_for = Cause("", "")  # the cause of the alert to raise at the safe pose
        self.settled: dict[int, Settled] = {}
        # The arm's fault when a person decided; it counts again once the arm has taken a new order.
        self.excused_fault = ""
        self.awaits_arm = False  # it has not been seen well since a person decided
        self.was_stopped = False  # the emergency stop was latched in the control period before
        self.last_decision: Decision | None = None

    def new_calls(self) -> dict[str, ComponentCalls]:
        return {key: ComponentCalls(key, component) for key, component in self.task.components.items()}

    # -- what is known ------------------------------------------------------------------------------------------------

    @property
    def arm_is_behind(self) -> bool:
        """The arm has not yet taken the newest order, so its reports are about an older one."""
        return self.inputs.arm_sequence < self.sequence

    @property
    def lets_move(self) -> bool:
        """The arm may move now; while this is true, the shell sends it signs of life."""
        settles = self.state is State.INFERRING and isinstance(self.last_order, Play)
        return self.state in MAY_MOVE or settles

    @property
    def must_stand(self) -> bool:
        """The last verdict of safety is unsafe, and its fallback is to stand still, not to drive to the safe pose."""
        if self.safety is not Safety.UNSAFE:
            return False
        return fallback(self.calls[SAFETY].component.fallback) is not FallbackAction.RETURN_TO_SAFE_STATE

    @property
    def stands_in_danger(self) -> bool:
        """It holds for that reason, so no move continues, not even the one to the safe pose."""
        return self.must_stand and SAFETY in self.held_by

    def stale(self, now_s: float) -> dict[str, float]:
        """Sensors whose newest sample is too old -> its time."""
        limit_s = self.robot.max_sensor_age_ms / 1000
        newest_s = self.inputs.sensor_stamp_s.get
        old: dict[str, float] = {}  # asked several times in every control period, and nearly always empty
        for name in self.sensors:
            stamp_s = newest_s(name, self.entered_s)
            if now_s - stamp_s > limit_s:
                old[name] = stamp_s
        return old

    # -- verbs --------------------------------------------------------------------------------------------------------

    def go(self, event: Event, now_s: float) -> None:
        """Follow the transition table; raises `IllegalEvent` before anything has changed."""
        before, self.state = self.state, advance(TRANSITIONS, self.state, event)
        if before in NOT_TIMED and self.deadline_s is not None:
            self.deadline_s += now_s - self.entered_s
        self.entered_s = now_s

    def safety_goes(self, event: SafetyEvent) -> None:
        self.safety = advance(SAFETY_VERDICTS, self.safety, event)

    def unfinished_goes(self, event: UnfinishedEvent) -> None:
        self.unfinished = advance(UNFINISHED, self.unfinished, event)

    def leg_goes(self, event: LegEvent) -> None:
        self.leg_progress = advance(LEG_PROGRESS, self.leg_progress, event)

    def note(self, action: str, cause: str, reason: str, component: str = "") -> None:
        self.last_decision = Decision(action, cause, reason, component)
        self.out.append(self.last_decision)

    def next_sequence(self) -> int:
        """The number of the next arm command; the arm obeys a command only when its number is new."""
        self.sequence += 1
        return self.sequence

    def take_inputs(self, inputs: Inputs, now_s: float) -> None:
        """Remember what the robot knows about itself now."""
        if inputs.arm_sequence != self.inputs.arm_sequence:
            self.unheard_since_s = now_s
        self.was_stopped = self.inputs.emergency_stop
        self.inputs = inputs
        self.observed_now = False

    def observe_again(self, after_s: float) -> None:
        """What was observed up to then does not show the present scene."""
        self.fresh_after_s, self.round_observed = after_s, None

    def order(self, order: Order, now_s: float) -> None:
        if self.inputs.arm_sequence >= order.sequence - 1:
            self.unheard_since_s = now_s
        self.last_order = order
        self.ordered_s = now_s
        self.out.append(order)

    def excuse_arm(self, begins: bool = False) -> None:
        """A person goes on with the task, or begins it, and knows of the arm's present fault.

        When it begins, the fault is not known here before the arm has taken its first order.
        """
        self.excused_fault = self.inputs.arm_fault
        self.awaits_arm = bool(self.inputs.arm_fault) or begins

    def hold(self, now_s: float) -> None:
        self.order(Hold(self.next_sequence()), now_s)

    def move(self, leg: Leg, now_s: float) -> None:
        self.leg = leg
        self.leg_goes(LegEvent.ORDERED)
        self.order(MoveTo(self.next_sequence(), leg.pose, leg.gripper), now_s)

    def cancel_calls(self, now_s: float) -> None:
        """Cancel every call in flight."""
        for calls in self.calls.values():
            self._cancel(calls, now_s)

    def cancel_chain(self, now_s: float) -> None:
        """Cancel the goal-coupled calls in flight."""
        for key in GOAL_COUPLED:
            if key in self.calls:
                self._cancel(self.calls[key], now_s)

    def clear(self, key: str, reason: str, cause: str = "recovered") -> None:
        """The cause `key` no longer holds the arm."""
        if self.held_by.pop(key, None) is not None:
            self.note("clear", cause, reason, key)

    def spend_plan_credit(self) -> None:
        """System 2 was called for one plan. Called ahead, it used the credit that the action under way will earn."""
        owed = self.task.pipeline.system2_to_system1_call_ratio if self.state is State.EXECUTING else 0.0
        self.plan_credit = max(-owed, self.plan_credit - 1)

    def carried_out(self, played: bool = True) -> None:
        """A chunk has come to its end, or the next one takes over; `played`: the arm had taken it."""
        if played:
            self.cut_short_in_a_row = self.stops_in_a_row = 0
        if SYSTEM2 in self.calls:
            self.plan_credit += self.task.pipeline.system2_to_system1_call_ratio

    def forget_plan(self) -> None:
        self.plan, self.plan_credit = None, 1.0

    def forget_steps(self) -> None:
        """Another scene: what was planned before says nothing about it. Another attempt is at the same scene."""
        monitor = self.task.components.get(MONITOR)
        self.planned = Planned(monitor.plans_after if monitor is not None else 0)

    def begin_attempt(self, now_s: float) -> None:
        """Forget the attempt before; every component is due now."""
        self.forget_plan()
        self.cancel_calls(now_s)
        self.verdicts.clear()
        self.monitor_says = ""
        self.observe_again(now_s)
        self.safety_goes(SafetyEvent.ASK_AGAIN)
        for calls in self.calls.values():
            calls.due_s = now_s
            calls.resend_after_s = now_s

    def take(self) -> list[Command]:
        """The commands since the last call, in order."""
        out, self.out = self.out, []
        return out

    def _cancel(self, calls: ComponentCalls, now_s: float) -> None:
        ended = calls.cancel(now_s)
        if ended is not None:
            self.out.append(ended)
