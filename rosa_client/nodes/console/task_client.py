"""The ROS client behind `rosa run`: sends one task to one robot and follows it to its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rosa_interfaces.action import RunTask
from rosa_interfaces.msg import Parameter, RobotStatus

from rosa_client.nodes.base.qos import LATEST
from rosa_client.nodes.console.operator_client import OperatorClient
from rosa_client.nodes.console.robot_feed import STATUS
from rosa_client.operator.progress import ShownStep
from rosa_client.operator.robot_view import OperatorError, RobotView
from rosa_contract.config.prompts import NOTHING, Instruction

LOOK_S = 0.1
ANSWER_S = 10.0  # a runtime that is up accepts or rejects within milliseconds
LOST_S = 5.0  # without a status, which comes at 10 Hz, and without an action server
END_S = 30.0  # a cancelled task ends when the arm has come to rest


class RejectedError(OperatorError):
    """The robot does not take this task now."""


class LostError(OperatorError):
    """The robot fell silent; how its task ended is not known."""


@dataclass(frozen=True)
class Ended:
    """How a task ended, in the words of `RunTask.action`."""

    cancelled: bool
    outcome: str
    reason: str
    rounds: int
    retries: int
    deadlines_met: int
    deadlines_missed: int


class TaskClient:
    """One task on one robot. Not thread-safe."""

    def __init__(self, client: OperatorClient, robot: str) -> None:
        """`robot`: its namespace. Raises `OperatorError` for what cannot be one."""
        self._client = client
        self._feed = client.feed(robot)
        self._action: ActionClient[Any, Any, Any] = ActionClient(
            client.node, RunTask, f"{self._feed.view.namespace}/run_task"
        )
        # After the action's client, on purpose: see `wait`.
        topic = f"{self._feed.view.namespace}/{STATUS}"
        self._statuses = client.node.create_subscription(RobotStatus, topic, self._on_status, LATEST)
        self._heard = False
        self.step: ShownStep | None = None  # the newest feedback
        self._goal: Any = None
        self._result: Any = None

    @property
    def view(self) -> RobotView:
        return self._feed.view

    def close(self) -> None:
        self._action.destroy()
        self._client.node.destroy_subscription(self._statuses)

    def wait(self, wait_s: float, leave: Callable[[], bool]) -> bool:
        """Until the robot takes tasks; false when `leave` says so. Raises `OperatorError` naming what was found.

        A server that is seen may not have seen its client yet: it would do the task, and drop its answer after 0.1 s.
        Who subscribes is told to a robot in the order in which it was made, so a status says that the action's client
        is known there as well.
        """
        if self._client.spin(lambda: leave() or (self._heard and self._action.server_is_ready()), wait_s):
            return not leave()
        self._client.must_know(self.view.namespace)
        if self._action.server_is_ready():
            raise OperatorError(
                f"{self.view.label} offers {self.view.namespace}/run_task, but no {STATUS} came for {wait_s:g} s"
            )
        raise OperatorError(
            f"{self.view.label} is there, but takes no task: nobody offers {self.view.namespace}/run_task after "
            f"{wait_s:g} s; is its runtime node active?"
        )

    def send(self, task: str, timeout_s: float, told: Instruction = NOTHING) -> None:
        """Give the robot its task. Raises `RejectedError`, or `LostError` without an answer."""
        parameters = [Parameter(name=name, value=value) for name, value in told.parameters.items()]
        goal = RunTask.Goal(task=task, timeout_s=timeout_s, prompt=told.prompt, parameters=parameters)
        sent = self._action.send_goal_async(goal, feedback_callback=self._on_feedback)
        if not self._client.spin(sent.done, ANSWER_S):
            raise LostError(f"{self.view.label} did not answer within {ANSWER_S:g} s")
        goal_handle = sent.result()
        if goal_handle is None or not goal_handle.accepted:
            raise RejectedError(self._rejection(task))
        self._goal = goal_handle
        self._result = self._goal.get_result_async()

    def follow(self, during: Callable[[], bool]) -> bool:
        """Spin until the task has ended or `during`, called again and again, returns true; whether it has ended.

        Raises `LostError` when the robot is gone.
        """
        while not self._result.done():
            if during():
                return False
            self._client.spin(self._result.done, LOOK_S)
            if self.view.silent_for_s(time.monotonic()) > LOST_S and not self._action.server_is_ready():
                raise LostError(
                    f"nothing heard of {self.view.label} for {LOST_S:g} s; an arm without orders holds by itself, "
                    "and how the task ended is not known here"
                )
        return True

    def cancel(self, during: Callable[[], bool]) -> bool:
        """Cancel the task and wait for the robot to end it; false when `during` or the time ends the wait."""
        self._goal.cancel_goal_async()
        until_s = time.monotonic() + END_S
        return self.follow(lambda: during() or time.monotonic() > until_s)

    def ended(self) -> Ended:
        """How the task ended, after `follow` has returned true."""
        answer = self._result.result()
        result = answer.result
        return Ended(
            answer.status == GoalStatus.STATUS_CANCELED,
            str(result.outcome),
            str(result.reason),
            int(result.rounds),
            int(result.retries),
            int(result.deadlines_met),
            int(result.deadlines_missed),
        )

    def _on_status(self, _: RobotStatus) -> None:
        self._heard = True

    def _on_feedback(self, message: Any) -> None:
        said = message.feedback
        self.step = ShownStep(str(said.state), int(said.round), int(said.attempt))

    def _rejection(self, task: str) -> str:
        # The answer says no reason, and can be here before the first status.
        self._client.spin(lambda: self.view.status is not None, LOST_S)
        status = self.view.status
        if status is not None and status.task:
            return f"{self.view.label} is busy: it runs {status.task!r} ({status.state}); one task runs at a time"
        return (
            f"{self.view.label} rejected the task {task!r}: the task, and each parameter, has to be one of the factory "
            "file that it was brought up with. The log of its runtime node says more"
        )
