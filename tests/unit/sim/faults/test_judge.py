"""What happened is put together from what was seen, and every broken promise is found: one story per promise."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rosa_sim.faults.judge import Happened, broken, happened, late_commands, slow, wrong
from rosa_sim.faults.relay import SensorFilter
from rosa_sim.faults.summary import FaultRun, table
from rosa_sim.faults.table import FAULTS, UnknownFault, fault, listing
from rosa_sim.faults.watch import Alerted, ArmSeen, Called, Played, WatchedDecision, WatchedEvents

HOLDING, PLAYING = 0, 1
SLO = "max_consecutive_slo_violation"


def call(stamp_s: float, ending: str = "in_time", duration_ms: float = 80.0, request_id: int = 1) -> Called:
    return Called(stamp_s, stamp_s, "system1", request_id, ending, duration_ms, 500.0)


def play(stamp_s: float, number: int) -> Played:
    return Played(stamp_s, stamp_s, (1, number))


def good_story() -> WatchedEvents:
    """A partition from 10 s to 14 s: noticed at 10.9 s, called at 12.5 s, resumed at 14.4 s."""
    return WatchedEvents(
        decisions=[
            WatchedDecision(9.5, "execute", "actions_in_time"),
            WatchedDecision(10.9, "stop_and_resend", "slo_missed", "system1"),
            WatchedDecision(12.5, "stop_and_call_human", SLO, "system1"),
            WatchedDecision(14.4, "resume", "operator"),
        ],
        alerts=[Alerted(12.5, 1, SLO, True), Alerted(14.4, 1, SLO, False)],
        arm=[ArmSeen(9.5, PLAYING), ArmSeen(10.3, HOLDING), ArmSeen(14.7, PLAYING)],
        plays=[play(9.5, 1), play(14.6, 4)],
        calls=[call(9.5), call(10.9, "missed", 500.0, 2), call(14.6, request_id=3)],
        joints=[(13.1, (0.1, 0.2)), (13.9, (0.1, 0.2)), (14.9, (0.5, 0.2))],
    )


def told(events: WatchedEvents, name: str = "link_partition_up", outcome: str = "done") -> Happened:
    return happened(fault(name), events, 10.0, 14.0, 20.0, outcome, "done")


def test_a_kept_promise_with_its_times() -> None:
    seen = told(good_story())
    assert broken(fault("link_partition_up"), seen) == []
    assert seen.detected_s == pytest.approx(0.9)
    assert seen.cause == "slo_missed"
    assert seen.stop_s == 0.0, "the chunk had ended before"
    assert (seen.alerts, seen.alert, seen.misses, seen.late_commands) == (1, SLO, 1, 0)
    assert seen.recovered_s == pytest.approx(0.6)


def test_the_arm_that_still_plays_holds_after_the_decision() -> None:
    events = good_story()
    events.arm[1] = ArmSeen(10.93, HOLDING)
    assert told(events).stop_s == pytest.approx(0.03)
    events.arm[1] = ArmSeen(11.5, HOLDING)
    assert any(
        "the arm held 0.60 s after" in text for text in broken(fault("link_partition_up"), told(events))
    )


def test_the_arm_stands_still_when_no_joint_moves_any_more() -> None:
    events = good_story()
    assert math.isnan(told(events).still_s), "it stood already when the fault was noticed"
    # 100 joint states a second; noticed at 10.9 s in mid-motion, at rest 0.15 s later.
    events.joints = [(10.5 + i / 100, (0.1, min(0.01 * i, 0.55))) for i in range(100)]
    assert told(events).still_s == pytest.approx(0.15, abs=0.02)
    events.plays = [play(10.98, 3)]
    assert math.isnan(told(events).still_s), "it was sent on before it had come to rest"
    events.plays = []
    events.joints = [(10.5 + i / 100, (0.1, 0.01 * i)) for i in range(100)]
    assert told(events).still_s == pytest.approx(0.59), "it never came to rest while it was seen"


def test_an_arm_that_never_holds_is_found() -> None:
    events = good_story()
    events.arm = [ArmSeen(9.5, PLAYING)]
    assert "the arm never held after that" in broken(fault("link_partition_up"), told(events))


def test_another_fallback_than_the_promised_one() -> None:
    events = good_story()
    events.decisions[1] = WatchedDecision(10.9, "use_last_plan", "slo_missed", "system1")
    problems = broken(fault("link_partition_up"), told(events))
    assert problems == ["it did use_last_plan, promised stop_and_resend"]


def test_a_fault_that_nobody_noticed() -> None:
    events = good_story()
    events.decisions = [WatchedDecision(11.0, "execute", "actions_in_time")]
    assert any(text.startswith("not noticed") for text in broken(fault("link_partition_up"), told(events)))


def test_a_human_who_was_not_called_and_one_who_was_called_for_nothing() -> None:
    events = good_story()
    events.alerts = []
    assert any(text.startswith("no human") for text in broken(fault("link_partition_up"), told(events)))
    entry = fault("camera_frozen")
    seen = replace(told(good_story()), cause="sensor_stale", lasted_s=1.5, alert="sensor_silent")
    assert any("a human was called" in text for text in broken(entry, seen))
    assert any("the alert says" in text for text in broken(fault("arm_fault"), seen))


def test_motion_and_orders_while_a_human_is_waited_for() -> None:
    events = good_story()
    events.joints[1] = (13.9, (0.15, 0.2))
    assert any("moved 0.050 rad" in text for text in broken(fault("link_partition_up"), told(events)))
    events = good_story()
    events.plays.append(play(13.0, 3))
    assert any(
        "1 chunks were ordered while" in text for text in broken(fault("link_partition_up"), told(events))
    )


def test_a_chunk_without_an_answer_in_time_is_a_late_command() -> None:
    assert late_commands(WatchedEvents(plays=[play(1.0, 1)], calls=[call(1.0)])) == 0
    assert late_commands(WatchedEvents(plays=[play(1.0, 1)], calls=[])) == 1
    assert late_commands(WatchedEvents(plays=[play(1.0, 1)], calls=[call(1.0, "missed")])) == 1
    assert late_commands(WatchedEvents(plays=[play(1.0, 1)], calls=[call(1.0, duration_ms=501.0)])) == 1
    assert late_commands(WatchedEvents(plays=[play(1.0, 1), play(1.05, 2)], calls=[call(1.0)])) == 1, (
        "one answer, one chunk"
    )
    assert late_commands(WatchedEvents(plays=[play(1.5, 1)], calls=[call(1.0)])) == 1, (
        "played long after its answer"
    )
    monitor = Called(1.0, 1.0, "monitor", 1, "in_time", 80.0, 1000.0)
    assert late_commands(WatchedEvents(plays=[play(1.0, 1)], calls=[monitor])) == 1


def test_a_task_that_was_not_completed_and_a_runtime_that_reports_no_calls() -> None:
    problems = broken(fault("link_partition_up"), told(good_story(), outcome="failed"))
    assert problems == ["the robot ended the task as failed, the cell says done"]
    events = good_story()
    events.calls, events.plays = [], []
    assert any("no call was reported" in text for text in broken(fault("link_partition_up"), told(events)))


def test_harmless_faults_must_cost_no_call() -> None:
    entry = fault("link_duplicate")
    quiet = WatchedEvents(calls=[call(9.5), call(11.0), call(15.0, "missed", 500.0)])
    assert told(quiet, "link_duplicate").misses == 0, "what failed before or after is not the fault's"
    assert broken(entry, told(quiet, "link_duplicate")) == []
    slow = replace(told(quiet, "link_duplicate"), misses=1, causes_seen=("slo_missed", "late_result"))
    assert broken(entry, slow) == [], "one slow answer is a busy machine's doing"
    assert broken(entry, replace(slow, misses=2)) == ["2 calls failed, promised none"]
    replaced = replace(slow, causes_seen=("server_replaced",))
    assert broken(entry, replaced) == ["decisions because of server_replaced, promised none"]


def test_the_arms_own_word_counts_as_noticed() -> None:
    events = WatchedEvents(
        arm=[
            ArmSeen(9.9, PLAYING),
            ArmSeen(10.12, HOLDING, cut_short="no sign of life"),
            ArmSeen(11.0, PLAYING),
        ],
        decisions=[WatchedDecision(11.02, "stop_and_resend", "arm_cut_short")],
        calls=[call(9.8)],
    )
    seen = happened(fault("runtime_stopped"), events, 10.0, 11.0, 15.0, "done", "done")
    assert seen.detected_s == pytest.approx(0.12)
    assert seen.stop_s == 0.0
    assert broken(fault("runtime_stopped"), seen) == []


def test_the_table_is_complete_and_an_unknown_name_is_helped() -> None:
    assert len(FAULTS) == 27
    assert all(name in listing() for name in FAULTS)
    for entry in FAULTS.values():
        assert entry.does
        assert entry.promise
        assert 0 < entry.seconds <= 5
    with pytest.raises(UnknownFault, match="did you mean 'server_killed'"):
        fault("server_kiled")


def test_a_controller_that_is_told_to_jump_breaks_a_promise_and_one_that_catches_up_is_slow() -> None:
    entry, seen = fault("wrong_sample"), told(good_story())
    assert any("was told to move at nan" in problem for problem in wrong(entry, seen)), "somebody has to know"
    assert not any("told to move" in problem for problem in wrong(entry, replace(seen, told_share=0.4)))
    caught_up = replace(seen, told_share=2.0)
    assert not any("told to move" in problem for problem in wrong(entry, caught_up))
    assert "the controller was told to move at 2.00 of the joints' speed limits" in slow(entry, caught_up)
    jumped = replace(seen, told_share=108.0)
    assert "the controller was told to move at 108.00 of the joints' speed limits" in wrong(entry, jumped)


def test_the_summary_says_what_was_promised_and_what_happened() -> None:
    text = table([FaultRun("link_partition_up", told(good_story()))])
    assert fault("link_partition_up").promise in text
    assert "noticed after 0.90 s (slo_missed: stop_and_resend)" in text
    assert "as promised" in text
    bad = replace(told(good_story()), late_commands=2)
    assert "2 chunks" in FaultRun("link_partition_up", bad).plain()["broken"][0]
    assert "BROKEN: 2 chunks" in table([FaultRun("link_partition_up", bad)])


def test_a_relay_passes_freezes_delays_and_repeats() -> None:
    sensor = SensorFilter("front")
    assert sensor.take(0.0, b"0", {}) == [b"0"]
    assert sensor.take(0.1, b"1", {"frozen": ["front"]}) == []
    assert sensor.take(0.2, b"2", {"frozen": ["wrist"]}) == [b"2"]
    assert sensor.take(0.3, b"3", {"stale": ["front"]}) == [b"2"]
    new, old = b"cdr0" + b"NEWSTAMP" + b"new picture", b"cdr0" + b"OLDSTAMP" + b"old picture"
    assert sensor.take(0.4, old, {}) == [old]
    assert sensor.take(0.5, new, {"repeats": ["front"]}) == [b"cdr0" + b"NEWSTAMP" + b"old picture"]
    late = {"late": ["front"], "seconds": 1.0}
    assert sensor.take(1.0, b"4", late) == []
    assert sensor.take(1.5, b"5", late) == []
    assert sensor.take(2.1, b"6", late) == [b"4"]
    assert sensor.take(2.2, b"7", {}) == [b"7"], "what was late is not delivered behind what is new"
