"""The services, topics and actions of ros2_control and franka_ros2 that the `ros2_control` driver may need.

Their packages are imported only when the robot file asks for what they hold. Calls wait for their answer, so they are
made from the recovery's thread, never from the control loop's.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from action_msgs.msg import GoalStatus
from lifecycle_msgs.msg import State
from rclpy.action import ActionClient
from rclpy.client import Client
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from rosa_client.drivers import DriverError
from rosa_client.drivers.arms.ros2_control_rules import ACTIVATE, ACTIVE, DEACTIVATE, HARDWARE, resolve
from rosa_client.ros.clock import steady_timer
from rosa_contract.config.arms import FRANKA, GRIPPER_COMMAND, PARALLEL_GRIPPER_COMMAND, Ros2ControlSettings

POLL_S = 0.2  # how often the controllers are listed
ANSWER_S = 10.0  # activating a Franka's hardware connects to the robot again
NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
# Each change counts, also the last one before us.
CHANGES = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)

Packages = Mapping[str, ModuleType]


def packages(settings: Ros2ControlSettings) -> Packages:
    """The interface packages that these settings need, by name. Raises `DriverError` naming the one that is missing."""
    wanted: dict[str, str] = {}
    kinds = [one.kind for one in settings.grippers.values()] or [settings.gripper.kind]
    for kind in kinds:
        if kind in (GRIPPER_COMMAND, PARALLEL_GRIPPER_COMMAND):
            wanted["control_msgs.action"] = f"arm.gripper.kind: {kind}"
    if settings.controller_manager:
        because = f"arm.controller_manager: {settings.controller_manager}"
        wanted |= {"controller_manager_msgs.msg": because, "controller_manager_msgs.srv": because}
    if FRANKA in kinds:
        wanted["franka_msgs.action"] = f"arm.gripper.kind: {FRANKA}"
    if settings.error_recovery:
        wanted["franka_msgs.action"] = f"arm.error_recovery: {settings.error_recovery}"
    if settings.robot_state:
        wanted["franka_msgs.msg"] = f"arm.robot_state: {settings.robot_state}"
    return {module: _import(module, because) for module, because in wanted.items()}


def _import(module: str, because: str) -> ModuleType:
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        where = (
            "franka_ros2" if package == "franka_msgs" else f"apt: ros-$ROS_DISTRO-{package.replace('_', '-')}"
        )
        raise DriverError(
            f"{because} needs the ROS package {package} ({where}), which cannot be imported: {error}"
        ) from error


class Manager:
    """A controller_manager: asked for its controllers again and again, and for a switch when an arm recovers.

    Those since 2025 also tell changes, though not what a hardware error stops. So a controller that is switched off and
    on between two answers is noticed.
    """

    def __init__(
        self,
        node: Node,
        base: str,
        settings: Ros2ControlSettings,
        found: Packages,
        heard: Callable[[Mapping[str, str] | None, bool], None],
    ) -> None:
        """`heard` gets controller -> state with each answer and each change, and whether it is an answer; None where an
        answer that all is well may be older than a change."""
        services = found["controller_manager_msgs.srv"]
        manager = resolve(base, settings.controller_manager)
        self._settings = settings
        self._heard = heard
        self._services = services
        self._node, self._messages = node, found["controller_manager_msgs.msg"]
        self._activity = f"{manager}/activity"
        self._switch: Client[Any, Any] = node.create_client(
            services.SwitchController, f"{manager}/switch_controller"
        )
        self._hardware: Client[Any, Any] = node.create_client(
            services.SetHardwareComponentState, f"{manager}/set_hardware_component_state"
        )
        # Last, on purpose: whoever answers it knows the others, see `Ros2ControlArm`.
        self._list: Client[Any, Any] = node.create_client(
            services.ListControllers, f"{manager}/list_controllers"
        )
        self._pending: Any = None
        self._asked = 0  # turns since the open question was asked
        self._changed = False  # since then
        self.answered = False
        steady_timer(node, POLL_S, self._ask)

    def listen(self) -> None:
        """Hear of changes, too. Call it when every client of the driver is made."""
        changes = getattr(self._messages, "ControllerManagerActivity", None)
        if changes is not None:
            self._node.create_subscription(changes, self._activity, self._on_change, CHANGES)
        else:
            self._node.get_logger().info(
                "this controller_manager_msgs has no ControllerManagerActivity: a controller that is stopped and"
                f" started within {POLL_S:g} s is not noticed"
            )

    def do(self, step: str) -> str:
        """Carry out a step of a recovery; returns why it failed, or an empty text."""
        name = self._settings.controller
        if step == HARDWARE:
            request = self._services.SetHardwareComponentState.Request(name=self._settings.hardware)
            request.target_state.id = State.PRIMARY_STATE_ACTIVE
            request.target_state.label = "active"
            return _ask(self._hardware, request, f"hardware component {self._settings.hardware}")
        request = self._services.SwitchController.Request()
        request.strictness = request.STRICT
        request.timeout.sec = int(ANSWER_S / 2)
        if step == ACTIVATE:
            request.activate_controllers = [name]
        elif step == DEACTIVATE:
            request.deactivate_controllers = [name]
        return _ask(self._switch, request, f"controller {name}")

    def _ask(self) -> None:
        """Ask for the list. A question that is not answered within a second is asked anew."""
        if self._pending is not None:
            self._asked += 1
            if self._asked * POLL_S < 1.0:
                return
            self._list.remove_pending_request(self._pending)
            self._pending = None
        if not self._list.service_is_ready():
            return
        self._asked, self._changed = 0, False
        self._pending = self._list.call_async(self._services.ListControllers.Request())
        self._pending.add_done_callback(self._on_list)

    def _on_change(self, message: Any) -> None:
        self._changed = True
        self._heard({one.name: one.state.label for one in message.controllers}, False)

    def _on_list(self, future: Any) -> None:
        if future is not self._pending:
            return  # it was asked anew meanwhile
        self._pending = None
        if future.cancelled() or future.result() is None:
            return
        states = {one.name: one.state for one in future.result().controller}
        outdated = self._changed and states.get(self._settings.controller) == ACTIVE
        self._heard(None if outdated else states, True)
        self.answered = True


class VendorState:
    """What only a Franka says: its mode and errors; and its error recovery."""

    def __init__(
        self,
        node: Node,
        base: str,
        settings: Ros2ControlSettings,
        found: Packages,
        heard: Callable[[int, Sequence[str]], None],
    ) -> None:
        """`heard` gets each state: robot mode, names of the present errors."""
        self._heard = heard
        self._recovery: ActionClient[Any, Any, Any] | None = None
        if settings.error_recovery:
            self._kind = found["franka_msgs.action"].ErrorRecovery
            self._recovery = ActionClient(node, self._kind, resolve(base, settings.error_recovery))
        if settings.robot_state:
            kind = found["franka_msgs.msg"].FrankaRobotState
            node.create_subscription(kind, resolve(base, settings.robot_state), self._on_state, NEWEST)

    def clear_error(self) -> str:
        """Run the error recovery; returns why it failed, or an empty text."""
        assert self._recovery is not None
        if not self._recovery.server_is_ready():
            return "its action server is not there"
        handle, late = _wait(self._recovery.send_goal_async(self._kind.Goal()))
        if late:
            return late
        if not handle.accepted:
            return "the goal was refused"
        answer, late = _wait(handle.get_result_async())
        if late:
            return late
        return "" if answer.status == GoalStatus.STATUS_SUCCEEDED else f"it ended with status {answer.status}"

    def _on_state(self, message: Any) -> None:
        errors = message.current_errors
        present = [name for name in errors.get_fields_and_field_types() if getattr(errors, name) is True]
        self._heard(int(message.robot_mode), present)


def _ask(client: Any, request: Any, what: str) -> str:
    if not client.service_is_ready():
        return f"{client.srv_name} is not there"
    answer, late = _wait(client.call_async(request))
    if late:
        return late
    said = getattr(answer, "message", "")
    return "" if answer.ok else f"{what}: {client.srv_name} refused" + (f": {said}" if said else "")


def _wait(future: Any) -> tuple[Any, str]:
    """The result of `future`, or why there is none. The node is spun by another thread."""
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    if not done.wait(ANSWER_S):
        future.cancel()
        return None, f"no answer within {ANSWER_S:g} s"
    return future.result(), ""
