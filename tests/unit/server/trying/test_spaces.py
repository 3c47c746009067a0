"""Answers in other spaces are tried as the robot would carry them out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rosa_contract.config.robot import load_robot
from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput
from rosa_server.trying.asker import TrialAsker
from rosa_server.trying.judges import judge
from rosa_server.trying.spaces import OtherSpaces
from rosa_server.trying.steps import TrialStep
from rosa_server.trying.trial import TriedRobot, try_model
from tests.system.server_harness import ROOT
from tests.unit.server.trying.toy import HORIZON, OPEN_M, STEP_S, ToyPolicy, world

BODY = TriedRobot((np.full(2, -3.0), np.full(2, 3.0)), ((0.0, OPEN_M),))
PERIOD_S = STEP_S * HORIZON


class Moves(ToyPolicy):
    """The toy's way as changes of its joints, and its gripper from 0 (closed) to 1."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self._factor = factor
        self.input_spec = InputSpec(self.input_spec.images, self.input_spec.state, actions="joint_delta")

    def infer(self, batch: Any) -> list[ModelOutput]:
        outputs = []
        for one, output in zip(batch, super().infer(batch), strict=True):
            rows = output.arrays["actions"].astype(np.float64)
            rows[:, :2] = (rows[:, :2] - one.state["joint_position"]) * self._factor
            rows[:, 2:] /= OPEN_M
            outputs.append(ModelOutput({"joint_delta": rows}))
        return outputs


@pytest.mark.parametrize(("factor", "causes"), [(1.0, []), (180 / np.pi, ["degrees_for_radians"])])
def test_changes_of_joints_are_compared_with_a_recording(factor: float, causes: list[str]) -> None:
    asker = TrialAsker(Moves(factor), "system1", PERIOD_S, OtherSpaces(None, [(0.0, OPEN_M)]))
    assert [one.cause for one in judge(try_model(asker, world(), BODY))] == causes


class Forward(ToyPolicy):
    """Moves the tool along x by so much a row, or answers rows of another width."""

    def __init__(self, step: float, columns: int = 6) -> None:
        super().__init__()
        self.input_spec = InputSpec(state={"joint_position": 6}, actions="tool_step_delta")
        self._step, self._columns = step, columns

    def infer(self, batch: list[ModelInput]) -> list[ModelOutput]:
        rows = np.zeros((8, self._columns))
        rows[:, 0] = self._step
        return [ModelOutput({"tool_step_delta": rows}) for _ in batch]


@pytest.mark.parametrize(
    ("step", "columns", "cause"),
    [(0.002, 6, None), (2.0, 6, "unreachable"), (0.002, 7, "wrong_columns"), (np.nan, 6, "not_finite")],
)
def test_steps_of_the_tool_lead_somewhere_or_are_named(step: float, columns: int, cause: str | None) -> None:
    """A metre is no millimetre, and a UR5e without a gripper takes six columns."""
    robot = load_robot(ROOT / "configs/robots/ur5e.yaml")
    seen = TrialStep(0.0, {}, {"joint_position": np.array(robot.home_rad, np.float32)})
    asker = TrialAsker(Forward(step, columns), "system1", 0.4, OtherSpaces(robot))
    limits = np.array(robot.limits.position_min_rad), np.array(robot.limits.position_max_rad)
    trial = try_model(asker, [seen], TriedRobot(limits))
    found = [one.cause for one in judge(trial)]
    assert cause in found if cause else not {"unreachable", "wrong_columns", "far_away"} & set(found)
    if cause is None:
        [one] = trial.answered
        assert one.path is not None and one.path.rows.shape == (8, 6)


def test_without_the_robots_file_it_says_what_is_missing() -> None:
    asker = TrialAsker(Forward(0.002), "system1", 0.4)
    seen = TrialStep(0.0, {}, {"joint_position": np.zeros(6, np.float32)})
    assert not {"no_actions", "wrong_columns"} & {
        one.cause for one in judge(try_model(asker, [seen], TriedRobot()))
    }
    assert any("--robot" in note for note in asker.notes)
