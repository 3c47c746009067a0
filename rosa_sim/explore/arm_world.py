"""An arm under the product's control loop, small enough for an exhaustive search: what is true, measured and commanded.

The control loop is the real one (`ControlLoop.period`), with the real player, watch and guard, in simulated time.
Before it stands a controller without limits, which obeys anything at once. The world keeps what may be
commanded: `problems` says what was commanded against it.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_client.drivers.arms import ArmState
from rosa_client.drivers.arms.ros2_control_rules import waypoints
from rosa_client.loops.arm_watch import ArmWatch
from rosa_client.loops.control_loop import ControlLoop
from rosa_client.motion.arm_orders import Command, Order, OrderId, PlayerState, Setpoint
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.following import OFF_RAD, Follow
from rosa_client.motion.limits import MotionLimits
from rosa_client.motion.measurement import Sample
from rosa_client.motion.refusal import Refusal
from rosa_client.motion.setpoint_guard import SetpointGuard
from rosa_contract.config.arms import Ros2ControlSettings
from rosa_contract.config.robot import JointLimits, RobotSpec
from rosa_sim.controller.following import Point, PositionFollower, TrajectoryFollower

Array = NDArray[np.float64]

PERIOD_S = 0.01
CLOCK_S = 500.0  # of whoever stamps the joint states, ahead of this computer's
MAX_FOLLOWING_ERROR_RAD = 0.1
MOVED_RAD = 1e-6
REACHED_S = 0.2  # a controller that aims at each setpoint 0.03 s ahead is at the last one to `MOVED_RAD`
HOME = np.zeros(2)
# A move takes half a second, longer than a stop; both averages of the setpoint filter are two periods long.
SPEC = RobotSpec(
    name="two_joints",
    joints=("a", "b"),
    limits=JointLimits((-1.0, -1.0), (1.0, 1.0), (4.0, 4.0), (120.0, 120.0), (12_000.0, 12_000.0)),
    cameras={},
    home_rad=(0.0, 0.0),
    safe_rad=(0.5, 0.5),
    control_rate_hz=1.0 / PERIOD_S,
)
LIMITS = MotionLimits.of(SPEC)
SPEED, LOW, HIGH = (
    np.array(limit)
    for limit in (SPEC.limits.velocity_rad_s, SPEC.limits.position_min_rad, SPEC.limits.position_max_rad)
)
SETTINGS = Ros2ControlSettings(controller_manager="")
# What is measured in a period.
RIGHT, WRONG_ONCE, STAMP_STANDS, STAMP_BACK, NOT_FINITE, SILENCE = (
    "right",
    "one sample is wrong",
    "the stamps stand still",
    "the stamps are old",
    "a joint is not a number",
    "nothing is measured",
)
LIE_RAD = np.array([0.3, 0.15])  # by which a measurement is wrong


class ExploredGuard(SetpointGuard):
    """Notes which command it has let pass last."""

    passed: Command | None = None

    def check(self, setpoint: Setpoint) -> Command | Refusal:
        checked = super().check(setpoint)
        self.passed = None if isinstance(checked, Refusal) else checked
        return checked


class ExploredArm:
    """The driver, and the arm and its controller behind it."""

    def __init__(self, guard: ExploredGuard, leads: bool) -> None:
        self.leads = leads
        self.now_s = 0.0
        self.true_rad = HOME
        self.sent_rad = HOME  # the last command
        self.held = False  # something holds it where it is
        self.lies = False  # it is measured somewhere else
        self.fault = ""  # its controller was stopped, and says why
        self.unchecked = False  # a command came that no check has let pass
        self.busy_until_s = 0.0  # its controller finishes the command that leads it to where it stands
        self._guard = guard
        self._trajectory = TrajectoryFollower(SPEC.joints, from_desired=True)
        self._positions = PositionFollower(SPEC.joints)
        self._samples: tuple[Sample, ...] = ()
        self._stamp_s = CLOCK_S
        self.hold()
        self.pass_time(RIGHT)

    def track(self, command: Command) -> None:
        self.unchecked |= command is not self._guard.passed
        self._guard.passed = None
        self.sent_rad = command.q_rad
        if command.within_s > 1.5 * PERIOD_S:
            self.busy_until_s = self.now_s + command.within_s + PERIOD_S
        if self.fault:
            return
        if self.leads:
            points = [Point(p.q_rad, p.velocity_rad_s, p.after_s) for p in waypoints(SETTINGS, command)]
            self._trajectory.follow(self.now_s, SPEC.joints, points, points[0])
        else:
            self._positions.follow(command.q_rad.tolist())

    def idle(self, period_s: float) -> None:
        """Nothing is sent."""

    def close(self) -> None:
        """Nothing to release."""

    def read(self) -> ArmState:
        samples, self._samples = self._samples, ()
        return ArmState(self.true_rad, np.zeros(2), np.array([0.04]), self.fault, samples=samples)

    @property
    def desired(self) -> Array:
        """Where its controller wants it now, `(dof,)`."""
        follower = self._trajectory if self.leads else self._positions
        return follower.desired(self.now_s)

    def hold(self) -> None:
        """Its controller begins where the arm stands."""
        self._trajectory.hold(self.true_rad)
        self._positions.hold(self.true_rad)

    def pass_time(self, measured: str) -> None:
        """One control period: the controller follows what it was told, and something is measured."""
        self.now_s += PERIOD_S
        if not self.held and not self.fault:
            self.true_rad = np.array(self.desired)
        if measured not in (STAMP_STANDS, SILENCE):
            self._stamp_s = self.now_s + CLOCK_S
        q_rad = self.true_rad + (LIE_RAD if self.lies or measured == WRONG_ONCE else 0.0)
        if measured == NOT_FINITE:
            q_rad = np.array([math.nan, 0.0])
        if measured != SILENCE:
            stamp_s = self._stamp_s - (100.0 if measured == STAMP_BACK else 0.0)
            self._samples = (Sample(q_rad, self.now_s, stamp_s),)


@dataclass
class ArmWorld:
    """The loop, its arm, and what the arm may be told."""

    arm: ExploredArm
    player: ChunkPlayer
    watch: ArmWatch
    guard: ExploredGuard
    loop: ControlLoop
    told: Array  # where the controller wanted the arm in the last period
    sent: Array  # the last command then
    crept_rad: float = 0.0  # how far the controller has moved an arm that nothing may move, since it began
    seq: int = 0
    may_move: bool = False  # an order was given since the arm was at rest
    may_return: bool = False  # a person has recovered it since
    quiet_s: float = math.inf  # since when it is stopped, inactive or faulty
    stops_until_s: float = -math.inf  # it comes to rest after a stop
    problems: list[str] = field(default_factory=list)  # of the last event

    @classmethod
    def begin(cls, leads: bool) -> ArmWorld:
        """An arm whose position is certain, and that holds at home."""
        guard = ExploredGuard(LIMITS, SPEC.control_rate_hz)
        arm = ExploredArm(guard, leads)
        watch = ArmWatch(SPEC, MAX_FOLLOWING_ERROR_RAD)
        while watch.begin(arm.now_s, arm.read()) is not None:
            arm.pass_time(RIGHT)
        player = ChunkPlayer(LIMITS, SPEC.control_rate_hz, leads=leads)
        loop = ControlLoop(arm, player, watch, SPEC.control_rate_hz, _no_report, lambda: arm.now_s)
        guard.begin(watch.q_rad)
        loop._guard = guard
        return cls(arm, player, watch, guard, loop, arm.desired, arm.sent_rad)

    def copy(self) -> ArmWorld:
        """Independent of this one; shares only what never changes, and the thread and queue that it does not use."""
        self.problems = []
        loop = self.loop
        shared: tuple[Any, ...] = (SPEC, LIMITS, SPEC.limits, self.player._filter.limits)
        shared = (*shared, loop._thread, loop._stop, loop._work, loop._late_s, loop._busy_s)
        return copy.deepcopy(self, {id(one): one for one in shared})

    # -- what can happen ----------------------------------------------------------------------------------------------

    def order(self, what: Order) -> Refusal | None:
        self.seq += 1
        refusal = self.player.order(self.arm.now_s, OrderId(1, self.seq), what)
        self.may_move |= refusal is None
        return refusal

    def press(self) -> None:
        self.player.press_emergency_stop("test")
        self._stops()

    def recover(self) -> None:
        self.player.recover(self.arm.now_s)
        self.may_return = True

    def recovery_ends(self) -> None:
        """Nothing has come of it in time, or a fault has stopped the arm on its way: then it comes to rest."""
        if self.player._following.gets is Follow.STOPPING:
            self.stops_until_s = max(self.stops_until_s, self.arm.now_s + self.stop_s)
        self.may_return = False

    def go_off_duty(self) -> None:
        self.player.go_off_duty("inactive")
        self._stops()

    def _stops(self) -> None:
        """What moved it is over, and it comes to rest, also when it is released before."""
        if self.may_move or self.may_return:
            self.stops_until_s = self.arm.now_s + self.stop_s
        self.may_move = self.may_return = False

    def stop_controller(self) -> None:
        """It no longer moves the arm."""
        self.arm.fault = "inactive"

    def start_controller(self) -> None:
        """It begins where the arm stands."""
        self.arm.fault = ""
        self.arm.hold()
        self.told, self.crept_rad = self.arm.desired, 0.0

    # -- time ---------------------------------------------------------------------------------------------------------

    def pass_time(self, periods: int, measured: str = RIGHT, alive: bool = True) -> None:
        for number in range(periods):
            once = measured == WRONG_ONCE and number > 0
            self.period(RIGHT if once else measured, alive)

    def period(self, measured: str = RIGHT, alive: bool = True) -> None:
        now_s = self.arm.now_s
        if alive:
            self.player.alive(now_s, self.player.last)
        led, busy_until_s = self._is_led, self.arm.busy_until_s
        halted = self.player.emergency_stop.latched or self.player._off_duty is not None
        self.loop.period(now_s)
        if halted and self.arm.busy_until_s > busy_until_s and not np.allclose(self.arm.sent_rad, self.sent):
            self.problems.append("it is led elsewhere although it is stopped")
        self.arm.pass_time(measured)
        self._judge(led or self._is_led)

    @property
    def _is_led(self) -> bool:
        """Whether a person has recovered it and it is on its way. No stop calls back the one command that leads it."""
        returns = self.may_return and self.player.returns
        return returns or self.arm.now_s <= self.arm.busy_until_s

    def _judge(self, led: bool) -> None:
        arm, told, sent = self.arm, self.arm.desired, self.arm.sent_rad
        player = self.player
        silenced = player.emergency_stop.latched or (player._fault or player._off_duty) is not None
        self.quiet_s = min(self.quiet_s, arm.now_s) if silenced and not led else math.inf
        if arm.unchecked:
            self.problems.append("a command was sent that has not passed the check")
        by_rad, commanded_rad = (float(np.abs(way).max()) for way in (told - self.told, sent - self.sent))
        if not arm.fault:
            self._judge_motion(told)
        self._judge_cause(commanded_rad, 0.0 if arm.fault else by_rad, led)
        self.told, self.sent = told, sent
        if max(by_rad, commanded_rad) <= MOVED_RAD:
            self._rested()

    def _judge_motion(self, told: Array) -> None:
        if not np.isfinite(told).all() or (told < LOW - MOVED_RAD).any() or (told > HIGH + MOVED_RAD).any():
            self.problems.append(f"it is told to be at {told}")
        speed = np.abs(told - self.told) / PERIOD_S
        if (speed > 1.01 * SPEED).any():
            self.problems.append(f"it is told to move at {speed.max():.1f} rad/s")

    def _judge_cause(self, commanded_rad: float, by_rad: float, led: bool) -> None:
        """An arm that nothing may move is commanded to stay, and its controller moves it by no more than `OFF_RAD` to
        where it is commanded to be: it may have begun that far beside it."""
        rested = self.arm.now_s > self.quiet_s + self.stop_s
        caused = self.may_move or self.may_return or led or self.arm.now_s <= self.stops_until_s
        if caused and not rested:
            self.crept_rad = 0.0
            return
        self.crept_rad += by_rad
        if max(commanded_rad, self.crept_rad - OFF_RAD) > MOVED_RAD:
            self.problems.append(
                "it moves although it is stopped or faulty"
                if rested
                else "it moves without an order or a recovery"
            )

    def _rested(self) -> None:
        """Whatever moved it is over once nothing moves."""
        gets = self.player._following.gets
        holds = self.player.state is PlayerState.HOLDING and self.player.settled
        if gets is Follow.SETPOINTS and holds and self.player._fault is None:
            self.may_move = self.may_return = False
        elif gets is Follow.NOTHING:
            self.may_move = False

    @property
    def stop_s(self) -> float:
        """Within this it has come to rest."""
        return self.player._filter.stop_s + REACHED_S


def _no_report(now_s: float, state: ArmState) -> None:
    """Nobody is told."""
