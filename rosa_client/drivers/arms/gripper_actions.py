"""Grippers behind an action: `control_msgs/GripperCommand`, or move and grasp of `franka_msgs`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.node import Node

from rosa_client.drivers.arms.gripper_goals import Goal, Result
from rosa_client.drivers.arms.ros2_control_ports import Packages
from rosa_client.drivers.arms.ros2_control_rules import resolve
from rosa_contract.arms import FRANKA, NO_GRIPPER, GripperActions

Ended = Callable[[Result], None]


class Gripper(Protocol):
    """Sends goals; does not wait for them."""

    @property
    def ready(self) -> bool:
        """Whether its action server is there."""

    def send(self, goal: Goal) -> None:
        """Send a goal. Its result comes later, from the node's thread."""


class NoGripper:
    """For an arm without one: every goal is reached."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self.ready = True

    def send(self, goal: Goal) -> None:
        self._ended(Result(goal.number, reached=True, stalled=False))


class GripperCommandGripper:
    """`control_msgs/GripperCommand`; a new goal replaces the one before."""

    def __init__(
        self, node: Node, base: str, settings: GripperActions, found: Packages, ended: Ended
    ) -> None:
        self._settings = settings
        self._kind = found["control_msgs.action"].GripperCommand
        self._goals = Goals(ActionClient(node, self._kind, resolve(base, settings.action)), ended)

    @property
    def ready(self) -> bool:
        return self._goals.ready

    def send(self, goal: Goal) -> None:
        message = self._kind.Goal()
        message.command.position = goal.width_m * self._settings.position_per_width
        message.command.max_effort = self._settings.force_n
        self._goals.send(goal.number, message, self._result)

    def _result(self, number: int, status: int, result: Any) -> Result:
        return Result(number, bool(result.reached_goal), bool(result.stalled))


class FrankaGripper:
    """The Franka Hand: `grasp` closes with a force, `move` opens."""

    def __init__(
        self, node: Node, base: str, settings: GripperActions, found: Packages, ended: Ended
    ) -> None:
        self._settings = settings
        self._actions = found["franka_msgs.action"]
        name = resolve(base, settings.action)
        self._grasp = Goals(ActionClient(node, self._actions.Grasp, f"{name}/grasp"), ended)
        self._move = Goals(ActionClient(node, self._actions.Move, f"{name}/move"), ended)

    @property
    def ready(self) -> bool:
        return self._grasp.ready and self._move.ready

    def send(self, goal: Goal) -> None:
        if not goal.closing:
            move = self._actions.Move.Goal(width=goal.width_m, speed=self._settings.speed_m_s)
            self._move.send(goal.number, move, self._moved)
            return
        grasp = self._actions.Grasp.Goal(
            width=goal.width_m, speed=self._settings.speed_m_s, force=self._settings.force_n
        )
        # Whatever is between the fingers, or nothing: what was grasped is seen in the width.
        grasp.epsilon.inner = grasp.epsilon.outer = 1.0
        self._grasp.send(goal.number, grasp, self._grasped)

    def _moved(self, number: int, status: int, result: Any) -> Result:
        return Result(number, bool(result.success), stalled=False, error=str(result.error))

    def _grasped(self, number: int, status: int, result: Any) -> Result:
        return Result(number, reached=False, stalled=bool(result.success), error=str(result.error))


class Goals:
    """The goals of one action, each with one result."""

    def __init__(self, client: ActionClient, ended: Ended) -> None:
        self._client = client
        self._ended = ended

    @property
    def ready(self) -> bool:
        return bool(self._client.server_is_ready())

    def send(self, number: int, message: Any, result_of: Callable[[int, int, Any], Result]) -> None:
        if not self.ready:
            self._fail(number, "its action server is not there")
            return
        sent = self._client.send_goal_async(message)
        sent.add_done_callback(partial(self._answered, number, result_of))

    def _answered(self, number: int, result_of: Callable[[int, int, Any], Result], future: Any) -> None:
        handle = future.result()
        if not handle.accepted:
            self._fail(number, "the goal was not accepted")
            return
        handle.get_result_async().add_done_callback(partial(self._done, number, result_of))

    def _done(self, number: int, result_of: Callable[[int, int, Any], Result], future: Any) -> None:
        answer = future.result()
        if answer.status == GoalStatus.STATUS_CANCELED:
            self._fail(number, "the goal was cancelled")
            return
        self._ended(result_of(number, answer.status, answer.result))

    def _fail(self, number: int, why: str) -> None:
        self._ended(Result(number, reached=False, stalled=False, error=why))


def gripper_of(node: Node, base: str, settings: GripperActions, found: Packages, ended: Ended) -> Gripper:
    """The gripper that the settings describe."""
    if settings.kind == NO_GRIPPER:
        return NoGripper(ended)
    if settings.kind == FRANKA:
        return FrankaGripper(node, base, settings, found, ended)
    return GripperCommandGripper(node, base, settings, found, ended)
