"""A stage for the robot's core: time that moves by hand, sensors that deliver, an arm that obeys, no server at all.

The test plays the server: it answers, or it does not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rosa_client.motion.refusal import Refusal
from rosa_client.runtime.commands import (
    HOLDING,
    MOVING,
    OPEN,
    PLAYING,
    RETURNING,
    CallEnded,
    Command,
    Decision,
    Hold,
    Inputs,
    MoveTo,
    Order,
    Play,
    Send,
)
from rosa_client.runtime.invariants import Books
from rosa_client.runtime.runtime import JOINT_STATE, RobotRuntime
from rosa_contract.config.factory import parse_factory
from rosa_contract.config.prompts import NOTHING, Instruction
from rosa_contract.config.robot import RobotSpec
from rosa_contract.wire.messages import OK, Output, Response
from rosa_sim.explore import cells

PERIOD_S = 0.01

ROBOT = replace(cells.ROBOT, clear_rad=(0.4, 0.4))

FILE = """
server_cluster: {{num_servers: 9}}
robot_fleet: [{{task: pick, num_robots: 1}}]
pick:
  pipeline: {{action_period_ms: 400, system2_to_system1_call_ratio: {ratio}, planning: {planning}{pipeline}}}
  task_retry: {{max_task_retries: 1, on_max_task_retries: {on_retries}}}
  safety_and_slo_violation:
    max_consecutive_safety_replan: {unsafe}
    max_consecutive_slo_violation: {misses}
    on_max_violation: {on_violation}
  components:
    system1: {{model: a, slo_ms: 200, prompt: default, fallback: {system1}}}
{more}
"""
MONITOR = "    monitor: {model: m, slo_ms: 300, freq_hz: 2, confirmations: 2}"
SYSTEM2 = "    system2: {model: p, slo_ms: 500, fallback: use_last_plan, prompt: plan}"
SAFETY = "    safety: {model: s, slo_ms: 200, freq_hz: 5, fallback: return_to_safe_state}"
LED_ON = "the arm is led on from where it stands, for 1.0 s"
PERIODIC = ("safety", "monitor", "cable_watch")


def component(name: str, fallback: str, slo_ms: int = 200) -> str:
    """The line of a component in a task."""
    freq = ", freq_hz: 5" if name in PERIODIC else ""
    return f"    {name}: {{model: {name}, slo_ms: {slo_ms}, fallback: {fallback}{freq}}}"


class Stage:
    """One robot on a stage. `events` keeps every command with its time."""

    def __init__(
        self,
        *components: str,
        ratio: float = 1.0,
        planning: str = "in_turn",
        pipeline: str = "",
        on_violation: str = "stop_and_call_human",
        on_retries: str = "stop_and_call_human",
        unsafe: int = 10,
        misses: int = 3,
        system1: str = "stop_and_resend",
        robot: RobotSpec = ROBOT,
        first_alert: int = 1,
    ) -> None:
        text = FILE.format(
            ratio=ratio,
            planning=planning,
            pipeline=f", {pipeline}" if pipeline else "",
            on_violation=on_violation,
            on_retries=on_retries,
            unsafe=unsafe,
            misses=misses,
            system1=system1,
            more="\n".join(components),
        )
        task = parse_factory(text).tasks["pick"]
        self.runtime = RobotRuntime("robot", task, robot, first_alert=first_alert)
        self.core = self.runtime.mission
        self.now_s = 100.0
        self.books = Books(task, robot, PERIOD_S)
        self.events: list[tuple[float, Command]] = []
        self.link_ready = True
        self.silent: set[str] = set()
        self.late_s: dict[str, float] = {}  # how old a sensor's samples are when they arrive
        self.good: dict[str, str] = {}  # components that answer at once -> their verdict
        self.arm_fault = ""
        self.arm_recovers = False
        self.arm_returns = (
            False  # it is led on after a fault, and refuses orders that move until that is over
        )
        self.arm_stuck = False
        self.arm_deaf = False  # takes no orders
        self.cut_short = ""  # why the arm ends the order that it plays now
        self.emergency_stop = False
        self.gripper_holds = False
        self.sensor_faults: dict[str, str] = {}
        self.rates_hz: dict[str, float] = {}
        self.catch_up = 0.0
        self.first_call_s: dict[str, float] = {}
        self.permits: tuple[str, ...] = ()
        self.permit_s: dict[str, float] = {}
        self.arm_state = HOLDING
        self.arm_sequence = 0
        self.last_sequence = 0
        self._arm_until_s = 0.0
        self._was_cut_short = ""
        self._stamps: dict[str, float] = {}
        self._open: dict[int, Send] = {}
        self._looked_at = 0  # of the events, for open calls

    # -- time --

    def run(self, seconds: float) -> list[Command]:
        """Let time pass, one control period after another; returns what the core commanded meanwhile."""
        first = len(self.events)
        for _ in range(round(seconds / PERIOD_S)):
            self.now_s += PERIOD_S
            for name in (*ROBOT.cameras, JOINT_STATE):
                if name not in self.silent:
                    self._stamps[name] = self.now_s - self.late_s.get(name, 0.0)
            if self.now_s >= self._arm_until_s and not self.arm_stuck:
                self.arm_state = HOLDING
            if self.cut_short and self.arm_state != HOLDING:
                self.arm_state, self._was_cut_short = HOLDING, self.cut_short
            for command in self._note(self.runtime.tick(self.now_s, self.inputs())):
                if isinstance(command, Send) and command.component in self.good:
                    self.answer(command, self.good[command.component])
        return [command for _, command in self.events[first:]]

    def run_until(self, kind: type[Command], limit_s: float = 30.0) -> Command:
        """Let time pass until the core commands a `kind`; fails when that takes over `limit_s`."""
        for _ in range(round(limit_s / PERIOD_S)):
            found = [command for command in self.run(PERIOD_S) if isinstance(command, kind)]
            if found:
                return found[0]
        raise AssertionError(
            f"no {kind.__name__} within {limit_s} s; state {self.core.state}, last {self.events[-5:]}"
        )

    def inputs(self) -> Inputs:
        """What the robot knows about itself now."""
        return Inputs(
            dict(self._stamps),
            self.link_ready,
            "the cable is cut",
            RETURNING if self.arm_returns else self.arm_state,
            self.arm_sequence,
            LED_ON if self.arm_returns else self.arm_fault,
            self._was_cut_short,
            self.emergency_stop,
            self.gripper_holds,
            self.rates_hz,
            self.catch_up,
            self.first_call_s,
            self.arm_recovers,
            self.permits,
            self.permit_s,
            self.sensor_faults,
        )

    # -- the people and the server --

    def start(self, timeout_s: float = 0.0, told: Instruction = NOTHING) -> None:
        self._note(self.runtime.start(self.now_s, timeout_s, told))

    def send_of(self, component: str, limit_s: float = 30.0) -> Send:
        """The next request for `component`."""
        for _ in range(round(limit_s / PERIOD_S)):
            for command in self.run(PERIOD_S):
                if isinstance(command, Send) and command.component == component:
                    return command
        raise AssertionError(f"nothing sent to {component} within {limit_s} s; state {self.core.state}")

    def answer(
        self,
        request: Send,
        verdict: str = "",
        text: str = "",
        actions: object = None,
        step_s: float = 0.0,
        horizon: int = 0,
    ) -> list[Command]:
        arrays = {"actions": np.zeros((4, 3), np.float32)} if request.component == "system1" else {}
        if actions is not None:
            arrays = {"actions": np.asarray(actions, np.float32)}
        if step_s:
            arrays["step_s"] = np.array([step_s], np.float32)
        output = Output(arrays, verdict, text, horizon, "because")
        return self._hear(Response(request.request_id, OK, output=output))

    def refuse(self, request: Send, status: str, why: str = "because") -> list[Command]:
        return self._hear(Response(request.request_id, status, reason=why))

    def _hear(self, response: Response) -> list[Command]:
        self.books.arrives(response)
        return self._note(self.runtime.answer(self.now_s, response))

    def decide(self, choice: str, alert_id: int | None = None, by: str = "anna") -> Refusal | None:
        if alert_id is None:
            alert_id = self.core.person.alert.alert_id if self.core.person.alert else 0
        refusal, commands = self.runtime.decide(self.now_s, alert_id, choice, by)
        if refusal is None:
            self.books.decided()
        self._note(commands)
        return refusal

    # -- what happened --

    def of(self, kind: type[Command]) -> list[Command]:
        return [command for _, command in self.events if isinstance(command, kind)]

    def open_calls(self) -> list[Send]:
        """The calls that have not ended."""
        for _, command in self.events[self._looked_at :]:
            if isinstance(command, Send):
                self._open[command.request_id] = command
            elif isinstance(command, CallEnded):
                del self._open[command.request_id]
        self._looked_at = len(self.events)
        return list(self._open.values())

    @property
    def actions_taken(self) -> list[tuple[str, str]]:
        """(action, cause) of every decision."""
        return [(c.action, c.cause) for _, c in self.events if isinstance(c, Decision)]

    def _note(self, commands: list[Command]) -> list[Command]:
        broken = self.books.commands(commands, self.now_s)
        assert not broken, broken
        for command in commands:
            self.events.append((self.now_s, command))
            if isinstance(command, Play | Hold | MoveTo):
                assert command.sequence > self.last_sequence, "arm commands must be numbered upwards"
                self.last_sequence = command.sequence
                if not self.arm_deaf:
                    self.take(command)
        return commands

    def take(self, order: Order) -> None:
        """The arm takes an order."""
        self.arm_sequence = order.sequence
        self._was_cut_short = ""
        if self.arm_returns and not isinstance(order, Hold):
            self.arm_state, self._was_cut_short = HOLDING, LED_ON
            return
        if isinstance(order, MoveTo) and order.pose == "drop" and order.gripper == OPEN:
            self.gripper_holds = False
        lasts_s = {Play: getattr(order, "duration_s", 0.0), MoveTo: 1.0, Hold: 0.0}[type(order)]
        self.arm_state = {Play: PLAYING, MoveTo: MOVING, Hold: HOLDING}[type(order)]
        self._arm_until_s = self.now_s + lasts_s
