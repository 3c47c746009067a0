"""The arm node: plays arm commands at the control rate within limits, and says where the arm is.

Takes `arm_command`; gives `joint_states`, `arm_status`, `/diagnostics`, and with a simulated arm `world_state`,
`~/reset_scene` and `~/outcome`. The control loop has its own thread, so that no callback can delay a setpoint.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from rosa_interfaces.msg import ArmCommand, ArmStatus, WorldState
from rosa_interfaces.srv import ResetScene
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from rosa_client.control_loop import ControlLoop
from rosa_client.drivers import DriverError
from rosa_client.drivers.arms import ArmState, create_arm
from rosa_client.nodes.shell import declare, run_node
from rosa_client.runtime.chunk_player import ChunkPlayer, Hold, MoveTo, OrderId, Play, PlayerState
from rosa_client.runtime.setpoint_filter import JointLimits
from rosa_contract.errors import ConfigError
from rosa_contract.robot import RobotSpec, load_robot

PARAMETERS = {
    "robot": ("", "robot file, such as configs/robots/panda.yaml"),
    "driver": ("", "arm driver; empty: the robot file's"),
    "seed": (0, "scene that a simulated arm starts with"),
    "joint_state_rate_hz": (50.0, "joint_states per second"),
    "world_state_rate_hz": (40.0, "world_state per second, for cameras of a simulated arm"),
}
STATUS_RATE_HZ = 20.0
MAX_CALL_S = 2.0


class ArmNode(Node):
    """Thin: messages to orders, states to messages."""

    def __init__(self) -> None:
        super().__init__("arm_node")
        declare(self, PARAMETERS)
        self._spec = load_robot(self.get_parameter("robot").value)
        driver = self.get_parameter("driver").value or self._spec.arm_driver
        self._arm = create_arm(driver, self._spec, self.get_parameter("seed").value)
        limits = filter_limits(self._spec)
        fingers = (self._spec.gripper.min_m, self._spec.gripper.max_m)
        self._player = ChunkPlayer(limits, fingers, self._spec.control_rate_hz)
        self._names = [*self._spec.joints, *(f"{self._spec.name}_finger_joint{i}" for i in (1, 2))]
        self._world = getattr(self._arm, "world", None)
        self._fault = ""
        self._refused = 0
        self._due_s: dict[str, float] = {}
        self._shown = (OrderId(0, 0), PlayerState.HOLDING, "")
        self._joints = self.create_publisher(JointState, "joint_states", qos_profile_sensor_data)
        self._status = self.create_publisher(ArmStatus, "arm_status", QoSProfile(depth=10))
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", QoSProfile(depth=10))
        self.create_subscription(ArmCommand, "arm_command", self._on_command, QoSProfile(depth=50))
        self.create_timer(1.0, self._diagnose)
        if self._world is not None:
            self._world_state = self.create_publisher(WorldState, "world_state", qos_profile_sensor_data)
            self.create_service(ResetScene, "~/reset_scene", self._on_reset)
            self.create_service(Trigger, "~/outcome", self._on_outcome)
        self._loop = ControlLoop(self._arm, self._player, self._spec.control_rate_hz, self._after_period)
        self._loop.start()
        self.get_logger().info(f"arm driver {driver}, {self._spec.control_rate_hz:g} Hz, holding")

    def close(self) -> None:
        self._loop.stop()
        self._arm.close()
        pace = self._loop.pace()
        # Not through ROS, which a signal has shut down by now.
        print(
            f"{self.get_name()}: control loop: {pace.periods} periods, jitter p50 {pace.jitter_p50_ms:.2f} ms, "
            f"p99 {pace.jitter_p99_ms:.2f} ms, work p99 {pace.work_p99_ms:.2f} ms, {pace.restarts} restarts",
            flush=True,
        )

    # -- commands ---------------------------------------------------------------------------------------------------

    def _on_command(self, message: ArmCommand) -> None:
        if message.kind == ArmCommand.ALIVE:
            return
        if message.kind == ArmCommand.MOVE_TO and message.gripper_width_m != message.gripper_width_m:
            message.gripper_width_m = self._player.gripper_m  # NaN: as last commanded
        number = OrderId(message.epoch, message.seq)
        order, problem = to_order(message, self._spec)
        self._loop.order(number, order).add_done_callback(
            lambda future: self._answered(problem or future.result(), number)
        )

    def _answered(self, refusal: str, number: OrderId) -> None:
        """In the control thread, right after an order was taken or refused."""
        newest = number == self._player.last
        if refusal:
            self._refused += 1
            self.get_logger().error(f"arm command {number.seq} refused: {refusal}")
        if newest:
            self._fault = refusal

    # -- what the arm says ------------------------------------------------------------------------------------------

    def _after_period(self, now_s: float, state: ArmState) -> None:
        """In the control thread, which goes on after a signal has shut ROS down, until `close`."""
        try:
            self._publish(now_s, state)
        except Exception:
            if self.context.ok():
                raise

    def _publish(self, now_s: float, state: ArmState) -> None:
        if self._is_due("joints", now_s, self.get_parameter("joint_state_rate_hz").value):
            message = JointState(name=self._names)
            message.header.stamp = self.get_clock().now().to_msg()
            half = state.gripper_m / 2
            message.position = [*state.q_rad.tolist(), half, half]
            message.velocity = [*state.velocity_rad_s.tolist(), 0.0, 0.0]
            self._joints.publish(message)
        shown = (self._player.last, self._player.state, self._fault)
        if self._is_due("status", now_s, STATUS_RATE_HZ) or shown != self._shown:
            self._shown = shown
            self._status.publish(self._arm_status(now_s))
        if self._world is not None and self._is_due(
            "world", now_s, self.get_parameter("world_state_rate_hz").value
        ):
            world = WorldState(seed=self._world.seed, qpos=self._world.qpos.tolist())
            world.stamp = self.get_clock().now().to_msg()
            self._world_state.publish(world)

    def _is_due(self, what: str, now_s: float, rate_hz: float) -> bool:
        due_s = self._due_s.get(what, now_s)
        if now_s < due_s - 0.5 / self._spec.control_rate_hz:
            return False
        self._due_s[what] = max(due_s + 1 / rate_hz, now_s)
        return True

    def _arm_status(self, now_s: float) -> ArmStatus:
        remaining_s = self._player.remaining_s(now_s)
        return ArmStatus(
            stamp=self.get_clock().now().to_msg(),
            last_epoch=self._player.last.epoch,
            last_seq=self._player.last.seq,
            state=self._player.state.value,
            remaining_s=remaining_s,
            settled=self._player.settled,
            fault=self._fault,
            refused=self._refused,
        )

    def _diagnose(self) -> None:
        pace = self._loop.pace()
        if not self._loop.running:
            level, text = DiagnosticStatus.ERROR, f"the control loop ended: {self._loop.failure!r}"
            self.get_logger().fatal(text)
        elif self._fault:
            level, text = DiagnosticStatus.ERROR, f"last command refused: {self._fault}"
        else:
            level, text = DiagnosticStatus.OK, self._player.state.name.lower()
        values = {
            "control_rate_hz": f"{self._spec.control_rate_hz:g}",
            "jitter_p50_ms": f"{pace.jitter_p50_ms:.3f}",
            "jitter_p99_ms": f"{pace.jitter_p99_ms:.3f}",
            "work_p99_ms": f"{pace.work_p99_ms:.3f}",
            "schedule_restarts": str(pace.restarts),
            "commands_refused": str(self._refused),
        }
        status = DiagnosticStatus(
            level=level, name=f"{self.get_fully_qualified_name()}: control", message=text
        )
        status.values = [KeyValue(key=key, value=value) for key, value in values.items()]
        array = DiagnosticArray(status=[status])
        array.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(array)

    # -- simulation -------------------------------------------------------------------------------------------------

    def _on_reset(self, request: ResetScene.Request, response: ResetScene.Response) -> ResetScene.Response:
        def reset() -> None:
            self._world.reset(request.seed)
            self._loop.reset()
            self._fault = ""

        response.reason = self._in_loop(reset)[1]
        response.ok = not response.reason
        return response

    def _on_outcome(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        outcome, problem = self._in_loop(self._world.outcome)
        response.success, response.message = not problem, problem or outcome
        return response

    def _in_loop(self, call: Any) -> tuple[Any, str]:
        try:
            return self._loop.submit(call).result(timeout=MAX_CALL_S), ""
        except TimeoutError:
            return None, f"the control loop did not answer within {MAX_CALL_S:g} s"
        except Exception as error:
            return None, f"the simulated cell refused: {error}"


def filter_limits(spec: RobotSpec) -> JointLimits:
    """The robot file's joint limits as the setpoint filter takes them."""
    limits = spec.limits
    return JointLimits(
        limits.position_min_rad,
        limits.position_max_rad,
        limits.velocity_rad_s,
        limits.acceleration_rad_s2,
        limits.jerk_rad_s3,
    )


def to_order(message: ArmCommand, spec: RobotSpec) -> tuple[Play | MoveTo | Hold, str]:
    """The command as an order; when it makes no sense, an order to hold and what is wrong with it."""
    if message.kind == ArmCommand.HOLD:
        return Hold(), ""
    if message.kind == ArmCommand.MOVE_TO:
        return MoveTo(np.array(message.joint_target_rad), message.gripper_width_m), ""
    if message.kind != ArmCommand.PLAY:
        return Hold(), f"kind {message.kind} is unknown; expected HOLD 0, PLAY 1 or MOVE_TO 2"
    chunk = message.chunk
    expected = [*spec.joints, "gripper"]
    if list(chunk.names) != expected:
        return Hold(), f"chunk: expected columns {expected}, got {list(chunk.names)}"
    if len(chunk.data) != chunk.horizon * len(expected):
        wanted = chunk.horizon * len(expected)
        return Hold(), f"chunk: horizon {chunk.horizon} needs {wanted} numbers, got {len(chunk.data)}"
    actions = np.array(chunk.data, dtype=np.float64).reshape(chunk.horizon, len(expected))
    return Play(actions, chunk.step_s, message.skip_s, message.execute_s), ""


def main() -> None:
    # The control thread must get the interpreter soon after it wakes; the default is 5 ms.
    sys.setswitchinterval(0.0005)
    run_node(ArmNode, (ConfigError, DriverError))


if __name__ == "__main__":
    main()
