"""Whatever breaks between the arm node and a ros2_control robot: it is said in words, and the arm does not move on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rosa_interfaces.msg import ArmCommand, ArmStatus

from tests.system.arm_ros2_control.bench import FRANKA, ROBOT, Controlled, controlled, robot_file
from tests.system.arm_safety.bench import ROOT, SPEC

pytestmark = pytest.mark.slow
STILL_RAD = 0.01  # what a servo gives way after a stop


@pytest.fixture(scope="module")
def panda() -> Iterator[Controlled]:
    with controlled(ROBOT) as made:
        yield made


@pytest.fixture(scope="module")
def franka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controlled]:
    """With Franka's robot state, error recovery and gripper, below the robot's namespace, with a joint prefix."""
    settings = {**FRANKA, "namespace": "hardware", "joint_prefix": "left_"}
    robot = robot_file(tmp_path_factory.mktemp("franka"), **settings)
    with controlled(robot, "/robot/hardware") as made:
        yield made


def in_motion(one: Controlled) -> None:
    one.bench.home()
    assert one.bench.play(0.8, 4.0).state == ArmStatus.PLAYING
    one.bench.spin(0.7)


def refuses(one: Controlled) -> None:
    """The arm takes no order that moves it, and really stands."""
    assert one.bench.play(0.5, 2.0).state == ArmStatus.HOLDING
    assert one.stands(0.8) < STILL_RAD


def test_joints_follow_and_the_gripper_closes(panda: Controlled) -> None:
    panda.moves()
    rows = [*SPEC.home_rad]
    panda.bench.order(ArmCommand.MOVE_TO, joint_target_rad=rows, gripper_width_m=0.0)
    panda.bench.until(lambda: panda.bench.width_m < 0.005, "closed fingers")


def test_a_controller_that_is_stopped_is_a_fault_until_an_operator_recovers_it(panda: Controlled) -> None:
    in_motion(panda)
    panda.break_down("controller_stopped")
    panda.fault("controller joint_trajectory_controller is inactive")
    refuses(panda)
    panda.break_down("")
    panda.fault("is inactive")  # the end of the cause starts nothing
    panda.recover()
    panda.bench.until(lambda: panda.bench.status.fault == "", "the recovery")
    assert panda.stands(0.5) < STILL_RAD, "recovering moves nothing"
    panda.moves()


def test_commands_that_nobody_follows_are_noticed_without_an_answer(panda: Controlled) -> None:
    in_motion(panda)
    panda.break_down("trajectory_rejected")
    panda.bench.until(
        lambda: any("does not follow" in status.fault for _, status in panda.bench.statuses), "the fault"
    )
    assert "does not follow" in panda.bench.status.cut_short
    assert panda.stands(0.8) < STILL_RAD
    panda.break_down("")
    assert panda.stands(0.5) < STILL_RAD, "what was cut short is not taken up again"
    panda.moves()


def test_a_reflex_is_told_apart_and_recovered_in_the_makers_order(franka: Controlled) -> None:
    franka.moves()
    in_motion(franka)
    franka.break_down("reflex")
    franka.fault("the robot is stopped by a reflex: cartesian_reflex")
    refuses(franka)
    franka.break_down("")
    franka.recover()
    franka.bench.until(lambda: franka.bench.status.fault == "", "the recovery")
    assert franka.stands(0.5) < STILL_RAD
    franka.moves()


def test_an_arm_that_says_nothing_stops_and_is_obeyed_again_when_it_speaks(panda: Controlled) -> None:
    in_motion(panda)
    panda.break_down("stale_joint_states")
    panda.fault("no new joint states on /joint_states")
    assert panda.bench.play(0.5, 2.0).state == ArmStatus.HOLDING
    panda.bench.spin(0.5)
    panda.break_down("")
    panda.bench.until(lambda: panda.bench.status.fault == "", "the joint states")
    assert panda.stands(0.5) < STILL_RAD, "it stood still while nobody heard it"
    panda.moves()


@pytest.mark.parametrize("hand", ["panda", "franka"])
def test_fingers_that_do_not_close_are_a_fault_until_somebody_has_looked(
    hand: str, request: pytest.FixtureRequest
) -> None:
    one: Controlled = request.getfixturevalue(hand)
    one.bench.home()
    one.bench.until(lambda: one.bench.width_m > 0.075, "open fingers")
    one.bench.spin(0.3)
    one.break_down("gripper_stuck")
    close = {"joint_target_rad": list(SPEC.home_rad), "gripper_width_m": 0.0}
    one.bench.order(ArmCommand.MOVE_TO, **close)
    one.fault("the gripper does not move")
    refuses(one)
    one.break_down("")
    one.recover()
    one.bench.until(lambda: one.bench.status.fault == "", "the recovery")
    one.bench.order(ArmCommand.MOVE_TO, **close)
    one.bench.until(lambda: one.bench.width_m < 0.005, "closed fingers")
    one.moves()


def test_an_arm_node_that_dies_leaves_the_arm_held() -> None:
    with controlled(ROBOT) as one:
        in_motion(one)
        os.kill(one.bench.arm_pid, signal.SIGKILL)
        one.bench.spin(0.3)
        assert one.stands(1.0) < STILL_RAD


def test_controllers_that_die_are_a_fault(tmp_path: Path) -> None:
    with controlled(ROBOT) as one:
        in_motion(one)
        one.cell.kill()
        one.fault("no new joint states on /joint_states")
        assert one.bench.play(0.5, 2.0).state == ArmStatus.HOLDING


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"start_timeout_s": 1.0},
            "no joint states on /joint_states within 1 s; is ros2_control running there?",
        ),
        ({"namespace": ""}, "arm.joint_states: /robot/joint_states is what the arm node itself publishes"),
        ({"gripper": {"kind": "hand"}}, "arm.gripper.kind: must be one of gripper_command, franka, none"),
    ],
)
def test_an_arm_that_cannot_be_reached_ends_the_node_with_the_reason(
    settings: dict[str, object], words: str, tmp_path: Path
) -> None:
    robot = robot_file(tmp_path, **settings)
    arguments = ["-r", "__ns:=/robot", "-p", f"robot:={robot}"]
    command = [sys.executable, "-m", "rosa_client.nodes.arm_node", "--ros-args", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert words in done.stdout + done.stderr
