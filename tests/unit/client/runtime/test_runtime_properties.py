"""The invariants of the robot, against random tasks, servers, sensors, arms and operators (`any_day.py`).

`HYPOTHESIS_PROFILE=long` (part of `make prove`) takes at least 100,000 steps; otherwise there are a few thousand.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from rosa_client.runtime.commands import Hold, MoveTo, Play
from rosa_client.runtime.machines.task_machine import State
from rosa_contract.config.tasks import AHEAD, ASYNCHRONOUS, GOAL_COUPLED
from tests.examples import examples
from tests.unit.client.runtime.any_day import AnyDay
from tests.unit.client.runtime.stage import PERIOD_S

MIN_STEPS = examples(1_000, 100_000)
EXAMPLES, STEPS = examples(60, 2_200), examples(50, 80)
MEASURED_S = 1.5  # nothing that waits for one moment waits longer than this in the fair end of a day

# Fallbacks of safety with which "unsafe" means: stand still.
STANDS = ("use_last_plan", "stop_and_resend", "stop_and_replan")


class PromisesOnAnyDay(AnyDay):
    """What holds after every step, and how every day ends."""

    @invariant()
    def nothing_moves_after_an_escalation(self) -> None:
        self._collect()
        core = self.stage.core
        assert (core.state is State.WAITING_FOR_HUMAN) is (core.alert is not None)

    @invariant()
    def every_send_ends_exactly_once(self) -> None:
        for calls in self.stage.core.calls.values():
            assert calls.sent == calls.in_time + calls.missed + calls.cancelled + calls.in_flight
            assert not calls.in_flight or calls.request_id not in self.ended

    @invariant()
    def who_waits_for_a_human_waits_for_no_server(self) -> None:
        calls = self.stage.core.calls
        if self.stage.core.state in (State.WAITING_FOR_HUMAN, State.IDLE, State.CONNECTING):
            assert not any(calls.in_flight for calls in calls.values())
        if self.stage.core.state is State.CLEARING:
            assert not any(calls.in_flight for name, calls in calls.items() if name != "safety")
        if self.stage.core.state is not State.INFERRING:
            plays = self.stage.core.state is State.EXECUTING
            allowed = {
                "system2": plays and self.planning == AHEAD,
                "system1": plays and self.execution == ASYNCHRONOUS,
            }
            old = [name for name in GOAL_COUPLED if calls[name].in_flight and not allowed[name]]
            assert not old, "it would act on an old picture"
        assert not (calls["system1"].in_flight and calls["system2"].in_flight), "one needs the other's answer"

    @invariant()
    def no_deadline_passes_unnoticed(self) -> None:
        if self.stage.core.state is not State.IDLE:
            for calls in self.stage.core.calls.values():
                assert not calls.in_flight or self.stage.now_s - PERIOD_S <= calls.deadline_s + 1e-9

    @invariant()
    def the_last_order_fits_the_state(self) -> None:
        core = self.stage.core
        expected = {
            State.WAITING_FOR_HUMAN: Hold,
            State.HOLDING: Hold | MoveTo,
            State.RETURNING: MoveTo,
            State.RESETTING: MoveTo,
            State.CLEARING: MoveTo,
            State.EXECUTING: Play,
        }.get(core.state, object)
        assert isinstance(core.last_order, expected), f"{core.state} but last told {core.last_order}"
        if core.held_by:
            assert core.state in (State.HOLDING, State.RETURNING)

    @invariant()
    def an_unsafe_verdict_holds_the_robot(self) -> None:
        core = self.stage.core
        stands = "safety" in core.calls and core.task.components["safety"].fallback in STANDS
        if core.unsafe_in_a_row and core.state is State.CLEARING:
            assert not stands, "it drives although safety says unsafe"
        elif core.unsafe_in_a_row and core.state not in (State.IDLE, State.WAITING_FOR_HUMAN):
            assert "safety" in core.held_by
            assert core.state is State.HOLDING or (core.state is State.RETURNING and not stands)

    @invariant()
    def nothing_lasts_for_ever(self) -> None:
        core = self.stage.core
        if core.state in (State.CLEARING, State.RETURNING, State.RESETTING, State.EXECUTING):
            assert self.stage.now_s - core.entered_s < core.timeouts.move_s + MEASURED_S
        if core.state is State.CONNECTING:
            assert self.stage.now_s - core.entered_s < core.timeouts.connect_s + MEASURED_S

    def teardown(self) -> None:
        """Without new faults every task ends in done or waiting-for-human, in bounded time."""
        stage = self.stage
        self._mend()
        stage.good["monitor"] = "done"
        begun_s, plays = stage.now_s, len(stage.of(Play))
        while stage.core.state not in (State.IDLE, State.WAITING_FOR_HUMAN):
            if "monitor" not in stage.core.calls and len(stage.of(Play)) > plays + 1:
                return  # nobody says when the task is done, but it goes on
            assert stage.now_s - begun_s < 60, f"still {stage.core.state} after a minute without a fault"
            stage.run(0.1)


@pytest.mark.prove
def test_on_any_day_the_robot_keeps_its_promises() -> None:
    AnyDay.steps = 0
    run_state_machine_as_test(
        PromisesOnAnyDay,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
    print(f"{AnyDay.steps} steps")
    assert AnyDay.steps >= MIN_STEPS
