"""The lens from rendered pictures of a board, through a lens that bends: close to the truth, or one clear error."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest

from rosa_client.calibration.board import BoardSpec
from rosa_client.calibration.detection import Missed, View, blur_px, find_board
from rosa_client.calibration.errors import CalibrationError
from rosa_client.calibration.lens import camera_matrix, distortion, fitted, solve_lens, unfitted
from rosa_client.calibration.report import WIDTH_PX, draw_report
from rosa_client.drivers.cameras import fit
from rosa_contract.config.cameras import CameraSpec, Intrinsics
from tests.unit.client.calibration.rendered import LENS, SIZE
from tests.unit.client.calibration.scenes import Scene


def found_in(scene: Scene, board: BoardSpec | None = None, blur: float = 0.0) -> list[View | Missed]:
    pictures = [cv2.GaussianBlur(p, (0, 0), blur) if blur else p for p in scene.pictures]
    return [find_board(f"{i}.png", p, board or scene.board) for i, p in enumerate(pictures)]


def rays(lens: Intrinsics) -> np.ndarray:
    """Where (n, 2) px directions all over the picture are drawn."""
    x, y = np.meshgrid(np.linspace(-0.45, 0.45, 9), np.linspace(-0.35, 0.35, 7))
    directions = np.stack([x.ravel(), y.ravel(), np.ones(x.size)], axis=1)
    drawn, _ = cv2.projectPoints(directions, np.zeros(3), np.zeros(3), camera_matrix(lens), distortion(lens))
    return np.asarray(drawn).reshape(-1, 2)


@pytest.mark.slow
def test_the_lens_is_that_of_the_pictures(lens_scene: Scene) -> None:
    result = solve_lens(found_in(lens_scene), lens_scene.board)
    lens = result.intrinsics
    assert lens.fx == pytest.approx(LENS.fx, rel=0.005)
    assert lens.fy == pytest.approx(LENS.fy, rel=0.005)
    assert (lens.cx, lens.cy) == pytest.approx((LENS.cx, LENS.cy), abs=2.0)
    assert result.rms_px < 0.3
    off = np.linalg.norm(rays(lens) - rays(LENS), axis=1)
    assert off.max() < 2.0, "also where the lens bends most"
    straight = np.linalg.norm(rays(replace(LENS, distortion=())) - rays(LENS), axis=1)
    assert straight.max() > 10.0, "a lens that does not bend would not pass"


def test_one_wrong_picture_is_left_out(lens_scene: Scene) -> None:
    found = found_in(lens_scene)
    good = next(i for i, one in enumerate(found) if isinstance(one, View) and len(one.ids) == 24)
    view = found[good]
    assert isinstance(view, View)
    found[good] = replace(view, corners_px=view.corners_px + np.random.default_rng(1).normal(0, 6, (24, 2)))
    result = solve_lens(found, lens_scene.board)
    assert view.name in [one.name for one in result.rejected]
    assert result.intrinsics.fx == pytest.approx(LENS.fx, rel=0.005)


def test_too_few_views(lens_scene: Scene) -> None:
    with pytest.raises(CalibrationError) as refused:
        solve_lens(found_in(lens_scene)[:5], lens_scene.board)
    assert refused.value.cause == "too_few_views"


def test_blurred_pictures(lens_scene: Scene) -> None:
    with pytest.raises(CalibrationError) as refused:
        solve_lens(found_in(lens_scene, blur=3.0), lens_scene.board)
    assert refused.value.cause == "blurred"
    assert "hold arm and board still" in str(refused.value)


@pytest.mark.parametrize("board", [BoardSpec(11, 9), BoardSpec(5, 3)], ids=str)
def test_a_board_of_another_size(lens_scene: Scene, board: BoardSpec) -> None:
    """Described larger or smaller than it is: markers in the wrong places, or markers that it has not."""
    with pytest.raises(CalibrationError) as refused:
        solve_lens(found_in(lens_scene, board), board)
    assert refused.value.cause == "wrong_board", refused.value


def test_a_board_that_is_held_the_same_way_every_time(lens_scene: Scene) -> None:
    """Without perspective nobody can tell a near board from a long lens."""
    flat: list[View | Missed] = []
    board = lens_scene.board
    for number in range(12):
        move = np.array([-0.3 + 0.05 * number, -0.15 + 0.02 * number, 0.6])
        drawn, _ = cv2.projectPoints(board.points_m, np.zeros(3), move, camera_matrix(LENS), distortion(LENS))
        flat.append(View(f"{number}.png", SIZE, np.asarray(drawn).reshape(-1, 2), np.arange(24), 0.5))
    with pytest.raises(CalibrationError) as refused:
        solve_lens(flat, board)
    assert refused.value.cause == "degenerate"


def test_pictures_of_two_cameras_are_not_mixed(lens_scene: Scene) -> None:
    found = found_in(lens_scene)
    view = next(one for one in found if isinstance(one, View))
    found.append(replace(view, name="other.png", size=(1280, 960)))
    with pytest.raises(CalibrationError) as refused:
        solve_lens(found, lens_scene.board)
    assert refused.value.cause == "bad_picture"


def test_a_picture_without_a_board() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (480, 640, 3), np.uint8)
    missed = find_board("noise.png", noise, BoardSpec())
    assert isinstance(missed, Missed) and missed.cause == "no_board"


@pytest.mark.parametrize("blur", [2.0, 3.0, 4.0])
def test_a_blur_is_measured_in_pixels(lens_scene: Scene, blur: float) -> None:
    grey = cv2.cvtColor(lens_scene.pictures[2], cv2.COLOR_RGB2GRAY)
    assert blur_px(cv2.GaussianBlur(grey, (0, 0), blur)) == pytest.approx(blur, rel=0.2)


def test_the_lens_of_a_smaller_picture_is_that_of_the_driver_that_cuts_and_scales() -> None:
    """A bright spot goes where the fitted lens says."""
    spot = np.zeros((480, 640, 3), np.uint8)
    cv2.circle(spot, (400, 300), 12, (255, 255, 255), -1)
    direction = np.array([[(400 - LENS.cx) / LENS.fx, (300 - LENS.cy) / LENS.fy, 1.0]])
    pinhole = replace(LENS, distortion=())
    small = fit(spot, CameraSpec(width=96, height=96, driver="v4l2"))
    ys, xs = np.nonzero(small[..., 0] > 127)
    lens = fitted(pinhole, (640, 480), (96, 96))
    drawn, _ = cv2.projectPoints(direction, np.zeros(3), np.zeros(3), camera_matrix(lens), np.zeros(5))
    assert np.ravel(drawn) == pytest.approx((xs.mean(), ys.mean()), abs=0.4)
    assert fitted(LENS, (640, 480), (640, 480)) == LENS
    whole = unfitted(lens, (640, 480), (96, 96))
    assert (whole.fx, whole.fy, whole.cx, whole.cy) == pytest.approx((LENS.fx, LENS.fy, LENS.cx, LENS.cy))


def test_the_report_shows_coverage_and_residuals(lens_scene: Scene) -> None:
    result = solve_lens(found_in(lens_scene), lens_scene.board)
    picture = draw_report(result.used, result.residuals_px, ["front"])
    assert picture.shape[1] == WIDTH_PX and picture.shape[0] > 720
    green = (picture == (226, 240, 226)).all(axis=2).mean()
    red = (picture == (244, 222, 222)).all(axis=2).mean()
    assert 0.2 < green / (green + red) < 0.9
