"""What a panel knows of a robot: alerts that settle, silence, notices that fade, the path of a chunk."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace as Message

import numpy as np
import pytest

from rosa_client.operator.robot_view import NOTICE_S, OUTCOME_S, RobotView, namespace_of, natural
from rosa_contract.config.robot import load_robot
from rosa_contract.kinematics.chain import Chain
from tests.unit.client.operator.stage import alert, arm, audit, decision, robot, status, waiting

SPEC = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml")


def test_an_alert_is_open_until_the_robot_says_it_is_settled() -> None:
    view = waiting(number=4)
    assert view.alert is not None
    assert view.alert.id == 4
    view.hear_alert(101.0, alert(4, active=False))
    assert view.alert is None


def test_an_alert_may_arrive_before_the_status_that_goes_with_it() -> None:
    view = robot(100.0, "executing")
    view.hear_alert(100.0, alert())
    view.hear_status(100.1, status("executing"))
    assert view.alert is not None


def test_an_alert_of_a_runtime_that_was_restarted_is_dropped() -> None:
    view = waiting(100.0)
    view.hear_status(103.0, status("idle"))
    assert view.alert is None


def test_a_robot_on_its_way_to_the_safe_pose_still_waits() -> None:
    view = waiting(100.0)
    view.hear_status(103.0, status("clearing"))
    assert view.alert is not None


def test_a_robot_is_silent_when_ten_statuses_in_a_row_are_missing() -> None:
    view = robot(100.0)
    assert view.silent_for_s(100.9) == 0.0
    assert view.silent_for_s(104.0) == pytest.approx(4.0)


def test_a_robot_that_never_spoke_is_silent_too() -> None:
    view = RobotView("/panda3", 50.0)
    assert view.silent_for_s(50.5) == 0.0
    assert view.silent_for_s(53.0) == pytest.approx(3.0)
    assert view.label == "panda3"


def test_notices_tell_what_is_not_routine_and_fade() -> None:
    view = robot(100.0)
    view.hear_decision(100.0, decision("execute", "actions_in_time", "system1"))
    view.hear_decision(100.0, decision("stop_and_resend", "invalid_actions", "system1"))
    assert view.notices(100.1) == ["stop_and_resend [system1]: invalid_actions"]
    assert view.notices(100.1 + NOTICE_S) == []


def test_a_notice_that_comes_again_is_shown_once_and_for_longer() -> None:
    view = robot(100.0)
    for at_s in (100.0, 105.0):
        view.hear_decision(at_s, decision("stop_and_resend", "slo_missed", "system1"))
    assert view.notices(112.0) == ["stop_and_resend [system1]: slo_missed"]


def test_the_newest_decision_counts_whoever_told_it_last() -> None:
    view = robot()
    view.hear_audit(100.0, audit("release_emergency_stop", sec=20))
    view.hear_audit(100.0, audit("resume", by="ben", accepted=False, reason="too late", sec=10))
    assert view.last_audit is not None
    assert view.last_audit.line() == "release_emergency_stop by anna: accepted"
    assert view.audits[-1].line() == "resume by ben: refused, too late"


def test_what_became_of_a_click_is_shown_for_a_while() -> None:
    view = robot(100.0)
    view.hear_outcome(100.0, "resume by anna: accepted", True)
    assert view.shown_outcome(100.0 + OUTCOME_S - 1) == "resume by anna: accepted"
    assert view.shown_outcome(100.0 + OUTCOME_S) == ""


def chunk(rows: np.ndarray) -> Message:
    """An action chunk of `(n, 8)` numbers."""
    names = [*SPEC.joints, "gripper"]
    return Message(names=names, horizon=len(rows), data=rows.ravel().tolist())


def test_the_path_of_a_chunk_is_that_of_the_tool() -> None:
    assert SPEC.chain is not None
    chain, view = Chain(SPEC.chain), robot()
    joints = np.linspace(SPEC.home_rad, SPEC.safe_rad, 16)
    view.hear_chunk(100.0, chunk(np.c_[joints, np.full(16, 0.08)]), [(slice(0, 7), chain)])
    assert view.path_m is not None
    assert view.path_m == pytest.approx(np.array([[chain.tool(q) for q in joints]]))
    view.hear_arm(100.5, arm(state=1))
    assert view.path_m is not None, "it plays"
    view.hear_arm(101.0, arm(state=0))
    assert view.path_m is None, "it is over"


def test_a_chunk_that_makes_no_sense_has_no_path() -> None:
    assert SPEC.chain is not None
    chain, view = Chain(SPEC.chain), robot()
    rows = np.tile([*SPEC.home_rad, 0.08], (4, 1))
    wrong = chunk(rows)
    wrong.horizon = 5
    nan = rows.copy()
    nan[2, 3] = np.nan
    short = Message(names=["a", "gripper"], horizon=2, data=[0.0] * 4)
    for bad in (wrong, chunk(nan), short):
        view.hear_chunk(100.0, bad, [(slice(0, 7), chain)])
        assert view.path_m is None


def test_robots_are_in_the_order_that_people_count() -> None:
    assert natural(["/panda10", "/panda2", "/arm", "/panda1"]) == ["/arm", "/panda1", "/panda2", "/panda10"]


def test_a_robot_is_named_with_or_without_slashes() -> None:
    assert namespace_of("panda0") == namespace_of("/panda0/") == "/panda0"
    assert namespace_of("cell/left") == "/cell/left"
    assert namespace_of("/") == "", "a robot without a namespace"
