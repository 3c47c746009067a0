"""Runs episodes on one robot as any ROS 2 client would: lay out the scene, send the task, watch, ask for the truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import rclpy
from rclpy.action import ActionClient
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from rclpy.task import Future
from rosa_interfaces.action import RunTask
from rosa_interfaces.msg import OperatorAlert, RobotStatus, WorldState
from rosa_interfaces.srv import OperatorDecision, ResetScene
from std_srvs.srv import Trigger

from rosa_sim.report import Episode
from rosa_sim.video import Shot

LATEST = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
SERVICE_TIMEOUT_S = 30.0
RESUMES = 2  # times that the stand-in operator resumes within one episode before it gives up

# Asked while an alert stands: (alert, s since it came, alerts of this episode) -> a choice, or "" to wait.
Operator = Callable[[OperatorAlert, float, int], str]


def stand_in(alert: OperatorAlert, waited_s: float, count: int) -> str:
    """The operator of a run that nobody watches: resumes after 3 s, and gives up when that does not help."""
    if waited_s < 3.0:
        return ""
    return "resume" if count <= RESUMES else "abort"


def nobody(alert: OperatorAlert, waited_s: float, count: int) -> str:
    """Leaves alerts to a real operator."""
    return ""


class EpisodeError(RuntimeError):
    """The bring-up did not do its part; the text says which and for how long it was waited for."""


class EpisodeRunner:
    """One robot in `namespace`. Not thread-safe: it spins its own node while it waits."""

    def __init__(
        self,
        namespace: str,
        task: str,
        *,
        alive: Callable[[], str] = lambda: "",
        on_progress: Callable[[str], None] = lambda text: None,
        operator: Operator = stand_in,
        on_status: Callable[[RobotStatus], None] = lambda status: None,
    ) -> None:
        """`alive()` says which process died, if any; it ends the run. `on_status` sees every status of the robot."""
        self.node = Node("episodes", namespace=namespace)
        self.task = task
        self.shots: list[Shot] = []
        self._alive = alive
        self._on_progress = on_progress
        self._operator = operator
        self._on_any_status = on_status
        self._status: RobotStatus | None = None
        self._alert: OperatorAlert | None = None
        self._alert_since_s = 0.0
        self._alerts: list[str] = []
        self._title = ""
        self._feedback = RunTask.Feedback()
        node = self.node
        node.create_subscription(RobotStatus, "robot_status", self._on_status, LATEST)
        node.create_subscription(OperatorAlert, "operator_alert", self._on_alert, LATEST)
        node.create_subscription(WorldState, "world_state", self._on_world, qos_profile_sensor_data)
        self._reset = node.create_client(ResetScene, "arm_node/reset_scene")
        self._truth = node.create_client(Trigger, "arm_node/outcome")
        self._decision = node.create_client(OperatorDecision, "runtime_node/operator_decision")
        self._action = ActionClient(node, RunTask, "run_task")

    def wait_ready(self, timeout_s: float) -> None:
        """Until every interface is there, the server has welcomed the robot, and it knows its state."""
        self._until(self._reset.service_is_ready, timeout_s, "the arm's reset_scene service")
        self._until(self._action.server_is_ready, timeout_s, "the runtime's run_task action")
        connected = lambda: self._status is not None and self._status.server_connected  # noqa: E731
        self._until(connected, timeout_s, "the server's welcome")

    def run(self, number: int, of: int, seed: int, timeout_s: float) -> Episode:
        """One episode with the scene of `seed`."""
        self._title = f"episode {number} of {of}"
        self._alerts, self._alert = [], None
        answer = self._call(self._reset, ResetScene.Request(seed=seed), "reset_scene")
        if not answer.ok:
            raise EpisodeError(f"reset_scene refused seed {seed}: {answer.reason}")
        self._spin_for(0.5)  # the cameras show the new scene
        self._until(self._action.server_is_ready, SERVICE_TIMEOUT_S, "the runtime's run_task action")
        began_s = time.monotonic()
        goal = self._wait(
            self._action.send_goal_async(
                RunTask.Goal(task=self.task, timeout_s=timeout_s), self._on_feedback
            ),
            SERVICE_TIMEOUT_S,
            "run_task to accept the goal",
        )
        if not goal.accepted:
            raise EpisodeError(f"run_task rejected the task {self.task!r}; the runtime's log says why")
        result = self._watch(goal.get_result_async()).result
        duration_s = time.monotonic() - began_s
        truth = self._call(self._truth, Trigger.Request(), "outcome").message
        return Episode(
            number=number,
            seed=seed,
            outcome=result.outcome,
            truth=truth,
            reason=result.reason,
            rounds=result.rounds,
            retries=result.retries,
            system1_ms=[float(ms) for ms in result.system1_latencies_ms],
            deadlines_met=result.deadlines_met,
            deadlines_missed=result.deadlines_missed,
            late_results_discarded=result.late_results_discarded,
            alerts=list(self._alerts),
            duration_s=duration_s,
        )

    def close(self) -> None:
        self.node.destroy_node()

    # -- watching --

    def _watch(self, future: Future) -> Any:
        """Spin until the task ends, standing in for the operator when nobody else is there."""
        while not future.done():
            self._spin()
            self._on_progress(self._line())
            if self._alert is not None:
                waited_s = time.monotonic() - self._alert_since_s
                choice = self._operator(self._alert, waited_s, len(self._alerts))
                if choice:
                    self._decide(self._alert.id, choice)
        return future.result()

    def _decide(self, alert_id: int, choice: str) -> None:
        request = OperatorDecision.Request(
            alert_id=alert_id, choice=choice, decided_by="run", why="nobody else is at the panel"
        )
        self._alert = None
        answer = self._call(self._decision, request, "operator_decision")
        said = choice if answer.accepted else f"{choice} (refused: {answer.reason})"
        self._on_progress(f"operator (stand-in): {said}\n")

    def _line(self) -> str:
        status, feedback = self._status, self._feedback
        if status is None:
            return self._title
        missed = sum(component.missed for component in status.components)
        return (
            f"{self._title}: {status.state}, attempt {feedback.attempt}, round {feedback.round},"
            f" {missed} deadlines missed"
        )

    def _on_feedback(self, message: Any) -> None:
        self._feedback = message.feedback

    def _on_status(self, message: RobotStatus) -> None:
        self._status = message
        self._on_any_status(message)

    def _on_alert(self, message: OperatorAlert) -> None:
        if message.active and (self._alert is None or self._alert.id != message.id):
            self._alert, self._alert_since_s = message, time.monotonic()
            if self._title:
                self._alerts.append(f"{message.cause}: {message.reason}")
                choices = ", ".join(message.choices)
                self._on_progress(
                    f"ALERT {message.id}: {message.reason} ({message.cause}); choices: {choices}\n"
                )
        elif not message.active:
            self._alert = None

    def _on_world(self, message: WorldState) -> None:
        if not self._title:
            return
        status = self._status
        last = status.last_decision if status is not None else None
        note = f"{last.action}: {last.reason}" if last is not None else ""
        time_s = message.stamp.sec + message.stamp.nanosec / 1e9
        shot = Shot(
            time_s,
            int(message.seed),
            np.array(message.qpos),
            self._title,
            status.state if status else "",
            note,
        )
        self.shots.append(shot)

    # -- waiting, always with a limit --

    def _spin(self) -> None:
        rclpy.spin_once(self.node, timeout_sec=0.1)
        died = self._alive()
        if died:
            raise EpisodeError(died)

    def _spin_for(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self._spin()

    def _until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        until_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > until_s:
                raise EpisodeError(f"waited {timeout_s:g} s for {what} in vain")
            self._on_progress(f"waiting for {what}")
            self._spin()

    def _wait(self, future: Future, timeout_s: float, what: str) -> Any:
        self._until(future.done, timeout_s, what)
        return future.result()

    def _call(self, client: Any, request: Any, what: str) -> Any:
        self._until(client.service_is_ready, SERVICE_TIMEOUT_S, f"the service {what}")
        return self._wait(client.call_async(request), SERVICE_TIMEOUT_S, f"an answer of {what}")


@contextmanager
def episodes(namespace: str, task: str, **options: Any) -> Iterator[EpisodeRunner]:
    """An `EpisodeRunner` with ROS around it. Leave it before the bring-up ends: a participant that still listens keeps
    the shared memory of those it hears."""
    rclpy.init()
    runner = EpisodeRunner(namespace, task, **options)
    try:
        yield runner
    finally:
        runner.close()
        rclpy.try_shutdown()
