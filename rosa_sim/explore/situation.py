"""One robot's core and its surroundings, small enough for an exhaustive search.

The core is the real one (`RobotRuntime`). Time is made abstract: after every event each of its times is set to "not
yet", and an event that needs one to have come sets that one alone. So deadlines, periods and timeouts may come in any
order, also in orders that no clock allows. What holds for all of these holds for the real ones.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import Any

from rosa_client.motion.refusal import Refusal
from rosa_client.runtime.calls import ComponentCalls
from rosa_client.runtime.commands import (
    HOLDING,
    MOVING,
    OPEN,
    PLAYING,
    RETURNING,
    CallEnded,
    Command,
    Decision,
    Hold,
    Inputs,
    MoveTo,
    Play,
)
from rosa_client.runtime.machines.task_machine import State
from rosa_client.runtime.mission import Counters, Mission
from rosa_client.runtime.parts.chunk import AskedAhead, Playing
from rosa_client.runtime.parts.holds import Held
from rosa_client.runtime.parts.sight import Observed
from rosa_client.runtime.runtime import RobotRuntime
from rosa_contract.config.cameras import JOINT_STATE
from rosa_contract.config.tasks import SYSTEM1
from rosa_contract.wire.messages import Response

NOW_S = 1000.0
NEVER_S = NOW_S + 1e6
LONG_AGO_S = 0.0
FAULT = "reflex"
LED_ON = "led on"
CUT = "no sign of life"

# What may be wrong at one instant.
BLIND, FAULTY, STOPPED, UNLINKED, RETURNS = "blind", "faulty", "stopped", "unlinked", "returns"


@dataclass
class Situation:
    """The core, its arm, and the calls that are over but may still be answered."""

    runtime: RobotRuntime
    arm_state: str = HOLDING
    arm_sequence: int = 0  # the last order that the arm has taken
    arm_cut: bool = False  # ended its last order before time
    object_held: bool = False
    reset_owed: bool = False  # a reset was interrupted and has not begun again
    retried: int = 0  # retries by the robot itself since the last human decision
    retired: int = 0  # a call that has ended
    commands: list[Command] = field(default_factory=list)  # of the last event
    ticked: bool = False  # the last event came with a control period
    blind: bool = False  # and in it the sensors were too old
    faulty: bool = False  # and in it the arm, which had taken every order, reported a fault
    returns: bool = False  # and in it the arm was led on after a fault
    excused: bool = False  # a person knew of the arm's fault, and it has not been well since
    arrived: Response | None = None  # the response that was the last event
    refusal: Refusal | None = None  # of the last event, when it was an operator's decision

    def copy(self) -> Situation:
        """Independent of this one; shares only what never changes."""
        other: Situation = _twin(self)
        other.runtime = _copied(self.runtime)
        other.commands, other.refusal, other.arrived = [], None, None
        other.ticked = other.blind = other.faulty = other.returns = False
        return other

    @property
    def core(self) -> Mission:
        """What the robot remembers."""
        return self.runtime.mission

    # -- what can be told to the core ---------------------------------------------------------------------------------

    def tick(self, wrong: str = "") -> None:
        """One control period in which all is well, or one thing is `wrong`."""
        core = self.core
        self.ticked, self.blind = True, wrong == BLIND
        self.faulty = wrong == FAULTY and not self.arm_behind
        self.returns = wrong == RETURNS
        fault = {FAULTY: FAULT, RETURNS: LED_ON}.get(wrong, "")
        self.excused &= bool(fault) or self.arm_behind
        seen_s = NOW_S - 0.001 if wrong != BLIND else NOW_S - 0.001 - core.robot.max_sensor_age_ms / 1000
        inputs = Inputs(
            sensor_stamp_s=dict.fromkeys((*core.robot.cameras, JOINT_STATE), seen_s),
            link_ready=wrong != UNLINKED,
            link_reason="the cable is cut",
            arm_state=RETURNING if self.returns else self.arm_state,
            arm_sequence=self.arm_sequence,
            arm_fault=fault,
            arm_cut_short=CUT if self.arm_cut else "",
            emergency_stop=wrong == STOPPED,
            gripper_holds=self.object_held,
        )
        self.hear(self.runtime.tick(NOW_S, inputs))

    def hear(self, commands: list[Command]) -> None:
        """What the shell would do with the core's commands; the arm takes orders later, or not."""
        self.commands += commands
        for command in commands:
            if isinstance(command, CallEnded):
                self.retired = command.request_id
            elif isinstance(command, Decision) and command.cause in ("operator", "task_started"):
                self.retried = 0
                self.excused = command.cause == "task_started" or bool(self.core.inputs.arm_fault)
            elif isinstance(command, Decision) and (command.action, command.cause) == ("retry", "monitor"):
                self.retried += 1

    def arm_takes(self) -> None:
        """The arm takes the newest order."""
        order = self.core.arm.last_order
        self.arm_state = {Play: PLAYING, MoveTo: MOVING, Hold: HOLDING}[type(order)]
        if isinstance(order, MoveTo) and (order.pose, order.gripper) == ("drop", OPEN):
            self.object_held = False
        self.arm_sequence, self.arm_cut = self.core.arm.sequence, False

    def led_arm_takes(self) -> None:
        """An arm that is led on takes the newest order, and refuses it when it moves."""
        self.arm_state, self.arm_sequence = HOLDING, self.core.arm.sequence
        self.arm_cut = not isinstance(self.core.arm.last_order, Hold)

    @property
    def arm_behind(self) -> bool:
        """It has not yet taken the newest order."""
        return self.arm_sequence < self.core.arm.sequence

    # -- what makes the search finite ---------------------------------------------------------------------------------

    def settle(self) -> None:
        """After an event: set every time to "not yet" again, and every mere counter to zero."""
        core = self.core
        if core.state not in (State.HOLDING, State.RETURNING):
            self.reset_owed = False
        core.entered_s = core.arm.ordered_s = core.arm.unheard_since_s = NOW_S
        core.sight.fresh_after_s = core.sight.looks_from_s = LONG_AGO_S
        self._settle_observations()
        core.chunk.ends_s = core.arm.stay_until_s = NEVER_S
        core.chunk.ask_next_s = min(core.chunk.ask_next_s, NEVER_S) if core.chunk.ask_next_s < inf else inf
        if core.chunk.playing is not None:
            core.chunk.playing = Playing(core.chunk.playing.actions, core.chunk.playing.step_s, NOW_S)
        if core.chunk.asked is not None:
            core.chunk.asked = AskedAhead(NOW_S, 1)
        core.deadline_s = NEVER_S if core.deadline_s is not None else None
        core.holds.by = {key: Held(held.action, NOW_S) for key, held in core.holds.by.items()}
        core.counters = Counters()
        core.attempts.number = 1
        core.person.settled = {
            key: value for key, value in core.person.settled.items() if key >= core.person.newest - 1
        }
        for calls in core.calls.values():
            calls.sent = calls.in_time = calls.missed = calls.cancelled = calls.late_discarded = 0
            calls.latencies_ms.clear()
            calls.due_s = NEVER_S
            calls.sent_s, calls.deadline_s = NOW_S, NEVER_S
            calls.resend_after_s = NEVER_S if calls.resend_after_s > NOW_S else LONG_AGO_S
            if len(calls._overdue) > 1:
                calls._overdue = {max(calls._overdue)}

    def _settle_observations(self) -> None:
        """The newest observation is number 2, that of the round's first call number 1, and both are recent."""
        core, saw = self.core, self.core.sight.of_round
        for calls in core.calls.values():
            calls.about = int(saw is not None and calls.about == saw.number)
        core.sight.of_round = None if saw is None else Observed(1, NOW_S, NOW_S)
        core.sight.newest, core.sight.is_new = Observed(2, NOW_S, NOW_S), False

    @property
    def joins(self) -> bool:
        """System 1 is in flight, and its chunk joins the one that plays or has just ended."""
        return self.core.calls[SYSTEM1].in_flight and self.core.chunk.asked is not None


# The parts of a core; their values are frozen, or copied one by one below.
PARTS = ("sight", "planning", "chunk", "arm", "holds", "attempts", "person")


def _twin(one: Any) -> Any:
    """As `copy.copy`, several times faster."""
    other = object.__new__(type(one))
    other.__dict__.update(one.__dict__)
    return other


def _copied(runtime: RobotRuntime) -> RobotRuntime:
    """A copy that shares only descriptions and frozen values."""
    copied: RobotRuntime = _twin(runtime)
    core, other = runtime.mission, _twin(runtime.mission)
    copied.mission = other
    other.counters, other.out = Counters(), []
    for part in PARTS:
        setattr(other, part, _twin(getattr(core, part)))
    other.holds.by, other.person.settled = dict(core.holds.by), dict(core.person.settled)
    other.attempts.verdicts = {
        name: deque(seen, seen.maxlen) for name, seen in core.attempts.verdicts.items()
    }
    other.calls = {name: _calls_copied(calls) for name, calls in core.calls.items()}
    return copied


def _calls_copied(calls: ComponentCalls) -> ComponentCalls:
    other: ComponentCalls = _twin(calls)
    other.latencies_ms, other._overdue = deque(maxlen=1), set(calls._overdue)
    return other
