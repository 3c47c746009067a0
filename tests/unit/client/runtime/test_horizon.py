"""A robot whose server chooses the horizon: it plays that many steps, and refuses what its task does not allow."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_client.runtime.commands import Decision, Hold, Play
from tests.unit.client.runtime.stage import PERIOD_S, Stage

THRESHOLD = "horizon: {policy: threshold, t: 0.4, min: 2, max: 12}"
CHUNK = np.zeros((16, 3), np.float32)


def asked(pipeline: str = THRESHOLD) -> Stage:
    stage = Stage(pipeline=pipeline)
    stage.start()
    return stage


def test_the_request_names_the_policy_of_the_task() -> None:
    request = asked().send_of("system1")
    assert request.horizon is not None
    assert (request.horizon.policy, request.horizon.t, request.horizon.min) == ("threshold", 0.4, 2)
    assert asked("").send_of("system1").horizon is None


@pytest.mark.parametrize("horizon", [2, 7, 12])
def test_it_plays_as_many_steps_as_the_answer_says_and_looks_again(horizon: int) -> None:
    stage = asked()
    [*_, play] = stage.answer(stage.send_of("system1"), actions=CHUNK, step_s=0.05, horizon=horizon)
    assert isinstance(play, Play)
    assert play.duration_s == pytest.approx(0.05 * horizon)
    began_s = stage.now_s
    stage.send_of("system1")
    assert 0.05 * horizon <= stage.now_s - began_s <= 0.05 * horizon + 4 * PERIOD_S
    said = [one for one in stage.of(Decision) if one.cause == "actions_in_time"]
    assert said[0].reason.endswith(f"; {horizon} of 16 steps: because")


@pytest.mark.parametrize("horizon", [0, 1, 13, 16, 17])
def test_a_horizon_that_the_task_does_not_allow_is_refused_and_the_arm_holds(horizon: int) -> None:
    stage = asked()
    commands = stage.answer(stage.send_of("system1"), actions=CHUNK, step_s=0.05, horizon=horizon)
    assert [type(one) for one in commands if isinstance(one, Hold | Play)] == [Hold]
    assert ("stop_and_resend", "invalid_actions") in stage.actions_taken


def test_a_horizon_that_nobody_asked_for_is_refused() -> None:
    stage = asked("")
    stage.answer(stage.send_of("system1"), actions=CHUNK, step_s=0.05, horizon=8)
    assert ("stop_and_resend", "invalid_actions") in stage.actions_taken
    assert not stage.of(Play)


def test_no_step_time_keeps_the_robot_from_looking_for_long() -> None:
    stage = asked()
    stage.answer(stage.send_of("system1"), actions=CHUNK, step_s=2.0, horizon=12)
    assert not stage.of(Play)
    assert ("stop_and_resend", "invalid_actions") in stage.actions_taken


def test_the_rate_of_the_schedule_holds_for_short_horizons_too() -> None:
    stage = asked()
    stage.rates_hz = {"system1": 2.0}
    for _ in range(10):
        stage.answer(stage.send_of("system1"), actions=CHUNK, step_s=0.05, horizon=2)
    sent = [
        at_s
        for at_s, one in stage.events
        if getattr(one, "component", "") == "system1" and hasattr(one, "prompt")
    ]
    assert np.diff(sent).min() >= 0.5 - PERIOD_S
