"""With `settle_ms` a round looks at an arm that has come to rest; safety and the monitor never wait for that."""

from __future__ import annotations

import pytest

from rosa_client.runtime.commands import Play, Send
from rosa_client.runtime.machines.task_machine import State
from tests.unit.client.runtime.stage import PERIOD_S, SYSTEM2, Stage

SAFE = "    safety: {model: s, slo_ms: 200, freq_hz: 20, fallback: stop_and_replan}"
SETTLES_S = 0.15
ENDS_S = 0.4  # after a chunk has begun


def after_a_chunk(*components: str, settle_ms: float = 1000 * SETTLES_S) -> tuple[Stage, float]:
    """A stage whose robot has just played a chunk, and when that ended."""
    stage = Stage(*components, ratio=0.1, pipeline=f"settle_ms: {settle_ms:g}")
    stage.good = {"safety": "safe"}
    stage.start()
    if SYSTEM2 in components:
        stage.answer(stage.send_of("system2"), text="go on")
    stage.answer(stage.send_of("system1"))
    while stage.core.state is not State.EXECUTING:
        stage.run(PERIOD_S)
    while stage.core.state is not State.INFERRING:
        stage.run(PERIOD_S)
    return stage, stage.core.chunk.ends_s


def sends(stage: Stage, component: str, since_s: float) -> list[float]:
    return [
        at_s
        for at_s, one in stage.events
        if isinstance(one, Send) and one.component == component and at_s >= since_s
    ]


def test_the_next_round_looks_when_the_arm_has_settled() -> None:
    stage, ended_s = after_a_chunk(SYSTEM2)
    stage.run(1.0)
    [sent_s, *_] = sends(stage, "system1", ended_s)
    assert ended_s + SETTLES_S < sent_s <= ended_s + SETTLES_S + 2.5 * PERIOD_S


def test_what_it_looks_at_was_seen_after_that() -> None:
    stage, ended_s = after_a_chunk()
    stage.late_s = dict.fromkeys(stage.core.sensors, 0.05)
    stage.run(1.0)
    [sent_s, *_] = sends(stage, "system1", ended_s)
    assert sent_s > ended_s + SETTLES_S + 0.05


def test_without_it_the_robot_looks_at_once() -> None:
    stage, ended_s = after_a_chunk(settle_ms=0)
    stage.run(1.0)
    assert sends(stage, "system1", ended_s)[0] <= ended_s + 2.5 * PERIOD_S


def test_safety_looks_meanwhile_and_its_observation_is_no_rounds() -> None:
    stage, ended_s = after_a_chunk(SAFE)
    stage.run(SETTLES_S - PERIOD_S)
    seen = sends(stage, "safety", ended_s)
    assert len(seen) >= 2 and not sends(stage, "system1", ended_s)
    looked = {one.observation for one in stage.of(Send) if isinstance(one, Send)}
    stage.run(0.1)
    [round_] = [one for one in stage.of(Send) if isinstance(one, Send) and one.component == "system1"][1:]
    assert round_.observation not in looked


def test_a_stop_while_it_settles_is_waited_out_as_ever() -> None:
    stage, ended_s = after_a_chunk(SAFE)
    stage.good = {}
    stage.run(0.06)
    stage.answer(stage.send_of("safety"), "unsafe")
    assert stage.core.state is not State.INFERRING
    stage.good = {"safety": "safe"}
    stage.run(1.0)
    assert sends(stage, "system1", ended_s)[0] > ended_s + SETTLES_S


def test_nobody_has_to_ask_it_while_it_settles() -> None:
    stage, ended_s = after_a_chunk()
    assert stage.runtime.next_due_s == pytest.approx(ended_s + SETTLES_S, abs=2 * PERIOD_S)
    assert len(stage.of(Play)) == 1
