"""Another attempt begins with a reset: clear of everything, what is held is put down, home with the gripper open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rosa_client.runtime.commands import Alert, Hold, MoveTo, Play, Send
from rosa_client.runtime.machines.task_machine import State
from tests.unit.client.runtime.stage import MONITOR, ROBOT, SAFETY, Stage

EMPTY = [("clear", "keep"), ("clear", "open"), ("home", "open")]
HELD = [("clear", "keep"), ("drop", "keep"), ("drop", "open"), ("clear", "open"), ("home", "open")]


def failing(*components: str, **options: Any) -> Stage:
    """A robot whose monitor has just said `failed` twice, so that its reset begins."""
    stage = Stage(MONITOR, *components, **options)
    stage.good.update(system1="", safety="safe")
    stage.start()
    for _ in range(2):
        stage.answer(stage.send_of("monitor"), verdict="failed")
    assert stage.core.state is State.RESETTING
    stage.good["monitor"] = "ongoing"
    return stage


def legs(stage: Stage) -> list[tuple[str, str]]:
    return [(move.pose, move.gripper) for move in stage.of(MoveTo)]


@pytest.mark.parametrize(("held", "route"), [(False, EMPTY), (True, HELD)])
def test_the_robot_comes_home_by_way_of_a_clear_pose_and_puts_down_what_it_holds(
    held: bool, route: list[tuple[str, str]]
) -> None:
    stage = failing()
    stage.gripper_holds = held
    stage.run_until(Play)
    assert legs(stage) == route
    assert not stage.gripper_holds
    assert stage.core.attempts.number == 2


def test_it_stays_until_the_fingers_are_open() -> None:
    stage = failing()
    stage.gripper_holds = True
    while legs(stage) != HELD[:3]:
        stage.run(0.01)
    let_go_s = stage.now_s
    while legs(stage) == HELD[:3]:
        stage.run(0.01)
    assert stage.now_s - let_go_s >= 1.6, "a second for the move, 0.6 s for the fingers"


def test_without_a_place_to_put_it_down_a_human_takes_it() -> None:
    stage = failing(robot=replace(ROBOT, drop_rad=None))
    stage.gripper_holds = True
    alert = stage.run_until(Alert, limit_s=3)
    assert isinstance(alert, Alert)
    assert alert.cause == "cannot_put_down"
    assert legs(stage) == [("clear", "keep")]


@pytest.mark.parametrize("leg", [0, 1, 2])
def test_every_leg_has_its_time(leg: int) -> None:
    stage = failing()
    while len(legs(stage)) <= leg:
        stage.run(0.1)
    stage.arm_stuck = True
    ordered_s = stage.now_s
    alert = stage.run_until(Alert, limit_s=25)
    assert isinstance(alert, Alert)
    assert alert.cause == "move_timeout"
    assert EMPTY[leg][0] in alert.reason
    assert stage.now_s - ordered_s == pytest.approx(20, abs=0.2)


def test_a_person_in_the_cell_stops_the_reset_too_and_then_it_begins_again() -> None:
    stage = failing("    safety: {model: s, slo_ms: 200, freq_hz: 5, fallback: stop_and_resend}")
    stage.run(1.2)
    assert legs(stage) == EMPTY[:2]
    stage.good["safety"] = "unsafe"
    stage.run(0.5)
    assert stage.core.state is State.HOLDING
    assert isinstance(stage.core.arm.last_order, Hold)
    stage.good["safety"] = "safe"
    stage.run_until(Play)
    assert legs(stage) == [*EMPTY[:2], *EMPTY]
    assert stage.core.counters.retries == 1


def test_a_reset_that_is_sent_to_the_safe_pose_begins_again_from_there() -> None:
    stage = failing(SAFETY)
    stage.good["safety"] = "unsafe"
    stage.run(1.5)
    stage.good["safety"] = "safe"
    stage.run_until(Play)
    assert legs(stage) == [("clear", "keep"), ("safe", "keep"), *EMPTY]


def test_a_failed_verdict_moves_no_robot_that_something_holds() -> None:
    stage = Stage(MONITOR, "    safety: {model: s, slo_ms: 200, freq_hz: 5, fallback: stop_and_resend}")
    stage.good.update(safety="unsafe", monitor="failed")
    stage.start()
    stage.run(1.5)
    assert stage.core.state is State.HOLDING
    assert not stage.of(MoveTo)
    stage.good["safety"] = "safe"
    assert isinstance(stage.run_until(MoveTo, limit_s=3), MoveTo)


def test_progress_means_nothing_while_the_robot_is_reset() -> None:
    stage = failing()
    sent = [c.component for c in stage.run(2.5) if isinstance(c, Send)]
    assert stage.core.state is State.RESETTING
    assert "monitor" not in sent


def test_a_camera_that_fails_stops_the_reset() -> None:
    stage = failing()
    stage.silent.add("front")
    stage.run(0.6)
    assert stage.core.state is State.HOLDING
    stage.silent.clear()
    stage.run_until(Play)
    assert legs(stage)[-3:] == EMPTY


def test_a_person_may_try_again_as_often_as_on_the_first_day() -> None:
    stage = Stage(MONITOR)
    stage.good.update(system1="", monitor="failed")
    stage.start()
    for count in (1, 2):
        stage.run_until(Alert)
        assert stage.core.counters.retries == 2 * count - 1, (
            "one by itself, then one by the operator and one more"
        )
        assert stage.decide("retry") is None
