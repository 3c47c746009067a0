"""The calls of a component: when they are sent, how they end, and what they count as."""

from __future__ import annotations

import pytest

from rosa_client.runtime.commands import Alert, CallEnded, Decision, Hold, Play, Send
from tests.unit.client.runtime.stage import MONITOR, PERIOD_S, SYSTEM2, Stage, component


def test_every_call_is_told_of_when_it_ends() -> None:
    stage = Stage(MONITOR)
    stage.start()
    first = stage.send_of("system1")
    stage.run(0.05)
    stage.answer(first)
    assert stage.of(CallEnded)[-1] == CallEnded(
        "system1", first.request_id, "in_time", pytest.approx(50), 200
    )
    stage.run(0.35)
    missed = stage.of(CallEnded)[-1]
    assert (missed.component, missed.ending) == ("monitor", "missed")
    assert missed.duration_ms >= missed.slo_ms == 300
    stage.good["monitor"] = "ongoing"
    last = stage.send_of("system1")
    stage._note(stage.runtime.cancel(stage.now_s, "enough"))
    assert ("cancelled", last.request_id) in [(c.ending, c.request_id) for c in stage.of(CallEnded)]
    sent, ended = stage.of(Send), stage.of(CallEnded)
    assert sorted(c.request_id for c in ended) == [c.request_id for c in sent]


def test_questions_of_a_hold_do_not_put_off_the_next_turn() -> None:
    """While a component holds the robot it is asked more often; its own rhythm goes on afterwards."""
    stage = Stage("    safety: {model: s, slo_ms: 100, freq_hz: 1}", misses=30)
    stage.good.update(system1="", safety="safe")
    stage.start()
    stage.run(1.5)
    del stage.good["safety"]
    stage.send_of("safety")
    stage.run(2.2)
    stage.good["safety"] = "safe"
    stage.send_of("safety")
    began_s = stage.now_s
    stage.send_of("safety")
    assert stage.now_s - began_s <= 1 + 2 * PERIOD_S


def test_calls_that_fell_due_while_one_was_waited_for_are_skipped_and_the_rhythm_stays() -> None:
    stage = Stage("    safety: {model: s, slo_ms: 2000, freq_hz: 2}")
    stage.good.update(system1="")
    stage.start()
    first = stage.send_of("safety")
    began_s = stage.now_s
    stage.run(1.2)  # two more fall due
    stage.answer(first, "safe")
    stage.good["safety"] = "safe"
    sent_s: list[float] = []
    for _ in range(3):
        stage.send_of("safety")
        sent_s.append(stage.now_s - began_s)
    assert sent_s == pytest.approx([1.2, 1.5, 2.0], abs=2 * PERIOD_S)


def test_only_used_results_count_as_latency() -> None:
    """A server that refuses at once must not look fast."""
    stage = Stage()
    stage.start()
    stage.refuse(stage.send_of("system1"), "overloaded")
    stage.run(0.3)
    assert not stage.core.calls["system1"].latencies_ms


def test_periodic_components_keep_their_own_time() -> None:
    stage = Stage(component("cable_watch", "stop_and_resend"), component("safety", "stop_and_replan"))
    stage.good.update(system1="", safety="safe", cable_watch="ok")
    stage.start()
    stage.run(4.0)
    while_playing = 0
    playing = False
    for _, command in stage.events:
        playing = isinstance(command, Play) or (playing and not isinstance(command, Hold))
        while_playing += playing and isinstance(command, Send) and command.component == "cable_watch"
    calls = [c.component for c in stage.of(Send)]
    assert 18 <= calls.count("cable_watch") <= 21, "5 Hz for four seconds"
    assert 18 <= calls.count("safety") <= 21
    assert while_playing > 5, "not only between chunks"


@pytest.mark.parametrize(("ratio", "plans"), [(1.0, 10), (0.5, 5), (0.1, 1)])
def test_system_2_is_called_as_often_as_the_ratio_says(ratio: float, plans: int) -> None:
    stage = Stage(SYSTEM2, ratio=ratio)
    stage.good.update(system1="", system2="")
    stage.start()
    while len(stage.of(Play)) < 10:
        stage.run(PERIOD_S)
    assert [c.component for c in stage.of(Send)].count("system2") == plans


def test_a_component_that_did_not_answer_is_not_called_good_again() -> None:
    """The deadline has passed and it may be asked again; whether it is good shows with its next answer."""
    stage = Stage()
    stage.start()
    stage.send_of("system1")
    stage.run(0.3)
    cleared = [c for c in stage.of(Decision) if isinstance(c, Decision) and c.action == "clear"]
    assert [(c.component, c.cause) for c in cleared] == [("system1", "asked_again")]


def test_a_word_of_safety_is_no_verdict_of_another_component() -> None:
    """The robot plays on, and that breaks no promise (`stage` keeps the books)."""
    stage = Stage(component("cable_watch", "stop_and_resend"), component("safety", "stop_and_replan"))
    stage.good.update(system1="", safety="safe", cable_watch="unsafe")
    stage.start()
    stage.run(2.0)
    words = [command.component for _, command in stage.events if isinstance(command, CallEnded)]
    assert "cable_watch" in words and stage.of(Play) and not stage.of(Alert)
