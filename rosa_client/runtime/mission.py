"""What the core remembers about one robot and its task, and the few verbs that change it. No decision is taken here."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

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
from rosa_client.runtime.lane import Lane
from rosa_client.runtime.route import TO_SAFETY, Leg
from rosa_client.runtime.task_machine import MAY_MOVE, NOT_TIMED, Event, State, advance
from rosa_contract.config import GOAL_COUPLED, SAFETY, Task
from rosa_contract.fallbacks import FallbackAction, fallback
from rosa_contract.robot import RobotSpec

JOINT_STATE = "joint_state"


@dataclass(frozen=True)
class Timeouts:
    """How long the core waits for things that no SLO bounds. What follows each is an escalation."""

    connect_s: float = 60.0  # the server's welcome, the first sensor samples, and an arm that answers
    sensor_s: float = 3.0  # a camera or the joint states that went silent or stay too old
    arm_s: float = 3.0  # an arm that does not take an order
    move_s: float = 20.0  # a move to a named pose, or an arm that does not come to rest after a chunk


@dataclass
class Counters:
    """What a task's report counts."""

    rounds: int = 0  # executed action chunks
    retries: int = 0
    system1_ms: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Held:
    """One thing that stops the arm until it clears."""

    action: FallbackAction
    since_s: float


@dataclass(frozen=True)
class Cause:
    """Why a human is called."""

    cause: str
    reason: str
    component: str = ""


@dataclass(frozen=True)
class Settled:
    """Who or what answered an alert."""

    by: str
    choice: str
    at_s: float


class Mission:
    """One robot with one task: state, calls, counters, what holds the arm, and the commands not yet taken."""

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
        self.timeouts = timeouts or Timeouts()
        self.state = State.IDLE
        self.entered_s = 0.0
        self.deadline_s: float | None = None  # of the whole task
        self.attempt = 0
        self.counters = Counters()
        self.inputs = Inputs({}, False)
        self.out: list[Command] = []
        # calls
        self.lanes = self.new_lanes()
        self.request_id = 0
        self.fresh_after_s = 0.0  # an observation older than this shows the past
        self.plan: str | None = None
        self.plan_credit = 1.0  # System 2 calls that are due; grows by the call ratio with each round
        self.verdicts: dict[str, deque[str]] = {}
        self.looked = False  # safety has said safe in this attempt: no motion begins before
        # the arm
        self.sequence = 0
        self.last_order: Order | None = None
        self.ordered_s = 0.0
        self.unheard_since_s = 0.0  # since then the arm has orders to take, and has taken none
        self.play_until_s = 0.0
        self.leg = TO_SAFETY  # the move under way
        self.stay_until_s: float | None = None  # arrived, and waits at the end of the leg
        self.reset_pending = False  # a reset was interrupted and begins again when nothing holds the arm
        self.return_pending = False  # so was a move to the safe pose; it goes on when `stands_in_danger` ends
        # the ladder
        self.holds: dict[str, Held] = {}
        self.unsafe_in_a_row = 0
        self.cut_short_in_a_row = 0
        self.blind_in_a_row = 0  # stops for a sensor since the last chunk that was carried out
        self.failures = 0  # failed attempts since the start or an operator's decision
        # people
        self.alert: Alert | None = None
        self.alert_id = first_alert - 1  # of the newest alert
        self.call_human_for = Cause("", "")  # what to ask when the safe pose is reached
        self.settled: dict[int, Settled] = {}
        self.excused_fault = (
            ""  # shown when a person decided; it counts again once the arm has taken a new order
        )
        self.emergency_noted = False
        self.last_decision: Decision | None = None

    def new_lanes(self) -> dict[str, Lane]:
        return {key: Lane(key, component) for key, component in self.task.components.items()}

    # -- what is known ------------------------------------------------------------------------------------------------

    @property
    def sensors(self) -> tuple[str, ...]:
        return (*self.robot.cameras, JOINT_STATE)

    @property
    def arm_is_behind(self) -> bool:
        """The arm has not yet taken the newest order; what it reports concerns an older one."""
        return self.inputs.arm_sequence < self.sequence

    @property
    def lets_move(self) -> bool:
        """The arm may move now; while this is so, the shell gives it a sign of life."""
        settles = self.state is State.INFERRING and isinstance(self.last_order, Play)
        return self.state in MAY_MOVE or settles

    @property
    def must_stand(self) -> bool:
        """The last verdict of safety is unsafe, and its fallback is to stand still, not to drive to the safe pose."""
        lane = self.lanes.get(SAFETY)
        return (
            self.unsafe_in_a_row > 0
            and lane is not None
            and fallback(lane.component.fallback) is not FallbackAction.RETURN_TO_SAFE_STATE
        )

    @property
    def stands_in_danger(self) -> bool:
        """It does stand for that reason: then no move, not even to the safe pose, goes on."""
        return self.must_stand and SAFETY in self.holds

    def stale(self, now_s: float) -> dict[str, float]:
        """Sensors whose newest sample is too old -> its time."""
        limit_s = self.robot.max_sensor_age_ms / 1000
        stamps = {name: self.inputs.sensor_stamp_s.get(name, self.entered_s) for name in self.sensors}
        return {name: stamp_s for name, stamp_s in stamps.items() if now_s - stamp_s > limit_s}

    # -- verbs --------------------------------------------------------------------------------------------------------

    def go(self, event: Event, now_s: float) -> None:
        """Follow the transition table; raises `IllegalEvent` before anything has changed."""
        before, self.state = self.state, advance(self.state, event)
        if before in NOT_TIMED and self.deadline_s is not None:
            self.deadline_s += now_s - self.entered_s
        self.entered_s = now_s

    def note(self, action: str, cause: str, reason: str, component: str = "") -> None:
        self.last_decision = Decision(action, cause, reason, component)
        self.out.append(self.last_decision)

    def next_sequence(self) -> int:
        """The number of the next arm command; the arm obeys a command only when its number is new."""
        self.sequence += 1
        return self.sequence

    def feel(self, inputs: Inputs, now_s: float) -> None:
        """What the robot knows about itself now."""
        if inputs.arm_sequence != self.inputs.arm_sequence:
            self.unheard_since_s = now_s
        self.inputs = inputs

    def order(self, order: Order, now_s: float) -> None:
        if self.inputs.arm_sequence >= order.sequence - 1:
            self.unheard_since_s = now_s
        self.last_order = order
        self.ordered_s = now_s
        self.out.append(order)

    def hold(self, now_s: float) -> None:
        self.order(Hold(self.next_sequence()), now_s)

    def move(self, leg: Leg, now_s: float) -> None:
        self.leg = leg
        self.stay_until_s = None
        self.order(MoveTo(self.next_sequence(), leg.pose, leg.gripper), now_s)

    def cancel_calls(self, now_s: float) -> None:
        """Whatever is in flight will not be used."""
        for lane in self.lanes.values():
            self._cancel(lane, now_s)

    def cancel_chain(self, now_s: float) -> None:
        """The chunk under way and the calls made for it no longer count."""
        for key in GOAL_COUPLED:
            if key in self.lanes:
                self._cancel(self.lanes[key], now_s)

    def clear(self, key: str) -> None:
        """What held the arm under this name is good again."""
        if self.holds.pop(key, None) is not None:
            self.note("clear", "recovered", f"{key} is good again", key)

    def forget_plan(self) -> None:
        self.plan, self.plan_credit = None, 1.0

    def begin_attempt(self, now_s: float) -> None:
        """Everything that belonged to what was before is forgotten; every component is due."""
        self.forget_plan()
        self.cancel_calls(now_s)
        self.verdicts.clear()
        self.fresh_after_s = now_s
        self.looked = SAFETY not in self.lanes
        for lane in self.lanes.values():
            lane.due_s = now_s
            lane.resend_after_s = now_s

    def take(self) -> list[Command]:
        """The commands since the last call, in order."""
        out, self.out = self.out, []
        return out

    def _cancel(self, lane: Lane, now_s: float) -> None:
        ended = lane.cancel(now_s)
        if ended is not None:
            self.out.append(ended)
