"""What paces hardware goes on while ROS time stands still, as after the wall clock was set back."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import rclpy
from controller_manager_msgs.msg import ControllerManagerActivity, ControllerState, NamedLifecycleState
from controller_manager_msgs.srv import ListControllers
from lifecycle_msgs.msg import State
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, JointState

from rosa_client.drivers.arms.ros2_control_ports import Manager, packages
from rosa_client.nodes.base.environment import prepare_environment
from rosa_client.ros.clock import stamp_before, steady_timer
from rosa_contract.config.arms import Ros2ControlSettings
from tests.system.nodes.processes import PANDA, running

PATIENCE_S = 40.0
STILL = "use_sim_time:=true"  # and nobody publishes /clock
MANAGED = Ros2ControlSettings(
    controller="arm_controller",
    controller_manager="/controller_manager",
    gripper=replace(Ros2ControlSettings().gripper, kind="none"),
)
AGED = "driver:=tests.system.nodes.quick_driver:AgedCameras"


@pytest.fixture
def node() -> Iterator[Node]:
    """ROS time stands still for it."""
    prepare_environment()
    rclpy.init()
    still = Parameter("use_sim_time", Parameter.Type.BOOL, True)
    made = Node("bench", namespace="bench", parameter_overrides=[still])
    yield made
    made.destroy_node()
    rclpy.shutdown()


def until(node: Node, condition: Callable[[], Any]) -> None:
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, "the condition did not come true"
        executor.spin_once(timeout_sec=0.05)
    executor.shutdown()


def test_a_timer_goes_on_and_no_stamp_is_before_the_beginning_of_time(node: Node) -> None:
    called: list[int] = []
    steady_timer(node, 0.01, lambda: called.append(node.get_clock().now().nanoseconds))
    until(node, lambda: len(called) > 2)
    assert set(called) == {0}
    stamp = stamp_before(node.get_clock(), 0.5)
    assert (stamp.sec, stamp.nanosec) == (0, 0)


def test_a_stamp_is_as_old_as_what_was_taken() -> None:
    clock = Clock(clock_type=ClockType.SYSTEM_TIME)
    before_ns = clock.now().nanoseconds
    stamp = stamp_before(clock, 1.5)
    after_ns = clock.now().nanoseconds
    assert before_ns <= stamp.sec * 10**9 + stamp.nanosec + 1_500_000_000 <= after_ns


def test_an_arms_controllers_are_listed_again_and_again(node: Node) -> None:
    heard: list[Mapping[str, str]] = []

    def listed(request: Any, response: Any) -> Any:
        response.controller = [ControllerState(name="arm_controller", state="active")]
        return response

    node.create_service(ListControllers, "/controller_manager/list_controllers", listed)
    Manager(node, "/", MANAGED, packages(MANAGED), lambda states, answers: heard.append(states))
    until(node, lambda: len(heard) > 2)
    assert heard[-1] == {"arm_controller": "active"}


def changing(node: Node) -> Callable[[str], None]:
    """Tells a change of the arm's controller as a controller_manager does."""
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    activity = node.create_publisher(ControllerManagerActivity, "/controller_manager/activity", latched)

    def change(label: str) -> None:
        told = NamedLifecycleState(name="arm_controller", state=State(label=label))
        activity.publish(ControllerManagerActivity(controllers=[told]))

    return change


def listening(node: Node) -> list[tuple[str, bool]]:
    """What a manager tells from now on: the arm's controller's state, and whether it was asked for it."""
    heard: list[tuple[str, bool]] = []
    Manager(
        node,
        "/",
        MANAGED,
        packages(MANAGED),
        lambda states, answers: heard.append((states["arm_controller"] if states else "", answers)),
    ).listen()
    return heard


def test_each_change_of_an_arms_controllers_is_heard_also_what_was_told_before(node: Node) -> None:
    change = changing(node)
    change("inactive")
    heard = listening(node)
    until(node, lambda: heard)
    for state in ("active", "inactive", "active"):
        change(state)
        known = len(heard)
        until(node, lambda known=known: len(heard) > known)
    assert heard == [(state, False) for state in ("inactive", "active", "inactive", "active")]


def test_an_answer_that_is_older_than_a_change_starts_nothing_and_may_stop(node: Node) -> None:
    """A change is told as it happens, but not one by a hardware error."""
    change = changing(node)
    asked = itertools.count()

    def listed(request: Any, response: Any) -> Any:
        first = not next(asked)
        response.controller = [ControllerState(name="arm_controller", state="active" if first else "failed")]
        change("inactive" if first else "active")
        return response

    node.create_service(ListControllers, "/controller_manager/list_controllers", listed)
    heard = listening(node)
    until(node, lambda: [answers for _, answers in heard].count(True) > 2)
    changes = [state for state, answers in heard if not answers]
    assert changes[:2] == ["inactive", "active"]
    assert [state for state, answers in heard if answers][:3] == ["", "failed", "failed"]


@pytest.mark.slow
def test_pictures_and_joint_states_go_on(node: Node) -> None:
    pictures: list[CompressedImage] = []
    joints: list[JointState] = []
    topic = "/still/front/image_raw/compressed"
    node.create_subscription(CompressedImage, topic, pictures.append, qos_profile_sensor_data)
    node.create_subscription(JointState, "/still/joint_states", joints.append, qos_profile_sensor_data)
    tardy = "driver:=tests.system.arm_safety.drivers:TardyArm"
    with (
        running("camera_node", "still", PANDA, AGED, STILL),
        running("arm_node", "still", PANDA, tardy, STILL),
    ):
        until(node, lambda: len(pictures) > 2 and len(joints) > 2)
