"""The robot's core: decides when to send, play, hold, move, retry and call a human. No socket, thread, clock or ROS.

`tick` is called every control period, `answer` for every response of the server; both return commands for the shell.
What is remembered: `mission.py`; what is checked: `checks.py`; what each state does: `steps.py`; what answers mean:
`responses.py`; fallbacks, retries and escalation: `ladder.py`; what an operator may decide: `choices.py`.
Sources: ROSA 3.2 ("Robot-side system responsibilities") and 3.3 (violations, retries); DESIGN "Robot-side behaviour".
"""

from __future__ import annotations

from rosa_client.motion.refusal import Refusal
from rosa_client.runtime import checks, choices, responses, steps
from rosa_client.runtime.calls import Ending
from rosa_client.runtime.commands import Command, Inputs
from rosa_client.runtime.ladder import CHOICES, finish
from rosa_client.runtime.machines.task_machine import Event, State
from rosa_client.runtime.mission import JOINT_STATE, Counters, Mission, Timeouts
from rosa_contract.wire.messages import Response

__all__ = ["CHOICES", "JOINT_STATE", "RobotRuntime", "Timeouts"]


class RobotRuntime(Mission):
    """One robot with one task description. Every method takes the time and returns commands in order."""

    def start(self, now_s: float, timeout_s: float = 0.0) -> list[Command]:
        """Begin the task. With `timeout_s` > 0 it ends as timed out when it is not done by then."""
        self.go(Event.START, now_s)
        self.calls = self.new_calls()
        self.counters = Counters()
        self.attempt = 1
        self.task_number += 1
        self.unsafe_in_a_row = self.cut_short_in_a_row = self.stops_in_a_row = self.failures = 0
        self.deadline_s = now_s + timeout_s if timeout_s > 0 else None
        self.excuse_arm(begins=True)
        self.forget_steps()
        self.begin_attempt(now_s)
        self.note("start", "task_started", f"{self.name}: attempt 1")
        self.hold(now_s)  # the task begins once the arm has taken this order
        return self.take()

    def cancel(self, now_s: float, reason: str) -> list[Command]:
        """End the task because its client said so; the arm holds."""
        if self.state is not State.IDLE:
            finish(self, "canceled", "cancelled", reason, now_s)
        return self.take()

    def abort(self, now_s: float, cause: str, reason: str) -> list[Command]:
        """End the task because the runtime itself must end it; the arm holds."""
        if self.state is not State.IDLE:
            finish(self, "aborted", cause, reason, now_s)
        return self.take()

    def tick(self, now_s: float, inputs: Inputs) -> list[Command]:
        """One control period: arm, deadlines and sensors first, then whatever is due."""
        self.take_inputs(inputs, now_s)
        if self.state is not State.IDLE:
            checks.check_arm(self, now_s)
            checks.check_deadlines(self, now_s)
            checks.check_sensors(self, now_s)
            checks.check_task_time(self, now_s)
            steps.step(self, now_s)
        return self.take()

    def answer(self, now_s: float, response: Response) -> list[Command]:
        """A response arrived. After its deadline it is discarded."""
        checks.check_deadlines(self, now_s)
        for calls in self.calls.values():
            ending = calls.answer(response.request_id, now_s)
            if ending is Ending.LATE:
                reason = f"request {response.request_id} came after its deadline"
                self.note("discard", "late_result", reason, calls.name)
            elif ending is Ending.IN_TIME:
                responses.use(self, calls, response, now_s)
            if ending is not Ending.UNKNOWN:
                break  # no other component has sent a request of this number
        return self.take()

    def decide(
        self, now_s: float, alert_id: int, choice: str, decided_by: str
    ) -> tuple[Refusal | None, list[Command]]:
        """An operator's decision: why it is refused (None when accepted), and commands."""
        refusal = choices.refusal(self, alert_id, choice, decided_by, now_s)
        if refusal is None:
            choices.carry_out(self, choice, decided_by, now_s)
        return refusal, self.take()
