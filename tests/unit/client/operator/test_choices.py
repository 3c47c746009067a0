"""What may be clicked: only what the robot would take, and never one alert's answer for another."""

from __future__ import annotations

import pytest

from rosa_client.operator.choices import DECIDE, RELEASE, STOP, Click, choices, parse_click
from rosa_client.operator.lights import CLOSE, IN_TIME, MISSING, UNKNOWN, lights
from tests.unit.client.operator.stage import CHOICES, alert, arm, component, robot, status, waiting


def test_nothing_is_offered_while_nothing_is_asked() -> None:
    assert choices(robot()) == []
    view = waiting()
    view.hear_alert(101.0, alert(active=False))
    assert choices(view) == []


def test_every_choice_of_the_alert_is_offered_under_its_number() -> None:
    clicks = [parse_click(choice.key) for choice in choices(waiting(number=7))]
    assert clicks == [Click(DECIDE, 7, name) for name in CHOICES]


def test_a_latched_emergency_stop_leaves_its_release_and_abort() -> None:
    view = waiting(number=2)
    view.hear_arm(100.0, arm(stopped=True))
    assert [parse_click(c.key) for c in choices(view)] == [Click(RELEASE), Click(DECIDE, 2, "abort")]


def test_a_latched_emergency_stop_can_be_released_without_an_alert() -> None:
    view = robot()
    view.hear_arm(100.0, arm(stopped=True))
    assert [c.key for c in choices(view)] == [RELEASE]


@pytest.mark.parametrize(
    "key",
    [
        "",
        "decide",
        "decide/x/resume",
        "decide/3/",
        f"decide/{1 << 64}/resume",  # no message can carry it: the panel would end
        "format_disk",
        "emergency_stop/1",
    ],
)
def test_a_control_that_was_never_offered_means_nothing(key: str) -> None:
    with pytest.raises(ValueError, match="expected emergency_stop"):
        parse_click(key)


def test_the_emergency_stop_is_always_understood() -> None:
    assert parse_click(STOP) == Click(STOP)


@pytest.mark.parametrize(
    ("called", "level"),
    [
        (component(), UNKNOWN),
        (component(last_ms=62, p99_ms=400, slo_ms=500), IN_TIME),
        (component(last_ms=62, p99_ms=401, slo_ms=500), CLOSE),
        (component(last_ms=62, p99_ms=100, slo_ms=500, in_a_row=1), CLOSE),
        (component(last_ms=62, p99_ms=100, slo_ms=500, in_a_row=2), MISSING),
        (component(in_a_row=2), MISSING),
    ],
)
def test_a_light_tells_how_a_component_keeps_its_deadline(called: object, level: str) -> None:
    view = robot()
    view.hear_status(100.0, status("executing", called))
    server, light = lights(view, 100.1)
    assert (server.level, light.level) == (IN_TIME, level)


def test_all_lights_of_a_silent_robot_are_grey() -> None:
    view = robot()
    view.hear_status(100.0, status("executing", component(last_ms=10, p99_ms=20)))
    assert {light.level for light in lights(view, 103.0)} == {UNKNOWN}


def test_a_lost_server_is_red() -> None:
    view = robot()
    view.hear_status(100.0, status("holding", connected=False))
    assert [(light.name, light.level) for light in lights(view, 100.1)] == [("server", MISSING)]


def test_a_light_that_is_close_says_why_although_the_last_call_was_fast() -> None:
    view = robot()
    view.hear_status(100.0, status("executing", component(last_ms=58, p99_ms=612, slo_ms=700)))
    assert lights(view, 100.1)[1].text == "58 of 700 ms, p99 612 ms"
