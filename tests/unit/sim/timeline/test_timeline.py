"""A run that is written here, message by message, is what its timeline shows; and its picture stays readable."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cv2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import serialize_message
from rosa_interfaces.msg import (
    ArmStatus,
    Call,
    Decision,
    OperatorAlert,
    OperatorAudit,
    RobotStatus,
    WorldState,
)
from std_msgs.msg import String

from rosa_client.recording.bag import BagError, BagWriter, Recorded, read
from rosa_sim.timeline import write
from rosa_sim.timeline.__main__ import newest
from rosa_sim.timeline.lanes import TOPICS, CallBar, Mark, Robot, Span, robots
from rosa_sim.timeline.rows import MOST_LEVELS, Row, labels, levels, rows, title

T0 = 1_700_000_000.0
Said = tuple[float, str, Any]  # s after T0, topic, message


def said(*messages: Said) -> list[Recorded]:
    return [Recorded(topic, T0 + at_s, message) for at_s, topic, message in messages]


def only(messages: Iterable[Said]) -> Robot:
    (robot,) = robots(said(*messages))
    return robot


def status(*states: tuple[float, str], until_s: float, name: str = "panda", **fields: Any) -> list[Said]:
    """robot_status at 10 Hz and at every change, as the runtime publishes it."""
    ticks = {round(number / 10, 3) for number in range(int(until_s * 10) + 1)}
    found: list[Said] = []
    for at_s in sorted(ticks | {at_s for at_s, _ in states}):
        state = [state for since_s, state in states if since_s <= at_s][-1]
        task = "" if state == "idle" else "pick_and_place"
        message = RobotStatus(
            robot=name, state=state, task=task, attempt=int(bool(task)), server_connected=True, **fields
        )
        found.append((at_s, f"/{name}/robot_status", message))
    return found


def decision(at_s: float, action: str, cause: str, component: str = "", name: str = "panda") -> Said:
    return at_s, f"/{name}/decisions", Decision(action=action, cause=cause, component=component)


def call(at_s: float, ending: str, duration_ms: float, component: str = "system1") -> Said:
    return (
        at_s,
        "/panda/calls",
        Call(component=component, ending=ending, duration_ms=duration_ms, slo_ms=500.0),
    )


def times(span: Span) -> tuple[float, float]:
    return round(span.start_s - T0, 3), round(span.end_s - T0, 3)


def rounded(bar: CallBar) -> tuple[float, float, float, str]:
    return (*(round(at_s - T0, 3) for at_s in (bar.start_s, bar.end_s, bar.deadline_s)), bar.ending)


# -- messages to lanes -----------------------------------------------------------------------------------


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


# -- lanes to rows ---------------------------------------------------------------------------------------


def test_every_episode_has_a_row_and_a_long_one_goes_on_in_the_next() -> None:
    story = status((0, "idle"), (1, "inferring"), (9, "idle"), (11, "inferring"), (60, "idle"), until_s=62)
    calls = [call(at_s, "in_time", 100) for at_s in range(12, 60)]
    robot = only([*story, *calls])
    found = rows([robot], row_s=20)
    assert [(round(row.start_s - T0, 1), round(row.end_s - T0, 1)) for row in found] == [
        (0.5, 9.5),
        (10.5, 30.5),
        (30.5, 50.5),
        (50.5, 60.5),
    ]
    assert {round(row.zero_s - T0, 1) for row in found} == {1.0, 11.0}, "the time of an episode goes on"
    assert title(robot, found[0], named=False) == "episode 1: pick and place, not ended after 8.0 s"
    assert "(continued)" in title(robot, found[-1], named=True)


def test_a_night_without_an_operator_is_left_out_but_not_hidden() -> None:
    story = status((0, "inferring"), (5, "waiting_for_human"), (600, "inferring"), until_s=602)
    found = rows([only(story)], row_s=20)
    assert len(found) == 2
    assert "without an event" in found[1].note
    assert found[-1].end_s - T0 == pytest.approx(602, abs=1)


def test_two_robots_at_the_same_time_share_a_row() -> None:
    story = [
        *status((0, "idle"), (1, "inferring"), (8, "idle"), until_s=20, name="left"),
        *status((0, "idle"), (5, "inferring"), (12, "idle"), until_s=20, name="right"),
    ]
    found = robots(said(*story))
    (row,) = rows(found)
    assert (row.start_s - T0, row.end_s - T0) == pytest.approx((0.5, 12.5))
    assert title(found[1], row, named=True).startswith("right:  episode 1")


def test_a_recording_without_a_task_is_one_row() -> None:
    (row,) = rows([only(status((0, "idle"), until_s=3))])
    assert isinstance(row, Row)


def test_equal_events_in_a_row_share_one_label() -> None:
    marks = [Mark(T0 + at_s, "fallback", "stop") for at_s in (0.0, 0.5, 1.0, 9.0)]
    marks.insert(1, Mark(T0 + 0.2, "clear", "good again"))
    marks.insert(3, Mark(T0 + 0.7, "discard", "late"))
    found = [(label.text, round(label.time_s - T0, 1)) for label in labels(marks)]
    assert found == [("stop  ×3", 0.0), ("late", 0.7), ("stop", 9.0)]


@given(st.lists(st.tuples(st.floats(0, 300), st.floats(1, 200)), max_size=25))
def test_no_label_covers_another(found: list[tuple[float, float]]) -> None:
    places = sorted((left, left + width) for left, width in found)
    chosen = levels(places)
    for (one, at), (other, other_at) in itertools.combinations(zip(places, chosen, strict=True), 2):
        assert at != other_at or one[1] <= other[0] or other[1] <= one[0]


def test_no_line_from_a_label_to_its_event_crosses_an_earlier_label() -> None:
    """Lines go down from the left end of a label; one that reaches over a later one stands above it."""
    places = [(0.0, 50.0), (10.0, 30.0), (40.0, 90.0), (100.0, 120.0)]
    assert levels(places) == [0, 1, 1, 0]
    assert max(levels([(i, 100.0) for i in range(MOST_LEVELS)])) == MOST_LEVELS - 1


# -- the picture -----------------------------------------------------------------------------------------


def record(path: Path, story: Iterable[Said]) -> Path:
    bag = BagWriter(path)
    channels: dict[str, int] = {}
    for at_s, topic, message in sorted(story, key=lambda one: one[0]):
        if topic not in channels:
            package = type(message).__module__.split(".")[0]
            channels[topic] = bag.channel(topic, f"{package}/msg/{type(message).__name__}")
        bag.add(channels[topic], int((T0 + at_s) * 1e9), serialize_message(message))
    bag.close()
    return path


def story_of_a_killed_server() -> list[Said]:
    return [
        *status((0, "idle"), (1, "inferring"), (4, "waiting_for_human"), (9, "idle"), until_s=10),
        *(call(2 + 0.6 * number, "missed", 500) for number in range(3)),
        decision(2.0, "stop_and_resend", "slo_missed", "system1"),
        (1.5, "/panda/fault", String(data="server_killed")),
        (6.0, "/panda/fault", String(data="")),
        (4.0, "/panda/operator_alert", OperatorAlert(id=1, active=True, cause="x" * 200)),
        (0.5, "/panda/arm_status", ArmStatus(state=99)),  # an arm of another day
    ]


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
    robot = only(
        [
            *status((0, "idle"), (2, "executing"), (3, "idle"), (4, "executing"), until_s=5),
            *(
                (0.2 * tick, "/panda/world_state", WorldState(seed=7 + (tick > 16)))
                for tick in range(1, 25)
                if "world_state" in TOPICS
            ),
            (0.5, "/panda/arm_status", ArmStatus()),
            (fault_s, "/panda/arm_status", ArmStatus(fault="controller arm is inactive")),
            (fault_s + 0.2, "/panda/arm_status", ArmStatus()),
        ]
    )
    assert [mark.text for mark in robot.marks if mark.kind in ("arm", "other")] == marks


def test_the_picture_is_written_from_a_bag(tmp_path: Path) -> None:
    bag = record(tmp_path / "run.mcap", story_of_a_killed_server())
    picture = cv2.imread(str(write(bag, tmp_path / "timeline.png")))
    height, width, _ = picture.shape
    assert width == 2000
    assert 400 < height < 1500
    assert (picture == (255, 255, 255)).all(axis=2).mean() < 0.95, "something was drawn"


def test_two_bags_of_one_run_make_one_picture_with_a_group_for_each_robot(tmp_path: Path) -> None:
    one = record(tmp_path / "left.mcap", status((0, "inferring"), until_s=5, name="left"))
    two = record(tmp_path / "right.mcap", status((0, "inferring"), until_s=5, name="right"))
    alone = cv2.imread(str(write(one, tmp_path / "alone.png")))
    both = cv2.imread(str(write([one, two], tmp_path / "both.png")))
    assert both.shape[0] > alone.shape[0] + 100


def test_a_bag_that_was_cut_off_is_drawn_as_far_as_it_goes(tmp_path: Path) -> None:
    bag = BagWriter(tmp_path / "run.mcap")
    channel = bag.channel("/panda/robot_status", "rosa_interfaces/msg/RobotStatus")
    for at_s, _, message in status((0, "inferring"), until_s=5):
        bag.add(channel, int((T0 + at_s) * 1e9), serialize_message(message))
        bag.flush()
    left = bag.path.read_bytes()  # before it is closed: its recorder was killed
    bag.close()
    bag.path.write_bytes(left[: len(left) // 2])
    assert 10 < len(list(read(bag.path))) < 50
    assert write(bag.path, tmp_path / "timeline.png").stat().st_size > 1000


def test_what_is_no_bag_or_holds_no_robot_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "no.mcap").write_text("what is this")
    with pytest.raises(BagError, match="not an MCAP bag"):
        write(tmp_path / "no.mcap", tmp_path / "timeline.png")
    empty = record(tmp_path / "empty.mcap", [(0, "/panda/fault", String(data="link_drop"))])
    with pytest.raises(BagError, match="expected the robot_status of at least one robot"):
        write(empty, tmp_path / "timeline.png")


def test_the_newest_run_is_found(tmp_path: Path) -> None:
    assert newest(tmp_path) == []
    for number, run in enumerate(("2026-01-01", "2026-01-02")):
        bag = record(tmp_path / run / "run.mcap", status((0, "idle"), until_s=1))
        os.utime(bag.parent, (number, number))
    assert newest(tmp_path) == [tmp_path / "2026-01-02" / "run.mcap"]
