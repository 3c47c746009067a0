"""An arm whose gripper's controller starts after it, and ends before it."""

from __future__ import annotations

from pathlib import Path

import pytest
from rosa_interfaces.msg import ArmCommand, ArmStatus

from tests.system.arm_ros2_control.bench import Controlled, controlled, robot_file
from tests.system.arm_ros2_control.gripper_server import ACTION, JOINT, STATES, GripperServer
from tests.system.arm_safety.bench import SPEC

pytestmark = pytest.mark.slow

HAND = {
    "kind": "parallel_gripper_command",
    "action": ACTION,
    "open_position": 0.0,
    "closed_position": 0.8,
    "joints": [JOINT],
    "joint_states": STATES,
    "force_n": 15.0,
}
MISSING = f"nobody serves {ACTION}"


def refuses(made: Controlled) -> bool:
    refused = made.bench.play(0.3, 1.0)
    return refused.state == ArmStatus.HOLDING and MISSING in refused.fault


def test_the_arm_waits_for_its_gripper_and_stops_without_it(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    mine = robot_file(tmp_path, gripper=HAND)
    with controlled(mine, cell_robot=robot_file(bare, gripper={"kind": "none"})) as made:
        bench = made.bench
        made.fault(MISSING)
        assert refuses(made)
        hand = GripperServer()
        try:
            bench.until(lambda: not bench.status.fault, "the end of the fault")
            made.moves()
            home = list(SPEC.home_rad)
            bench.order(ArmCommand.MOVE_TO, joint_target_rad=home, gripper_width_m=0.0)
            bench.until(lambda: bench.width_m < 0.001, "closed fingers")
            asked = hand.goals[-1]
            assert list(asked.name) == [JOINT]
            assert list(asked.position) == [pytest.approx(0.8)]
            assert list(asked.effort) == [15.0]
            bench.order(ArmCommand.MOVE_TO, joint_target_rad=home, gripper_width_m=0.08)
            bench.until(lambda: bench.width_m > 0.079, "open fingers")
            assert list(hand.goals[-1].position) == [pytest.approx(0.0)]
        finally:
            hand.close()
        made.fault(MISSING)
        assert refuses(made)
