"""The runtime node: a managed (lifecycle) node around the robot's pure core.

configure loads and checks every file; activate greets the server; a task is the action `run_task`; an escalation is
answered through `~/operator_decision`; deactivate, shutdown and the end of the process abort a running task, and tell
its client, `robot_status` and the log. Deadlines and holding do not depend on the ROS executor: the core has its own
thread (`rosa_client/loops/loop.py`).
"""

from __future__ import annotations

import socket
import time
import traceback
from pathlib import Path
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.task import Future
from rosa_interfaces.action import RunTask
from rosa_interfaces.srv import OperatorDecision

from rosa_client.connection.greeting import robot_id_of
from rosa_client.connection.link import GatewayLink
from rosa_client.connection.session_token import SessionToken, default_folder
from rosa_client.frames import StaticTransform, static_transforms, without_pose
from rosa_client.loops.ask import answer_within
from rosa_client.loops.loop import RobotLoop
from rosa_client.loops.reporting import audit_of
from rosa_client.nodes.base.managed import ManagedNode, StartError
from rosa_client.nodes.base.parameters import Parameter
from rosa_client.nodes.base.shell import run_node
from rosa_client.nodes.robot.ros_body import RosBody
from rosa_client.nodes.robot.static_frames import publish_static
from rosa_client.operator.bases import parse_bases
from rosa_client.ros.clock import steady_timer
from rosa_client.runtime.choices import first_alert
from rosa_client.runtime.machines.task_machine import State
from rosa_client.runtime.runtime import RobotRuntime
from rosa_client.sensing.picture_quality import PictureQuality
from rosa_contract.config import prompts
from rosa_contract.config.factory import load_factory
from rosa_contract.config.robot import hello_of, load_robot
from rosa_contract.endpoint import gateways_problem
from rosa_contract.keyfile import RobotKeys, load_robot_keys
from rosa_contract.wording import nearest

# They are read when the node is configured: until then, and again after a clean-up, they may be set.
PARAMETERS = {
    name: Parameter(default, text, fixed=False)
    for name, default, text in (
        ("config", "", "factory file that describes the task, such as configs/pick_place.yaml"),
        ("robot", "", "robot file, such as configs/robots/panda.yaml"),
        ("task", "", "name of the task; empty: the first of the fleet"),
        ("robot_id", "", "name of this robot at the server; empty: its namespace"),
        (
            "gateway",
            "tcp://127.0.0.1:5570",
            "ZeroMQ endpoint of the server; several, with commas between them: the next one when one is lost",
        ),
        ("base", "", "where the robot's base stands in `world`: 'x y z yaw' in m and rad; empty: not known"),
        ("frame_prefix", "", "what comes before the robot's links in TF, such as panda0/"),
        (
            "keys",
            "",
            "key folder of `rosa keys`, with server.key and this robot's secret; empty: no encryption",
        ),
        ("recording", "", "file to which a recorder beside it writes, which its reports tell; empty: none"),
    )
}
FEEDBACK_EVERY_S = 0.2
RESULT_WITHIN_S = 1.0  # after a deactivation
DECIDE_WITHIN_S = 5.0
CLOCK_WITHIN_S = 5.0


def _told(goal: RunTask.Goal) -> prompts.Instruction:
    """What a goal says beside its task."""
    return prompts.Instruction(goal.prompt, {one.name: one.value for one in goal.parameters})


class RuntimeNode(ManagedNode):
    """One robot's runtime. Nothing moves before it is active."""

    def __init__(self) -> None:
        super().__init__("runtime_node", PARAMETERS)
        self.add_on_set_parameters_callback(self._on_parameters)
        self._body: RosBody | None = None
        self._loop: RobotLoop | None = None
        self._ended: Future[tuple[str, str]] | None = None
        self._goal: Any = None
        self._keys: RobotKeys | str = ""
        self._server: Any = None
        self._retirement: Any = None
        self._decisions: Any = None
        self._feedback: Any = None
        self.start()

    def configure(self) -> None:
        factory = load_factory(self._text("config"))
        self._robot = load_robot(self._text("robot"))
        self._task_name = self._text("task") or factory.robot_fleet[0].task
        if self._task_name not in factory.tasks:
            known = ", ".join(factory.tasks)
            raise StartError(f"parameter task: no task {self._task_name!r}; known: {known}")
        self._tasks = factory.tasks
        self._robot_id = self._text("robot_id") or robot_id_of(self.get_namespace())
        if problem := gateways_problem(self._text("gateway")):
            raise StartError(f"parameter gateway: {problem}")
        self._keys = load_robot_keys(self._text("keys"), self._robot_id) if self._text("keys") else ""
        if self.get_parameter("use_sim_time").value and not self._hears_clock():
            words = f"nobody publishes /clock (waited {CLOCK_WITHIN_S:g} s)"
            raise StartError(f"use_sim_time is true, but {words}; set it to false, or start the clock first")
        transforms = self._transforms()
        task = self._tasks[self._task_name]
        self._body = RosBody(self, self._robot_id, self._task_name, task, self._robot)
        self._body.when_ended(self._on_ended)
        publish_static(self, transforms)
        self.get_logger().info(f"{self._robot_id}: {self._task_name} on {self._text('gateway')}")

    def _hears_clock(self) -> bool:
        """Whether somebody publishes /clock; the discovery of a node that is up takes a moment."""
        end_s = time.monotonic() + CLOCK_WITHIN_S
        while not (heard := self.count_publishers("/clock") > 0) and time.monotonic() < end_s:
            time.sleep(0.05)
        return heard

    def _transforms(self) -> list[StaticTransform]:
        """What of the robot never moves; says which cameras TF does not know."""
        if unknown := without_pose(self._robot):
            self.get_logger().warning(
                f"no pose in the robot file for {', '.join(unknown)}: their pictures' frame is not in TF;"
                " `rosa calibrate hand-eye` measures it"
            )
        name, text = self.get_namespace(), self._text("base")
        base = parse_bases(f"{name}: {text}")[name] if text else None
        return static_transforms(name, self._robot, base, self._text("frame_prefix"))

    def activate(self) -> None:
        self._begin_loop()  # before anything is offered: it may be refused
        self._keep_server()
        if self._server is None:
            self._server = ActionServer(
                self,
                RunTask,
                "run_task",
                execute_callback=self._on_run,
                goal_callback=self._on_goal,
                cancel_callback=lambda _: CancelResponse.ACCEPT,
            )
        self._decisions = self.create_service(OperatorDecision, "~/operator_decision", self._on_decision)
        self._feedback = steady_timer(self, FEEDBACK_EVERY_S, self._on_feedback)

    def _begin_loop(self) -> None:
        """A core for the present task, and its link."""
        assert self._body is not None
        gateway = self._text("gateway")
        token = SessionToken(default_folder(), gateway, self._robot_id)
        hello = hello_of(self._robot_id, self._task_name, self._robot)
        link = GatewayLink(gateway, hello, self._keys, token)
        self._body.begin()
        task = self._tasks[self._task_name]
        core = RobotRuntime(self._robot_id, task, self._robot, first_alert=first_alert(time.time()))
        recorded = self._text("recording")
        where = f"{socket.gethostname()}:{Path(recorded).resolve()}" if recorded else ""
        period_s, pictures = 1 / self._robot.control_rate_hz, PictureQuality(self._robot.cameras)
        self._loop = RobotLoop(core, link, self._body, period_s, where, pictures)
        self._loop.start()

    def _change_task(self, name: str) -> None:
        """To another task of the file, while none runs: the server is told by a new hello, as at a start. When it
        fails there is no core; the next task begins one."""
        assert self._body is not None
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop("task_changed", f"the robot changes to the task {name!r}")
        self.get_logger().info(f"from the task {self._task_name!r} to {name!r}")
        self._task_name = name
        self._body.use(name, self._tasks[name])
        self._begin_loop()

    def deactivate(self, cause: str, reason: str) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and self._body is not None:
            if loop.core.state is not State.IDLE:
                self.get_logger().error(f"the task {self._task_name!r} is aborted: {reason}")
            loop.stop(cause, reason)
            self._on_ended(RunTask.Result.ABORTED, reason)  # also when the core can no longer say it
            self._body.farewell(loop.core, loop.link)
        if self._decisions is not None:
            self.destroy_service(self._decisions)
            self.destroy_timer(self._feedback)
            self._decisions = self._feedback = None
            # The executor sends the task's result after this transition; until then the server rejects every goal.
            self._retirement = steady_timer(self, RESULT_WITHIN_S, self._end_server)

    def _keep_server(self) -> None:
        """One that was to end may still owe a client its result."""
        if self._retirement is not None:
            self.destroy_timer(self._retirement)
            self._retirement = None

    def _end_server(self) -> None:
        self._keep_server()
        if self._server is not None:
            self._server.destroy()
            self._server = None

    @property
    def settled(self) -> bool:
        return self._goal is None

    def clean_up(self) -> None:
        self._body = None

    def _on_parameters(self, parameters: list[Any]) -> SetParametersResult:
        """Refuse what could not take effect."""
        names = [parameter.name for parameter in parameters if parameter.name in PARAMETERS]
        if self._body is None or not names:
            return SetParametersResult(successful=True)
        reason = f"{', '.join(names)}: read when the node is configured; clean it up first"
        return SetParametersResult(successful=False, reason=reason)

    # -- the task ---------------------------------------------------------------------------------------------------

    def _on_goal(self, goal: RunTask.Goal) -> GoalResponse:
        problem = ""
        if not self.active:
            problem = "the runtime node is not active"
        elif goal.task and goal.task not in self._tasks:  # no name means the present task
            known = ", ".join(self._tasks)
            problem = f"no task {goal.task!r}{nearest(goal.task, self._tasks)}; the file has {known}"
        elif self._goal is not None:
            problem = "a task is already running"
        elif not 0 <= goal.timeout_s < 1e6:
            problem = f"timeout_s: expected seconds from 0, got {goal.timeout_s}"
        else:
            problem = prompts.problem(self._tasks[goal.task or self._task_name], _told(goal))
        if problem:
            self.get_logger().error(f"run_task rejected: {problem}")
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    async def _on_run(self, goal: Any) -> RunTask.Result:
        if not self.active:  # deactivated since it was accepted
            goal.abort()
            return RunTask.Result(outcome=RunTask.Result.ABORTED, reason="the runtime node is not active")
        if reason := self._prepare(goal.request.task or self._task_name):
            goal.abort()
            return RunTask.Result(outcome=RunTask.Result.FAILED, reason=reason)
        self._goal, loop = goal, self._loop
        assert loop is not None
        self._ended = Future(executor=self.executor)
        try:
            answer_within(loop.begin(goal.request.timeout_s, _told(goal.request)), DECIDE_WITHIN_S)
            ended = await self._ended
            assert ended is not None, "`_on_ended` alone ends it"
            outcome, reason = ended
        except TimeoutError:
            outcome, reason = (
                RunTask.Result.FAILED,
                f"the robot's core did not begin within {DECIDE_WITHIN_S:g} s",
            )
        finally:
            self._goal = None
        if outcome == RunTask.Result.DONE:  # also when it was cancelled too late
            goal.succeed()
        elif goal.is_cancel_requested:
            goal.canceled()
        else:
            goal.abort()
        return self._result(loop.core, outcome, reason)

    def _prepare(self, name: str) -> str:
        """A core for the task `name`; returns why there is none."""
        if self._loop is not None and name == self._task_name:
            return ""
        try:
            self._change_task(name)
        except Exception as error:  # rclpy would keep it to itself, and the client would not hear why
            reason = f"the task {name!r} cannot begin: {error}"
            self.get_logger().error(f"{reason}\n{traceback.format_exc()}")
            return reason
        return ""

    def _on_ended(self, outcome: str, reason: str) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result((outcome, reason))

    def _on_feedback(self) -> None:
        if self._loop is not None and self._loop.failure is not None:
            # Ends the node, visibly.
            raise RuntimeError("the robot's core failed") from self._loop.failure
        if self._goal is None or self._loop is None:
            return
        core = self._loop.core
        if self._goal.is_cancel_requested and core.state is not State.IDLE:
            self._record_cancel(core)
            self._loop.cancel("the client cancelled the task").result(timeout=5)
            return
        message = RunTask.Feedback(state=core.state.value, round=core.counters.rounds, attempt=core.attempt)
        self._goal.publish_feedback(message)

    def _result(self, core: RobotRuntime, outcome: str, reason: str) -> RunTask.Result:
        calls = core.calls.values()
        return RunTask.Result(
            outcome=outcome,
            reason=reason,
            rounds=core.counters.rounds,
            retries=core.counters.retries,
            deadlines_met=sum(calls.in_time for calls in calls),
            deadlines_missed=sum(calls.missed for calls in calls),
            late_results_discarded=sum(calls.late_discarded for calls in calls),
            system1_latencies_ms=core.counters.system1_ms,
        )

    # -- the operator -----------------------------------------------------------------------------------------------

    def _on_decision(
        self, request: OperatorDecision.Request, response: OperatorDecision.Response
    ) -> OperatorDecision.Response:
        """Every decision is recorded, accepted or refused: who, what, why."""
        if self._loop is None or self._body is None:
            response.reason = "no task could begin, so there is nothing to decide"
            return response
        asked = (request.alert_id, request.choice, request.decided_by, request.why)
        try:
            refusal = answer_within(self._loop.decide(*asked), DECIDE_WITHIN_S)
            response.reason = refusal.reason if refusal is not None else ""
        except TimeoutError:
            response.reason = f"the robot's core did not answer within {DECIDE_WITHIN_S:g} s"
            self._body.audit(audit_of(*asked, False, response.reason))
        response.accepted = not response.reason
        return response

    def _record_cancel(self, core: RobotRuntime) -> None:
        """The client may cancel its task while the robot waits for a human. That settles the alert, and is recorded."""
        alert = core.alert
        if alert is not None and self._loop is not None:
            by, why = "the client of run_task", "it cancelled the task"
            answer_within(
                self._loop.record(audit_of(alert.alert_id, "abort", by, why, True, "")), DECIDE_WITHIN_S
            )

    # -- small things -----------------------------------------------------------------------------------------------

    def _text(self, name: str) -> str:
        return str(self.get_parameter(name).value)


def main() -> None:
    run_node(RuntimeNode, RuntimeNode.expected)


if __name__ == "__main__":
    main()
