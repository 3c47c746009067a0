"""The invariants of the robot, against random servers, sensors, arms and operators."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rosa_client.runtime.commands import Alert, Hold, MoveTo, Play, Send
from rosa_client.runtime.task_machine import MAY_PLAY, State
from rosa_contract.config import GOAL_COUPLED
from tests.unit.client.runtime.stage import MONITOR, PERIOD_S, SAFETY, SYSTEM2, Stage

COMPONENTS = ("system1", "system2", "safety", "monitor")


class AnyDay(RuleBasedStateMachine):
    """One robot with all four components on a day when anything can happen in any order."""

    def __init__(self) -> None:
        super().__init__()
        stage = Stage(MONITOR, SYSTEM2, SAFETY, ratio=0.5)
        self.stage = stage
        self.sends: list[Send] = []
        self.seen = 0
        self.awaiting_decision = False

    @rule()
    def start(self) -> None:
        if self.stage.core.state is State.IDLE:
            self.stage.start()
            self.sends = []

    @rule(seconds=st.sampled_from([0.01, 0.05, 0.2, 0.5, 2.0, 8.0]))
    def time_passes(self, seconds: float) -> None:
        self.stage.run(seconds)

    @rule(
        pick=st.integers(0, 5),
        verdict=st.sampled_from(["safe", "unsafe", "ongoing", "done", "failed", ""]),
        text=st.sampled_from(["", "left drawer"]),
        good=st.booleans(),
    )
    def server_answers(self, pick: int, verdict: str, text: str, good: bool) -> None:
        """Any request ever sent, in any order, also twice and late."""
        self._collect()
        if not self.sends:
            return
        request = self.sends[-1 - pick % len(self.sends)]
        lane = self.stage.core.lanes[request.component]
        in_time = lane.request_id == request.request_id and self.stage.now_s <= lane.deadline_s
        commands = self.stage.answer(request, verdict, text, None if good else [[9.0, 9.0, 9.0]])
        if any(isinstance(command, Play) for command in commands):
            assert in_time, "a command from a late, cancelled or repeated result"
            assert good, "a command from an impossible chunk"

    @rule(pick=st.integers(0, 3), status=st.sampled_from(["expired", "unavailable", "failed"]))
    def server_refuses(self, pick: int, status: str) -> None:
        self._collect()
        if self.sends:
            self.stage.refuse(self.sends[-1 - pick % len(self.sends)], status)

    @rule(sensor=st.sampled_from(["front", "joint_state"]), silent=st.booleans())
    def sensor_changes(self, sensor: str, silent: bool) -> None:
        (self.stage.silent.add if silent else self.stage.silent.discard)(sensor)

    @rule(ready=st.booleans())
    def link_changes(self, ready: bool) -> None:
        self.stage.link_ready = ready

    @rule(fault=st.sampled_from(["", "", "", "reflex"]))
    def arm_changes(self, fault: str) -> None:
        self.stage.arm_fault = fault

    @rule(choice=st.sampled_from(["resume", "retry", "return_to_safe_state", "abort", "dance"]))
    def operator_decides(self, choice: str) -> None:
        self._collect()
        if self.stage.decide(choice) == "":
            self.awaiting_decision = False
        self.seen = len(self.stage.events)

    def _collect(self) -> None:
        for _, command in self.stage.events[self.seen :]:
            if isinstance(command, Send):
                self.sends.append(command)
            if isinstance(command, Play | MoveTo):
                assert not self.awaiting_decision, f"{command} after an escalation without a decision"
            if isinstance(command, Alert):
                self.awaiting_decision = True
        self.seen = len(self.stage.events)

    @invariant()
    def nothing_moves_after_an_escalation(self) -> None:
        self._collect()

    @invariant()
    def every_send_ends_exactly_once(self) -> None:
        for lane in self.stage.core.lanes.values():
            assert lane.sent == lane.in_time + lane.missed + lane.cancelled + lane.in_flight

    @invariant()
    def who_waits_for_a_human_waits_for_no_server(self) -> None:
        lanes = self.stage.core.lanes
        if self.stage.core.state in (State.WAITING_FOR_HUMAN, State.CLEARING, State.IDLE):
            assert not any(lane.in_flight for lane in lanes.values())
        if self.stage.core.state is not State.INFERRING:
            assert not any(lanes[name].in_flight for name in GOAL_COUPLED), "it would act on an old picture"

    @invariant()
    def no_deadline_passes_unnoticed(self) -> None:
        if self.stage.core.state is not State.IDLE:
            for lane in self.stage.core.lanes.values():
                assert not lane.overdue(self.stage.now_s - PERIOD_S)

    @invariant()
    def the_arm_was_last_told_to_play_only_while_executing(self) -> None:
        orders = [c for _, c in self.stage.events if isinstance(c, Play | Hold | MoveTo)]
        stopped = (State.HOLDING, State.WAITING_FOR_HUMAN, State.IDLE)
        if orders and self.stage.core.state in stopped:
            over = self.stage.arm_state == "holding"
            assert isinstance(orders[-1], Hold) or over, f"{self.stage.core.state} but last told {orders[-1]}"
        if self.stage.core.state in MAY_PLAY:
            assert isinstance(orders[-1], Play)

    def teardown(self) -> None:
        """Without new faults every task ends in done or waiting-for-human, in bounded time."""
        stage = self.stage
        stage.silent.clear()
        stage.arm_fault, stage.link_ready = "", True
        for _ in range(400):
            if stage.core.state in (State.IDLE, State.WAITING_FOR_HUMAN):
                return
            for command in stage.run(0.1):
                if isinstance(command, Send):
                    stage.answer(command, "safe" if command.component == "safety" else "done", "plan")
        raise AssertionError(f"still {stage.core.state} after 40 s without a fault")


AnyDay.TestCase.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
TestAnyDay = AnyDay.TestCase
