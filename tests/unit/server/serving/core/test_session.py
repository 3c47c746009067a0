"""Hello, welcome and refuse."""

from __future__ import annotations

from typing import Any

import pytest

from rosa_contract import messages as m
from tests.unit.server.serving.core.stage import Stage, hello


def greet(stage: Stage, message: m.Hello, connection: bytes = b"new") -> m.Welcome | m.Refused:
    stage.core.on_robot(stage.now_s, connection, message)
    stage.settle()
    answer = stage.said[-1].message
    assert isinstance(answer, m.Welcome | m.Refused)
    return answer


def test_a_fitting_robot_is_welcomed_with_its_models() -> None:
    answer = greet(Stage().open(), hello("r2"))
    assert answer == m.Welcome({"system1": "policy", "safety": "guard", "monitor": "guard"})


@pytest.mark.parametrize(
    ("changes", "cause", "words"),
    [
        ({"task": "pik"}, "unknown_task", "did you mean 'pick'"),
        ({"cameras": {"frnt": m.CameraInfo(4, 6, "rgb8")}}, "camera_missing", "did you mean 'frnt'"),
        (
            {"cameras": {"front": m.CameraInfo(6, 4, "rgb8")}},
            "wrong_image_shape",
            "6x4 px (width x height); got 4x6",
        ),
        ({"state": {}}, "state_missing", "'joint_position' with 3 values"),
        ({"state": {"joint_position": 7}}, "state_missing", "got 7"),
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
    assert isinstance(greet(stage, hello("r1"), b"again"), m.Welcome)
    assert stage.core.sessions.heard(b"r1", stage.now_s) is None
    assert stage.core.sessions.robots == ["r1"]


def test_saying_hello_again_changes_nothing() -> None:
    stage = Stage().open("r1")
    before = stage.core.sessions.callers("guard")
    for _ in range(3):
        assert isinstance(greet(stage, hello("r1"), b"r1"), m.Welcome)
    assert stage.core.sessions.callers("guard") == before == 2
