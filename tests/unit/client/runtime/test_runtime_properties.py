"""The invariants of the robot, against random tasks, servers, sensors, arms and operators (`any_day.py`).

`HYPOTHESIS_PROFILE=long` (part of `make prove`) takes at least 100,000 steps; otherwise there are a few thousand.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from rosa_client.runtime.commands import Play
from rosa_client.runtime.invariants import of_state
from rosa_client.runtime.machines.task_machine import State
from tests.examples import examples
from tests.unit.client.runtime.any_day import AnyDay

MIN_STEPS = examples(1_000, 100_000)
EXAMPLES, STEPS = examples(60, 2_200), examples(50, 80)
MEASURED_S = 1.5  # nothing that waits for one moment waits longer than this in the fair end of a day


class PromisesOnAnyDay(AnyDay):
    """What holds after every step, and how every day ends."""

    @invariant()
    def every_promise_holds(self) -> None:
        """What is commanded is checked as it is commanded (`stage.py`)."""
        self._collect()
        stage = self.stage
        broken = [*of_state(stage.core), *stage.books.differ(stage.core)]
        if stage.core.state is not State.IDLE:
            broken += stage.books.look(stage.now_s)
        assert not broken

    @invariant()
    def every_send_ends_exactly_once(self) -> None:
        for calls in self.stage.core.calls.values():
            assert calls.sent == calls.in_time + calls.missed + calls.cancelled + calls.in_flight

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


@pytest.mark.slow
@pytest.mark.prove
def test_on_any_day_the_robot_keeps_its_promises() -> None:
    AnyDay.steps = 0
    run_state_machine_as_test(
        PromisesOnAnyDay,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
    print(f"{AnyDay.steps} steps")
    assert AnyDay.steps >= MIN_STEPS
