"""The arm node: plays arm commands at the control rate within limits, and says where the arm is.

Takes `arm_command` and the emergency stop (`emergency_stop.py`); publishes `joint_states`, `arm_status`,
`arm_setpoints` and `/diagnostics`. A driver with a simulated scene adds the topics and services of `scene_port.py`. The
control loop has its own thread, so that no callback can delay a setpoint. What the arm refuses and when it stops by
itself: docs/local_safety.md.

It is a managed node (`managed.py`), and no transition moves the arm:

- unconfigured: no arm is connected. The emergency stop is taken nevertheless; it stays latched through all transitions.
- inactive: the control loop holds the arm where it was found, or has come to rest. Orders that move are refused.
- active: orders are obeyed; one from before does not go on.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rosa_interfaces.msg import ArmCommand, ArmStatus
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from rosa_client.drivers.arms import ArmState, connecting, followed, halting, recovering, scene_of
from rosa_client.drivers.arms import create_arm as create_arm  # fault injection puts another one in its place
from rosa_client.loops.arm_watch import ArmWatch
from rosa_client.loops.ask import answer_within
from rosa_client.loops.control_loop import ControlLoop
from rosa_client.motion.arm_orders import MoveTo, Order, OrderId, Play
from rosa_client.motion.chunk_player import OFF_DUTY, ChunkPlayer
from rosa_client.motion.emergency_stop import STOPPED, EmergencyStop
from rosa_client.motion.limits import MotionLimits, pose_problems
from rosa_client.motion.refusal import Refusal
from rosa_client.nodes.base.managed import ManagedNode
from rosa_client.nodes.base.parameters import Parameter, declare
from rosa_client.nodes.base.qos import LATEST
from rosa_client.nodes.base.rate import Rate
from rosa_client.nodes.base.shell import run_node
from rosa_client.nodes.robot.arm_messages import arm_status, control_diagnostics, joint_state, to_order
from rosa_client.nodes.robot.emergency_stop import EmergencyStopPort, InLoop
from rosa_client.nodes.robot.scene_port import ScenePort
from rosa_client.nodes.robot.setpoint_log import SetpointLog
from rosa_client.operator.shape import TOPIC, shape_text
from rosa_client.ros.clock import stamp_before, steady_timer
from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_contract.errors import ConfigError

MIN_RATE_HZ, MAX_RATE_HZ = 0.1, 1000.0
PARAMETERS = {
    "robot": Parameter("", "robot file, such as configs/robots/panda.yaml"),
    "driver": Parameter("", "arm driver; empty: the robot file's"),
    "seed": Parameter(0, "scene that a simulated arm starts with", 0, 2**62),
    "joint_state_rate_hz": Parameter(50.0, "joint_states per second", MIN_RATE_HZ, MAX_RATE_HZ),
    "world_state_rate_hz": Parameter(
        40.0, "world_state per second, for cameras of a simulated arm", MIN_RATE_HZ, MAX_RATE_HZ
    ),
}
MIN_SHARE = 1e-6
SLOWER = "velocity_scale"
STATUS_RATE_HZ = 20.0
MAX_CALL_S = 2.0
DDS_PROFILE = "FASTDDS_DEFAULT_PROFILES_FILE"
REST_WITHIN_S = 1.0  # stopping from the working speed takes about 0.2 s


INACTIVE = "the arm node is inactive"


class ArmNode(ManagedNode):
    """One robot's arm."""

    def __init__(self) -> None:
        super().__init__("arm_node", PARAMETERS)
        self._latch = EmergencyStop()
        self._stop = EmergencyStopPort(self, self._latch)
        self._arm: ConnectedArm | None = None
        self.start()

    def configure(self) -> None:
        path = self.get_parameter("robot").value
        spec = load_robot(path)
        if problems := pose_problems(spec):
            raise ConfigError(path, problems)
        driver = self.get_parameter("driver").value or spec.arm_driver
        self._arm = ConnectedArm(self, spec, driver, self._latch)
        self._arm.start(self._stop)
        self.get_logger().info(f"arm driver {driver}, {spec.control_rate_hz:g} Hz, holding")

    def activate(self) -> None:
        assert self._arm is not None
        self._arm.go_on_duty()

    def deactivate(self, cause: str, reason: str) -> None:
        if self._arm is not None:
            self._arm.go_off_duty(reason)

    def clean_up(self) -> None:
        self._stop.disconnect()
        if self._arm is not None:
            self._arm.close()
            self._arm = None


class ConnectedArm:
    """A configured arm: hands messages to the control loop and publishes what the loop reports."""

    def __init__(self, node: Node, spec: RobotSpec, driver: str, latch: EmergencyStop) -> None:
        """Raises `DriverError` for an arm that cannot be reached."""
        self._node = node
        self._spec = spec
        self._hardware = f"{spec.name} ({driver})"
        self._arm = create_arm(driver, spec, node.get_parameter("seed").value)
        try:
            if (arm := connecting(self._arm)) is not None:
                arm.connect(node.get_namespace())
            follower, rate_hz = followed(self._arm), spec.control_rate_hz
            leads = follower is not None and follower.leads
            self._player = ChunkPlayer(MotionLimits.of(spec), rate_hz, self._declare_scale(), latch, leads)
            watch = ArmWatch(spec, math.inf if follower is None else follower.max_following_error_rad)
            self._loop = ControlLoop(self._arm, self._player, watch, rate_hz, self._after_period)
        except BaseException:
            self._arm.close()
            raise
        self._player.go_off_duty(INACTIVE)
        self._halt()
        self._names = [*spec.joints, *spec.finger_joints]
        self._refused = 0
        self._logged = ""  # cause of the fault that was logged last
        self._joint_rate = self._rate("joint_state_rate_hz")
        self._status_rate = Rate(STATUS_RATE_HZ, 1 / spec.control_rate_hz)
        self._scene: ScenePort | None = None
        self._shown: tuple[Any, ...] = ()
        self._joints = node.create_publisher(JointState, "joint_states", QoSProfile(depth=10))
        self._status = node.create_publisher(ArmStatus, "arm_status", QoSProfile(depth=10))
        self._setpoints = SetpointLog(node, spec.action_names)
        self._shape = node.create_publisher(String, TOPIC, LATEST)  # for whoever draws this robot
        self._shape.publish(String(data=shape_text(spec)))
        self._diagnostics = node.create_publisher(DiagnosticArray, "/diagnostics", QoSProfile(depth=10))
        node.create_subscription(ArmCommand, "arm_command", self._on_command, QoSProfile(depth=50))
        if (scene := scene_of(self._arm)) is not None:
            world_rate = self._rate("world_state_rate_hz")
            self._scene = ScenePort(node, scene, world_rate, self._in_loop, self._loop.reset)
        offer_recovery(node, self._recover, self._in_loop)
        node.add_post_set_parameters_callback(self._on_parameters)

    def start(self, stop: EmergencyStopPort) -> None:
        """Hold, and take the emergency stop."""
        robot = self._node.get_namespace().strip("/") or self._spec.name
        stop.connect(
            robot, self._press, self._player.release_emergency_stop, self._loop.submit, self._in_loop
        )
        self._loop.start()
        # After the loop, whose periods divide theirs: so they come between two periods, and never at the start of one.
        steady_timer(self._node, 1.0, self._diagnose)
        steady_timer(self._node, 1 / STATUS_RATE_HZ, self._watch_loop)

    def go_on_duty(self) -> None:
        """Take orders."""
        self._loop.submit(self._player.go_on_duty)

    def go_off_duty(self, why: str) -> None:
        """Come to rest within the limits, and hold."""
        asked = self._loop.submit(lambda: self._player.go_off_duty(why))
        self._loop.submit(self._halt)
        self._wait_for_rest(asked)

    def close(self) -> None:
        """End the setpoints of an arm at rest, and release it."""
        self._node.remove_post_set_parameters_callback(self._on_parameters)
        self._wait_for_rest(self._loop.submit(lambda: self._player.come_to_rest("the arm node ends")))
        self._loop.stop()
        self._setpoints.publish(time.monotonic(), last=True)
        self._arm.close()
        pace = self._loop.pace()
        self._node.get_logger().info(
            f"control loop: {pace.periods} periods, jitter p50 {pace.jitter_p50_ms:.2f} ms, "
            f"p99 {pace.jitter_p99_ms:.2f} ms, work p99 {pace.work_p99_ms:.2f} ms, {pace.restarts} restarts"
        )

    def _wait_for_rest(self, asked: Future[Any]) -> None:
        """Until an arm that was told to rest does: setpoints must not end in the middle of a motion."""
        end_s = time.monotonic() + REST_WITHIN_S
        while self._loop.running and time.monotonic() < end_s and not (asked.done() and self._player.settled):
            time.sleep(0.01)

    # -- in the control thread --------------------------------------------------------------------------------------

    def _recover(self) -> Refusal | None:
        """Begin to recover; returns why not."""
        if self._player.emergency_stop.latched:
            return STOPPED
        self._player.recover(time.monotonic())
        if (arm := recovering(self._arm)) is not None:
            arm.recover()
        return None

    def _press(self, source: str) -> None:
        self._player.press_emergency_stop(source)
        self._halt()

    def _halt(self) -> None:
        """What the driver has not begun it begins no more, until an order that moves is taken."""
        if (arm := halting(self._arm)) is not None:
            arm.halt()

    # -- commands ---------------------------------------------------------------------------------------------------

    def _on_command(self, message: ArmCommand) -> None:
        number = OrderId(message.epoch, message.seq)
        if message.kind == ArmCommand.ALIVE:
            self._loop.alive(number)
        else:
            order = to_order(message, self._spec)
            self._loop.order(number, order).add_done_callback(
                lambda future: self._answered(future, number, order)
            )

    def _answered(self, future: Future[Refusal | None], number: OrderId, order: Order) -> None:
        """Runs in the control thread, right after an order was taken or refused."""
        refusal = future.result()
        if refusal is None and isinstance(order, Play | MoveTo) and (arm := halting(self._arm)) is not None:
            arm.go_on()
        if refusal is not None:
            self._refused += 1
            self._node.get_logger().error(f"arm command {number.seq} refused ({refusal.cause}): {refusal}")

    def _declare_scale(self) -> float:
        text = "share of the working speed that everything moves with; may be set at any time"
        scale = Parameter(self._spec.velocity_scale, text, MIN_SHARE, 1.0, fixed=False)
        if not self._node.has_parameter(SLOWER):  # it stays when the arm is configured again
            declare(self._node, {SLOWER: scale})
        return float(self._node.get_parameter(SLOWER).value)

    def _rate(self, name: str) -> Rate:
        return Rate(float(self._node.get_parameter(name).value), 1 / self._spec.control_rate_hz)

    def _on_parameters(self, parameters: list[Any]) -> None:
        """After ROS has checked type and range."""
        for share in [parameter.value for parameter in parameters if parameter.name == SLOWER]:
            self._loop.submit(partial(self._slow_down, share))

    def _slow_down(self, share: float) -> None:
        self._player.slow_down(time.monotonic(), share)

    # -- what the arm says ------------------------------------------------------------------------------------------

    def _after_period(self, now_s: float, state: ArmState) -> None:
        """Runs in the control thread, which goes on until `close`."""
        try:
            if (sent := self._loop.sent) is not None:
                self._setpoints.sent(now_s, sent.q_rad, sent.gripper_m)
            self._setpoints.publish(now_s)
            self._publish(now_s, state)
        except Exception as error:
            if self._node.context.ok():  # a publishing error must not stop the control loop
                text = f"the arm's state cannot be published: {error!r}"
                self._node.get_logger().error(text, throttle_duration_sec=1.0)

    def _publish(self, now_s: float, state: ArmState) -> None:
        if self._joint_rate.due(now_s):
            measured = stamp_before(self._node.get_clock(), state.age_s)
            self._joints.publish(joint_state(self._names, state, measured))
        player = self._player
        latched = player.emergency_stop.latched
        shown = (player.last, player.state, player.fault, player.cut_short, latched)
        if self._status_rate.due(now_s) or shown != self._shown:
            self._log_fault(player.fault_cause, player.fault)
            self._shown = shown
            self._publish_status(now_s)
        if self._scene is not None:
            self._scene.publish(now_s)

    def _log_fault(self, cause: str, reason: str) -> None:
        if cause in (self._logged, OFF_DUTY):
            return
        self._logged = cause
        if reason:
            self._node.get_logger().error(f"the arm cannot be moved ({cause}): {reason}")
        else:
            self._node.get_logger().info("the arm can be moved again")

    def _watch_loop(self) -> None:
        """Runs in the ROS thread, because a control loop that has ended or is blocked cannot report it itself."""
        if trouble := self._loop.trouble():
            self._publish_status(time.monotonic(), trouble)

    def _publish_status(self, now_s: float, trouble: str = "") -> None:
        stamp = self._node.get_clock().now().to_msg()
        self._status.publish(arm_status(self._player, now_s, self._refused, trouble, stamp))

    def _diagnose(self) -> None:
        if trouble := self._loop.trouble():
            self._node.get_logger().fatal(trouble)
        name, rate_hz = self._node.get_fully_qualified_name(), self._spec.control_rate_hz
        pace = self._loop.pace()
        status = control_diagnostics(name, self._player, pace, rate_hz, self._refused, trouble)
        status.hardware_id = self._hardware
        array = DiagnosticArray(status=[status])
        array.header.stamp = self._node.get_clock().now().to_msg()
        self._diagnostics.publish(array)

    def _in_loop(self, call: Callable[[], Any]) -> tuple[Any, str]:
        """Run `call` in the control thread; returns its result, or a description of what went wrong."""
        future = self._loop.submit(call)
        try:
            return answer_within(future, MAX_CALL_S), ""
        except TimeoutError:
            return None, f"the control loop did not answer within {MAX_CALL_S:g} s"
        except Exception as error:
            return None, f"the arm driver refused: {error}"


def offer_recovery(node: Node, recover: Callable[[], Refusal | None], in_loop: InLoop) -> None:
    """Serve `~/recover`: a person helps the arm out of a fault, or on from where it stands. The runtime calls it when
    an operator decides so. Refused while the emergency stop is latched."""

    def on_request(request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        refused, problem = in_loop(recover)
        response.message = problem or (refused.reason if refused is not None else "")
        response.success = not response.message
        return response

    node.create_service(Trigger, "~/recover", on_request)


def keep_apart() -> None:
    """Switch to the DDS profile for arms when the robot's profile is in use. Call it before ROS starts.

    Sending through shared memory takes a lock that the receiver may hold when it is stopped; with sockets alone no
    other process can keep this node from speaking, or from hearing the emergency stop.
    """
    in_use = Path(os.environ.get(DDS_PROFILE, ""))
    if not in_use.name:  # none
        return
    mine = in_use.with_name(f"{in_use.stem}_arm.xml")
    if mine.is_file():
        os.environ[DDS_PROFILE] = str(mine)


def main() -> None:
    keep_apart()
    run_node(ArmNode, ArmNode.expected)


if __name__ == "__main__":
    main()
