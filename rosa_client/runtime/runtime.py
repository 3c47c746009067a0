"""The robot's core: decides when to send, play, hold, move, retry and call a human. No socket, thread, clock or ROS.

`tick` is called every control period, `answer` for every response of the server; both return commands for the shell.
What is remembered: `mission.py`; what is checked: `checks.py`; what each state does: `steps.py`; what answers mean:
`responses.py`; fallbacks, retries and escalation: `ladder.py`; what an operator may decide: `choices.py`.
Sources: ROSA 3.2 ("Robot-side system responsibilities") and 3.3 (violations, retries); DESIGN "Robot-side behaviour".
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from rosa_client.motion.refusal import Refusal
from rosa_client.runtime import checks, choices, responses, steps
from rosa_client.runtime.calls import ComponentCalls, Ending
from rosa_client.runtime.commands import Alert, Command, Decision, Inputs
from rosa_client.runtime.ladder import CHOICES, finish
from rosa_client.runtime.machines.task_machine import State
from rosa_client.runtime.mission import Counters, Mission, Timeouts
from rosa_contract.config.cameras import JOINT_STATE
from rosa_contract.config.prompts import NOTHING, Instruction
from rosa_contract.config.robot import RobotSpec
from rosa_contract.config.tasks import Task
from rosa_contract.wire.messages import Array, Response

__all__ = ["CHOICES", "JOINT_STATE", "RobotRuntime", "Timeouts"]


class RobotRuntime:
    """One robot with one task description. Every method takes the time and returns commands in order.

    `next_due_s`: when `tick` has to be called next at the latest, while the inputs stay the same; the past after every
    other call, and when only a newer sensor sample is missing.
    """

    def __init__(self, name: str, task: Task, robot: RobotSpec, first_alert: int = 1) -> None:
        self.mission = Mission(name, task, robot, first_alert)
        self.next_due_s = inf

    # -- what others may look at --------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.mission.name

    @property
    def task(self) -> Task:
        return self.mission.task

    @property
    def state(self) -> State:
        return self.mission.state

    @property
    def inputs(self) -> Inputs:
        """Of the last tick."""
        return self.mission.inputs

    @property
    def calls(self) -> Mapping[str, ComponentCalls]:
        """The calls of each component."""
        return self.mission.calls

    @property
    def counters(self) -> Counters:
        return self.mission.counters

    @property
    def alert(self) -> Alert | None:
        """The open one."""
        return self.mission.person.alert

    @property
    def plan(self) -> str | None:
        """What System 2 has planned."""
        return self.mission.planning.plan

    @property
    def attempt(self) -> int:
        """Which attempt at the task this is, from 1."""
        return self.mission.attempts.number

    @property
    def last_decision(self) -> Decision | None:
        return self.mission.last_decision

    @property
    def lets_move(self) -> bool:
        """The arm may move now; while this is true, the shell sends it signs of life."""
        return self.mission.lets_move

    @property
    def sequence(self) -> int:
        """Number of the newest order to the arm."""
        return self.mission.arm.sequence

    @property
    def chunk_ends_s(self) -> float:
        """When the newest chunk ends."""
        return self.mission.chunk.ends_s

    def next_sequence(self) -> int:
        """The number of the next arm command, for a shell that sends one itself."""
        return self.mission.arm.next_sequence()

    # -- what happens -------------------------------------------------------------------------------------------------

    def start(self, now_s: float, timeout_s: float = 0.0, told: Instruction = NOTHING) -> list[Command]:
        """Begin the task. With `timeout_s` > 0 it ends as timed out when it is not done by then.

        `told`: what this goal says beside the configuration; whoever takes it checks it (`prompts.problem`).
        """
        self.mission.begin(now_s, timeout_s, told)
        words = f"; told {told}" if told != NOTHING else ""
        self.mission.note("start", "task_started", f"{self.name}: attempt 1{words}")
        self.mission.hold(now_s)  # the task begins once the arm has taken this order
        return self._at_once()

    def cancel(self, now_s: float, reason: str) -> list[Command]:
        """End the task because its client said so; the arm holds."""
        if self.state is not State.IDLE:
            finish(self.mission, "canceled", "cancelled", reason, now_s)
        return self._at_once()

    def abort(self, now_s: float, cause: str, reason: str) -> list[Command]:
        """End the task because the runtime itself must end it; the arm holds."""
        if self.state is not State.IDLE:
            finish(self.mission, "aborted", cause, reason, now_s)
        return self._at_once()

    def tick(self, now_s: float, inputs: Inputs) -> list[Command]:
        """One control period: arm, deadlines and sensors first, then whatever is due."""
        self.mission.take_inputs(inputs, now_s)
        self.next_due_s = inf
        if self.state is not State.IDLE:
            checks.check_arm(self.mission, now_s)
            checks.check_deadlines(self.mission, now_s)
            checks.check_sensors(self.mission, now_s)
            checks.check_task_time(self.mission, now_s)
            self.next_due_s = steps.step(self.mission, now_s)
        return self.mission.take()

    def answer(
        self, now_s: float, response: Response, seen: Mapping[str, Array] | None = None
    ) -> list[Command]:
        """A response arrived. After its deadline it is discarded.

        `seen`: the state arrays of the observation that it answers; actions in spaces other than joint positions begin
        there.
        """
        checks.check_deadlines(self.mission, now_s)
        for calls in self.calls.values():
            ending = calls.answer(response.request_id, now_s)
            if ending is Ending.LATE:
                reason = f"request {response.request_id} came after its deadline"
                self.mission.note("discard", "late_result", reason, calls.name)
            elif ending is Ending.IN_TIME:
                responses.use(self.mission, calls, response, now_s, seen)
            if ending is not Ending.UNKNOWN:
                break  # no other component has sent a request of this number
        return self._at_once()

    def decide(
        self, now_s: float, alert_id: int, choice: str, decided_by: str
    ) -> tuple[Refusal | None, list[Command]]:
        """An operator's decision: why it is refused (None when accepted), and commands."""
        refusal = choices.refusal(self.mission, alert_id, choice, decided_by, now_s)
        if refusal is None:
            choices.carry_out(self.mission, choice, decided_by, now_s)
        return refusal, self._at_once()

    def _at_once(self) -> list[Command]:
        """The commands; what has just happened may make something due."""
        self.next_due_s = -inf
        return self.mission.take()
