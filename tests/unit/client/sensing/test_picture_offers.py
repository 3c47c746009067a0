"""A publisher that is there and yet never heard is explained."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rosa_client.sensing.picture_offers import picture_type, why_unmatched
from rosa_contract.config.cameras import CameraSpec

SPEC = CameraSpec(width=96, height=96)


def test_the_encoding_says_which_message_is_meant() -> None:
    assert picture_type(SPEC) == "sensor_msgs/CompressedImage"
    assert picture_type(replace(SPEC, encoding="rgb8")) == "sensor_msgs/Image"


@pytest.mark.parametrize(
    ("offers", "reliability", "says"),
    [
        ([], "reliable", ""),
        ([("sensor_msgs/CompressedImage", False)], "rep_2003", ""),
        ([("sensor_msgs/CompressedImage", True)], "reliable", ""),
        ([("sensor_msgs/CompressedImage", False)], "reliable", "are published best effort"),
        (
            [("sensor_msgs/Image", True)],
            "rep_2003",
            "are sensor_msgs/Image, expected sensor_msgs/CompressedImage",
        ),
    ],
)
def test_a_publisher_that_cannot_be_heard_is_explained(
    offers: list[tuple[str, bool]], reliability: str, says: str
) -> None:
    said = why_unmatched(offers, replace(SPEC, reliability=reliability))
    assert said.startswith(says) and bool(said) == bool(says)
