"""A core whose model answers in another space: it plays joint positions, or holds with a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rosa_client.runtime.commands import Command, Decision, Hold, Play, Send
from rosa_client.runtime.machines.task_machine import State
from rosa_contract.wire.messages import OK, Output, Response
from tests.unit.client.runtime.stage import ROBOT, Stage

SEEN = {"joint_position": np.array([0.1, 0.2]), "gripper_width": np.array([0.05])}
ROWS = np.tile([0.05, -0.05], (4, 1))


def answered(
    stage: Stage, request: Send, space: str, rows: Any, seen: Any = SEEN, **more: Any
) -> list[Command]:
    arrays = {space: np.asarray(rows, np.float32), **more}
    response = Response(request.request_id, OK, output=Output(arrays))
    stage.books.arrives(response)
    return stage._note(stage.runtime.answer(stage.now_s, response, seen))


def test_deltas_are_played_as_joint_positions_from_where_the_robot_looked() -> None:
    stage = Stage()
    stage.start()
    commands = answered(stage, stage.send_of("system1"), "joint_step_delta", ROWS)
    [play] = [one for one in commands if isinstance(one, Play)]
    assert play.actions[:, 0] == pytest.approx([0.15, 0.2, 0.25, 0.3])
    assert play.actions[:, 1] == pytest.approx([0.15, 0.1, 0.05, 0.0], abs=1e-6)
    assert play.actions[:, 2] == pytest.approx(0.05), "the gripper stays as it was seen"


def test_a_gripper_that_the_answer_does_not_order_keeps_what_it_was_told_last() -> None:
    stage = Stage()
    stage.start()
    told = np.column_stack([ROWS, [1.0, 1.0, 0.0, 0.0]])
    answered(stage, stage.send_of("system1"), "joint_delta", told)
    request = stage.send_of("system1")
    [play] = [one for one in answered(stage, request, "joint_delta", ROWS) if isinstance(one, Play)]
    assert play.actions[:, 2] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("space", "rows", "seen", "words"),
    [
        ("joint_delta", ROWS, None, "expected an observation with 2 joint positions"),
        ("joint_delta", ROWS * 100, SEEN, "joint 1 is 5.1 rad, expected -1..1"),
        ("joint_delta", ROWS * np.nan, SEEN, "holds NaN or infinity"),
        ("tool_delta", np.zeros((4, 6)), SEEN, "the robot takes actions, joint_delta"),
    ],
)
def test_what_cannot_be_carried_out_holds_the_arm_and_says_why(
    space: str, rows: Any, seen: Any, words: str
) -> None:
    stage = Stage()
    stage.start()
    commands = answered(stage, stage.send_of("system1"), space, rows, seen)
    assert any(isinstance(one, Hold) for one in commands)
    assert not any(isinstance(one, Play) for one in commands)
    [decision] = [one for one in commands if isinstance(one, Decision) and one.cause == "invalid_actions"]
    assert words in decision.reason


def test_deltas_join_the_chunk_that_plays() -> None:
    stage = Stage(pipeline="execution: asynchronous", robot=replace(ROBOT, velocity_scale=1.0))
    stage.start()
    step = {"step_s": np.array([0.1], np.float32)}
    answered(stage, stage.send_of("system1"), "joint_step_delta", ROWS, **step)
    request = stage.send_of("system1")
    assert stage.core.state is State.EXECUTING and request.overlap is not None
    stage.run(0.05)
    back = np.tile([-0.05, 0.05], (8, 1))
    seen = {**SEEN, "joint_position": np.asarray(request.overlap.actions[0, :2], np.float64)}
    [play] = [
        one
        for one in answered(stage, request, "joint_step_delta", back, seen, **step)
        if isinstance(one, Play)
    ]
    frozen = request.overlap.frozen
    assert play.actions[:frozen, :2] == pytest.approx(request.overlap.actions[:frozen, :2])
    assert play.actions[-1, 0] == pytest.approx(seen["joint_position"][0] - 0.4)
