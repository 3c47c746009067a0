"""Grippers other than Franka's, served by a node of their own: another action, and an angle that grows to close."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rosa_interfaces.msg import ArmCommand
from sensor_msgs.msg import JointState

from tests.system.arm_ros2_control.bench import Controlled, controlled, robot_file
from tests.system.arm_safety.bench import SPEC

pytestmark = pytest.mark.slow

KNUCKLE = "robotiq_85_left_knuckle_joint"
ROBOTIQ = {
    "kind": "parallel_gripper_command",
    "action": "robotiq_gripper_controller/gripper_cmd",
    "open_position": 0.0,
    "closed_position": 0.8,
    "joints": [KNUCKLE],
}


@pytest.fixture(scope="module")
def robotiq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Controlled, list[float]]]:
    """The simulated fingers behind the interface of a Robotiq 2F-85, and the angles of its knuckle as they are told."""
    angles: list[float] = []

    def on_joints(message: JointState) -> None:
        angles.append(dict(zip(message.name, message.position, strict=True))[KNUCKLE])

    with controlled(robot_file(tmp_path_factory.mktemp("robotiq"), gripper=ROBOTIQ)) as made:
        made.bench.node.create_subscription(JointState, "/joint_states", on_joints, 50)
        yield made, angles


def test_a_robotiq_closes_when_it_is_told_to_close(robotiq: tuple[Controlled, list[float]]) -> None:
    made, angles = robotiq
    bench = made.bench
    made.moves()
    bench.home()
    bench.until(lambda: bench.width_m > 0.075 and angles and angles[-1] < 0.05, "open fingers")
    home = list(SPEC.home_rad)
    bench.order(ArmCommand.MOVE_TO, joint_target_rad=home, gripper_width_m=0.0)
    bench.until(lambda: bench.width_m < 0.005 and angles[-1] > 0.75, "closed fingers")
    bench.order(ArmCommand.MOVE_TO, joint_target_rad=home, gripper_width_m=0.04)
    bench.until(
        lambda: abs(bench.width_m - 0.04) < 0.004 and abs(angles[-1] - 0.4) < 0.04, "half open fingers"
    )
    assert made.bench.status.fault == ""


def test_fingers_that_do_not_close_are_a_fault_until_somebody_has_looked(
    robotiq: tuple[Controlled, list[float]],
) -> None:
    robotiq[0].fingers_stick()
