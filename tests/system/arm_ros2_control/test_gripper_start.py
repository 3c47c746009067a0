"""What an arm node says at its start about a gripper that nobody serves; and an arm that has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rosa_interfaces.msg import ActionChunk, ArmCommand, ArmStatus
from sensor_msgs.msg import JointState

from rosa_client.motion.chunk_player import SILENT
from tests.system.arm_ros2_control.bench import ROBOT, STILL_RAD, controlled, robot_file
from tests.system.arm_safety.bench import SPEC

pytestmark = pytest.mark.slow


def chunk(joint_rad: float, names: tuple[str, ...], columns: int) -> ActionChunk:
    """Turns the first joint to `joint_rad` from home within a second."""
    rows = np.zeros((20, columns))
    rows[:, :7] = SPEC.home_rad
    rows[:, 0] += np.linspace(0.0, joint_rad, 20)
    return ActionChunk(step_s=0.05, horizon=20, names=list(names), data=rows.ravel().tolist())


@pytest.mark.parametrize(
    ("gripper", "says"),
    [
        (
            {"kind": "gripper_command", "action": "hand/gripper_cmd"},
            "the gripper has no action server: nobody serves /hand/gripper_cmd (control_msgs/GripperCommand)",
        ),
        (
            {"kind": "parallel_gripper_command", "action": "panda_gripper/gripper_action"},
            "the gripper's action /panda_gripper/gripper_action is a control_msgs/GripperCommand, expected a"
            " control_msgs/ParallelGripperCommand; set arm.gripper.kind: gripper_command",
        ),
    ],
)
def test_a_missing_action_server_is_told_at_start_and_nothing_moves(
    gripper: dict[str, Any], says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not at the first grasp, with the arm above the parts."""
    with controlled(robot_file(tmp_path, gripper=gripper), cell_robot=ROBOT) as made:
        made.fault(says)
        refused = made.bench.play(0.5, 2.0)
        assert refused.state == ArmStatus.HOLDING and says in refused.fault
        assert made.stands(0.5) < STILL_RAD
    assert f"the arm takes no order: {says}" in "".join(capfd.readouterr()), "it is in the log, too"


def test_an_arm_without_a_gripper_needs_no_server_and_plays_joints_only(tmp_path: Path) -> None:
    with controlled(robot_file(tmp_path, gripper={"kind": "none"}), cell_robot=ROBOT) as made:
        bench = made.bench
        names: list[list[str]] = []
        bench.node.create_subscription(JointState, "joint_states", lambda m: names.append(list(m.name)), 5)
        bench.until(lambda: names, "joint states")
        assert names[-1] == list(SPEC.joints), "there are no fingers to publish"
        bench.home()
        status = bench.order(ArmCommand.PLAY, chunk=chunk(0.2, SPEC.joints, 7))
        assert status.state == ArmStatus.PLAYING and status.fault == ""

        def arrived() -> bool:
            if bench.status.cut_short == SILENT:  # this process was not run for a moment
                bench.order(ArmCommand.PLAY, chunk=chunk(0.2, SPEC.joints, 7))
            return bool(abs(made.truth[-1][0] - SPEC.home_rad[0] - 0.2) < 0.02)

        bench.until(arrived, "the arm to follow")
        refused = bench.order(ArmCommand.PLAY, chunk=chunk(0.4, (*SPEC.joints, "gripper"), 8))
        assert refused.state == ArmStatus.HOLDING and "expected columns" in refused.fault
