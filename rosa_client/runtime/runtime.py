"""The robot's core: decides when to send, play, hold, move, retry and call a human. No socket, thread, clock or ROS.

`tick` is called every control period and after every answer; both return commands for the shell to carry out.
Sources: ROSA 3.2 ("Robot-side system responsibilities") and 3.3 (violations, retries); DESIGN "Robot-side behaviour".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from rosa_client.runtime.chunk_check import BadChunk, check_chunk
from rosa_client.runtime.commands import (
    HOLDING,
    Alert,
    Answer,
    ClearAlert,
    Command,
    Decision,
    Hold,
    Inputs,
    MoveTo,
    Play,
    Send,
    TaskEnded,
)
from rosa_client.runtime.lane import Ending, Lane
from rosa_client.runtime.task_machine import Event, State, advance
from rosa_contract.config import GOAL_COUPLED, MONITOR, SAFETY, SYSTEM1, SYSTEM2, Task
from rosa_contract.fallbacks import FallbackAction, fallback
from rosa_contract.messages import OK
from rosa_contract.robot import RobotSpec

JOINT_STATE = "joint_state"
CHOICES = ("resume", "retry", "return_to_safe_state", "abort")
CAMERAS_NEEDED = (State.INFERRING, State.EXECUTING, State.HOLDING)
NOT_TIMED = (State.IDLE, State.WAITING_FOR_HUMAN, State.CLEARING)
OBLIGED = (State.INFERRING, State.EXECUTING, State.HOLDING, State.RETURNING)


@dataclass(frozen=True)
class Timeouts:
    """How long the core waits for things that no SLO bounds. What follows each is an escalation."""

    connect_s: float = 60.0  # the server's welcome and the first sensor samples
    sensor_s: float = 3.0  # a camera or the joint states that went silent
    move_s: float = 20.0  # a move to a named pose


@dataclass
class Counters:
    """What a task's report counts."""

    rounds: int = 0  # executed action chunks
    retries: int = 0
    system1_ms: list[float] = field(default_factory=list)


class RobotRuntime:
    """One robot with one task description. Every method takes the time and returns commands in order."""

    def __init__(self, name: str, task: Task, robot: RobotSpec, timeouts: Timeouts | None = None) -> None:
        self.name = name
        self.task = task
        self.robot = robot
        self.timeouts = timeouts or Timeouts()
        self.state = State.IDLE
        self.lanes = {key: Lane(key, component) for key, component in task.components.items()}
        self.counters = Counters()
        self.attempt = 0
        self.alert: Alert | None = None
        self.last_decision: Decision | None = None
        self._inputs = Inputs({}, False)
        self._out: list[Command] = []
        self._holds: dict[str, FallbackAction] = {}  # what stopped the arm, until it clears
        self._entered_s = 0.0
        self._deadline_s: float | None = None
        self._fresh_after_s = 0.0
        self._play_until_s = 0.0
        self._plan: str | None = None
        self._plan_credit = 1.0
        self._unsafe_in_a_row = 0
        self._verdicts: dict[str, deque[str]] = {}
        self._sequence = 0
        self._request_id = 0
        self._alert_id = 0

    # -- what can happen ------------------------------------------------------------------------------------------

    def start(self, now_s: float, timeout_s: float = 0.0) -> list[Command]:
        """Begin the task; `timeout_s` > 0 ends it as failed when it is not done by then."""
        self._go(Event.START, now_s)
        self.lanes = {key: Lane(key, component) for key, component in self.task.components.items()}
        self.counters = Counters()
        self.attempt = 1
        self._deadline_s = now_s + timeout_s if timeout_s > 0 else None
        self._begin_attempt(now_s)
        self._decide("start", "task_started", f"{self.name}: attempt 1")
        return self._take()

    def cancel(self, now_s: float, reason: str) -> list[Command]:
        """End the task because its client said so; the arm holds."""
        if self.state is not State.IDLE:
            self._finish("aborted", "cancelled", reason, now_s)
        return self._take()

    def tick(self, now_s: float, inputs: Inputs) -> list[Command]:
        """One control period: deadlines, sensors and arm first, then whatever is due."""
        self._inputs = inputs
        if self.state is State.IDLE:
            return self._take()
        self._check_deadlines(now_s)
        self._check_arm(now_s)
        self._check_sensors(now_s)
        self._check_task_time(now_s)
        for _ in range(
            4
        ):  # a state that is left at once, such as CONNECTING when all is ready, costs no period
            before = self.state
            _STEPS.get(self.state, _nothing)(self, now_s)
            if self.state is before:
                break
        self._send_obligations(now_s)
        return self._take()

    def answer(self, now_s: float, answer: Answer) -> list[Command]:
        """A response arrived. After its deadline it is discarded, whatever it says."""
        self._check_deadlines(now_s)
        for lane in self.lanes.values():
            ending = lane.answer(answer.request_id, now_s)
            if ending is Ending.LATE:
                self._decide(
                    "discard",
                    "late_result",
                    f"request {answer.request_id} came after its deadline",
                    lane.name,
                )
            elif ending is Ending.IN_TIME:
                self._use(lane, answer, now_s)
        return self._take()

    def decide(self, now_s: float, alert_id: int, choice: str) -> tuple[str, list[Command]]:
        """An operator's decision: why it is refused (empty when accepted), and commands."""
        if self.alert is None or self.state is not State.WAITING_FOR_HUMAN:
            return f"nothing to decide: the robot is {self.state.value}", []
        if alert_id != self.alert.alert_id:
            return f"alert {alert_id} is settled; the open one is {self.alert.alert_id}", []
        if choice not in self.alert.choices:
            return f"choice: expected one of {', '.join(self.alert.choices)}, got {choice!r}", []
        if choice == "abort":
            self._finish("aborted", "operator", "an operator aborted the task", now_s)
            return "", self._take()
        for lane in self.lanes.values():
            lane.consecutive_missed = 0
        self._unsafe_in_a_row = 0
        self._decide(choice, "operator", f"an operator decided: {choice}")
        if choice == "return_to_safe_state":
            self._go(Event.CLEAR_THE_CELL, now_s)
            self._move("safe")
            return "", self._take()
        self._out.append(ClearAlert(self.alert.alert_id, f"operator: {choice}"))
        self.alert = None
        if choice == "retry":
            self._retry(now_s)
        else:
            self._go(Event.RESUME, now_s)
            self._begin_attempt(now_s)
        return "", self._take()

    # -- checks that hold in every state ----------------------------------------------------------------------------

    def _check_deadlines(self, now_s: float) -> None:
        """Missed deadlines. When several are due at once, all are counted and the most severe fallback runs."""
        overdue = [lane for lane in self.lanes.values() if lane.overdue(now_s)]
        for lane in overdue:
            lane.miss(now_s)
        if overdue:
            self._violate(overdue, "slo_missed", "no answer within {slo:g} ms", now_s)

    def _check_task_time(self, now_s: float) -> None:
        """An escalated task waits for its operator however long that takes."""
        if self._deadline_s is not None and now_s > self._deadline_s and self.state not in NOT_TIMED:
            self._finish("failed", "task_timeout", "the task was not done within its time", now_s)

    def _check_arm(self, now_s: float) -> None:
        if self._inputs.arm_fault and self.state not in (State.IDLE, State.WAITING_FOR_HUMAN):
            self._escalate("arm_fault", self._inputs.arm_fault, now_s)

    def _check_sensors(self, now_s: float) -> None:
        if self.state not in CAMERAS_NEEDED:
            return
        for name, stamp_s in self._stale(now_s).items():
            key = f"sensor:{name}"
            if now_s - stamp_s > self.timeouts.sensor_s:
                self._escalate("sensor_silent", f"{name} has been silent for {now_s - stamp_s:.1f} s", now_s)
                return
            if key not in self._holds:
                self._stop(key, "sensor_stale", f"{name} is {1000 * (now_s - stamp_s):.0f} ms old", "", now_s)

    def _stale(self, now_s: float) -> dict[str, float]:
        """Sensors whose newest sample is too old -> when it arrived."""
        limit_s = self.robot.max_sensor_age_ms / 1000
        stamps = {name: self._inputs.sensor_stamp_s.get(name, self._entered_s) for name in self._sensors}
        return {name: stamp_s for name, stamp_s in stamps.items() if now_s - stamp_s > limit_s}

    @property
    def _sensors(self) -> tuple[str, ...]:
        return (*self.robot.cameras, JOINT_STATE)

    def _fresh(self) -> bool:
        """Every sensor has delivered since the last motion ended."""
        return all(
            self._inputs.sensor_stamp_s.get(name, -1.0) > self._fresh_after_s for name in self._sensors
        )

    # -- what each state does in a period ---------------------------------------------------------------------------

    def _connecting(self, now_s: float) -> None:
        seen = self._inputs.sensor_stamp_s
        missing = [name for name in self._sensors if name not in seen]
        if self._inputs.link_ready and not missing and not self._stale(now_s):
            self._go(Event.READY, now_s)
        elif now_s - self._entered_s > self.timeouts.connect_s:
            why = (
                self._inputs.link_reason
                if not self._inputs.link_ready
                else f"nothing from {', '.join(missing)}"
            )
            self._escalate("not_ready", f"not ready within {self.timeouts.connect_s:g} s: {why}", now_s)

    def _inferring(self, now_s: float) -> None:
        if self._inputs.arm_state != HOLDING and now_s - self._entered_s < 1.0:
            return  # the arm still settles; the observation must show where it came to rest
        planner, actor = self.lanes.get(SYSTEM2), self.lanes[SYSTEM1]
        if planner is not None and self._plan_credit >= 1 - 1e-9:
            self._send(planner, planner.component.prompt, now_s)
        else:
            self._send(actor, self._plan or actor.component.prompt, now_s)

    def _executing(self, now_s: float) -> None:
        if now_s >= self._play_until_s:
            self._plan_credit += self.task.pipeline.system2_to_system1_call_ratio
            self._fresh_after_s = now_s
            self._go(Event.CHUNK_ENDED, now_s)

    def _holding(self, now_s: float) -> None:
        """Sensors clear by being fresh, goal-coupled calls by being due again; other components by a good answer."""
        stale = self._stale(now_s)
        for key in list(self._holds):
            sensor = key.removeprefix("sensor:")
            fresh_again = key != sensor and sensor not in stale
            due_again = key in GOAL_COUPLED and now_s >= self.lanes[key].resend_after_s
            if fresh_again or due_again:
                self._clear(key)
        if not self._holds:
            self._fresh_after_s = max(self._fresh_after_s, self._entered_s)
            self._go(Event.CLEARED, now_s)

    def _moving(self, now_s: float) -> None:
        arrived = self._inputs.arm_sequence >= self._sequence and self._inputs.arm_state == HOLDING
        if arrived:
            self._fresh_after_s = now_s
            self._go(Event.ARRIVED, now_s)
            if self.state is State.CONNECTING:
                self._begin_attempt(now_s)
        elif now_s - self._entered_s > self.timeouts.move_s:
            self._escalate("move_timeout", f"a move took over {self.timeouts.move_s:g} s", now_s)

    # -- sending and using answers ----------------------------------------------------------------------------------

    def _send(self, lane: Lane, prompt: str, now_s: float) -> None:
        if lane.in_flight or now_s < lane.resend_after_s or self._stale(now_s) or not self._fresh():
            return
        self._request_id += 1
        lane.send(self._request_id, now_s)
        self._out.append(Send(self._request_id, lane.name, lane.component.slo_ms, prompt))

    def _send_obligations(self, now_s: float) -> None:
        if self.state not in OBLIGED:
            return
        for lane in self.lanes.values():
            if lane.component.freq_hz is not None and (now_s >= lane.due_s or lane.name in self._holds):
                self._send(lane, lane.component.prompt, now_s)

    def _use(self, lane: Lane, answer: Answer, now_s: float) -> None:
        if answer.status != OK or answer.output is None:
            lane.miss(now_s)
            self._violate([lane], f"server_{answer.status}", answer.reason or answer.status, now_s)
            return
        if lane.name == SYSTEM1:
            self._use_actions(lane, answer, now_s)
            return
        lane.succeed()
        if lane.name == SYSTEM2:
            self._plan = answer.output.text or None
            self._plan_credit = max(0.0, self._plan_credit - 1)
            self._decide(
                "plan", "plan_in_time", self._plan or "an empty plan: System 1 keeps its own prompt", SYSTEM2
            )
        elif lane.name == SAFETY and answer.output.verdict == "unsafe":
            self._use_unsafe(lane, now_s)
        else:
            if lane.name == SAFETY:
                self._unsafe_in_a_row = 0
            self._clear(lane.name)
            if lane.name == MONITOR:
                self._use_progress(lane, answer.output.verdict, now_s)

    def _use_actions(self, lane: Lane, answer: Answer, now_s: float) -> None:
        period_s = self.task.pipeline.action_period_ms / 1000
        try:
            actions, step_s = check_chunk(answer.output, self.robot, period_s)
        except BadChunk as problem:
            lane.miss(now_s)
            self._violate([lane], "invalid_actions", str(problem), now_s)
            return
        lane.succeed()
        if self.state is not State.INFERRING:
            return  # a stop came first: an action decided before it is not executed after it
        took_ms = lane.latencies_ms[-1]
        self.counters.rounds += 1
        self.counters.system1_ms.append(took_ms)
        self._play_until_s = now_s + period_s
        self._go(Event.ACTIONS, now_s)
        self._decide("execute", "actions_in_time", f"round {self.counters.rounds}: {took_ms:.0f} ms", SYSTEM1)
        self._out.append(Play(self.next_sequence(), actions, step_s, period_s, answer.request_id))

    def _use_unsafe(self, lane: Lane, now_s: float) -> None:
        self._unsafe_in_a_row += 1
        limit = self.task.safety_and_slo_violation.max_consecutive_safety_replan
        if self._unsafe_in_a_row >= limit:
            self._escalate("max_consecutive_safety_replan", f"unsafe {limit} times in a row", now_s)
        else:
            lane.resend_after_s = now_s + 1 / (lane.component.freq_hz or 1)
            self._fall_back(lane, "unsafe", f"verdict unsafe ({self._unsafe_in_a_row} in a row)", now_s)

    def _use_progress(self, lane: Lane, verdict: str, now_s: float) -> None:
        """ROSA 3.3, "Task retry policy": done ends the task, failed resets the robot and retries it."""
        seen = self._verdicts.setdefault(lane.name, deque(maxlen=lane.component.confirmations))
        seen.append(verdict)
        if list(seen).count(verdict) < lane.component.confirmations or self.state not in OBLIGED:
            return
        if verdict == "done":
            self._finish("done", "monitor", "the monitor says done", now_s)
        elif verdict == "failed":
            limit = self.task.task_retry.max_task_retries
            if self.counters.retries >= limit:
                self._escalate("max_task_retries", f"failed again after {limit} retries", now_s)
            else:
                self._decide(
                    "retry",
                    "monitor",
                    f"the monitor says failed; retry {self.counters.retries + 1} of {limit}",
                )
                self._retry(now_s)

    # -- stopping, retrying, escalating -----------------------------------------------------------------------------

    def _violate(self, lanes: list[Lane], cause: str, text: str, now_s: float) -> None:
        """Calls that ended without a usable answer: the worst fallback runs, too many in a row escalate."""
        limit = self.task.safety_and_slo_violation.max_consecutive_slo_violation
        for lane in lanes:
            if lane.consecutive_missed >= limit and self.state not in (State.IDLE, State.WAITING_FOR_HUMAN):
                link = "" if self._inputs.link_ready else f"; {self._inputs.link_reason}"
                text = text.format(slo=lane.component.slo_ms)
                self._escalate(
                    "max_consecutive_slo_violation",
                    f"{lane.name}: {text}, {limit} times in a row{link}",
                    now_s,
                    lane.name,
                )
                return
        for lane in sorted(lanes, key=lambda lane: fallback(lane.component.fallback), reverse=True):
            count = f"{lane.consecutive_missed} of {limit} in a row"
            self._fall_back(lane, cause, f"{text.format(slo=lane.component.slo_ms)} ({count})", now_s)

    def _fall_back(self, lane: Lane, cause: str, reason: str, now_s: float) -> None:
        if self.state not in OBLIGED:
            return
        action = fallback(lane.component.fallback)
        if action is FallbackAction.USE_LAST_PLAN:
            if self._plan is not None or lane.name != SYSTEM2:
                self._plan_credit = max(0.0, self._plan_credit - 1)
                self._decide(action.key, cause, f"{reason}; the last plan stays", lane.name)
                return
            action, reason = FallbackAction.STOP_AND_RESEND, f"{reason}; there is no plan yet"
        if action is FallbackAction.STOP_AND_CALL_HUMAN:
            self._escalate(cause, f"{lane.name}: {reason}", now_s, lane.name)
            return
        if action >= FallbackAction.STOP_AND_REPLAN:
            self._plan, self._plan_credit = None, 1.0
        if action is FallbackAction.RETURN_TO_SAFE_STATE:
            there = self._holds.get(lane.name) is action  # at the safe pose, or on the way to it
            self._holds[lane.name] = action
            self._drop_chain()
            if not there and self.state is not State.RETURNING:
                self._decide(action.key, cause, reason, lane.name)
                self._go(Event.RETURN, now_s)
                self._move("safe")
            return
        self._stop(lane.name, cause, reason, lane.name, now_s, action)

    def _stop(
        self,
        key: str,
        cause: str,
        reason: str,
        component: str,
        now_s: float,
        action: FallbackAction = FallbackAction.STOP_AND_RESEND,
    ) -> None:
        """Hold, and stay held until `key` clears. A move to the safe pose goes on: it is the more severe fallback."""
        self._holds[key] = action
        self._decide(action.key, cause, reason, component)
        self._drop_chain()
        if self.state in (State.INFERRING, State.EXECUTING):
            self._go(Event.STOP, now_s)
            self._hold()

    def _drop_chain(self) -> None:
        """The chunk under way and the calls made for it no longer count."""
        for key in GOAL_COUPLED:
            if key in self.lanes:
                self.lanes[key].cancel()

    def _clear(self, key: str) -> None:
        if self._holds.pop(key, None) is not None:
            self._decide("clear", "recovered", f"{key} is good again", key)

    def _retry(self, now_s: float) -> None:
        self.counters.retries += 1
        self.attempt += 1
        for lane in self.lanes.values():
            lane.cancel()
        self._holds.clear()
        self._go(Event.RETRY, now_s)
        self._move("home")

    def _escalate(self, cause: str, reason: str, now_s: float, component: str = "") -> None:
        """Hold and ask a human. Only an operator's decision leads out (DESIGN: an escalation never clears itself)."""
        self._go(Event.ESCALATE, now_s)
        for lane in self.lanes.values():
            lane.cancel()
        self._holds.clear()
        self._hold()
        self._decide(FallbackAction.STOP_AND_CALL_HUMAN.key, cause, reason, component)
        self._alert_id += 1
        self.alert = Alert(self._alert_id, cause, reason, CHOICES)
        self._out.append(self.alert)

    def _finish(self, outcome: str, cause: str, reason: str, now_s: float) -> None:
        self._go(Event.FINISH, now_s)
        for lane in self.lanes.values():
            lane.cancel()
        self._holds.clear()
        self._hold()
        if self.alert is not None:
            self._out.append(ClearAlert(self.alert.alert_id, reason))
            self.alert = None
        self._decide(outcome, cause, reason)
        self._out.append(TaskEnded(outcome, reason))

    # -- small things -----------------------------------------------------------------------------------------------

    def _begin_attempt(self, now_s: float) -> None:
        self._plan, self._plan_credit = None, 1.0
        self._verdicts.clear()
        self._fresh_after_s = now_s
        for lane in self.lanes.values():
            lane.due_s = now_s
            lane.resend_after_s = now_s

    def next_sequence(self) -> int:
        """The number of the next arm command; the arm obeys a command only when its number is new."""
        self._sequence += 1
        return self._sequence

    def _hold(self) -> None:
        self._out.append(Hold(self.next_sequence()))

    def _move(self, pose: str) -> None:
        self._out.append(MoveTo(self.next_sequence(), pose))

    def _decide(self, action: str, cause: str, reason: str, component: str = "") -> None:
        self.last_decision = Decision(action, cause, reason, component)
        self._out.append(self.last_decision)

    def _go(self, event: Event, now_s: float) -> None:
        self.state = advance(self.state, event)
        self._entered_s = now_s

    def _take(self) -> list[Command]:
        out, self._out = self._out, []
        return out


def _nothing(runtime: RobotRuntime, now_s: float) -> None:
    """Nothing is due by itself in this state."""


_STEPS = {
    State.CONNECTING: RobotRuntime._connecting,
    State.INFERRING: RobotRuntime._inferring,
    State.EXECUTING: RobotRuntime._executing,
    State.HOLDING: RobotRuntime._holding,
    State.RETURNING: RobotRuntime._moving,
    State.RESETTING: RobotRuntime._moving,
    State.CLEARING: RobotRuntime._moving,
}
