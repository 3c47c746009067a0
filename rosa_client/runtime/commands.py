"""The inputs and commands of the robot's core. Plain data; the shell around the core carries commands out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy.typing as npt

from rosa_contract.wire.horizon import Horizon
from rosa_contract.wire.overlap import Overlap
from rosa_contract.wire.progress import Progress

# -- inputs --------------------------------------------------------------------------------------------------------

HOLDING = "holding"
PLAYING = "playing"
MOVING = "moving"
RETURNING = (
    "returning"  # led on from where it stands after a fault; until that ends it takes no order that moves
)

KEEP = "keep"  # the grippers stay as they were last commanded
OPEN = "open"


@dataclass(frozen=True)
class Inputs:
    """What the robot knows about itself at one instant. Times are this machine's monotonic clock, in s."""

    # Camera or "joint_state" -> when its newest sample was taken, or arrived if that is unknown; absent: none yet.
    sensor_stamp_s: Mapping[str, float]
    link_ready: bool  # the gateway has welcomed this robot
    link_reason: str = ""  # why not, in words
    arm_state: str = HOLDING  # HOLDING, PLAYING, MOVING or RETURNING
    arm_sequence: int = 0  # the last arm command that the arm has taken
    arm_fault: str = ""  # empty while the arm can move
    arm_cut_short: str = ""  # why the last order did not run to its end; empty when it did or still runs
    emergency_stop: bool = False  # latched: every order is refused until a person releases it
    gripper_holds: bool = False  # something is between the fingers
    # Calls per second that the server's schedule allows, by component; absent: no limit.
    rates_hz: Mapping[str, float] = field(default_factory=dict)
    catch_up: float = 0.0  # how many periods of such a rate a late robot may make up for
    # When the first call of a component may leave, this machine's clock; absent: at once.
    first_call_s: Mapping[str, float] = field(default_factory=dict)
    arm_recovers: bool = False  # it can be helped out of a fault when a person says so
    # Components that may be called before their turn, with a permit of the server.
    permits: Collection[str] = ()
    permit_s: Mapping[str, float] = field(default_factory=dict)  # when the newest permit of a component came
    # Sensor -> why what arrives from it cannot be used, in words: its pictures have another size, its clock differs.
    sensor_faults: Mapping[str, str] = field(default_factory=dict)


# -- commands ------------------------------------------------------------------------------------------------------
# Named tuples: several are made in every round of every robot, and a frozen dataclass takes twice as long to make.


class Decision(NamedTuple):
    """One decision that explains itself; it goes unchanged to the log, to diagnostics and to the operator."""

    action: str  # what the robot does, such as stop_and_resend or escalate
    cause: str  # machine-readable trigger, such as slo_missed
    reason: str  # one sentence for people
    component: str = ""


class Send(NamedTuple):
    """Send an observation to this component: the newest one, or the one that an earlier call with its number showed.

    The deadline is `budget_ms` from now.
    """

    request_id: int
    component: str
    budget_ms: float
    prompt: str
    horizon: Horizon | None = None  # how the server chooses how much of the chunk is played
    overlap: Overlap | None = None  # what the arm plays meanwhile; None: it stands
    observation: int = 0  # calls with one number are about the same pictures and state
    progress: Progress | None = None  # of goal-coupled components: where the robot is in its task


class Ask(NamedTuple):
    """Ask the server for a permit: this component would be called now, were it not for its rate."""

    component: str


class Play(NamedTuple):
    """Execute `actions` (horizon, joints + grippers): joint positions rad and widths m, one row per `step_s`."""

    sequence: int
    actions: npt.NDArray[Any]
    step_s: float
    duration_s: float  # how much of it, in the chunk's own time: the task's action period, or the horizon
    request_id: int
    skip_s: float = 0.0  # begin so far into it, in the chunk's own time


class Hold(NamedTuple):
    """Stop within one control period, smoothly, and stay."""

    sequence: int


class MoveTo(NamedTuple):
    """Move, within limits, to a named pose of the robot: `home`, `safe`, `clear` or `drop`."""

    sequence: int
    pose: str
    gripper: str = KEEP  # KEEP what it holds, or OPEN


class Alert(NamedTuple):
    """Ask the operator. Nothing moves until one of `choices` arrives for this `alert_id`."""

    alert_id: int
    cause: str
    reason: str
    choices: tuple[str, ...]


@dataclass(frozen=True)
class RecoverArm:
    """Help the arm out of its fault. Nothing moves by this, and the alert stays open."""


class ClearAlert(NamedTuple):
    """The alert is settled."""

    alert_id: int
    reason: str


class TaskEnded(NamedTuple):
    """The task is over: one of `progress.OUTCOMES`. `task`: its number, as requests carried it."""

    outcome: str
    reason: str
    task: int = 0


CANCELLED = "cancelled"  # an ending of which the server is told, so that it drops the call


class CallEnded(NamedTuple):
    """One call of a component is over. `ending` is `in_time`, `missed` or `cancelled`."""

    component: str
    request_id: int
    ending: str
    duration_ms: float  # from sending
    slo_ms: float


Command = (
    Decision | Send | Ask | Play | Hold | MoveTo | RecoverArm | Alert | ClearAlert | TaskEnded | CallEnded
)
Order = Play | Hold | MoveTo
