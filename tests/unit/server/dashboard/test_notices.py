"""Who looks at no page is told of every alert: once it opens, once it ends, and again where the telling failed."""

from __future__ import annotations

from typing import Any

from rosa_server.dashboard.notices import (
    AGAIN_S,
    BACK,
    ENDED,
    GIVES_UP_S,
    MAX_LOST,
    MAX_OF_ROBOT,
    MAX_WAITING,
    OPENED,
    SILENT,
    SILENT_AFTER_S,
    Deliveries,
    Notice,
    Notices,
)


def row(robot: str, alert_id: int = 0) -> dict[str, Any]:
    alert = {"id": alert_id, "cause": "slo_missed", "reason": "late", "choices": ["resume", "abort"]}
    return {"robot": robot, "task": "pick", "alert": alert if alert_id else None}


def told(notices: list[Notice]) -> list[tuple[str, str, int]]:
    return [(one.event, one.robot, one.alert_id) for one in notices]


def test_an_alert_is_told_when_it_opens_and_when_it_ends_and_not_between() -> None:
    notices = Notices()
    assert notices.look([row("a")], 0.1, 1.0) == []
    [opened] = notices.look([row("a", 7), row("b")], 0.1, 2.0)
    assert (opened.event, opened.robot, opened.cause, opened.choices) == (
        OPENED,
        "a",
        "slo_missed",
        ("resume", "abort"),
    )
    assert notices.look([row("a", 7), row("b")], 0.1, 3.0) == []
    assert told(notices.look([row("a"), row("b")], 0.1, 4.0)) == [(ENDED, "a", 7)]


def test_the_next_alert_of_a_robot_is_another_one() -> None:
    notices = Notices()
    notices.look([row("a", 7)], 0.1, 1.0)
    assert told(notices.look([row("a", 8)], 0.1, 2.0)) == [(ENDED, "a", 7), (OPENED, "a", 8)]


def test_a_robot_that_is_gone_is_told_as_gone() -> None:
    notices = Notices()
    notices.look([row("a", 7)], 0.1, 1.0)
    [ended] = notices.look([], 0.1, 2.0)
    assert (ended.event, ended.reason) == (ENDED, "the robot is not connected any more")


def test_a_silent_server_is_told_and_ends_no_alert() -> None:
    notices = Notices()
    notices.look([row("a", 7)], 0.1, 1.0)
    assert told(notices.look([], SILENT_AFTER_S + 1, 2.0)) == [(SILENT, "", 0)]
    assert notices.look([], SILENT_AFTER_S + 9, 3.0) == []
    assert told(notices.look([row("a", 7)], 0.1, 4.0)) == [(BACK, "", 0)]


def test_the_keys_of_two_tellings_differ_and_those_of_one_are_equal() -> None:
    first, again = Notice(OPENED, "a", 7, wall_s=1.0), Notice(OPENED, "a", 7, wall_s=5.0)
    assert first.plain()["key"] == again.plain()["key"]
    assert len({one.plain()["key"] for one in (first, Notice(ENDED, "a", 7), Notice(OPENED, "b", 7))}) == 3


def test_a_telling_that_failed_is_tried_again_later_and_later() -> None:
    deliveries = Deliveries(["hook"])
    deliveries.add(0.0, Notice(OPENED, "a", 7))
    now_s = 0.0
    for wait_s in AGAIN_S:
        assert len(deliveries.due(now_s)) == 1
        assert not deliveries.ended(now_s, "hook", told=False)
        assert deliveries.due(now_s + wait_s - 0.01) == []
        now_s += wait_s
    assert len(deliveries.due(now_s)) == 1
    assert deliveries.ended(now_s, "hook", told=True)
    assert deliveries.due(now_s + 1000) == []


def test_notices_are_told_in_their_order_one_at_a_time() -> None:
    deliveries = Deliveries(["hook"])
    for number in (1, 2):
        deliveries.add(0.0, Notice(OPENED, "a", number))
    assert [one.alert_id for _, one in deliveries.due(0.0)] == [1]
    assert deliveries.due(0.0) == []
    deliveries.ended(0.0, "hook", told=True)
    assert [one.alert_id for _, one in deliveries.due(0.0)] == [2]


def test_a_target_that_is_down_delays_no_other_one() -> None:
    deliveries = Deliveries(["down", "up"])
    deliveries.add(0.0, Notice(OPENED, "a", 1))
    assert {name for name, _ in deliveries.due(0.0)} == {"down", "up"}
    deliveries.ended(0.0, "up", told=True)
    deliveries.add(0.1, Notice(OPENED, "a", 2))
    assert [(name, one.alert_id) for name, one in deliveries.due(0.1)] == [("up", 2)]


def test_what_is_refused_for_good_or_too_old_is_given_up() -> None:
    deliveries = Deliveries(["hook"])
    deliveries.add(0.0, Notice(OPENED, "a", 1))
    deliveries.due(0.0)
    assert deliveries.ended(0.0, "hook", told=False, again=False)
    deliveries.add(1.0, Notice(OPENED, "a", 2))
    assert deliveries.due(2.0 + GIVES_UP_S) == []
    assert deliveries.given_up == 2


def test_what_waits_is_bounded_and_what_is_under_way_stays() -> None:
    deliveries = Deliveries(["hook"])
    deliveries.add(0.0, Notice(OPENED, "a", 0))
    [(_, first)] = deliveries.due(0.0)
    for number in range(1, MAX_WAITING + 10):
        deliveries.add(0.0, Notice(OPENED, f"r{number}", number))
    assert deliveries.given_up == 10
    deliveries.ended(0.0, "hook", told=True)
    [(_, second)] = deliveries.due(0.0)
    assert (first.alert_id, second.alert_id) == (0, 11)


def test_a_robot_whose_alerts_open_and_end_all_the_time_delays_nobody_elses() -> None:
    """Each look at the robots finds an alert ended and another one open, four times a second."""
    deliveries = Deliveries(["hook"])
    for number in range(MAX_WAITING):
        deliveries.add(0.0, Notice(OPENED, "flapping", number))
        if number == 0:
            assert len(deliveries.due(0.0)) == 1
    deliveries.add(0.0, Notice(OPENED, "a", 1))
    told = [0]
    deliveries.ended(0.0, "hook", told=True)
    while (due := deliveries.due(0.0)) and due[0][1].robot != "a":
        told.append(due[0][1].alert_id)
        deliveries.ended(0.0, "hook", told=True)
    assert due, "that of the other robot is not lost"
    assert told == [0, *range(MAX_WAITING - MAX_OF_ROBOT, MAX_WAITING)]
    lost = deliveries.lost()
    assert len(lost) == MAX_LOST and {one.robot for _, one in lost} == {"flapping"}
    assert deliveries.lost() == []
