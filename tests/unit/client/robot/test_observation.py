"""An observation is sorted by what its arrays are, and everything that fits nowhere is named at once."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_client.robot.errors import RobotError
from rosa_client.robot.observation import another_kind, seen_in
from rosa_contract.wire.images import EncodedImage, decode_image, encode_image
from rosa_contract.wire.messages import CameraInfo

FRONT = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)


def test_frames_are_cameras_and_numbers_are_states() -> None:
    seen = seen_in({"front": FRONT, "joint_position": [0.5] * 7, "gripper_width": np.array([0.04])}, "png")
    assert np.array_equal(decode_image(seen.images["front"]), FRONT)
    assert seen.state["joint_position"].dtype == np.float32
    hello = seen.hello("r1", "pick")
    assert hello.cameras == {"front": CameraInfo(height=4, width=6, encoding="png")}
    assert hello.state == {"joint_position": 7, "gripper_width": 1}


def test_a_frame_that_is_encoded_already_is_sent_as_it_is() -> None:
    frame = encode_image(FRONT, "jpeg")
    assert seen_in({"front": frame}).images["front"] is frame


def test_everything_that_is_neither_is_named_at_once() -> None:
    with pytest.raises(RobotError) as error:
        seen_in({"depth": np.zeros((4, 6)), "front": FRONT.astype(np.float32), "name": "panda"})
    assert error.value.cause == "bad_observation"
    assert all(name in str(error.value) for name in ("'depth'", "'front'", "'name'"))


@pytest.mark.parametrize(
    "value",
    [
        [[0.1], [0.2, 0.3]],  # rows of different lengths are no array
        EncodedImage("jpg", 4, 6, b"..."),
        EncodedImage("jpeg", 0, 6, b"..."),
    ],
)
def test_what_no_server_could_read_is_named_before_it_is_sent(value: object) -> None:
    with pytest.raises(RobotError, match="'side'") as error:
        seen_in({"front": FRONT, "side": value})
    assert error.value.cause == "bad_observation"


@pytest.mark.parametrize(
    ("later", "said"),
    [
        ({"front": FRONT}, ""),  # less is no mistake: a component may need no more
        ({"front": FRONT[:2], "q": [0.0]}, "camera 'front'"),
        ({"front": FRONT, "q": [0.0, 1.0]}, "state 'q' of 2"),
        ({"wrist": FRONT}, "camera 'wrist'"),
    ],
)
def test_a_robot_keeps_its_cameras_and_states(later: dict[str, object], said: str) -> None:
    hello = seen_in({"front": FRONT, "q": [0.0]}).hello("r1", "pick")
    words = another_kind(seen_in(later), hello)
    assert said in words and bool(said) == bool(words)
