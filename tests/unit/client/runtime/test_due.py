"""A tick before `next_due_s` does nothing, whatever has happened before; so nobody has to ask the core then."""

from __future__ import annotations

import random
from dataclasses import replace
from math import inf

import pytest

from rosa_client.runtime.commands import CallEnded, Send
from rosa_client.runtime.machines.task_machine import State
from tests.unit.client.runtime.stage import MONITOR, PERIOD_S, SAFETY, SYSTEM2, Stage

VERDICTS = {
    "safety": ("safe", "safe", "safe", "unsafe"),
    "monitor": ("ongoing", "ongoing", "failed"),
    "system1": ("",),
    "system2": ("",),
}


def memory(stage: Stage) -> tuple[object, ...]:
    """What the core remembers and a tick could have changed."""
    core = stage.core
    calls = tuple(
        (calls.request_id, calls.sent_s, calls.due_s, calls.missed) for calls in core.calls.values()
    )
    holds = tuple(core.holds.by.items())
    return (
        core.state,
        core.arm.sequence,
        core.request_id,
        core.planning.credit,
        core.arm.stay_until_s,
        holds,
        calls,
    )


def something_happens(stage: Stage, calls: list[Send], rng: random.Random) -> None:
    """An answer, a refusal, a person, an arm in trouble, a rate; or nothing, so that deadlines pass."""
    what = rng.random()
    if calls and what < 0.15:
        call = rng.choice(calls)
        stage.answer(call, rng.choice(VERDICTS[call.component]), text="go on")
    elif calls and what < 0.16:
        stage.refuse(rng.choice(calls), "overloaded")
    elif stage.cut_short or what < 0.162:
        stage.cut_short = "" if stage.cut_short else "no sign of life"
    elif what < 0.164 or (not stage.link_ready and what < 0.3):
        stage.link_ready = not stage.link_ready
    elif what < 0.17:
        stage.rates_hz = {"system1": rng.choice((0.5, 1.0, 2.0, 50.0))}
    elif what < 0.173 or (stage.sensor_faults and what < 0.175):
        stage.sensor_faults = {} if stage.sensor_faults else {"front": "pictures are 2x2 px"}
    elif stage.core.state is State.WAITING_FOR_HUMAN and what < 0.25:
        stage.decide(rng.choice(("resume", "retry", "return_to_safe_state")))


@pytest.mark.parametrize("seed", range(12))
def test_a_tick_before_the_core_is_due_does_nothing(seed: int) -> None:
    rng = random.Random(seed)
    planning = rng.choice(("in_turn", "ahead"))
    stage = Stage(
        *rng.sample([MONITOR, SYSTEM2, SAFETY], rng.randrange(4)),
        ratio=0.3,
        planning=planning,
        pipeline=rng.choice(("execution: asynchronous", "settle_ms: 0", "settle_ms: 150")),
    )
    stage.catch_up = rng.choice((0.0, 1.0))
    stage.first_call_s = {name: stage.now_s + rng.random() for name in ("system1", "system2", "safety")}
    stage.start(timeout_s=rng.choice((0.0, 20.0)))
    quiet = 0
    felt = None
    for _ in range(3000):
        something_happens(stage, stage.open_calls(), rng)
        due_s, before = stage.runtime.next_due_s, memory(stage)
        feels = replace(stage.inputs(), sensor_stamp_s={})
        commands = stage.run(PERIOD_S)
        told = replace(stage.core.inputs, sensor_stamp_s={})
        if told == feels == felt and stage.now_s < due_s:
            quiet += 1
            assert not commands, f"due at {due_s}, and at {stage.now_s} it commands {commands}"
            assert memory(stage) == before
        felt = told
    assert quiet > 1500, "and most of the time it is quiet"


def test_it_is_due_when_a_sensor_that_cannot_be_used_was_waited_for_long_enough() -> None:
    stage = Stage()
    stage.silent.add("front")
    stage.start()
    stage.run(PERIOD_S)
    entered_s, waits = stage.now_s, stage.core.timeouts
    assert stage.runtime.next_due_s == pytest.approx(entered_s + waits.connect_s, abs=2 * PERIOD_S)
    stage.sensor_faults["front"] = "pictures are 2x2 px"
    stage.run(PERIOD_S)
    assert stage.runtime.next_due_s == pytest.approx(entered_s + waits.sensor_s, abs=2 * PERIOD_S)
    stage.run(waits.sensor_s)
    assert stage.core.state is State.WAITING_FOR_HUMAN


def test_it_is_due_when_its_call_misses_its_deadline() -> None:
    stage = Stage()
    stage.start()
    call = stage.send_of("system1")
    due_s = stage.runtime.next_due_s
    assert not stage.runtime.tick(stage.core.calls["system1"].deadline_s, stage.inputs())
    ended = stage.runtime.tick(due_s, stage.inputs())
    assert any(isinstance(c, CallEnded) and c.request_id == call.request_id for c in ended)


def test_it_is_due_when_its_rate_lets_it_send_again() -> None:
    stage = Stage()
    stage.rates_hz, stage.good = {"system1": 0.5}, {"system1": ""}
    stage.start()
    first = stage.send_of("system1")
    sent_s = stage.now_s
    stage.run(1.5)
    assert stage.runtime.next_due_s == pytest.approx(sent_s + 2.0, abs=1e-9)
    assert stage.send_of("system1").request_id > first.request_id


def test_without_a_task_it_is_never_due() -> None:
    assert Stage().runtime.next_due_s == inf
