"""Where a camera's pictures are: below the robot under the camera's name, or where the robot file says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rosa_contract.config.cameras import CameraSpec, info_topic, picture_topic, raw_topic
from rosa_contract.config.robot import load_robot
from rosa_contract.errors import ConfigError

PANDA = Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml"
VENDOR = "/camera/camera/color/image_raw"


@pytest.mark.parametrize(
    ("spec", "pictures", "raw", "info"),
    [
        (CameraSpec(640, 480), "front/image_raw/compressed", "front/image_raw", "front/camera_info"),
        (CameraSpec(640, 480, encoding="rgb8"), "front/image_raw", "front/image_raw", "front/camera_info"),
        (
            CameraSpec(640, 480, topic=f"{VENDOR}/compressed"),
            f"{VENDOR}/compressed",
            VENDOR,
            "/camera/camera/color/camera_info",
        ),
        (
            CameraSpec(640, 480, encoding="rgb8", topic=VENDOR),
            VENDOR,
            VENDOR,
            "/camera/camera/color/camera_info",
        ),
        (CameraSpec(640, 480, topic="cam/jpeg"), "cam/jpeg", "front/image_raw", "front/camera_info"),
        (CameraSpec(640, 480, encoding="rgb8", topic="pictures"), "pictures", "pictures", "camera_info"),
    ],
)
def test_topics_follow_from_the_name_or_from_the_robot_file(
    spec: CameraSpec, pictures: str, raw: str, info: str
) -> None:
    assert picture_topic("front", spec) == pictures
    assert raw_topic("front", spec) == raw
    assert info_topic("front", spec) == info


@pytest.mark.parametrize(
    ("change", "cause", "says"),
    [
        ({"topic": "/cam era"}, "invalid", "cameras.front.topic: expected a topic such as"),
        ({"topic": "/camera/"}, "invalid", "cameras.front.topic: expected a topic such as"),
        ({"topic": "/1st/image"}, "invalid", "cameras.front.topic: expected a topic such as"),
        (
            {"topic": "wrist/image_raw/compressed"},
            "conflict",
            "cameras.wrist.topic: wrist/image_raw/compressed is already the topic of camera front",
        ),
        ({"reliability": "best-effort"}, "unknown_name", "did you mean 'best_effort'?"),
    ],
)
def test_a_topic_that_cannot_be_is_named(tmp_path: Path, change: Any, cause: str, says: str) -> None:
    document = yaml.safe_load(PANDA.read_text())
    document["cameras"]["front"] |= change
    path = tmp_path / "robot.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError) as caught:
        load_robot(path)
    assert [problem.cause for problem in caught.value.problems] == [cause]
    assert says in str(caught.value)
