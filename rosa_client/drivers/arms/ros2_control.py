"""An arm behind ros2_control: a `joint_trajectory_controller` or a forward position controller, and a gripper action.

Any arm with these controllers works; what Franka adds (robot mode, reflexes, error recovery, its own gripper actions)
is used when the robot file names it (`rosa_contract/config/arms.py`). What counts as a fault is decided in
`ros2_control_rules.py`, when the gripper gets a goal in `gripper_goals.py`.

The driver has its own ROS context, node and thread. So it hears the arm while the arm node's callbacks are
busy, and can bring the arm to rest after a signal has shut ROS down for the arm node.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

import rclpy
from builtin_interfaces.msg import Duration
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rosa_client.drivers import DriverError
from rosa_client.drivers.arms import ArmState, Array
from rosa_client.drivers.arms.gripper_actions import LOOK_FOR_GRIPPER_S, gripper_of
from rosa_client.drivers.arms.gripper_goals import GripperGoals, Result
from rosa_client.drivers.arms.ros2_control_ports import Manager, VendorState, packages
from rosa_client.drivers.arms.ros2_control_rules import (
    CLEAR_ERROR,
    Ros2ControlLink,
    Waypoint,
    comes_to_rest,
    controllers_namespace,
    joint_states_topic,
    recovery_steps,
    resolve,
    waypoints,
)
from rosa_client.motion.arm_orders import Command
from rosa_client.ros.clock import steady_timer
from rosa_contract.config.arms import FORWARD_POSITION, Ros2ControlSettings, arm_settings
from rosa_contract.config.robot import RobotSpec

# A reliable subscription would not match a broadcaster that publishes with sensor QoS; both kinds match this one.
NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
# Each is checked against the one before.
ALL = QoSProfile(depth=20, reliability=ReliabilityPolicy.BEST_EFFORT)
PUBLISHERS_EVERY_S = 0.1
LOOK_EVERY_S = 0.1  # whether the driver is to end
FIRST_ANSWER_S = 3.0  # how long to wait for the controller_manager, and for the gripper


class Ros2ControlArm:
    """An arm driver; see `rosa_client.drivers.arms`. `connect` waits for the arm's first joint state."""

    def __init__(self, spec: RobotSpec, seed: int) -> None:
        """Raises `ConfigError` for wrong settings, `DriverError` when a package that they need is not installed."""
        self._spec = spec
        self._settings: Ros2ControlSettings = arm_settings(spec.name, "ros2_control", spec.arm)
        self._packages = packages(self._settings)
        self._lock = threading.Lock()  # around what both threads use
        self._thread: threading.Thread | None = None
        self._recovery: threading.Thread | None = None
        self._recovery_fault = ""
        self._ending = threading.Event()

    def connect(self, namespace: str) -> None:
        settings, robot = self._settings, namespace
        topic = joint_states_topic(robot, settings)
        if topic == f"/{robot.strip('/')}/joint_states":
            raise DriverError(
                f"arm.joint_states: {topic} is what the arm node itself publishes; start the controllers in another"
                " namespace than the robot's (arm.namespace), or remap their joint_states"
            )
        opened: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._serve, args=(robot, topic, opened), name="ros2_control", daemon=True
        )
        self._thread.start()
        opened.result()
        try:
            self._wait_for(lambda: self._link.ready, settings.start_timeout_s)
            if not self._link.ready:
                raise DriverError(self._link.silence(settings.start_timeout_s))
            # What is still missing after this is a fault that the arm node reports.
            self._wait_for(lambda: self._manager is None or self._manager.answered, FIRST_ANSWER_S)
            self._wait_for(lambda: not any(one.missing() for one in self._grippers), FIRST_ANSWER_S)
            for gripper, link in zip(self._grippers, self._link.grippers, strict=True):
                if missing := gripper.missing():
                    self._node.get_logger().error(f"the arm takes no order: {missing}")
                if unheard := link.unheard():
                    self._node.get_logger().error(unheard)
        except BaseException:
            self.close()
            raise

    def read(self) -> ArmState:
        now_s = time.monotonic()
        with self._lock:
            for goals in self._goals:
                goals.check(now_s)
            fault = (
                self._recovery_fault
                or self._link.fault(now_s)
                or self._link.gripper_fault(now_s)
                or next((goals.fault for goals in self._goals if goals.fault), "")
            )
            return self._link.state(now_s, fault)

    @property
    def leads(self) -> bool:
        return self._settings.command != FORWARD_POSITION  # which goes to its newest positions at once

    @property
    def max_following_error_rad(self) -> float:
        return self._settings.max_following_error_rad

    def rests(self, command: Command) -> tuple[Array, float]:
        return comes_to_rest(self._settings, command)

    def track(self, command: Command) -> None:
        self._send(command)
        for number, width_m in enumerate(command.gripper_m.tolist()):
            with self._lock:
                measured_m = self._link.grippers[number].width_m
                goal = self._goals[number].wanted(time.monotonic(), width_m, measured_m)
            if goal is not None:
                self._grippers[number].send(goal)

    def idle(self, period_s: float) -> None:
        pass

    def recover(self) -> None:
        """Recover in a separate thread, step by step, in the order that the robot's maker documents."""
        if self._recovery is not None and self._recovery.is_alive():
            return
        now_s = time.monotonic()
        with self._lock:
            for goals in self._goals:
                goals.recover()
            steps = recovery_steps(
                self._settings, self._link.present_fault(now_s), self._link.controller_state
            )
            self._recovery_fault = f"recovering: {steps[0]}" if steps else ""
        if steps:
            self._recovery = threading.Thread(target=self._recover, args=(steps,), daemon=True)
            self._recovery.start()

    def halt(self) -> None:
        with self._lock:
            for goals in self._goals:
                goals.halt()

    def go_on(self) -> None:
        with self._lock:
            for goals in self._goals:
                goals.go_on()

    def close(self) -> None:
        self._ending.set()
        if self._thread is None:  # it was never connected
            return
        self._thread.join(timeout=2.0)
        self._node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    # -- the ROS side -----------------------------------------------------------------------------------------------

    def _serve(self, robot: str, topic: str, opened: Future[None]) -> None:
        """The driver's thread."""
        try:
            self._link = Ros2ControlLink(self._spec, self._settings, robot, time.monotonic())
            bodies = [link.body for link in self._link.grippers]
            self._goals = [
                GripperGoals(body.spec.max_m, body.settings.timeout_s, body.spec.min_m) for body in bodies
            ]
            self._context = rclpy.Context()
            rclpy.init(args=[], context=self._context, signal_handler_options=rclpy.SignalHandlerOptions.NO)
            self._node = Node(
                "arm_driver", namespace=robot, context=self._context, use_global_arguments=False
            )
            self._open_ports(controllers_namespace(robot, self._settings), topic)
            self._executor = SingleThreadedExecutor(context=self._context)
            self._executor.add_node(self._node)
        except BaseException as error:
            opened.set_exception(error)
            return
        opened.set_result(None)
        with suppress(ExternalShutdownException):
            while not self._ending.is_set():
                self._executor.spin_once(timeout_sec=LOOK_EVERY_S)
        self._executor.shutdown()

    def _open_ports(self, base: str, topic: str) -> None:
        """Clients come before subscriptions, on purpose. A server that is seen may not have seen its client yet: it
        would do what it is asked, and drop its answer after 0.1 s. Who subscribes is told to a node in the order in
        which it was made, so controllers that are heard know the clients as well."""
        settings, node = self._settings, self._node
        bodies = [link.body for link in self._link.grippers]
        self._names = [settings.joint_prefix + name for name in self._spec.joints]
        controller = resolve(base, settings.controller)
        if settings.command == FORWARD_POSITION:
            self._commands = node.create_publisher(Float64MultiArray, f"{controller}/commands", 1)
        else:
            self._commands = node.create_publisher(JointTrajectory, f"{controller}/joint_trajectory", 1)
        self._grippers = [
            gripper_of(node, base, body, self._packages, partial(self._on_gripper, number))
            for number, body in enumerate(bodies)
        ]
        steady_timer(node, LOOK_FOR_GRIPPER_S, self._look_for_grippers)
        self._manager: Manager | None = None
        if settings.controller_manager:
            self._manager = Manager(node, base, settings, self._packages, self._on_controllers)
        self._robot: VendorState | None = None
        if settings.robot_state or settings.error_recovery:
            self._robot = VendorState(node, base, settings, self._packages, self._on_robot)
        if self._manager is not None:
            self._manager.listen()
        node.create_subscription(JointState, topic, self._on_joints, ALL)
        self._topic = topic
        steady_timer(node, PUBLISHERS_EVERY_S, self._look_for_publishers)
        told = {resolve(base, body.settings.joint_states) for body in bodies if body.settings.joint_states}
        for fingers in sorted(told - {topic}):
            node.create_subscription(JointState, fingers, self._on_joints, NEWEST)

    def _send(self, command: Command) -> None:
        if self._settings.command == FORWARD_POSITION:
            self._commands.publish(Float64MultiArray(data=command.q_rad.tolist()))
            return
        points = waypoints(self._settings, command)
        # Without a stamp the controller begins at once.
        message = JointTrajectory(joint_names=self._names, points=[_point(one) for one in points])
        self._commands.publish(message)

    def _recover(self, steps: tuple[str, ...]) -> None:
        for step in steps:
            self._say_recovery(f"recovering: {step}")
            problem = self._take(step)
            if problem:
                self._say_recovery(f"recovery failed: {step}: {problem}")
                return
        self._say_recovery("")

    def _take(self, step: str) -> str:
        """Carry out one step; returns why it failed."""
        if step == CLEAR_ERROR:
            assert self._robot is not None
            return self._robot.clear_error()
        assert self._manager is not None
        return self._manager.do(step)

    def _say_recovery(self, text: str) -> None:
        with self._lock:
            self._recovery_fault = text

    def _wait_for(self, condition: Callable[[], bool], timeout_s: float) -> None:
        until_s = time.monotonic() + timeout_s
        while not condition() and time.monotonic() < until_s:
            time.sleep(0.01)

    # -- messages, in the driver's own thread -------------------------------------------------------------------------

    def _on_joints(self, message: JointState) -> None:
        now_s = time.monotonic()
        stamp_s = message.header.stamp.sec + message.header.stamp.nanosec / 1e9
        with self._lock:
            self._link.hear_joints(
                now_s, stamp_s, message.name, message.position, message.velocity, message.effort
            )

    def _look_for_publishers(self) -> None:
        found = self._node.get_publishers_info_by_topic(self._topic)
        names = [f"{one.node_namespace.rstrip('/')}/{one.node_name}" for one in found]
        with self._lock:
            self._link.hear_publishers(names)

    def _on_controllers(self, states: Mapping[str, str] | None, answers: bool) -> None:
        with self._lock:
            self._link.hear_controllers(time.monotonic(), states, answers)

    def _on_robot(self, mode: int, errors: Sequence[str]) -> None:
        with self._lock:
            self._link.hear_robot(time.monotonic(), mode, errors)

    def _look_for_grippers(self) -> None:
        for gripper, link in zip(self._grippers, self._link.grippers, strict=True):
            missing = gripper.missing()
            with self._lock:
                link.hear_action(time.monotonic(), missing)

    def _on_gripper(self, number: int, result: Result) -> None:
        with self._lock:
            self._goals[number].ended(result, self._link.grippers[number].width_m)


def _point(waypoint: Waypoint) -> JointTrajectoryPoint:
    ns = int(waypoint.after_s * 1e9)
    after = Duration(sec=ns // 1_000_000_000, nanosec=ns % 1_000_000_000)
    velocity = waypoint.velocity_rad_s
    velocities = [] if velocity is None else velocity.tolist()
    return JointTrajectoryPoint(
        positions=waypoint.q_rad.tolist(), velocities=velocities, time_from_start=after
    )
