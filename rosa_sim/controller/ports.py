"""The topics, services and actions of ros2_control and Franka, on both sides of which the driver's tests stand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from control_msgs.action import GripperCommand
from controller_manager_msgs.msg import ControllerState
from controller_manager_msgs.srv import ListControllers, SetHardwareComponentState, SwitchController
from franka_msgs.action import ErrorRecovery, Grasp, Move
from franka_msgs.msg import FrankaRobotState
from lifecycle_msgs.msg import State
from rclpy.action import ActionServer
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.client import Client
from rclpy.duration import Duration
from rclpy.executors import MultiThreadedExecutor
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.subscription import Subscription
from rclpy.time import Time
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from rosa_client.drivers.arms.gripper_link import finger_joints
from rosa_client.drivers.arms.gripper_scale import goal_scale, joint_scale
from rosa_client.drivers.arms.ros2_control_rules import resolve
from rosa_client.nodes.base.rate import Rate
from rosa_contract.config.arms import (
    FORWARD_POSITION,
    FRANKA,
    GRIPPER_COMMAND,
    PARALLEL_GRIPPER_COMMAND,
    Ros2ControlSettings,
)
from rosa_contract.config.robot import RobotSpec
from rosa_sim.controller.following import Point
from rosa_sim.controller.panda import SimulatedPanda
from rosa_sim.controller.power import Event

try:
    from controller_manager_msgs.msg import ControllerManagerActivity, NamedLifecycleState
except ImportError:  # older than 2025
    ControllerManagerActivity = None

BROADCASTER = "joint_state_broadcaster"
OTHER_HZ = 10.0  # joint_state_publisher_gui's
ROBOT_STATE_HZ = 30.0  # franka_robot_state_broadcaster's
REACHED_M = 0.002
UPDATE_S = 0.004  # how often `publish` is called
RECOVERY_S = 0.3  # a Franka's error recovery takes about this long
ANSWER_S = 2.0
KEPT_COMMANDS = 100  # while this process gets no processor
MAX_LATE_S = 1.0  # a command that was sent longer ago counts from then
THREADS = 4  # a gripper's goal keeps one busy while its fingers move


class Controllers:
    """One node in the controllers' namespace with threads of its own."""

    def __init__(
        self,
        base: str,
        spec: RobotSpec,
        settings: Ros2ControlSettings,
        panda: SimulatedPanda,
        lock: threading.Lock,
        joint_state_rate_hz: float,
    ) -> None:
        self._settings, self._panda, self._lock = settings, panda, lock
        self._names = [settings.joint_prefix + name for name in spec.joints]
        self._fingers = list(finger_joints(spec, settings))
        if self._fingers:
            self._goal_scale = goal_scale(spec.gripper, settings.gripper)
            self._finger_scale = joint_scale(spec.gripper, settings.gripper, len(self._fingers))
        self._joint_rate = Rate(joint_state_rate_hz, UPDATE_S)
        self._robot_rate = Rate(ROBOT_STATE_HZ, UPDATE_S)
        self._node = Node("controllers", namespace=base, use_global_arguments=False)
        self._group = ReentrantCallbackGroup()
        self._other: Node | None = None
        self._other_rate = Rate(OTHER_HZ, UPDATE_S)
        self._grip_number = 0
        self._closing = False
        self._open_topics(base)
        self._open_services(base)
        self._open_gripper(base)
        self._executor = MultiThreadedExecutor(num_threads=THREADS)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._executor.spin, name="controllers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        # The fingers stand from now on, and the executor waits for every goal that moves them.
        self._closing = True
        self._executor.shutdown(timeout_sec=1.0)
        self._thread.join(timeout=2.0)
        self._node.destroy_node()

    def publish(self, now_s: float) -> None:
        """Called after every update of the physics."""
        if self._joint_rate.due(now_s) and self._panda.fault != "stale_joint_states":
            self._joints.publish(self._joint_state(now_s))
        self._publish_beside(now_s)
        self._tell_changes()
        if self._robot_state is not None and self._robot_rate.due(now_s):
            shown = self._panda.shown
            message = FrankaRobotState(robot_mode=shown.robot_mode)
            message.header.stamp = self._node.get_clock().now().to_msg()
            message.current_errors.cartesian_reflex = shown.reflex
            self._robot_state.publish(message)

    def recover_arm(self, arm_node: str) -> str:
        """Recover the arm, as a person does who has put it elsewhere; returns why not."""
        client: Client[Any, Any] = self._node.create_client(
            Trigger, f"{arm_node}/recover", callback_group=self._group
        )
        try:
            if not client.wait_for_service(timeout_sec=ANSWER_S):
                return f"{arm_node} serves no recovery"
            future, until_s = client.call_async(Trigger.Request()), time.monotonic() + ANSWER_S
            while not future.done() and time.monotonic() < until_s:
                time.sleep(0.01)
            answer = future.result() if future.done() else None
            return f"{arm_node} does not answer" if answer is None else str(answer.message)
        finally:
            self._node.destroy_client(client)

    # -- topics -----------------------------------------------------------------------------------------------------

    def _open_topics(self, base: str) -> None:
        settings, node = self._settings, self._node
        self._joints = node.create_publisher(
            JointState, resolve(base, settings.joint_states), QoSProfile(depth=10)
        )
        controller = resolve(base, settings.controller)
        if settings.command == FORWARD_POSITION:
            node.create_subscription(Float64MultiArray, f"{controller}/commands", self._on_positions, 1)
        else:
            heard: Callable[..., None] = self._on_trajectory
            if hasattr(Subscription, "CallbackType"):  # Humble does not say when a message was sent
                heard = lambda message, info: self._on_trajectory(message, info["source_timestamp"])  # noqa: E731
            node.create_subscription(JointTrajectory, f"{controller}/joint_trajectory", heard, KEPT_COMMANDS)
        self._robot_state = None
        if settings.robot_state:
            topic = resolve(base, settings.robot_state)
            self._robot_state = node.create_publisher(FrankaRobotState, topic, QoSProfile(depth=10))

    def _tell_changes(self) -> None:
        """What the controller_manager tells of its controllers."""
        if self._activity is None:
            return
        with self._lock:
            changes = self._panda.changes()
        for label in changes:
            states = {BROADCASTER: "active", self._settings.controller: label}
            told = [NamedLifecycleState(name=name, state=State(label=one)) for name, one in states.items()]
            message = ControllerManagerActivity(controllers=told)
            message.header.stamp = self._node.get_clock().now().to_msg()
            self._activity.publish(message)

    def _publish_beside(self, now_s: float) -> None:
        """Somebody else's joint states, as a forgotten joint_state_publisher_gui makes them."""
        if self._panda.fault != "second_publisher":
            if self._other is not None:
                self._other.destroy_node()
                self._other = None
            return
        base = self._node.get_namespace()
        if self._other is None:
            self._other = Node("joint_state_publisher_gui", namespace=base, use_global_arguments=False)
            self._others = self._other.create_publisher(
                JointState, resolve(base, self._settings.joint_states), QoSProfile(depth=10)
            )
        if self._other_rate.due(now_s):
            message = JointState(name=self._names, position=[0.0] * len(self._names))
            message.header.stamp = self._node.get_clock().now().to_msg()
            self._others.publish(message)

    def _joint_state(self, now_s: float) -> JointState:
        """Stamped with when the physics was there: it may catch up after a pause."""
        with self._lock:
            world, effort = self._panda.world, self._panda.effort_nm
            q, v, width = world.joint_position, world.joint_velocity, world.gripper_width
        count = len(self._fingers)
        stands = self._finger_scale.position(width) if count else 0.0
        message = JointState(name=[*self._names, *self._fingers])
        stamp = self._node.get_clock().now() - Duration(seconds=time.monotonic() - now_s)
        q, stamp_s = self._panda.wrong_states.state(q, stamp.nanoseconds / 1e9)
        message.header.stamp = Time(nanoseconds=round(stamp_s * 1e9)).to_msg()
        message.position = [*q.tolist(), *[stands] * count]
        message.velocity = [*v.tolist(), *[0.0] * count]
        message.effort = [*effort.tolist(), *[0.0] * count]
        return message

    def _on_trajectory(self, message: JointTrajectory, sent_ns: int = 0) -> None:
        """It counts from when it was sent: on a busy machine several are read late and at once."""
        late_s = time.time() - sent_ns / 1e9 if sent_ns else 0.0
        now_s = time.monotonic() - min(max(late_s, 0.0), MAX_LATE_S)
        points = [
            Point(
                np.array(point.positions),
                np.array(point.velocities) if point.velocities else None,
                point.time_from_start.sec + point.time_from_start.nanosec / 1e9,
            )
            for point in message.points
        ]
        with self._lock:
            before = self._panda.refused
            self._panda.trajectory(now_s, list(message.joint_names), points)
            refused = self._panda.refused
        self._complain(before, refused)

    def _on_positions(self, message: Float64MultiArray) -> None:
        with self._lock:
            before = self._panda.refused
            self._panda.positions(message.data)
            refused = self._panda.refused
        self._complain(before, refused)

    def _complain(self, before: str, refused: str) -> None:
        if refused and refused != before:
            self._node.get_logger().warning(f"{self._settings.controller}: command refused: {refused}")

    # -- services and Franka's recovery -----------------------------------------------------------------------------

    def _open_services(self, base: str) -> None:
        settings, node, group = self._settings, self._node, self._group
        self._activity: Publisher[Any] | None = None
        if settings.controller_manager:
            manager = resolve(base, settings.controller_manager)
            if ControllerManagerActivity is not None:
                latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
                self._activity = node.create_publisher(
                    ControllerManagerActivity, f"{manager}/activity", latched
                )
            for kind, name, call in (
                (ListControllers, "list_controllers", self._on_list),
                (SwitchController, "switch_controller", self._on_switch),
                (SetHardwareComponentState, "set_hardware_component_state", self._on_hardware),
            ):
                node.create_service(kind, f"{manager}/{name}", call, callback_group=group)
        if settings.error_recovery:
            name = resolve(base, settings.error_recovery)
            ActionServer(node, ErrorRecovery, name, self._on_recovery, callback_group=group)

    def _on_list(self, request: Any, response: ListControllers.Response) -> ListControllers.Response:
        with self._lock:
            state = self._panda.listing()
        response.controller = [
            ControllerState(name=BROADCASTER, state="active"),
            ControllerState(name=self._settings.controller, state=state),
        ]
        return response

    def _on_switch(
        self, request: SwitchController.Request, response: SwitchController.Response
    ) -> SwitchController.Response:
        wanted = [
            (Event.DEACTIVATE, request.deactivate_controllers),
            (Event.ACTIVATE, request.activate_controllers),
        ]
        with self._lock:
            response.ok = all(
                name == self._settings.controller and self._panda.turn(event)
                for event, names in wanted
                for name in names
            )
        return response

    def _on_hardware(
        self, request: SetHardwareComponentState.Request, response: SetHardwareComponentState.Response
    ) -> SetHardwareComponentState.Response:
        known = request.name == self._settings.hardware and request.target_state.label == "active"
        with self._lock:
            response.ok = known and self._panda.turn(Event.START_HARDWARE)
        return response

    def _on_recovery(self, goal: Any) -> ErrorRecovery.Result:
        time.sleep(RECOVERY_S)
        with self._lock:
            cleared = self._panda.turn(Event.CLEAR)
        goal.succeed() if cleared else goal.abort()
        return ErrorRecovery.Result()

    # -- the gripper ------------------------------------------------------------------------------------------------

    def _open_gripper(self, base: str) -> None:
        gripper, node, group = self._settings.gripper, self._node, self._group
        name = resolve(base, gripper.action)
        if gripper.kind == GRIPPER_COMMAND:
            ActionServer(node, GripperCommand, name, self._on_command, callback_group=group)
        elif gripper.kind == PARALLEL_GRIPPER_COMMAND:
            # Humble has none.
            from control_msgs.action import ParallelGripperCommand

            ActionServer(node, ParallelGripperCommand, name, self._on_parallel, callback_group=group)
        elif gripper.kind == FRANKA:
            ActionServer(node, Grasp, f"{name}/grasp", self._on_grasp, callback_group=group)
            ActionServer(node, Move, f"{name}/move", self._on_move, callback_group=group)

    def _grip(self, width_m: float) -> tuple[bool, bool, float]:
        """Move the fingers; returns whether they arrived, whether they stalled, and where. A newer goal ends this."""
        with self._lock:
            self._grip_number += 1
            number = self._grip_number
            self._panda.grip(width_m)
        while True:
            time.sleep(0.01)
            with self._lock:
                stands_m, stalled = self._panda.world.gripper_width, self._panda.gripper_stalled()
                replaced = number != self._grip_number
            reached = abs(stands_m - width_m) < REACHED_M
            if reached or stalled or replaced or self._closing or not self._node.context.ok():
                return reached, stalled and not reached, stands_m

    def _on_command(self, goal: Any) -> GripperCommand.Result:
        scale = self._goal_scale
        reached, stalled, stands_m = self._grip(scale.width_m(goal.request.command.position))
        result = GripperCommand.Result(reached_goal=reached, stalled=stalled)
        result.position = scale.position(stands_m)
        goal.succeed() if reached or stalled else goal.abort()
        return result

    def _on_parallel(self, goal: Any) -> Any:
        """As parallel_gripper_action_controller: one position, and a stall aborts unless it was told otherwise."""
        from control_msgs.action import ParallelGripperCommand

        scale, result = self._goal_scale, ParallelGripperCommand.Result()
        reached, result.stalled, stands_m = self._grip(scale.width_m(goal.request.command.position[0]))
        result.reached_goal = reached
        result.state = JointState(name=goal.request.command.name, position=[scale.position(stands_m)])
        goal.succeed() if reached else goal.abort()
        return result

    def _on_grasp(self, goal: Any) -> Grasp.Result:
        _, _, stands_m = self._grip(goal.request.width)
        epsilon = goal.request.epsilon
        held = -epsilon.inner <= stands_m - goal.request.width <= epsilon.outer
        goal.succeed() if held else goal.abort()
        return Grasp.Result(success=held)

    def _on_move(self, goal: Any) -> Move.Result:
        reached, _, _ = self._grip(goal.request.width)
        goal.succeed() if reached else goal.abort()
        return Move.Result(success=reached)
