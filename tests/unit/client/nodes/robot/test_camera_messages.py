"""camera_info says what the robot file says about the lens, else what the driver knows, else nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rosa_client.nodes.robot.camera_messages import camera_info, lens_of
from rosa_contract.config.cameras import CameraSpec, Intrinsics

PLAIN = CameraSpec(width=640, height=480)


def test_a_calibrated_camera_says_its_lens() -> None:
    lens = Intrinsics(610.0, 611.0, 318.0, 241.0, (0.1, -0.2, 0.001, 0.002))
    calibrated = replace(PLAIN, intrinsics=lens)
    info = camera_info(calibrated, lens_of(calibrated, 500.0))
    assert (info.width, info.height, info.distortion_model) == (640, 480, "plumb_bob")
    assert list(info.d) == [0.1, -0.2, 0.001, 0.002, 0.0]
    assert list(info.k) == [610.0, 0.0, 318.0, 0.0, 611.0, 241.0, 0.0, 0.0, 1.0]
    assert list(info.p) == [610.0, 0.0, 318.0, 0.0, 0.0, 611.0, 241.0, 0.0, 0.0, 0.0, 1.0, 0.0]


def test_eight_coefficients_are_another_model() -> None:
    lens = Intrinsics(610.0, 611.0, 318.0, 241.0, (0.1,) * 8)
    info = camera_info(PLAIN, lens)
    assert (info.distortion_model, len(info.d)) == ("rational_polynomial", 8)


def test_without_a_calibration_the_drivers_focal_length_is_that_of_an_ideal_pinhole() -> None:
    info = camera_info(PLAIN, lens_of(PLAIN, 500.0))
    assert (info.k[0], info.k[2], info.k[5]) == (500.0, 320.0, 240.0)
    assert list(info.d) == [0.0] * 5


def test_an_uncalibrated_camera_says_nothing() -> None:
    info = camera_info(PLAIN, lens_of(PLAIN, 0.0))
    assert list(info.k) == pytest.approx([0.0] * 9)
    assert info.distortion_model == ""
