"""The simulated Panda behind its controllers: it follows, it breaks on purpose, and a reset is noticed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rosa_server.models.panda.kinematics import inverse_path
from rosa_sim.cell.world import World
from rosa_sim.controller.following import Point
from rosa_sim.controller.node import LATE_S
from rosa_sim.controller.panda import FAULTS, SimulatedPanda
from rosa_sim.controller.power import Event, Power

JOINTS = tuple(f"panda_joint{i}" for i in range(1, 8))
PERIOD_S = 0.004


class Bench:
    """Steps the arm and commands it."""

    def __init__(self) -> None:
        self.panda = SimulatedPanda(3, JOINTS, forward=False, from_desired=True)
        self.now_s = 0.0
        self.home = self.panda.world.joint_position

    def run(self, seconds: float, command: Callable[[float], np.ndarray] | None = None) -> None:
        for _ in range(round(seconds / PERIOD_S)):
            if command is not None:
                target = Point(command(self.now_s), None, 0.02)
                self.panda.trajectory(self.now_s, JOINTS, [target])
            self.now_s += PERIOD_S
            self.panda.update(self.now_s, PERIOD_S)

    def turned(self) -> float:
        return float(self.panda.world.joint_position[0] - self.home[0])

    def turning(self, to_rad: float) -> Callable[[float], np.ndarray]:
        begun_s = self.now_s
        return lambda now_s: self.home + np.eye(7)[0] * min(to_rad, 0.5 * (now_s - begun_s))


def reaching(tool_m: np.ndarray, world: World, near_rad: np.ndarray | None = None) -> np.ndarray:
    """Joint positions (7,) that bring the tool there."""
    near_rad = world.joint_position if near_rad is None else near_rad
    return inverse_path(np.asarray(tool_m)[None, None, :], near_rad[None])[0, 0]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_it_follows_what_is_streamed(bench: Bench) -> None:
    bench.run(1.0, bench.turning(0.3))
    assert bench.turned() == pytest.approx(0.3, abs=0.01)
    assert bench.panda.refused == ""


@pytest.mark.parametrize("fault", ["controller_stopped", "trajectory_rejected", "reflex"])
def test_a_fault_stops_it_where_it_is(bench: Bench, fault: str) -> None:
    bench.run(0.3, bench.turning(0.3))
    bench.panda.break_down(fault)
    bench.run(0.1)
    stands = bench.turned()
    bench.run(0.5, lambda now_s: bench.home)
    assert bench.turned() == pytest.approx(stands, abs=2e-3)
    assert bench.panda.refused


def test_each_state_of_its_controller_is_told_once(bench: Bench) -> None:
    assert bench.panda.changes() == ["active"]
    bench.panda.break_down("controller_restarted")
    assert bench.panda.changes() == ["inactive", "active"]
    assert bench.panda.turn(Event.CLEAR) and bench.panda.changes() == []
    bench.panda.reset(4)
    assert bench.panda.changes() == ["inactive"]


def test_the_end_of_a_fault_does_not_start_what_it_stopped(bench: Bench) -> None:
    bench.panda.break_down("reflex")
    bench.panda.break_down("")
    assert bench.panda.power is Power.REFLEX
    assert not bench.panda.turn(Event.ACTIVATE), "the wrong order"


def test_stuck_fingers_stall_where_they_are_and_free_ones_close(bench: Bench) -> None:
    bench.panda.break_down("gripper_stuck")
    bench.panda.grip(0.0)
    bench.run(1.0)
    assert bench.panda.world.gripper_width == pytest.approx(0.08, abs=2e-3)
    assert bench.panda.gripper_stalled()
    bench.panda.break_down("")
    bench.panda.grip(0.0)
    assert not bench.panda.gripper_stalled()
    bench.run(1.0)
    assert bench.panda.world.gripper_width == pytest.approx(0.0, abs=2e-3)


def test_after_a_reset_commands_for_the_scene_before_are_refused(bench: Bench) -> None:
    bench.run(1.0, bench.turning(0.5))
    bench.panda.reset(4)
    bench.run(0.2, lambda now_s: bench.home + np.eye(7)[0] * 0.5)
    assert bench.panda.refused == "the controller is inactive"
    assert not bench.panda.adopted
    home = bench.panda.world.joint_position
    assert bench.panda.turn(Event.ACTIVATE), "somebody recovers it"
    bench.run(0.02, lambda now_s: home)
    assert not bench.panda.adopted, "nobody has heard that the controller is active again"
    assert bench.panda.listing() == "active"
    assert bench.panda.adopted
    assert bench.panda.world.seed == 4


def test_after_every_fault_has_begun_and_ended_the_arm_can_be_commanded_again(bench: Bench) -> None:
    for name in FAULTS:
        bench.panda.break_down(name)
        assert bench.panda.fault == name
        bench.panda.break_down("")
        for event in (Event.CLEAR, Event.START_HARDWARE, Event.ACTIVATE):
            bench.panda.turn(event)
        home = bench.home
        bench.run(0.02, lambda now_s, home=home: home)
        assert bench.panda.refused == "", name


def test_how_fast_it_was_told_to_move_is_kept_from_the_beginning_of_a_fault(bench: Bench) -> None:
    bench.run(0.5, bench.turning(0.5))
    assert 0.0 < bench.panda.told_share < 1.0
    bench.run(0.1, lambda now_s: bench.home + 1.0)
    assert bench.panda.told_share > 10.0
    bench.panda.break_down("wrong_sample")
    assert bench.panda.told_share == 0.0


@pytest.mark.parametrize("stalled_s", [0.02, 0.06, 0.1])
def test_a_machine_that_stalls_its_updates_makes_it_no_faster(bench: Bench, stalled_s: float) -> None:
    """The updates come late and then in a row; each takes what had arrived by its own time, as on a real controller."""
    turning = bench.turning(1.0)
    bench.run(0.4, turning)
    bench.panda.told_share = 0.0
    for step in range(round(stalled_s / PERIOD_S)):  # only commands arrive
        at_s = bench.now_s + step * PERIOD_S
        bench.panda.trajectory(at_s, JOINTS, [Point(turning(at_s), None, 0.02)])
    for _ in range(round(stalled_s / PERIOD_S)):
        bench.now_s += PERIOD_S
        bench.panda.update(bench.now_s, PERIOD_S)
    bench.run(0.2, turning)
    assert 0.1 < bench.panda.told_share < 0.35


def test_the_speed_that_it_was_told_counts_the_time_that_has_passed(bench: Bench) -> None:
    turning = bench.turning(1.0)
    bench.run(0.4, turning)
    bench.panda.told_share = 0.0
    at_s = bench.now_s
    bench.panda.trajectory(at_s, JOINTS, [Point(turning(at_s) + 0.05 * np.eye(7)[0], None, 0.1)])
    bench.now_s += 0.1
    bench.panda.update(bench.now_s, PERIOD_S)
    assert 0.1 < bench.panda.told_share < 0.35


@pytest.mark.slow
@pytest.mark.parametrize("stalled_s", [0.3, 0.8])
def test_a_machine_that_stalls_does_not_throw_what_the_arm_holds(stalled_s: float) -> None:
    """The cell's updates stop while commands go on: a short stall is made up for, after a long one time stood still."""
    bench = Bench()
    panda, world = bench.panda, bench.panda.world
    above = world.block_positions[0] + np.array([0.0, 0.0, 0.002])
    world.set_state(world.seed, np.concatenate([reaching(above, world), world.qpos[7:]]))
    panda._stand()
    panda.grip(0.0)
    bench.run(1.0)
    lift_s, begun = bench.now_s, world.joint_position

    def command(now_s: float) -> np.ndarray:
        up_m = min(0.25, 0.3 * (now_s - lift_s))
        return reaching(above + np.array([0.0, 0.0, up_m]), world, begun)

    bench.run(0.1, command)
    stalled_from_s = bench.now_s
    for _ in range(round(stalled_s / PERIOD_S)):
        panda.trajectory(bench.now_s, JOINTS, [Point(command(bench.now_s), None, 0.02)])
        bench.now_s += PERIOD_S
    stalled_to_s, bench.now_s = bench.now_s, stalled_from_s
    if stalled_s > LATE_S:
        panda.stand_still(stalled_from_s, stalled_to_s)
        bench.now_s = stalled_to_s
    while bench.now_s < stalled_to_s - 1e-9:
        bench.now_s += PERIOD_S
        panda.update(bench.now_s, PERIOD_S)
    bench.run(1.5, command)
    assert world.block_positions[0][2] > 0.2, "it is lifted"
    assert np.linalg.norm(world.block_positions[0] - world.tool_position) < 0.02, (
        "and still between the fingers"
    )
