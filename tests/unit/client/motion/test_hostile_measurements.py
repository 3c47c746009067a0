"""Whatever is measured, no command leaves a limit, a stopped or faulty arm is told nothing new, and it comes back.

Each driver's rules run under the real control loop in a time of their own, in front of a controller that obeys anything
(`hostile_arms.py`). Here stands what such a controller may be told.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_client.motion.arm_orders import Command, Hold, MoveTo, OrderId, Play
from rosa_client.motion.limits import MotionLimits
from rosa_client.motion.setpoint_filter import SetpointFilter
from rosa_sim.faults.measured import WRONG_MEASUREMENTS
from tests.examples import examples
from tests.unit.client.motion.hostile_arms import (
    ATTACKS,
    HIGH,
    HOME,
    LOW,
    PERIOD_S,
    SPEC,
    SPEED,
    ForwardPosition,
    Franka,
    HostileArm,
    Mujoco,
    OwnDriver,
    Ros2Control,
    in_a_loop,
)

MOTION = MotionLimits.of(SPEC)
RATE_HZ = SPEC.control_rate_hz
STOP_S = SetpointFilter(SPEC.limits, RATE_HZ).stop_s + 0.06  # and the time in which a trajectory is reached
OUTSIDE_M = 0.006
BACK_WITHIN_S = 12.0
SAFE = np.array(SPEC.safe_rad)


class Sent:
    """The commands of each period, held against velocity, acceleration and jerk; without one the arm rests."""

    def __init__(self, q_rad: np.ndarray) -> None:
        self._q = [q_rad] * 4  # of the last periods, the newest last

    @property
    def newest(self) -> np.ndarray:
        """The last setpoint that was sent."""
        return self._q[-1]

    def begin_period(self) -> None:
        self._q = [*self._q[1:], self._q[-1]]

    def take(self, command: Command) -> None:
        if command.within_s > 2 * PERIOD_S:  # the arm is led on from where it stands, from rest to rest
            way = np.abs(command.q_rad - self._q[-1])
            assert (1.5 * way / command.within_s <= 1.01 * SPEED).all()
            assert (6.0 * way / command.within_s**2 <= 1.01 * np.array(SPEC.limits.acceleration_rad_s2)).all()
            self._q = [command.q_rad] * 4
            return
        self._q[-1] = command.q_rad
        limits = SPEC.limits
        for order, limit in enumerate((SPEED, limits.acceleration_rad_s2, limits.jerk_rad_s3), start=1):
            moved = np.abs(np.diff(np.array(self._q), order, axis=0)[-1]) / PERIOD_S**order
            assert (moved <= 1.01 * np.array(limit) + 1e-3 * 100.0 ** (order - 1)).all(), (
                f"derivative {order}"
            )


class Judge:
    """Steps an arm and its loop, and holds each thing that the controller is told against the limits."""

    def __init__(self, arm: HostileArm) -> None:
        self.arm = arm
        self.player, self.loop = in_a_loop(arm)
        self.seq = 0
        self._told = arm.told[-1]
        self._sent = Sent(arm.told[-1])
        track = arm.track

        self._led_until_s = -math.inf  # a controller finishes the command that leads its arm on

        def kept(command: Command) -> None:
            self._sent.take(command)
            if command.within_s > 2 * PERIOD_S:
                self._led_until_s = arm.now_s + command.within_s + 2 * PERIOD_S
            track(command)

        arm.track = kept  # type: ignore[method-assign]
        self._quiet_s = math.inf  # since when nothing new may be told
        self._driver = False  # its driver reports a fault

    def order(self, what: Hold | MoveTo | Play) -> bool:
        self.seq += 1
        return self.player.order(self.arm.now_s, OrderId(1, self.seq), what) is None

    def step(self, alive: bool = True) -> None:
        now_s = self.arm.now_s
        if alive:
            self.player.alive(now_s, self.player.last)
        led = self.player.fault_cause == "arm_returns"
        self._sent.begin_period()
        self.loop.period(now_s)
        self.arm.pass_time()
        silenced = self.player.emergency_stop.latched or (self.player.fault and not led)
        led = led or self.player.fault_cause == "arm_returns" or now_s < self._led_until_s
        driver = self.player.fault_cause == "arm_driver"
        if driver and not self._driver:  # the last command brings it to rest, in its own time
            self._quiet_s = math.inf
        self._driver = driver
        self._quiet_s = min(self._quiet_s, now_s) if silenced and not led else math.inf
        if not self.arm.fault:  # a stopped controller is told nothing
            self._judge(np.array(self.arm.told), np.array([self._told, *self.arm.told[:-1]]))
        self._told = self.arm.told[-1]

    def _judge(self, told: np.ndarray, before: np.ndarray) -> None:
        """All that it was told in a period `(ticks, joints)`, and what it was told before each of that."""
        assert np.isfinite(told).all()
        assert ((told >= LOW - 1e-6) & (told <= HIGH + 1e-6)).all(), told
        moved = np.abs(told - before)
        speed = moved / self.arm.tick_s
        assert (speed <= 1.01 * SPEED + 1e-6).all(), f"told to move at {speed.max():.2f} rad/s"
        for new in told[moved.any(axis=1)]:
            assert MOTION.depth_m(new) <= OUTSIDE_M
        if self.arm.now_s > self._quiet_s + STOP_S:
            assert moved.max() < 1e-6, f"moves although it is stopped or faulty: {self.player.fault}"

    def comes_back(self) -> None:
        """The measurements are right again and nobody stops it: it takes orders, or a person has to put it back."""
        self.arm.attack("nothing")
        self.arm.held = False
        self.stop_controller("")
        self.player.release_emergency_stop("Ada", "test")
        self.player.recover(self.arm.now_s)
        for _ in range(round(BACK_WITHIN_S / PERIOD_S)):
            self.step()
            if not self.player.fault_cause:
                break
        away = np.abs(self.arm.true_rad - self._told).max()
        if self.player.fault_cause == "arm_elsewhere":
            away = np.abs(self.arm.true_rad - self._sent.newest).max()
            assert away > 0.0 and (
                not self.arm.leads or MOTION.depth_m(self.arm.true_rad) > -0.05 or away > 0.02
            )
            return
        assert self.player.fault_cause in ("", *ORDER_CAUSES), self.player.fault
        assert self.order(Hold())
        self.step()
        assert away < 0.05

    def stop_controller(self, why: str) -> None:
        starts = bool(self.arm.fault) and not why
        self.arm.stop_controller(why)
        if starts:  # it holds the arm where it stands, whatever it was told before
            self._told = self.arm.true_rad


ORDER_CAUSES = ("joint_limit", "workspace", "chunk_time", "emergency_stop", "arm_fault")
ARMS = {"ros2_control": Ros2Control, "forward_position": ForwardPosition, "franka": Franka, "own": OwnDriver}

HEAR_STAMPS = ("ros2_control", "forward_position", "franka")  # the others measure when they are asked


@pytest.mark.parametrize("latched", [False, True])
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("arm", [*ARMS, "mujoco"])
def test_no_attack_moves_an_arm_at_rest_that_has_no_task(arm: str, attack: str, latched: bool) -> None:
    """Whether a stop is latched or not: only an order, or a person who recovers the arm, moves it. What is told is what
    the table of docs/faults.md says."""
    judge = Judge({**ARMS, "mujoco": Mujoco}[arm]())
    if latched:
        judge.player.press_emergency_stop("test")
    begun = judge.arm.told[-1]
    judge.arm.attack(attack)
    told = set()
    for _ in range(300):
        judge.step(alive=False)
        told.add(judge.player.fault_cause)
        assert np.abs(judge.arm.told[-1] - begun).max() < 1e-9
    known = () if attack == "nothing" else WRONG_MEASUREMENTS[attack].causes
    assert told <= {"", "measurement_unconfirmed", *known}
    assert not known or arm not in HEAR_STAMPS or told & {*known}, "it is told"
    judge.comes_back()


def test_every_wrong_measurement_of_the_page_is_tried_and_every_one_that_is_tried_is_on_the_page() -> None:
    assert {*WRONG_MEASUREMENTS, "nothing"} == {*ATTACKS}


def test_the_attack_of_a_second_publisher_of_zeros_is_told_with_a_cause() -> None:
    judge = Judge(Ros2Control())
    judge.arm.attack("zeros_beside_it")
    for _ in range(300):
        judge.step(alive=False)
    assert judge.player.fault_cause in ("measurement_range", "measurement_jump")
    assert "panda_joint" in judge.player.fault


def test_an_arm_that_was_guided_by_hand_with_its_stop_latched_does_not_move_when_its_controller_returns() -> (
    None
):
    judge = Judge(Ros2Control())
    judge.player.press_emergency_stop("test")
    judge.stop_controller("guided by hand")
    for _ in range(100):
        judge.arm.true_rad = judge.arm.true_rad + np.array([0.004, 0, 0, 0, 0, 0, 0])
        judge.step(alive=False)
    guided = judge.arm.true_rad
    judge.stop_controller("")
    for _ in range(200):
        judge.step(alive=False)
    assert judge.arm.true_rad == pytest.approx(guided)
    assert judge.player.fault_cause == "arm_elsewhere"
    judge.comes_back()
    assert judge.player.fault_cause == ""
    assert judge.arm.true_rad == pytest.approx(guided, abs=1e-6)


def guided_elsewhere() -> Judge:
    """An arm that stands somewhere else than at its last setpoint, with its controller running again."""
    judge = Judge(Ros2Control())
    judge.stop_controller("guided by hand")
    for _ in range(100):
        judge.arm.true_rad = judge.arm.true_rad + np.array([0.004, 0, 0, 0, 0, 0, 0])
        judge.step()
    judge.stop_controller("")
    for _ in range(50):
        judge.step()
    assert judge.player.fault_cause == "arm_elsewhere"
    return judge


def test_an_arm_that_is_stopped_while_it_is_led_on_obeys_again_after_the_release() -> None:
    judge = guided_elsewhere()
    judge.player.recover(judge.arm.now_s)
    for _ in range(10):
        judge.step()
    assert judge.player.fault_cause == "arm_returns"
    judge.player.press_emergency_stop("test")
    judge.step()
    assert judge.player.fault_cause == "arm_returns"  # no stop calls back the command that leads it
    for _ in range(500):
        judge.step()
    judge.comes_back()
    assert judge.order(MoveTo(HOME, math.nan))
    for _ in range(500):
        judge.step()
    assert judge.arm.true_rad == pytest.approx(HOME, abs=1e-3)


@pytest.mark.parametrize("stands", [1, 3, 8, 16, 40])
@pytest.mark.parametrize("moves", [10, 30])
@pytest.mark.parametrize("arm", [*ARMS, "mujoco"])
def test_a_controller_that_is_stopped_in_mid_motion_begins_without_a_jump(
    arm: str, moves: int, stands: int
) -> None:
    """It begins where the arm stands, and may be there again before a ramp would have ended. Measured right or not."""
    for attack in ("nothing", "drifts"):
        judge = Judge({**ARMS, "mujoco": Mujoco}[arm]())
        play(judge, [(MoveTo(SAFE, 0.08), attack, moves, 1), ("controller stops", attack, stands, 0)])


def test_an_arm_that_is_put_elsewhere_just_after_its_fault_begins_there() -> None:
    """As a simulated one is before each episode."""
    judge = Judge(OwnDriver())
    assert judge.order(MoveTo(SAFE, math.nan))
    for _ in range(30):
        judge.step()
    judge.stop_controller("a moment")
    judge.step()
    judge.stop_controller("")
    judge.loop.reset()
    judge._sent = Sent(judge.arm.true_rad)
    for _ in range(60):
        judge.step()
    assert judge.player.fault_cause == ""
    assert judge.arm.told[-1] == pytest.approx(judge.arm.true_rad, abs=1e-6)


def test_an_arm_that_may_follow_all_the_same_is_brought_to_rest_by_setpoints() -> None:
    """No joint states, but nobody says that its controller has stopped: without setpoints it would stop at once."""
    judge = Judge(ForwardPosition())
    judge.player.slow_down(judge.arm.now_s, 0.3)  # at full speed it would count as not following before that
    assert judge.order(MoveTo(SAFE, math.nan))
    for _ in range(30):
        judge.step()
    judge.arm.attack("silence")
    at = []
    while judge.player.fault_cause != "arm_driver":
        judge.step()
    for _ in range(40):
        judge.step()
        at.append(judge.arm.told[-1])
    steps = np.abs(np.diff(at, axis=0)).max(axis=1)
    assert steps[1] > 1e-4, "it goes on"
    assert steps[-1] < 1e-6, "and comes to rest"
    assert (np.diff(steps) <= 1e-9).all(), "ever slower"


def test_an_arm_whose_fault_is_shorter_than_its_stop_obeys_again() -> None:
    judge = Judge(Ros2Control())
    assert judge.order(MoveTo(SAFE, math.nan))
    for _ in range(30):
        judge.step()
    judge.arm.fault = "a moment"
    judge.step()
    judge.arm.fault = ""
    judge.step()
    assert judge.player.fault_cause == "measurement_unconfirmed", "until it has come to rest, and longer"
    for _ in range(100):
        judge.step()
    judge.comes_back()
    assert judge.order(MoveTo(HOME, math.nan))
    for _ in range(500):
        judge.step()
    assert judge.arm.true_rad == pytest.approx(HOME, abs=1e-3)


def test_a_recovery_of_an_arm_that_nothing_is_wrong_with_does_not_count_for_a_later_fault() -> None:
    judge = Judge(Ros2Control())
    judge.player.recover(judge.arm.now_s)
    judge.arm.attack("other_pose_instead")
    begun = judge.arm.told[-1]
    for _ in range(300):
        judge.step()
    assert judge.player.fault_cause == "arm_elsewhere"
    assert judge.arm.told[-1] == pytest.approx(begun)


places = st.tuples(*[st.floats(-0.4, 0.4)] * 7).map(lambda by: np.clip(HOME + np.array(by), LOW, HIGH))
orders = st.one_of(
    st.just(Hold()),
    places.map(lambda q_rad: MoveTo(q_rad, math.nan)),
    st.just(MoveTo(SAFE, 0.08)),
    st.tuples(  # the last ones as of an asynchronous robot: begun late, and played in part
        st.lists(places, min_size=1, max_size=4),
        st.sampled_from([0.02, 0.1, 0.4]),
        st.sampled_from([(0.0, 0.0), (0.0, 0.0), (0.015, 0.0), (0.05, 0.2)]),
    ).map(lambda it: Play([[*q_rad, 0.04] for q_rad in it[0]], it[1], *it[2])),
)
events = st.one_of(
    orders,
    st.sampled_from(
        [
            "press",
            "release",
            "recover",
            "controller stops",
            "controller starts",
            "guided",
            "held",
            "let go",
            "slow",
        ]
    ),
)
stories = st.lists(
    st.tuples(
        events,
        st.sampled_from(sorted(ATTACKS)),
        st.sampled_from([1, 5, 30, 120, 250]),
        st.sampled_from([0, 1, 8]),
    ),
    min_size=1,
    max_size=6,
)
Story = list[tuple[object, str, int, int]]


def play(judge: Judge, story: Story) -> None:
    for event, attack, periods, alive_every in story:
        arm, player = judge.arm, judge.player
        if event == "press":
            player.press_emergency_stop("test")
        elif event == "release":
            player.release_emergency_stop("Ada", "test")
        elif event == "recover":
            player.recover(arm.now_s)
        elif event == "controller stops":
            judge.stop_controller("the controller is inactive")
        elif event == "controller starts":
            judge.stop_controller("")
        elif event in ("held", "let go"):
            arm.held = event == "held"
        elif event == "slow":
            player.slow_down(arm.now_s, 0.3)
        elif event != "guided":
            assert isinstance(event, Hold | MoveTo | Play)
            judge.order(event)
        arm.attack(attack)
        for number in range(periods):
            if event == "guided" and arm.fault:
                arm.true_rad = np.clip(arm.true_rad + 0.003 * np.array([1, 0, 1, 0, 1, 0, -1]), LOW, HIGH)
            judge.step(alive=bool(alive_every) and number % alive_every == 0)
    judge.comes_back()


@pytest.mark.slow
@pytest.mark.prove
@pytest.mark.parametrize("arm", ARMS)
@settings(max_examples=examples(12, 250))
@given(stories)
def test_whatever_is_measured_no_limit_is_left_and_nothing_moves_that_must_not(
    arm: str, story: Story
) -> None:
    play(Judge(ARMS[arm]()), story)


@pytest.mark.prove
@settings(max_examples=examples(3, 40))
@given(stories)
def test_the_same_in_physics(story: Story) -> None:
    play(Judge(Mujoco()), story)
