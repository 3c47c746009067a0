"""What the shipped sorting task does while safety says unsafe: it holds, and calls a human in good time."""

from __future__ import annotations

from pathlib import Path

from rosa_client.runtime.commands import Alert, MoveTo, Play
from rosa_contract.config.factory import load_factory
from rosa_sim.cell.layout.hardware import SORT_PARTS, cell
from tests.unit.client.runtime.stage import Stage

TASK = load_factory(Path(__file__).parents[4] / "configs" / "sort_parts.yaml").tasks["sort_parts"]
SAFETY = TASK.components["safety"]
LIMIT = TASK.safety_and_slo_violation.max_consecutive_safety_replan


def stage_of_the_task() -> Stage:
    line = f"    safety: {{model: s, slo_ms: 200, freq_hz: {SAFETY.freq_hz}, fallback: {SAFETY.fallback}}}"
    policy = TASK.safety_and_slo_violation.on_max_violation
    stage = Stage(line, unsafe=LIMIT, on_violation=policy)
    stage.runtime.start(stage.now_s)
    stage.good |= {"system1": "", "safety": "safe"}
    stage.run_until(Play)
    return stage


def test_a_hand_may_stay_twice_as_long_as_the_longest_visit_before_a_human_is_called() -> None:
    hand = cell(SORT_PARTS).hand
    assert SAFETY.freq_hz is not None
    hold_s, visit_s = LIMIT / SAFETY.freq_hz, 2 * hand["move_s"] + hand["stay_s"][1]
    assert 1.8 * visit_s < hold_s < 3 * visit_s


def test_an_alarm_that_does_not_end_becomes_an_alert_and_nothing_moves_before_the_decision() -> None:
    stage = stage_of_the_task()
    stage.good["safety"] = "unsafe"
    first = len(stage.events)
    alert = stage.run_until(Alert, limit_s=15.0)
    assert isinstance(alert, Alert)
    assert alert.cause == "max_consecutive_safety_replan" and "unsafe for 10 s" in alert.reason
    assert {"resume", "abort"} <= set(alert.choices)
    stage.run(5.0)
    unsafe_s = stage.events[first][0]
    moved = [c for at_s, c in stage.events[first:] if isinstance(c, Play | MoveTo) and at_s > unsafe_s + 1.0]
    assert not moved


def test_a_visit_of_the_longest_kind_ends_without_a_human() -> None:
    stage = stage_of_the_task()
    hand = cell(SORT_PARTS).hand
    stage.good["safety"] = "unsafe"
    stage.run(2 * hand["move_s"] + hand["stay_s"][1])
    stage.good["safety"] = "safe"
    plays = len(stage.of(Play))
    stage.run(3.0)
    assert len(stage.of(Play)) > plays
    assert not stage.of(Alert)
