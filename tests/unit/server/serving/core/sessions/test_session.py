"""Hello, welcome and refuse."""

from __future__ import annotations

from typing import Any

import pytest

from rosa_contract.wire import messages as m
from rosa_server.serving.core.dispatch import core
from rosa_server.serving.core.sessions import session
from tests.unit.server.serving.core.stage import Stage, hello


def greet(stage: Stage, message: m.Hello, connection: bytes = b"new") -> m.Welcome | m.Refused:
    stage.core.on_robot(stage.now_s, connection, message)
    stage.settle()
    answer = stage.said[-1].message
    assert isinstance(answer, m.Welcome | m.Refused)
    return answer


def test_a_fitting_robot_is_welcomed_with_its_models() -> None:
    stage = Stage().open()
    answer = greet(stage, hello("r2"))
    assert answer == stage.welcome("r2")
    assert answer.models == {"system1": "policy", "safety": "guard", "monitor": "guard"}
    assert answer.cameras == {"system1": ("front",), "safety": (), "monitor": ()}


@pytest.mark.parametrize(
    ("changes", "cause", "words"),
    [
        ({"task": "pik"}, "unknown_task", "did you mean 'pick'"),
        (
            {"cameras": {"frnt": m.CameraInfo(height=4, width=6, encoding="rgb8")}},
            "camera_missing",
            "needs camera 'front'; the robot has frnt",
        ),
        (
            {"cameras": {"front": m.CameraInfo(height=6, width=4, encoding="rgb8")}},
            "wrong_image_shape",
            "6x4 px (width x height); got 4x6",
        ),
        ({"state": {}}, "state_missing", "'joint_position' with 3 values"),
        ({"state": {"joint_position": 7}}, "wrong_state_shape", "got 7"),
        ({"robot_id": "r1"}, "robot_id_taken", "its own name"),
    ],
)
def test_a_robot_that_does_not_fit_is_told_why(changes: dict[str, Any], cause: str, words: str) -> None:
    answer = greet(Stage().open("r1"), _changed(changes))
    assert isinstance(answer, m.Refused)
    assert answer.cause == cause
    assert words in answer.reason


def _changed(changes: dict[str, Any]) -> m.Hello:
    robot = changes.get("robot_id", "r2")
    return hello(robot, **{key: value for key, value in changes.items() if key != "robot_id"})


def test_while_models_load_a_robot_is_asked_to_come_again() -> None:
    stage = Stage()
    stage.worker("p1")
    answer = greet(stage, hello("r2"))
    assert isinstance(answer, m.Refused)
    assert answer.cause == "not_ready"
    assert "guard" in answer.reason


def test_a_known_robot_stays_welcome_while_a_lost_worker_restarts() -> None:
    stage = Stage().open("r1")
    stage.lose("p1")
    assert isinstance(greet(stage, hello("r1"), b"r1"), m.Welcome)
    answer = greet(stage, hello("r2"))
    assert isinstance(answer, m.Refused)
    assert answer.cause == "not_ready"


def test_a_robot_that_reconnects_takes_its_name_over_after_three_silent_seconds() -> None:
    stage = Stage().open("r1")
    assert isinstance(greet(stage, hello("r1"), b"again"), m.Refused)
    stage.now_s += 3.1
    assert isinstance(greet(stage, hello("r1", token=stage.tokens["r1"]), b"again"), m.Welcome)
    assert stage.core.sessions.heard(b"r1", stage.now_s) is None
    assert stage.core.sessions.robots == ["r1"]


@pytest.mark.parametrize("silent_s", [3.1, 9.9, 30.0, 119.0])
def test_a_silent_robot_keeps_its_name_and_comes_back(silent_s: float) -> None:
    stage = Stage().open("r1")
    stage.wait(silent_s)
    for token in ("", "guessed", "token1"):
        answer = greet(stage, hello("r1", token=token), b"other")
        assert isinstance(answer, m.Refused)
        assert answer.cause == "robot_id_taken"
        assert "reserved" in answer.reason
    assert isinstance(greet(stage, hello("r1", token="token0"), b"again"), m.Welcome)
    assert stage.core.sessions.robots == ["r1"]


def test_a_robot_that_was_silent_needs_no_token_on_the_connection_that_it_had() -> None:
    stage = Stage().open("r1")
    stage.wait(60.0)
    assert isinstance(greet(stage, hello("r1"), b"r1"), m.Welcome)


def test_a_name_is_free_after_a_bye_or_two_silent_minutes() -> None:
    stage = Stage().open("r1", "r2")
    stage.leave("r1")
    assert isinstance(greet(stage, hello("r1"), b"other"), m.Welcome)
    stage.wait(120.1)
    assert isinstance(greet(stage, hello("r2"), b"another"), m.Welcome)


def test_a_robot_whose_connection_has_ended_comes_back_at_once_and_nobody_else_does() -> None:
    stage = Stage().open("r1")
    assert isinstance(greet(stage, hello("r1", token="token0"), b"again"), m.Refused), "two with one token"
    stage.core.on_gone(stage.now_s, b"r1")
    assert isinstance(greet(stage, hello("r1"), b"other"), m.Refused)
    assert isinstance(greet(stage, hello("r1", token="token0"), b"again"), m.Welcome)
    stage.core.on_gone(stage.now_s, b"again")
    assert isinstance(greet(stage, hello("r1", token="token0"), b"old"), m.Refused), (
        "each session has its own"
    )


def test_what_a_session_allows_ends_with_its_connection() -> None:
    stage = Stage().open("r1")
    stage.core.on_gone(stage.now_s, b"r1")
    stage.send("r1", 7)
    assert stage.answers == [] and stage.dispatched == []
    for message in (m.Cancel(7), m.Ready("system1"), m.Bye()):
        stage.core.on_robot(stage.now_s, b"r1", message)
    stage.settle()
    assert [said.message.cause for said in stage.said[-3:] if isinstance(said.message, m.Refused)] == [
        "hello_required"
    ] * 3, "of the request, the cancel and the ready; the bye frees no name"
    answer = greet(stage, hello("r1"), b"r1")
    assert isinstance(answer, m.Refused) and answer.cause == "robot_id_taken"
    assert stage.core.sessions.robots == ["r1"], "its place is kept"
    assert isinstance(greet(stage, hello("r1", token=stage.tokens["r1"]), b"again"), m.Welcome)


def test_a_silent_robot_whose_connection_ends_later_needs_its_token() -> None:
    stage = Stage().open("r1")
    stage.wait(60.0)
    stage.core.on_gone(stage.now_s, b"r1")
    assert isinstance(greet(stage, hello("r1"), b"r1"), m.Refused)
    assert isinstance(greet(stage, hello("r1", token="token0"), b"r1"), m.Welcome)


def test_a_health_report_is_made_once_a_second_and_lists_a_bounded_number_of_robots() -> None:
    stage = Stage().open(*(f"r{index}" for index in range(core.MAX_LISTED + 5)))

    def report(wait_s: float) -> m.HealthReport:
        stage.now_s += wait_s
        stage.core.on_robot(stage.now_s, b"nobody", m.HealthQuery())
        stage.settle()
        message = stage.said[-1].message
        assert isinstance(message, m.HealthReport)
        return message

    first = report(0.0)
    assert (len(first.robots), first.connected) == (core.MAX_LISTED, core.MAX_LISTED + 5)
    assert report(0.9) is first
    assert report(0.2) is not first


def test_with_keys_the_key_decides() -> None:
    stage = Stage().open("r1")
    stage.wait(3.1)
    stage.core.on_robot(stage.now_s, b"again", hello("r1"), proven=True)
    stage.settle()
    assert isinstance(stage.said[-1].message, m.Welcome)


def test_the_names_of_those_who_left_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAX_RESERVED", 5)
    robots = [f"r{index}" for index in range(9)]
    stage = Stage().open(*robots)
    stage.wait(10.1)
    answers = [greet(stage, hello(robot), b"new " + robot.encode()) for robot in robots]
    assert [isinstance(answer, m.Welcome) for answer in answers] == [True] * 4 + [False] * 5


def test_a_name_that_is_free_again_takes_no_memory() -> None:
    stage = Stage().open("r1", "r2")
    stage.wait(100.0)
    assert isinstance(greet(stage, hello("r2"), b"r2"), m.Welcome)
    stage.wait(30.0)
    assert list(stage.core.sessions._reserved) == ["r2"]
    assert list(stage.core.sessions._silent) == [b"r2"]


def test_saying_hello_again_changes_nothing() -> None:
    stage = Stage().open("r1")
    before = stage.core.sessions.callers("guard")
    for _ in range(3):
        assert isinstance(greet(stage, hello("r1"), b"r1"), m.Welcome)
    assert stage.core.sessions.callers("guard") == before == 2
