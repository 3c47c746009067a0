"""Where a camera is, from rendered pictures: within 1.5 mm and 0.2 degrees of the truth, or one clear error."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest

from rosa_client.calibration.board import BoardSpec
from rosa_client.calibration.detection import find_board
from rosa_client.calibration.errors import CalibrationError
from rosa_client.calibration.hand_eye import HandEyeResult, HandEyeSample, solve_hand_eye
from rosa_client.calibration.lens import solve_lens
from rosa_contract.config.cameras import Intrinsics
from tests.unit.client.calibration.rendered import LENS
from tests.unit.client.calibration.scenes import Scene

WITHIN_M, WITHIN_RAD = 1.5e-3, np.radians(0.2)


@pytest.fixture(scope="session")
def lens(lens_scene: Scene) -> Intrinsics:
    """As it was calibrated, not as it is."""
    found = [find_board(str(i), picture, lens_scene.board) for i, picture in enumerate(lens_scene.pictures)]
    return solve_lens(found, lens_scene.board).intrinsics


def check_place(result: HandEyeResult, truth: np.ndarray) -> None:
    off = np.linalg.inv(truth) @ result.mount
    assert np.linalg.norm(off[:3, 3]) < WITHIN_M
    assert np.linalg.norm(cv2.Rodrigues(off[:3, :3])[0]) < WITHIN_RAD


@pytest.mark.slow
def test_the_fixed_camera_is_where_it_is(front_scene: Scene, lens: Intrinsics) -> None:
    result = solve_hand_eye(front_scene.samples(), lens, front_scene.board, on_hand=False)
    check_place(result, front_scene.truth)
    assert result.rms_px < 0.5
    assert result.scale == pytest.approx(1.0, abs=0.003)


@pytest.mark.slow
def test_the_camera_on_the_hand_is_where_it_is(wrist_scene: Scene, lens: Intrinsics) -> None:
    result = solve_hand_eye(wrist_scene.samples(), lens, wrist_scene.board, on_hand=True)
    check_place(result, wrist_scene.truth)
    assert result.rms_px < 0.5
    # And the board is found where it lies.
    assert result.board[:3, 3] == pytest.approx((0.36, -0.07, 0.002), abs=0.002)


@pytest.mark.slow
@pytest.mark.parametrize("on_hand", [True, False])
def test_a_reading_of_the_arm_that_is_slightly_wrong_costs_little(
    wrist_scene: Scene, front_scene: Scene, on_hand: bool
) -> None:
    """Each pose off by 0.15 mm and 0.015 degrees a side; Franka gives 0.1 mm as the repeatability of its arms."""
    scene = wrist_scene if on_hand else front_scene
    random = np.random.default_rng(5)
    noisy = []
    for sample in scene.samples():
        off = np.eye(4)
        off[:3, :3] = cv2.Rodrigues(random.normal(0, 2.6e-4, 3))[0]
        off[:3, 3] = random.normal(0, 1.5e-4, 3)
        noisy.append(replace(sample, base_hand=sample.base_hand @ off))
    check_place(solve_hand_eye(noisy, LENS, scene.board, on_hand), scene.truth)


def test_one_picture_with_the_wrong_pose_is_left_out(wrist_scene: Scene) -> None:
    samples = wrist_scene.samples()
    off = np.eye(4)
    off[:3, 3] = 0.02, 0.0, 0.01
    samples[4] = replace(samples[4], base_hand=samples[4].base_hand @ off)
    result = solve_hand_eye(samples, LENS, wrist_scene.board, on_hand=True)
    assert [one.name for one in result.rejected] == [samples[4].view.name]
    check_place(result, wrist_scene.truth)


def refusal(samples: list[HandEyeSample], board: BoardSpec, lens: Intrinsics = LENS) -> CalibrationError:
    with pytest.raises(CalibrationError) as refused:
        solve_hand_eye(samples, lens, board, on_hand=True)
    return refused.value


def test_too_few_views(wrist_scene: Scene) -> None:
    assert refusal(wrist_scene.samples()[:5], wrist_scene.board).cause == "too_few_views"


def test_a_print_of_another_size(wrist_scene: Scene) -> None:
    """Printed at 95 %: the arm's own motion tells."""
    described = BoardSpec(7, 5, 0.02 / 0.95, 0.015 / 0.95)
    error = refusal(wrist_scene.samples(), described)
    assert error.cause == "wrong_board"
    assert "0.950 times as large" in str(error)


def test_an_arm_that_does_not_turn(wrist_scene: Scene) -> None:
    samples = wrist_scene.samples()
    still = [replace(sample, base_hand=samples[0].base_hand) for sample in samples]
    assert refusal(still, wrist_scene.board).cause == "degenerate"


def test_an_arm_that_turns_about_one_axis_only(wrist_scene: Scene) -> None:
    samples = wrist_scene.samples()
    turned = []
    for number, sample in enumerate(samples):
        turn = np.eye(4)
        turn[:3, :3] = cv2.Rodrigues(np.array([0.0, 0.0, 0.1 * number]))[0]
        turned.append(replace(sample, base_hand=samples[0].base_hand @ turn))
    error = refusal(turned, wrist_scene.board)
    assert error.cause == "degenerate"
    assert "one axis" in str(error)


def test_a_board_that_was_moved_meanwhile(wrist_scene: Scene) -> None:
    samples = wrist_scene.samples()
    off = np.eye(4)
    off[:3, 3] = 0.03, 0.02, 0.0
    half = [replace(s, base_hand=off @ s.base_hand) if i % 2 else s for i, s in enumerate(samples)]
    error = refusal(half, wrist_scene.board)
    assert error.cause == "high_residual"
    assert "did the board move" in str(error)
