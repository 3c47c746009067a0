"""A run that is written here, message by message, is what its timeline shows."""

from __future__ import annotations

from typing import Any

import pytest
from rosa_interfaces.msg import (
    ArmStatus,
    Decision,
    OperatorAlert,
    OperatorAudit,
    WorldState,
)
from std_msgs.msg import String

from rosa_sim.timeline.lanes import TOPICS, robots
from rosa_sim.timeline.rows import rows, title
from tests.unit.sim.timeline.story import T0, Said, call, decision, only, rounded, said, status, times


def test_states_are_spans_from_one_change_to_the_next() -> None:
    robot = only(
        status((0, "idle"), (0.52, "connecting"), (0.8, "inferring"), (1.33, "executing"), until_s=2)
    )
    assert [(*times(span), span.what) for span in robot.states] == [
        (0.0, 0.52, "idle"),
        (0.52, 0.8, "connecting"),
        (0.8, 1.33, "inferring"),
        (1.33, 2.0, "executing"),
    ]


def test_a_runtime_that_falls_silent_is_shown_as_silent_and_not_as_it_last_was() -> None:
    story = [one for one in status((0, "executing"), until_s=4) if not 1.05 < one[0] < 2.95]
    assert [(*times(span), span.what) for span in only(story).states] == [
        (0.0, 1.0, "executing"),
        (1.0, 3.0, "silent"),
        (3.0, 4.0, "executing"),
    ]


def test_a_call_lasts_from_sending_to_its_end_and_has_its_deadline() -> None:
    robot = only([*status((0, "inferring"), until_s=2), call(1.0, "in_time", 120), call(1.9, "missed", 500)])
    assert [rounded(bar) for bar in robot.calls["system1"]] == [
        (0.88, 1.0, 1.38, "in_time"),
        (1.4, 1.9, 1.9, "missed"),
    ]


def test_decisions_become_marks_with_their_cause_in_words() -> None:
    robot = only(
        [
            *status((0, "inferring"), until_s=3),
            decision(0.1, "start", "task_started"),
            decision(0.2, "execute", "actions_in_time", "system1"),
            decision(0.5, "stop_and_resend", "slo_missed", "system1"),
            decision(0.6, "discard", "late_result", "system1"),
            decision(0.7, "stop_and_resend", "invalid_actions", "system1"),
            decision(0.8, "use_last_plan", "server_expired", "system2"),
            decision(0.9, "clear", "recovered", "safety"),
            decision(0.95, "clear", "asked_again", "system1"),
            decision(1.0, "retry", "monitor"),
            decision(1.1, "something_new", "some_cause"),
        ]
    )
    assert [(mark.kind, mark.text) for mark in robot.marks] == [
        ("fallback", "stop and resend: system1, no answer in time"),
        ("discard", "discard: system1, answer came too late"),
        ("refused", "stop and resend: system1, unusable actions"),
        ("fallback", "use last plan: system2, the server says expired"),
        ("clear", "safety is good again"),
        ("clear", "system1 is asked again"),
        ("retry", "retry: the monitor says failed"),
        ("other", "something new: some cause"),
    ]


def test_an_alert_is_one_mark_and_so_is_every_decision_about_it() -> None:
    alert = OperatorAlert(id=1, active=True, cause="max_consecutive_slo_violation")
    story = [
        *status((0, "waiting_for_human"), until_s=3),
        decision(0.1, "stop_and_call_human", "max_consecutive_slo_violation", "system1"),
        (0.1, "/panda/operator_alert", alert),
        (0.2, "/panda/operator_alert", alert),  # sent again, for a panel that came late
        (
            1.0,
            "/panda/operator_audit",
            OperatorAudit(decided_by="ada", choice="return_to_safe_state", accepted=True),
        ),
        (1.0, "/panda/operator_alert", OperatorAlert(id=1, active=False)),
        decision(1.0, "return_to_safe_state", "operator"),
        (1.1, "/panda/operator_audit", OperatorAudit(decided_by="bob", choice="abort", accepted=False)),
        (
            1.5,
            "/panda/operator_alert",
            OperatorAlert(id=1, active=True, cause="arm_fault"),
        ),  # a new runtime
    ]
    assert [(round(mark.time_s - T0, 2), mark.kind, mark.text) for mark in only(story).marks] == [
        (0.1, "alert", "calls a human: too many answers missed in a row"),
        (1.0, "operator", "ada decides: return to safe state"),
        (1.1, "operator", "bob decides: abort (refused)"),
        (1.5, "alert", "calls a human: the arm has a fault"),
    ]


def test_the_arm_shows_its_motion_its_emergency_stop_and_what_it_says() -> None:
    def arm(at_s: float, state: int, **fields: Any) -> Said:
        return at_s, "/panda/arm_status", ArmStatus(state=state, **fields)

    story = [
        *status((0, "executing"), until_s=2),
        arm(0.0, ArmStatus.HOLDING),
        arm(0.3, ArmStatus.PLAYING),
        arm(0.6, ArmStatus.HOLDING, cut_short="no sign of life"),
        arm(0.8, ArmStatus.HOLDING, cut_short="no sign of life"),
        arm(1.0, ArmStatus.HOLDING, emergency_stop=True, cut_short="the emergency stop was pressed"),
        arm(1.4, ArmStatus.MOVING),
        arm(1.8, ArmStatus.HOLDING, fault="motor 3"),
    ]
    robot = only(story)
    assert [(*times(span), span.what) for span in robot.arm] == [
        (0.0, 0.3, "holding"),
        (0.3, 0.6, "playing"),
        (0.6, 1.4, "holding"),
        (1.4, 1.8, "moving"),
        (1.8, 2.0, "holding"),
    ]
    assert [times(span) for span in robot.stopped] == [(1.0, 1.4)]
    assert [mark.text for mark in robot.marks] == [
        "arm: no sign of life",
        "emergency stop",
        "arm: motor 3",
    ]


def test_a_fault_is_a_span_from_its_name_to_nothing() -> None:
    story = [
        *status((0, "executing"), until_s=5),
        (1.0, "/panda/fault", String(data="server_killed")),
        (2.5, "/panda/fault", String(data="")),
        (4.0, "/panda/fault", String(data="link_drop")),
    ]
    robot = only(story)
    assert [(*times(span), span.what) for span in robot.faults] == [
        (1.0, 2.5, "server_killed"),
        (4.0, 5.0, "link_drop"),
    ]
    texts = [mark.text for mark in robot.marks]
    assert texts == ["fault on: server_killed", "fault lifted", "fault on: link_drop"], "the last still on"


def test_a_plan_stands_until_the_next_one_that_says_something_else_or_the_end_of_its_task() -> None:
    def plan(at_s: float, said: str) -> Said:
        return at_s, "/panda/decisions", Decision(action="plan", cause="plan_in_time", reason=said)

    messages = [
        *status((0, "idle"), (1, "inferring"), (9, "idle"), (10, "inferring"), until_s=12),
        plan(2.0, "put the red block into the left bin"),
        plan(4.0, "put the red block into the left bin"),
        plan(7.0, "all done"),
        plan(11.0, "put the grey block into the right bin"),
    ]
    robot = only(messages)
    assert [(*times(span), span.what) for span in robot.plans] == [
        (2.0, 7.0, "put the red block into the left bin"),
        (7.0, 9.0, "all done"),
        (11.0, 12.0, "put the grey block into the right bin"),
    ]
    assert not robot.marks


def test_each_task_is_an_episode_with_its_outcome() -> None:
    story = [
        *status((0, "idle"), (1, "inferring"), (3.05, "idle"), (4, "connecting"), (6, "idle"), until_s=7),
        decision(3.04, "done", "monitor"),
        decision(5.99, "aborted", "operator"),
    ]
    robot = only(story)
    found = [(e.number, e.task, e.outcome, round(e.end_s - e.start_s, 2)) for e in robot.episodes]
    assert found == [(1, "pick_and_place", "done", 2.05), (2, "pick_and_place", "aborted", 2.0)]
    titles = [title(robot, row, named=False) for row in rows([robot])]
    assert titles[0] == "episode 1: pick and place, done after 2.0 s"
    assert titles[1] == "episode 2: pick and place, aborted (a human decided it) after 2.0 s"


def test_robots_are_kept_apart_and_messages_may_come_in_any_order() -> None:
    story = [
        *status((0, "inferring"), until_s=1, name="right"),
        *status((0, "holding"), until_s=1, name="left"),
        decision(0.5, "retry", "monitor", name="right"),
        (0.5, "/somebody/fault", String(data="link_drop")),  # says nothing of itself: no robot
    ]
    left, right = robots(said(*reversed(story)))
    assert (left.name, right.name) == ("left", "right")
    assert {span.what for span in left.states} == {"holding"}
    assert not left.marks
    assert [mark.kind for mark in right.marks] == ["retry"]


@pytest.mark.parametrize(
    ("fault_s", "marks"),
    [
        (0.9, ["arm: controller arm is inactive"]),  # before any reset
        (2.1, ["arm: controller arm is inactive"]),  # in the task
        (3.1, ["arm: controller arm is inactive"]),  # after it, before the reset
        (3.5, ["another scene"]),  # the driver finds its controller stopped
        (4.1, ["arm: controller arm is inactive"]),  # in the task after it
    ],
)
def test_a_new_scene_between_two_tasks_is_no_fault_of_the_arm(fault_s: float, marks: list[str]) -> None:
    assert "world_state" in TOPICS, "what is read of a bag"
    robot = only(
        [
            *status((0, "idle"), (2, "executing"), (3, "idle"), (4, "executing"), until_s=5),
            *((0.2 * tick, "/panda/world_state", WorldState(seed=7 + (tick > 16))) for tick in range(1, 25)),
            (0.5, "/panda/arm_status", ArmStatus()),
            (fault_s, "/panda/arm_status", ArmStatus(fault="controller arm is inactive")),
            (fault_s + 0.2, "/panda/arm_status", ArmStatus()),
        ]
    )
    assert [mark.text for mark in robot.marks if mark.kind in ("arm", "other")] == marks
