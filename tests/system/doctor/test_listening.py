"""What the doctor hears of a robot's topics, from publishers that are real."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import rclpy
from lifecycle_msgs.msg import Transition
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rosa_interfaces.msg import ArmStatus
from sensor_msgs.msg import CompressedImage, JointState

from rosa_client.doctor.judges.arm import judge_arm
from rosa_client.doctor.judges.finding import Finding
from rosa_client.doctor.judges.pictures import PicturesFact, judge_pictures
from rosa_client.doctor.probes import topics
from rosa_client.doctor.probes.controllers import controllers_of, manager_of
from rosa_client.nodes.base.environment import prepare_environment
from rosa_client.nodes.base.qos import offered
from rosa_contract.config.cameras import CameraSpec, picture_topic
from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_contract.wire.images import encode_image
from tests.system.arm_ros2_control.bench import ROBOT as CONTROLLED
from tests.system.arm_ros2_control.bench import controlled
from tests.system.managed.manager import Manager
from tests.system.nodes.processes import PANDA, running

NAME = "listened"
SPEC = CameraSpec(width=96, height=96, driver="external")
EVERY_S = 0.05


@contextmanager
def publishing(start: Callable[[Node], None]) -> Iterator[None]:
    """A node that does what `start` begins."""
    prepare_environment()
    context = rclpy.Context()
    rclpy.init(args=[], context=context)
    node, executor = Node("vendor", context=context), SingleThreadedExecutor(context=context)
    start(node)
    executor.add_node(node)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    try:
        yield
    finally:
        executor.shutdown()
        thread.join(timeout=5)
        node.destroy_node()
        rclpy.shutdown(context=context)


def heard(text: str = "rgb8; jpeg compressed bgr8") -> PicturesFact:
    """Of a camera whose pictures say that their format is `text`."""

    def start(node: Node) -> None:
        publisher = node.create_publisher(
            CompressedImage, f"/{NAME}/{picture_topic('front', SPEC)}", offered(SPEC)
        )
        # All that is awaited is there, so that nothing is looked for.
        arm = node.create_publisher(ArmStatus, f"/{NAME}/arm_status", 10)
        joints = node.create_publisher(JointState, f"/{NAME}/joint_states", 10)
        random = np.random.default_rng(1)

        def publish() -> None:
            data = bytes(encode_image(random.integers(0, 255, (96, 96, 3), np.uint8)).data)
            publisher.publish(CompressedImage(format=text, data=data))
            arm.publish(ArmStatus())
            joints.publish(JointState())

        node.create_timer(EVERY_S, publish)

    with publishing(start):
        [fact], _ = topics.listen(NAME, {"front": SPEC}, {}, {}, seconds=2.0)
    return fact


def test_every_picture_counts_also_where_not_every_one_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who listens for long would read that a camera is slow which is not."""
    monkeypatch.setattr(topics, "LOOKED_AT", 3)
    fact = heard()
    assert fact.distinct == 3, "no more are decoded"
    assert fact.count > 3


def test_pictures_that_the_runtime_refuses_for_their_format_are_not_fine() -> None:
    """A vendor's driver may write `jpg` where ROS says `jpeg`."""
    found = judge_pictures(heard("jpg"), SPEC, 0.5)
    assert (found.level, found.cause) == ("fail", "unreadable"), found
    assert "expected jpeg pictures, got 'jpg'" in found.found


def test_nodes_that_are_inactive_are_to_be_activated_and_nothing_is_to_be_repaired() -> None:
    """No arm is to be recovered, and no cable to be looked at, where a lifecycle manager has not begun."""
    robot = load_robot(PANDA.removeprefix("robot:="))
    quick, by_hand = "driver:=tests.system.nodes.quick_driver:QuickCameras", "autostart:=false"
    rclpy.init()
    manager = Manager(f"/{NAME}", ["arm_node", "camera_node"])
    try:
        with (
            running("arm_node", NAME, PANDA, "driver:=echo", by_hand),
            running("camera_node", NAME, PANDA, quick, by_hand),
        ):
            assert all(manager.state(name) is not None for name in manager.names)
            [arm] = [one for one in judged(robot)[1] if one.check == "arm"]
            assert arm.cause == "inactive" and "unconfigured" in arm.found
            assert manager.all_nodes(Transition.TRANSITION_CONFIGURE)
            cameras, arms = judged(robot)
            [arm] = [one for one in arms if one.check == "arm"]
            assert manager.all_nodes(Transition.TRANSITION_ACTIVATE)
            active = judged(robot)
    finally:
        manager.close()
        rclpy.shutdown()
    assert (arm.level, arm.cause) == ("fail", "inactive"), arm
    assert "activate" in arm.do and "recover" not in arm.do
    assert [(one.level, one.cause) for one in cameras] == [("fail", "inactive")] * len(robot.cameras), cameras
    assert all("activate" in one.do and "cable" not in one.do for one in cameras)
    assert "inactive" not in {one.cause for one in (*active[0], *active[1])}


def test_joint_states_are_the_arm_node_s_and_so_are_their_rate_and_their_names() -> None:
    """A joint_state_broadcaster has no part in them, where there is one at all."""
    robot = replace(load_robot(PANDA.removeprefix("robot:=")), cameras={})  # whose node does not run
    with running("arm_node", NAME, PANDA, "driver:=echo", "joint_state_rate_hz:=5.0"):
        [slow] = [one for one in judged(robot)[1] if one.check == "joint_states"]
        other = replace(robot, joints=tuple(f"left_{name}" for name in robot.joints))
        [unknown] = [one for one in judged(other)[1] if one.check == "joint_states"]
    assert slow.cause == "slow" and "joint_state_rate_hz" in slow.do, slow
    assert unknown.cause == "wrong_joints" and "another robot file" in unknown.do, unknown


def test_a_controller_that_is_loaded_and_not_active_is_not_fine() -> None:
    """It subscribes to its commands as soon as it is configured, and obeys none of them."""
    robot = load_robot(CONTROLLED)
    controllers, manager = controllers_of("", robot, "robot"), manager_of("", robot, "robot")
    with controlled(CONTROLLED) as panda:
        panda.break_down("controller_stopped")
        _, arm = topics.listen("robot", {}, controllers, {}, seconds=1.0, manager=manager)
    found = {one.check: one for one in judge_arm("ros2_control", robot.joints, arm, franka=False)}
    mine = found["controller.joint_trajectory_controller"]
    assert (mine.level, mine.cause) == ("fail", "no_controller"), mine
    assert "inactive" in mine.found and "--activate joint_trajectory_controller" in mine.do
    assert found["controller.joint_state_broadcaster"].level == "ok"
    assert all(there for _, there in arm.controllers.values()), "their topics say nothing of it"


def judged(robot: RobotSpec) -> tuple[list[Finding], list[Finding]]:
    """What is found of the cameras, and of the arm."""
    pictures, arm = topics.listen(NAME, robot.cameras, {}, {}, seconds=1.0)
    cameras = [judge_pictures(fact, robot.cameras[fact.camera], 0.5) for fact in pictures]
    return cameras, judge_arm("echo", robot.joints, arm, franka=False)
