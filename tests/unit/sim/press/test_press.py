"""A 6-joint arm without a gripper, 640x480 cameras, and a model that moves the tool by steps: it presses a button."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rosa_contract.config.robot import load_robot
from rosa_contract.kinematics.arm import Arm
from rosa_server.cli import main
from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_sim.press.episode import episode, shipped_task
from rosa_sim.press.expert import seen_button
from rosa_sim.press.scene import PressScene

ROOT = Path(__file__).parents[4]
UR5E = load_robot(ROOT / "configs" / "robots" / "ur5e.yaml")


@pytest.fixture
def scene() -> Iterator[PressScene]:
    made = PressScene(UR5E, 1)
    yield made
    made.close()


def test_a_button_that_the_model_sees_is_pressed_within_every_limit(scene: PressScene) -> None:
    """`episode` raises when the last check before the driver refuses a setpoint."""
    task, robot, backend = shipped_task()
    went = episode(task, robot, backend, scene)
    assert went.pressed and not went.refused
    assert went.spaces == {"tool_step_delta"}, "the robot moves its tool by itself"
    assert went.rounds >= 3


class Leaps:
    """The same model with steps that no arm follows."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        outputs = self._backend.infer(batch)
        return [
            ModelOutput({name: rows * (1 if name == "step_s" else 30) for name, rows in one.arrays.items()})
            for one in outputs
        ]


def test_steps_that_the_arm_cannot_follow_leave_it_where_it_is_with_a_reason(
    scene: PressScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rosa_sim.press.episode.GIVEN_UP_S", 1.2)
    task, robot, backend = shipped_task()
    leaps: Any = Leaps(backend)
    went = episode(task, robot, leaps, scene)
    assert not went.pressed and went.refused and went.rounds == 0
    assert "tool_step_delta: row " in went.refused[0]
    assert np.ptp(went.setpoints_rad, axis=0).max() < 1e-9


def test_the_scene_is_the_arm_of_the_robot_file(scene: PressScene) -> None:
    assert UR5E.chain is not None
    arm = Arm(UR5E.chain, UR5E.limits.position_min_rad, UR5E.limits.position_max_rad)
    assert scene.tip_m == pytest.approx(arm.pose(scene.joint_position)[0], abs=1e-6)
    pictures = scene.pictures()
    assert {name: one.shape for name, one in pictures.items()} == dict.fromkeys(
        ("front", "wrist"), (480, 640, 3)
    )
    found = seen_button(np.ascontiguousarray(pictures["front"][::2, ::2]))
    assert found is not None and found == pytest.approx(scene.button_m, abs=0.012)


def test_the_shipped_files_fit(capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(ROOT / "configs" / name) for name in ("press.yaml", "robots/ur5e.yaml")]
    assert main(["check", *files]) == 0
    assert "ur5e fits press" in capsys.readouterr().out
