"""An arm behind ros2_control goes through every transition twice: its driver connects again in the same process."""

from __future__ import annotations

import os
import subprocess

import pytest
from lifecycle_msgs.msg import Transition
from rosa_interfaces.msg import ArmStatus

from rosa_client.nodes.base.environment import prepare_environment
from tests.system.arm_ros2_control.bench import ROBOT, cell_command
from tests.system.managed.test_transitions import BY_HAND, Arm, managing
from tests.system.nodes.processes import ROOT, end, running

pytestmark = pytest.mark.slow
TRANSITIONS = (
    Transition.TRANSITION_CONFIGURE,
    Transition.TRANSITION_ACTIVATE,
    Transition.TRANSITION_DEACTIVATE,
    Transition.TRANSITION_CLEANUP,
)


def plays(status: ArmStatus) -> bool:
    return status.fault == "" and status.state == ArmStatus.PLAYING


def test_an_arm_behind_ros2_control_is_connected_again_after_a_clean_up() -> None:
    prepare_environment()
    cell = subprocess.Popen(cell_command(ROBOT), env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        with (
            managing("robot", "arm_node") as manager,
            running("arm_node", "robot", f"robot:={ROBOT}", BY_HAND) as node,
        ):
            arm = Arm(manager)
            for _ in range(2):
                for transition in TRANSITIONS[:2]:
                    assert manager.change("arm_node", transition), transition
                # A machine that stands still for a moment is a fault, which passes.
                assert manager.until(lambda: plays(arm.turn(0.1)))
                for transition in TRANSITIONS[2:]:
                    assert manager.change("arm_node", transition), transition
            end(node)
    finally:
        cell.terminate()
        try:
            cell.wait(timeout=10)
        except subprocess.TimeoutExpired:
            cell.kill()
            cell.wait()
