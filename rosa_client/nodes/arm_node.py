"""The arm node: plays arm commands at the control rate within limits, and says where the arm is.

Takes `arm_command` and the emergency stop (`emergency_stop.py`); gives `joint_states`, `arm_status`, `/diagnostics`,
and with a simulated arm `world_state`, `~/reset_scene` and `~/outcome`. The control loop has its own thread, so that
no callback can delay a setpoint. What the arm refuses and when it stops by itself: docs/local_safety.md.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from rosa_interfaces.msg import ArmCommand, ArmStatus, WorldState
from rosa_interfaces.srv import ResetScene
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from rosa_client.ask import answer_within
from rosa_client.control_loop import ControlLoop
from rosa_client.drivers import DriverError
from rosa_client.drivers.arms import ArmState, create_arm
from rosa_client.motion.arm_orders import Hold, MoveTo, Nonsense, Order, OrderId, Play
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.limits import MotionLimits, pose_problems
from rosa_client.nodes.emergency_stop import EmergencyStopPort
from rosa_client.nodes.shell import declare, run_node
from rosa_contract.errors import ConfigError
from rosa_contract.robot import RobotSpec, load_robot

PARAMETERS = {
    "robot": ("", "robot file, such as configs/robots/panda.yaml"),
    "driver": ("", "arm driver; empty: the robot file's"),
    "seed": (0, "scene that a simulated arm starts with"),
    "joint_state_rate_hz": (50.0, "joint_states per second"),
    "world_state_rate_hz": (40.0, "world_state per second, for cameras of a simulated arm"),
}
RATES = ("joint_state_rate_hz", "world_state_rate_hz")
SLOWER = "velocity_scale"
STATUS_RATE_HZ = 20.0
MAX_CALL_S = 2.0
DDS_PROFILE = "FASTDDS_DEFAULT_PROFILES_FILE"
REST_WITHIN_S = 1.0  # from the working speed the limits need about 0.2 s


class ArmNode(Node):
    """Thin: messages to orders, states to messages."""

    def __init__(self) -> None:
        super().__init__("arm_node")
        declare(self, PARAMETERS)
        path = self.get_parameter("robot").value
        self._spec = load_robot(path)
        if problems := pose_problems(self._spec):
            raise ConfigError(path, problems)
        driver = self.get_parameter("driver").value or self._spec.arm_driver
        self._arm = create_arm(driver, self._spec, self.get_parameter("seed").value)
        self._player = ChunkPlayer(
            MotionLimits.of(self._spec), self._spec.control_rate_hz, self._declare_scale()
        )
        self._names = [*self._spec.joints, *(f"{self._spec.name}_finger_joint{i}" for i in (1, 2))]
        self._world = getattr(self._arm, "world", None)
        self._refused = 0
        self._rates_hz = {name: self._rate_hz(name) for name in RATES}
        self._due_s: dict[str, float] = {}
        self._shown: tuple[Any, ...] = ()
        self._joints = self.create_publisher(JointState, "joint_states", qos_profile_sensor_data)
        self._status = self.create_publisher(ArmStatus, "arm_status", QoSProfile(depth=10))
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", QoSProfile(depth=10))
        self.create_subscription(ArmCommand, "arm_command", self._on_command, QoSProfile(depth=50))
        self.create_timer(1.0, self._diagnose)
        self.create_timer(1 / STATUS_RATE_HZ, self._watch_loop)
        if self._world is not None:
            self._world_state = self.create_publisher(WorldState, "world_state", qos_profile_sensor_data)
            self.create_service(ResetScene, "~/reset_scene", self._on_reset)
            self.create_service(Trigger, "~/outcome", self._on_outcome)
        self._loop = ControlLoop(self._arm, self._player, self._spec.control_rate_hz, self._after_period)
        robot = self.get_namespace().strip("/") or self._spec.name
        self._stop = EmergencyStopPort(self, robot, self._player, self._loop.submit, self._in_loop)
        self.add_on_set_parameters_callback(self._on_parameters)
        self._loop.start()
        self.get_logger().info(f"arm driver {driver}, {self._spec.control_rate_hz:g} Hz, holding")

    def close(self) -> None:
        self._come_to_rest()
        self._loop.stop()
        self._arm.close()
        pace = self._loop.pace()
        # Not through ROS, which a signal has shut down by now.
        print(
            f"{self.get_name()}: control loop: {pace.periods} periods, jitter p50 {pace.jitter_p50_ms:.2f} ms, "
            f"p99 {pace.jitter_p99_ms:.2f} ms, work p99 {pace.work_p99_ms:.2f} ms, {pace.restarts} restarts",
            flush=True,
        )

    def _come_to_rest(self) -> None:
        """Ramp down before the setpoints end: whoever stops this node may do so in the middle of a motion."""
        rest = self._loop.submit(lambda: self._player.come_to_rest("the arm node ends"))
        end_s = time.monotonic() + REST_WITHIN_S
        while self._loop.running and time.monotonic() < end_s and not (rest.done() and self._player.settled):
            time.sleep(0.01)

    # -- commands ---------------------------------------------------------------------------------------------------

    def _on_command(self, message: ArmCommand) -> None:
        number = OrderId(message.epoch, message.seq)
        if message.kind == ArmCommand.ALIVE:
            self._loop.alive(number)
        else:
            self._loop.order(number, to_order(message, self._spec)).add_done_callback(
                lambda future: self._answered(future, number)
            )

    def _answered(self, future: Future[str], number: OrderId) -> None:
        """In the control thread, right after an order was taken or refused."""
        refusal = future.result()
        if refusal:
            self._refused += 1
            self.get_logger().error(f"arm command {number.seq} refused: {refusal}")

    def _declare_scale(self) -> float:
        text = "share of the working speed that everything moves with, above 0, at most 1; may be set at any time"
        share = self.declare_parameter(
            SLOWER, self._spec.velocity_scale, ParameterDescriptor(description=text)
        ).value
        if not 0.0 < share <= 1.0:
            raise ConfigError("arm_node", [f"{SLOWER}: must be above 0 and at most 1, got {share:g}"])
        return float(share)

    def _rate_hz(self, name: str) -> float:
        rate_hz = float(self.get_parameter(name).value)
        if not 0.0 < rate_hz <= 1000.0:
            raise ConfigError("arm_node", [f"{name}: must be above 0 and at most 1000, got {rate_hz:g}"])
        return rate_hz

    def _on_parameters(self, parameters: list[Any]) -> SetParametersResult:
        if fixed := [parameter.name for parameter in parameters if parameter.name in RATES]:
            reason = f"{', '.join(fixed)} can be set at the start only"
            return SetParametersResult(successful=False, reason=reason)
        for share in [parameter.value for parameter in parameters if parameter.name == SLOWER]:
            if not (isinstance(share, float) and 0.0 < share <= 1.0):
                reason = f"{SLOWER} must be a number above 0 and at most 1, got {share}"
                return SetParametersResult(successful=False, reason=reason)
            self._loop.submit(lambda share=share: self._player.slow_down(time.monotonic(), share))
        return SetParametersResult(successful=True)

    # -- what the arm says ------------------------------------------------------------------------------------------

    def _after_period(self, now_s: float, state: ArmState) -> None:
        """In the control thread, which goes on after a signal has shut ROS down, until `close`."""
        try:
            self._publish(now_s, state)
        except Exception as error:
            if self.context.ok():  # what the arm says must not end what it does
                text = f"the arm's state cannot be published: {error!r}"
                self.get_logger().error(text, throttle_duration_sec=1.0)

    def _publish(self, now_s: float, state: ArmState) -> None:
        if self._is_due("joints", now_s, self._rates_hz["joint_state_rate_hz"]):
            message = JointState(name=self._names)
            message.header.stamp = self.get_clock().now().to_msg()
            half = state.gripper_m / 2
            message.position = [*state.q_rad.tolist(), half, half]
            message.velocity = [*state.velocity_rad_s.tolist(), 0.0, 0.0]
            self._joints.publish(message)
        player = self._player
        latched = player.emergency_stop.latched
        shown = (player.last, player.state, player.fault, player.cut_short, latched)
        if self._is_due("status", now_s, STATUS_RATE_HZ) or shown != self._shown:
            self._shown = shown
            self._status.publish(self._arm_status(now_s))
        if self._world is not None and self._is_due("world", now_s, self._rates_hz["world_state_rate_hz"]):
            world = WorldState(seed=self._world.seed, qpos=self._world.qpos.tolist())
            world.stamp = self.get_clock().now().to_msg()
            self._world_state.publish(world)

    def _is_due(self, what: str, now_s: float, rate_hz: float) -> bool:
        due_s = self._due_s.get(what, now_s)
        if now_s < due_s - 0.5 / self._spec.control_rate_hz:
            return False
        self._due_s[what] = max(due_s + 1 / rate_hz, now_s)
        return True

    def _watch_loop(self) -> None:
        """In the ROS thread: a control loop that ended or is blocked cannot say so itself."""
        if trouble := self._loop.trouble():
            self._status.publish(self._arm_status(time.monotonic(), trouble))

    def _arm_status(self, now_s: float, trouble: str = "") -> ArmStatus:
        player = self._player
        return ArmStatus(
            stamp=self.get_clock().now().to_msg(),
            last_epoch=player.last.epoch,
            last_seq=player.last.seq,
            state=player.state.value,
            remaining_s=player.remaining_s(now_s),
            settled=player.settled,
            fault=trouble or player.fault,
            cut_short=player.cut_short,
            emergency_stop=player.emergency_stop.latched,
            refused=self._refused,
        )

    def _diagnose(self) -> None:
        pace = self._loop.pace()
        player = self._player
        level, text = DiagnosticStatus.OK, player.state.name.lower()
        if trouble := self._loop.trouble():
            level, text = DiagnosticStatus.ERROR, trouble
            self.get_logger().fatal(text)
        elif player.emergency_stop.latched:
            pressed_by = player.emergency_stop.pressed_by
            level, text = DiagnosticStatus.ERROR, f"the emergency stop is latched (pressed by {pressed_by})"
        elif player.fault:
            level, text = DiagnosticStatus.ERROR, player.fault
        elif player.cut_short:
            level, text = DiagnosticStatus.WARN, f"the last order was cut short: {player.cut_short}"
        values = {
            "control_rate_hz": f"{self._spec.control_rate_hz:g}",
            "jitter_p50_ms": f"{pace.jitter_p50_ms:.3f}",
            "jitter_p99_ms": f"{pace.jitter_p99_ms:.3f}",
            "work_p99_ms": f"{pace.work_p99_ms:.3f}",
            "schedule_restarts": str(pace.restarts),
            "commands_refused": str(self._refused),
            SLOWER: f"{player.velocity_scale:g}",
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

        response.reason = self._in_loop(reset)[1]
        response.ok = not response.reason
        return response

    def _on_outcome(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        outcome, problem = self._in_loop(self._world.outcome)
        response.success, response.message = not problem, problem or outcome
        return response

    def _in_loop(self, call: Any) -> tuple[Any, str]:
        future = self._loop.submit(call)
        try:
            return answer_within(future, MAX_CALL_S), ""
        except TimeoutError:
            return None, f"the control loop did not answer within {MAX_CALL_S:g} s"
        except Exception as error:
            return None, f"the simulated cell refused: {error}"


def to_order(message: ArmCommand, spec: RobotSpec) -> Order:
    """The command as an order; when it makes no sense, what is wrong with it."""
    if message.kind == ArmCommand.HOLD:
        return Hold()
    if message.kind == ArmCommand.MOVE_TO:
        return MoveTo(np.array(message.joint_target_rad), message.gripper_width_m)
    if message.kind != ArmCommand.PLAY:
        return Nonsense(f"kind {message.kind} is unknown; expected HOLD 0, PLAY 1, MOVE_TO 2 or ALIVE 3")
    chunk = message.chunk
    expected = [*spec.joints, "gripper"]
    if list(chunk.names) != expected:
        return Nonsense(f"chunk: expected columns {expected}, got {list(chunk.names)}")
    if len(chunk.data) != chunk.horizon * len(expected):
        wanted = chunk.horizon * len(expected)
        return Nonsense(f"chunk: horizon {chunk.horizon} needs {wanted} numbers, got {len(chunk.data)}")
    actions = np.array(chunk.data, dtype=np.float64).reshape(chunk.horizon, len(expected))
    return Play(actions, chunk.step_s, message.skip_s, message.execute_s)


def keep_apart() -> None:
    """Before ROS starts: take the DDS profile for arms, where the robot's own is in use.

    Sending through shared memory takes a lock that the receiver may hold when it is stopped; with sockets alone no
    other process can keep this node from speaking, or from hearing the emergency stop.
    """
    in_use = Path(os.environ.get(DDS_PROFILE, ""))
    mine = in_use.with_name(f"{in_use.stem}_arm.xml")
    if in_use.name and mine.is_file():
        os.environ[DDS_PROFILE] = str(mine)


def main() -> None:
    # The control thread must get the interpreter soon after it wakes; the default is 5 ms.
    sys.setswitchinterval(0.0005)
    keep_apart()
    run_node(ArmNode, (ConfigError, DriverError))


if __name__ == "__main__":
    main()
