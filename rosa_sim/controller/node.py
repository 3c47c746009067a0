"""The simulated cell behind ros2_control's interfaces: what the `ros2_control` driver meets on a real robot.

Where the robot file says that its controllers are: `joint_states`, the controller's command topic, the gripper's
action, the controller_manager (`activity`, `list_controllers`, `switch_controller`, `set_hardware_component_state`)
and, where the file names them, Franka's robot state and error recovery. In the robot's own namespace: the scene
(`world_state`, `~/reset_scene`, `~/outcome`), and the parameter `fault`, which breaks something on purpose
(`panda.py`).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rcl_interfaces.msg import SetParametersResult
from rclpy.node import Node
from std_srvs.srv import Trigger

from rosa_client.drivers import DriverError
from rosa_client.drivers.arms.ros2_control_rules import controllers_namespace
from rosa_client.nodes.base.parameters import Parameter, declare
from rosa_client.nodes.base.rate import Rate
from rosa_client.nodes.base.shell import run_node
from rosa_client.nodes.robot.arm_node import keep_apart
from rosa_client.nodes.robot.scene_port import ScenePort
from rosa_contract.config.arms import FORWARD_POSITION, Ros2ControlSettings, arm_settings
from rosa_contract.config.robot import load_robot
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_sim.controller.following import Array
from rosa_sim.controller.panda import FAULTS, SimulatedPanda
from rosa_sim.controller.ports import Controllers

PARAMETERS = {
    "robot": Parameter("", "robot file with `arm_driver: ros2_control`"),
    "seed": Parameter(0, "scene to begin with", 0, 2**62),
    "interpolate_from_desired_state": Parameter(
        True,
        "a new trajectory begins at the commanded position, as with this parameter of a joint_trajectory_controller",
    ),
    "joint_state_rate_hz": Parameter(100.0, "joint_states per second", 1.0, 1000.0),
    "world_state_rate_hz": Parameter(40.0, "world_state per second, for the simulated cameras", 1.0, 1000.0),
    "trace": Parameter("", "write time, command and position of every update to this .npz file at the end"),
    "fault": Parameter("", f"what is broken on purpose: {', '.join(FAULTS)}; empty: nothing", fixed=False),
}
UPDATE_RATE_HZ = 250.0
LATE_S = 0.5  # further behind than this, simulated time stands still instead of catching up
AFTER_RESET_S = 15.0  # within this time the arm node leads the arm on from where it stands
HEARD_WITHIN_S = 1.0  # so long an arm node takes to hear that its controller was stopped


class LockedScene:
    """The scene for other threads than that of the physics; see `rosa_client.drivers.arms.Scene`."""

    def __init__(
        self, panda: SimulatedPanda, lock: threading.Lock, recover: Callable[[], str], listing_s: float
    ) -> None:
        """`recover`: as a person does who has put the arm elsewhere; returns why not. `listing_s`: how long the arm
        node may take to hear that its controller was stopped."""
        self._panda = panda
        self._lock = lock
        self._recover = recover
        self._listing_s = listing_s

    @property
    def seed(self) -> int:
        return self._panda.world.seed

    @property
    def qpos(self) -> Array:
        with self._lock:
            return self._panda.world.qpos

    def reset(self, seed: int) -> None:
        """Lay out another scene; returns when the arm node knows that its arm stands elsewhere and can move again."""
        with self._lock:
            self._panda.reset(seed)
        until_s = time.monotonic() + AFTER_RESET_S
        asked_s, problem = time.monotonic(), ""
        while not self._panda.adopted:
            now_s = time.monotonic()
            if now_s > until_s:
                why = f" ({problem})" if problem else ""
                raise TimeoutError(f"the arm node has not followed the reset within {AFTER_RESET_S:g} s{why}")
            if now_s - asked_s > self._listing_s:
                problem, asked_s = self._recover(), time.monotonic()
            time.sleep(0.01)

    def outcome(self) -> str:
        with self._lock:
            return self._panda.world.outcome()


def tried(call: Callable[[], Any]) -> tuple[Any, str]:
    """The result of `call`, or why there is none."""
    try:
        return call(), ""
    except (TimeoutError, ValueError) as error:
        return None, str(error)


class SimulatedCell(Node):
    """Owns the physics, and the thread that steps it."""

    def __init__(self) -> None:
        super().__init__("simulated_cell")
        declare(self, PARAMETERS)
        path = self.get_parameter("robot").value
        spec = load_robot(path)
        if spec.arm_driver != "ros2_control":
            words = f"expected ros2_control, got {spec.arm_driver}"
            raise ConfigError(path, [ConfigProblem("arm_driver", "invalid", words)])
        settings: Ros2ControlSettings = arm_settings(path, spec.arm_driver, spec.arm)
        robot = self.get_namespace()
        joints = [settings.joint_prefix + name for name in spec.joints]
        from_desired = self.get_parameter("interpolate_from_desired_state").value
        seed = self.get_parameter("seed").value
        self._lock = threading.Lock()
        self._panda = SimulatedPanda(seed, joints, settings.command == FORWARD_POSITION, from_desired)
        base = controllers_namespace(robot, settings)
        rate = self.get_parameter("joint_state_rate_hz").value
        self._ports = Controllers(base, spec, settings, self._panda, self._lock, rate)
        world_rate = Rate(self.get_parameter("world_state_rate_hz").value, 1 / UPDATE_RATE_HZ)
        # A reset waits for the arm node, so it must not be in the way of the controllers' topics: `Controllers` has a
        # thread of its own.
        arm_node = f"{robot.rstrip('/')}/arm_node"
        scene = LockedScene(
            self._panda, self._lock, lambda: self._ports.recover_arm(arm_node), HEARD_WITHIN_S
        )
        self._scene = ScenePort(self, scene, world_rate, tried, lambda: None)
        self.add_on_set_parameters_callback(self._on_parameters)
        self.create_service(Trigger, "~/told_share", self._on_told_share)
        self._trace_file = self.get_parameter("trace").value
        self._trace: list[tuple[float, float, Array, Array]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="physics", daemon=True)
        self._thread.start()
        self.get_logger().info(f"simulated controller {settings.controller} in {base}, {UPDATE_RATE_HZ:g} Hz")

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=2.0)
        self._ports.close()
        if self._trace_file:
            clock_s, times_s, commands, positions = zip(*self._trace, strict=True)
            np.savez(
                self._trace_file,
                clock_s=clock_s,
                time_s=times_s,
                command_rad=commands,
                position_rad=positions,
            )

    def _run(self) -> None:
        period_s = 1 / UPDATE_RATE_HZ
        next_s = time.monotonic()
        while not self._stopping.is_set():
            next_s += period_s
            now_s = time.monotonic()
            if now_s < next_s:
                time.sleep(next_s - now_s)
            elif now_s > next_s + LATE_S:
                with self._lock:
                    self._panda.stand_still(next_s, now_s)
                next_s = now_s
            with self._lock:
                self._panda.update(next_s, period_s)
                if self._trace_file:
                    self._trace.append(
                        (time.monotonic(), next_s, self._panda.command_rad, self._panda.world.joint_position)
                    )
            try:
                self._ports.publish(next_s)
                self._scene.publish(next_s)
            except Exception:
                if self.context.ok():
                    raise
                return  # a signal has shut ROS down

    def _on_told_share(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """How fast the arm was told to move at most since the last fault began, as a share of its joints' limits."""
        with self._lock:
            response.success, response.message = True, f"{self._panda.told_share:.4f}"
        return response

    def _on_parameters(self, parameters: list[Any]) -> SetParametersResult:
        for parameter in parameters:
            if parameter.name != "fault":
                continue
            if parameter.value and parameter.value not in FAULTS:
                reason = f"fault: expected one of {', '.join(FAULTS)} or nothing, got {parameter.value!r}"
                return SetParametersResult(successful=False, reason=reason)
            with self._lock:
                self._panda.break_down(parameter.value)
        return SetParametersResult(successful=True)


def main() -> None:
    # The physics must get the GIL soon after it wakes. A real-time priority would not help: other threads hold it.
    sys.setswitchinterval(0.0005)
    keep_apart()
    run_node(SimulatedCell, (ConfigError, DriverError))


if __name__ == "__main__":
    main()
