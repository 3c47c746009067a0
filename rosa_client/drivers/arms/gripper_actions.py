"""Grippers behind an action: GripperCommand or ParallelGripperCommand of `control_msgs`, or those of `franka_msgs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.node import Node

from rosa_client.drivers.arms.action_names import action_types, actions_of, why_missing
from rosa_client.drivers.arms.gripper_goals import Goal, Result
from rosa_client.drivers.arms.gripper_link import GripperBody
from rosa_client.drivers.arms.gripper_scale import goal_scale
from rosa_client.drivers.arms.ros2_control_ports import Packages
from rosa_client.drivers.arms.ros2_control_rules import resolve
from rosa_contract.config.arms import (
    FRANKA,
    PARALLEL_GRIPPER_COMMAND,
    GripperActions,
)

Ended = Callable[[Result], None]
LOOK_FOR_GRIPPER_S = 0.25


class Gripper(Protocol):
    """Sends goals; does not wait for them."""

    def missing(self) -> str:
        """Why its action servers cannot be used; empty when all of them are there."""

    def send(self, goal: Goal) -> None:
        """Send a goal. Its result comes later, from the node's thread."""


class ServedAction:
    """The action servers that a gripper needs, looked for in the graph: a client alone does not see their types."""

    def __init__(self, node: Node, wanted: Mapping[str, str]) -> None:
        """`wanted`: name of an action -> its type."""
        self._node = node
        self._wanted = wanted

    def missing(self) -> str:
        """As `Gripper.missing`."""
        for name, kind in self._wanted.items():
            if problem := why_missing(name, kind, action_types(self._node, name)):
                return problem
        return ""


class GripperCommandGripper:
    """`control_msgs/GripperCommand`; a new goal replaces the one before."""

    def __init__(self, node: Node, base: str, body: GripperBody, found: Packages, ended: Ended) -> None:
        settings = body.settings
        self._force_n = settings.force_n
        self._scale = goal_scale(body.spec, settings)
        self._kind = found["control_msgs.action"].GripperCommand
        self._goals = Goals(ActionClient(node, self._kind, resolve(base, settings.action)), ended)
        self.missing = ServedAction(node, actions_of(base, settings)).missing

    def send(self, goal: Goal) -> None:
        message = self._kind.Goal()
        message.command.position = self._scale.position(goal.width_m)
        message.command.max_effort = self._force_n
        self._goals.send(goal.number, message, _arrived)


class ParallelGripper:
    """`control_msgs/ParallelGripperCommand`: the same with the joint's name; a stall ends its goal as aborted."""

    def __init__(
        self,
        node: Node,
        base: str,
        body: GripperBody,
        found: Packages,
        ended: Ended,
    ) -> None:
        gripper = body.settings
        self._force_n = gripper.force_n
        self._scale = goal_scale(body.spec, gripper)
        # The controller takes one position, that of the joint it moves; others follow that joint.
        self._joint = body.fingers[0]
        self._kind = found["control_msgs.action"].ParallelGripperCommand
        self._goals = Goals(ActionClient(node, self._kind, resolve(base, gripper.action)), ended)
        self.missing = ServedAction(node, actions_of(base, gripper)).missing

    def send(self, goal: Goal) -> None:
        message = self._kind.Goal()
        message.command.name = [self._joint]
        message.command.position = [self._scale.position(goal.width_m)]
        message.command.effort = [self._force_n]
        self._goals.send(goal.number, message, _arrived)


def _arrived(number: int, result: Any) -> Result:
    """What both actions of `control_msgs` say."""
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
        self.missing = ServedAction(node, actions_of(base, settings)).missing

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

    def _moved(self, number: int, result: Any) -> Result:
        return Result(number, bool(result.success), stalled=False, error=str(result.error))

    def _grasped(self, number: int, result: Any) -> Result:
        return Result(number, reached=False, stalled=bool(result.success), error=str(result.error))


class Goals:
    """The goals of one action, each with one result."""

    def __init__(self, client: ActionClient[Any, Any, Any], ended: Ended) -> None:
        self._client = client
        self._ended = ended

    def send(self, number: int, message: Any, result_of: Callable[[int, Any], Result]) -> None:
        if not self._client.server_is_ready():
            self._fail(number, "its action server is not there")
            return
        sent = self._client.send_goal_async(message)
        sent.add_done_callback(partial(self._answered, number, result_of))

    def _answered(self, number: int, result_of: Callable[[int, Any], Result], future: Any) -> None:
        handle = future.result()
        if not handle.accepted:
            self._fail(number, "the goal was not accepted")
            return
        handle.get_result_async().add_done_callback(partial(self._done, number, result_of))

    def _done(self, number: int, result_of: Callable[[int, Any], Result], future: Any) -> None:
        answer = future.result()
        if answer.status == GoalStatus.STATUS_CANCELED:
            self._fail(number, "the goal was cancelled")
            return
        self._ended(result_of(number, answer.result))

    def _fail(self, number: int, why: str) -> None:
        self._ended(Result(number, reached=False, stalled=False, error=why))


def gripper_of(node: Node, base: str, body: GripperBody, found: Packages, ended: Ended) -> Gripper:
    """One gripper of a robot file."""
    if body.settings.kind == FRANKA:
        return FrankaGripper(node, base, body.settings, found, ended)
    if body.settings.kind == PARALLEL_GRIPPER_COMMAND:
        return ParallelGripper(node, base, body, found, ended)
    return GripperCommandGripper(node, base, body, found, ended)
