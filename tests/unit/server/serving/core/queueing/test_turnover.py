"""Whether robots take their tasks one after another or wait for work."""

from __future__ import annotations

import pytest

from rosa_server.serving.core.queueing.order import CLOSED_SHARES, Turnover


def tasks(turnover: Turnover, count: int, pause_s: float, now_s: float = 0.0) -> float:
    """One robot's tasks of 20 s with 1 s of a server's work and a pause after each."""
    for _ in range(count):
        turnover.begins(now_s, b"r")
        now_s += 20.0
        turnover.ends(now_s, b"r", 20.0, 1.0)
        now_s += pause_s
    return now_s


def test_a_robot_that_works_without_a_pause_makes_the_fleet_closed() -> None:
    turnover = Turnover()
    tasks(turnover, 30, 0.5)
    assert turnover.closed == pytest.approx(1.0)
    assert turnover.age_weight == pytest.approx(CLOSED_SHARES / 20)


def test_robots_that_wait_for_work_make_it_open() -> None:
    turnover = Turnover()
    assert turnover.closed == 1.0, "the safe side until something is seen"
    tasks(turnover, 30, 60.0)
    assert turnover.closed < 0.06


def test_a_robot_that_leaves_after_its_task_waits_for_no_other() -> None:
    turnover = Turnover()
    for number in range(30):
        connection = b"%d" % number
        turnover.begins(number * 30.0, connection)
        turnover.ends(number * 30.0 + 20, connection, 20.0, 1.0)
        turnover.leaves(connection)
    assert turnover.closed < 0.06


def test_it_notices_a_change_within_some_ten_tasks() -> None:
    turnover = Turnover()
    now_s = tasks(turnover, 30, 60.0)
    tasks(turnover, 20, 0.5, now_s)
    assert turnover.closed > 0.85


def test_nothing_grows_with_robots_that_come_and_go() -> None:
    turnover = Turnover()
    for number in range(1000):
        turnover.ends(float(number), b"%d" % number, 20.0, 1.0)
    assert len(turnover._ended_s) <= 6
