"""What franka_ros2 has besides controllers: reflexes, error recovery in the maker's order, a gripper of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.arm_ros2_control.bench import FRANKA, STILL_RAD, Controlled, controlled, robot_file

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def franka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controlled]:
    """With Franka's robot state, error recovery and gripper, below the robot's namespace, with a joint prefix."""
    settings = {**FRANKA, "namespace": "hardware", "joint_prefix": "left_"}
    robot = robot_file(tmp_path_factory.mktemp("franka"), **settings)
    with controlled(robot, "/robot/hardware") as made:
        yield made


def test_a_reflex_is_told_apart_and_recovered_in_the_makers_order(franka: Controlled) -> None:
    franka.moves()
    franka.in_motion()
    franka.break_down("reflex")
    franka.fault("the robot is stopped by a reflex: cartesian_reflex")
    franka.refuses()
    franka.break_down("")
    franka.recover()
    franka.bench.until(lambda: franka.bench.status.fault == "", "the recovery")
    assert franka.stands(0.5) < STILL_RAD
    franka.moves()


def test_fingers_that_do_not_close_are_a_fault_until_somebody_has_looked(franka: Controlled) -> None:
    franka.fingers_stick()
