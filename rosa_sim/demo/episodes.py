"""Runs episodes on one robot as any ROS 2 client would: reset the scene, send the task, watch, query the outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import rclpy
from numpy.typing import NDArray
from rclpy.action import ActionClient
from rclpy.client import Client
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from rosa_interfaces.action import RunTask
from rosa_interfaces.msg import Decision, OperatorAlert, OperatorAudit, RobotStatus, WorldState
from rosa_interfaces.srv import OperatorDecision, ResetScene
from std_srvs.srv import Trigger

from rosa_client.bringup.supervisor import signals_wait
from rosa_client.nodes.base.qos import AUDITS, LATEST
from rosa_client.ros.ending import ends_in_time
from rosa_client.runtime.ladder import RECOVER_ARM
from rosa_sim.demo.report import Episode, components_of
from rosa_sim.demo.video import Shot

SERVICE_TIMEOUT_S = 30.0
ASK_AGAIN_S = 1.0  # what may be asked again
TURN_S = 0.1  # `on_turn` and the operator are called at least this often
SHOW_DECISION_S = 2.0  # in the video
RESUMES = 2  # how often the stand-in operator resumes in one episode before it aborts

# Called while an alert is open: (alert, s since it came, alerts of this episode) -> a choice, or "" to wait.
Operator = Callable[[OperatorAlert, float, int], str]
# (seed, qpos of the cell) -> how the task stands: `ongoing`, `done` or `failed`.
Judge = Callable[[int, NDArray[np.float64]], str]


def stand_in(alert: OperatorAlert, waited_s: float, count: int) -> str:
    """The operator of an unattended run: resumes after 3 s, and aborts when that does not help.

    An arm that can be helped out of a fault is helped first.
    """
    if waited_s < 3.0:
        return ""
    if RECOVER_ARM in alert.choices:
        return RECOVER_ARM
    return "resume" if count <= RESUMES else "abort"


def nobody(alert: OperatorAlert, waited_s: float, count: int) -> str:
    """Leaves alerts to a real operator."""
    return ""


class EpisodeError(RuntimeError):
    """Something did not happen in time; the text says what, and how long it was waited for."""


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
        on_turn: Callable[[], None] = lambda: None,
        video: bool = True,
        scene: str = "arm_node",
        judge: Judge | None = None,
    ) -> None:
        """`alive()` says which process died, if any; it ends the run. `on_status` sees every status of the robot.

        `on_turn` is called again and again while a task runs. `video`: keep the states that a video is made of.
        `scene`: the node that resets the scene and knows the outcome; `judge` knows it instead where the scene does not
        know the task.
        """
        self.node = Node("episodes", namespace=namespace)
        self.task = task
        self.shots: list[Shot] = []
        self.status: RobotStatus | None = None  # the robot's last one
        self.fault = ""  # shown in the video
        self.on_status = on_status
        self.on_turn = on_turn
        self.operator = operator
        self._alive = alive
        self._on_progress = on_progress
        self._judge = judge
        self._world: WorldState | None = None  # the newest
        self._plan = ""  # the last words of System 2 in this episode
        self._note = ""  # the robot's last decision in this episode
        self._notes = False  # whether its scene is laid out
        self._decided, self._decided_s = "", 0.0
        self._alert: OperatorAlert | None = None
        self._alert_since_s = 0.0
        self._settled = 0  # number of the last alert that was settled
        self._alerts: list[str] = []
        self._decisions: list[str] = []  # who decided what, in this episode
        self._title = ""
        self._feedback = RunTask.Feedback()
        node = self.node
        # Before the subscriptions: what is heard of a node then says that it knows these (`robot_feed`).
        self._reset: Client[Any, Any] = node.create_client(ResetScene, f"{scene}/reset_scene")
        self._truth: Client[Any, Any] = node.create_client(Trigger, f"{scene}/outcome")
        self._decision: Client[Any, Any] = node.create_client(
            OperatorDecision, "runtime_node/operator_decision"
        )
        self._action: ActionClient[Any, Any, Any] = ActionClient(node, RunTask, "run_task")
        node.create_subscription(RobotStatus, "robot_status", self._on_status, LATEST)
        node.create_subscription(OperatorAlert, "operator_alert", self._on_alert, LATEST)
        node.create_subscription(OperatorAudit, "operator_audit", self._on_audit, AUDITS)
        if video or judge is not None:
            self._keeps_shots = video
            node.create_subscription(Decision, "decisions", self._on_decision, QoSProfile(depth=50))
            node.create_subscription(WorldState, "world_state", self._on_world, qos_profile_sensor_data)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(node)
        self._met = False  # the scene's node has answered

    def wait_ready(self, timeout_s: float) -> None:
        """Until every interface is there, the server has welcomed the robot, and it knows its state."""
        self.until(self._reset.service_is_ready, timeout_s, "the scene's reset_scene service")
        self.wait_welcome(timeout_s)

    def wait_welcome(self, timeout_s: float) -> None:
        """Until the runtime takes tasks and the server has welcomed the robot; any arm will do."""
        self.until(self._action.server_is_ready, timeout_s, "the runtime's run_task action")
        self.until(
            lambda: self.status is not None and self.status.server_connected,
            timeout_s,
            "the server's welcome",
        )

    def run(self, number: int, of: int, seed: int, timeout_s: float) -> Episode:
        """One episode with the scene of `seed`."""
        self._title = f"episode {number} of {of}"
        self._alerts, self._decisions, self._alert, self._plan = [], [], None, ""
        self._note, self._notes = "", False  # what is on its way is of the episode before
        self._meet_scene()
        answer = self._call(self._reset, ResetScene.Request(seed=seed), "reset_scene")
        if not answer.ok:
            raise EpisodeError(f"reset_scene refused seed {seed}: {answer.reason}")
        self._notes = True
        self.spin_for(0.3)  # the cameras show the new scene
        began_s = time.monotonic()
        goal = self.begin(timeout_s)
        result = self._watch(goal.get_result_async()).result
        duration_s = time.monotonic() - began_s
        truth = self._how_it_stands()
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
            decisions=list(self._decisions),
            components=components_of(self.status),
            duration_s=duration_s,
        )

    def begin(self, timeout_s: float = 0.0) -> Any:
        """Start the task; returns the goal's handle, which `end` takes."""
        self.until(self._action.server_is_ready, SERVICE_TIMEOUT_S, "the runtime's run_task action")
        self.until(lambda: self.status is not None, SERVICE_TIMEOUT_S, "a status of the robot")
        goal = self._wait(
            self._action.send_goal_async(
                RunTask.Goal(task=self.task, timeout_s=timeout_s), self._on_feedback
            ),
            SERVICE_TIMEOUT_S,
            "run_task to accept the goal",
        )
        if not goal.accepted:
            raise EpisodeError(f"run_task rejected the task {self.task!r}; the runtime's log says why")
        return goal

    def end(self, goal: Any) -> None:
        """Cancel a task that `begin` started."""
        self._wait(goal.cancel_goal_async(), SERVICE_TIMEOUT_S, "the cancellation")

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()

    def _meet_scene(self) -> None:
        """Until the scene's node can answer this one: else it resets the scene, and its answer may be lost.

        What the outcome is may be asked again and again, and its client was made after that of the reset.
        """
        asked: list[Future[Any]] = []
        again_s = 0.0

        def answered() -> bool:
            nonlocal again_s
            if time.monotonic() >= again_s and self._truth.service_is_ready():
                again_s = time.monotonic() + ASK_AGAIN_S
                asked.append(self._truth.call_async(Trigger.Request()))
            return any(one.done() for one in asked)

        if not self._met:
            self.until(answered, SERVICE_TIMEOUT_S, "an answer of the scene")
        self._met = True

    def _how_it_stands(self) -> str:
        """What the simulated cell looks like."""
        if self._judge is None:
            return str(self._call(self._truth, Trigger.Request(), "outcome").message)
        self._world = None
        self.until(lambda: self._world is not None, SERVICE_TIMEOUT_S, "the state of the cell")
        assert self._world is not None
        return self._judge(int(self._world.seed), np.array(self._world.qpos))

    # -- watching --

    def _watch(self, future: Future[Any]) -> Any:
        """Spin until the task ends, standing in for the operator when nobody else is there."""
        while not future.done():
            self._spin()
            self._on_progress(self._line())
            self.on_turn()
            if self._alert is not None:
                waited_s = time.monotonic() - self._alert_since_s
                choice = self.operator(self._alert, waited_s, len(self._alerts))
                if choice:
                    self._decide(self._alert, choice)
        return future.result()

    def _decide(self, alert: OperatorAlert, choice: str) -> None:
        request = OperatorDecision.Request(
            alert_id=alert.id, choice=choice, decided_by="run", why="nobody else is at the panel"
        )
        self._alert = None
        answer = self._call(self._decision, request, "operator_decision")
        said = choice if answer.accepted else f"{choice} (refused: {answer.reason})"
        self._decided, self._decided_s = f"operator: {said}", time.monotonic()
        self._on_progress(f"operator (stand-in): {said}\n")
        stands = not answer.accepted or choice == RECOVER_ARM
        if stands and self._alert is None and alert.id != self._settled:
            alert.choices = [name for name in alert.choices if name != RECOVER_ARM]
            self._alert, self._alert_since_s = alert, time.monotonic()  # it still stands: think again

    def _line(self) -> str:
        status, feedback = self.status, self._feedback
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
        self.status = message
        self.on_status(message)

    def _on_alert(self, message: OperatorAlert) -> None:
        if message.active and (self._alert is None or self._alert.id != message.id):
            self._alert, self._alert_since_s = message, time.monotonic()
            if self._title:
                self._alerts.append(f"{message.cause}: {message.reason}")
                namespace = self.node.get_namespace().strip("/")
                choices = "|".join(message.choices)
                self._on_progress(
                    f"ALERT {message.id}: {message.reason} ({message.cause})\n"
                    f'  answer it: rosa operator decide {namespace} {choices} --why "..."\n'
                )
        elif not message.active:
            self._alert, self._settled = None, message.id

    def _on_audit(self, message: OperatorAudit) -> None:
        if self._title:
            verdict = "accepted" if message.accepted else f"refused: {message.reason}"
            about = f" (alert {message.alert_id})" if message.alert_id else ""
            self._decisions.append(f"{message.decided_by}: {message.choice}{about}, {verdict}")

    def _on_decision(self, message: Decision) -> None:
        if self._notes:
            self._note = f"{message.action}: {message.reason}"
        if message.action == "plan":
            self._plan = message.reason

    def _on_world(self, message: WorldState) -> None:
        self._world = message
        if not self._title or not self._keeps_shots:
            return
        status = self.status
        time_s = message.header.stamp.sec + message.header.stamp.nanosec / 1e9
        shot = Shot(
            time_s,
            int(message.seed),
            np.array(message.qpos),
            self._title,
            status.state if status else "",
            self._note,
            alert=f"{self._alert.cause}: {self._alert.reason}" if self._alert is not None else "",
            decided=self._decided if time.monotonic() - self._decided_s < SHOW_DECISION_S else "",
            fault=self.fault,
            plan=self._plan,
        )
        self.shots.append(shot)

    # -- waiting, always with a limit --

    def _spin(self) -> None:
        with signals_wait():  # rclpy's C++ calls Python to make a message
            self._executor.spin_once(timeout_sec=TURN_S)
        died = self._alive()
        if died:
            raise EpisodeError(died)

    def spin_for(self, seconds: float) -> None:
        """Listen for so long."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self._spin()

    def until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Listen until `condition()`; raises `EpisodeError` when it does not come true within `timeout_s`."""
        until_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > until_s:
                raise EpisodeError(f"waited {timeout_s:g} s for {what}; it did not come")
            self._on_progress(f"waiting for {what}")
            self._spin()

    def _wait(self, future: Future[Any], timeout_s: float, what: str) -> Any:
        self.until(future.done, timeout_s, what)
        return future.result()

    def _call(self, client: Any, request: Any, what: str) -> Any:
        self.until(client.service_is_ready, SERVICE_TIMEOUT_S, f"the service {what}")
        return self._wait(client.call_async(request), SERVICE_TIMEOUT_S, f"an answer of {what}")


@contextmanager
def episodes(namespace: str, task: str, **options: Any) -> Iterator[EpisodeRunner]:
    """An `EpisodeRunner` with ROS around it. Leave it before the bring-up ends: a participant that still listens keeps
    the shared memory of those it hears."""
    # The demo's own arguments are not for ROS, and its signals neither.
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    runner = EpisodeRunner(namespace, task, **options)
    try:
        yield runner
    finally:
        with ends_in_time():
            runner.close()
            rclpy.try_shutdown()
