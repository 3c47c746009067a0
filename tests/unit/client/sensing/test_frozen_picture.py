"""A camera that repeats one picture with fresh stamps: the same bytes while the arm moves are no new sample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_client.drivers.cameras import live
from rosa_client.sensing.frozen_picture import HASHED_BYTES, MOVED_RAD, FrozenPictures, fingerprint
from rosa_contract.wire.images import encode_image
from rosa_contract.wire.messages import Array


def at(*joints_rad: float) -> Array:
    return np.array(joints_rad, np.float32)


def test_a_still_scene_is_not_held_against_a_camera() -> None:
    frozen = FrozenPictures()
    assert [frozen.repeated_s("front", 7, at(0.1, 0.001 * i), i / 20) for i in range(20)] == [0.0] * 20


def test_the_same_picture_while_the_arm_moves_is_no_new_sample() -> None:
    frozen = FrozenPictures()
    assert frozen.repeated_s("front", 7, at(0.0, 0.0), 10.0) == 0.0
    assert frozen.repeated_s("front", 7, at(0.0, 0.02), 10.1) == 0.0
    assert frozen.repeated_s("front", 7, at(0.0, 0.04), 10.2) == pytest.approx(0.1)
    assert frozen.repeated_s("front", 7, at(0.0, 0.09), 10.8) == pytest.approx(0.7)
    assert frozen.repeated_s("wrist", 7, at(0.0, 0.09), 10.8) == 0.0, "another camera is another story"


def test_slow_motion_adds_up_since_the_picture_last_changed() -> None:
    frozen = FrozenPictures()
    later = [frozen.repeated_s("front", 7, at(0.002 * i), i / 20) for i in range(40)]
    assert later[:15] == [0.0] * 15
    assert all(later[16:])


def test_a_held_robot_sees_again_with_the_first_picture_that_differs() -> None:
    frozen = FrozenPictures()
    frozen.repeated_s("front", 7, at(0.0), 10.0)
    assert frozen.repeated_s("front", 7, at(0.2), 13.0) > 0
    assert frozen.repeated_s("front", 8, at(0.2), 13.05) == 0.0
    assert frozen.repeated_s("front", 8, at(0.2), 13.10) == 0.0, "from here on the arm stands still"
    assert frozen.repeated_s("front", 8, at(0.3), 13.15) > 0


def test_a_picture_counts_before_anybody_knows_where_the_arm_is() -> None:
    frozen = FrozenPictures()
    assert frozen.repeated_s("front", 7, None, 10.0) == 0.0
    assert frozen.repeated_s("front", 7, at(1.0), 10.1) == 0.0
    assert frozen.repeated_s("front", 7, at(1.1), 10.2) > 0


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(-1, 1)), min_size=1, max_size=40))
def test_only_the_same_picture_of_an_arm_elsewhere_is_refused(pictures: list[tuple[int, float]]) -> None:
    frozen, last, where = FrozenPictures(), -1, 0.0
    for number, (mark, rad) in enumerate(pictures):
        if mark != last:
            last, where = mark, rad
        far = abs(np.float32(rad) - np.float32(where)) > MOVED_RAD
        assert (frozen.repeated_s("front", mark, at(rad), number / 20) > 0) == far


@pytest.mark.parametrize("encoding", ["jpeg", "png", "rgb8"])
@pytest.mark.parametrize("side_px", [96, 640])
def test_pictures_without_a_sensor_differ_by_their_noise_as_those_of_a_sensor_do(
    encoding: str, side_px: int
) -> None:
    scene = np.full((side_px, side_px, 3), 90, np.uint8)
    marks = {fingerprint(encode_image(live(scene, count), encoding)) for count in range(50)}
    assert len(marks) == 50
    assert fingerprint(encode_image(scene, encoding)) == fingerprint(encode_image(scene.copy(), encoding))


def test_a_part_of_a_large_raw_picture_tells_as_much_as_all_of_it() -> None:
    chance = np.random.default_rng(1)
    scene = chance.integers(40, 200, (480, 640, 3), np.uint8)
    assert scene.nbytes > HASHED_BYTES
    noisy = scene + chance.integers(0, 2, scene.shape, np.uint8)
    assert fingerprint(encode_image(scene, "rgb8")) != fingerprint(encode_image(noisy, "rgb8"))
