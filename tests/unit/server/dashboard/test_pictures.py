"""Pictures of robots reach the page only after they were decoded here; what is old, broken or too much does not."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from rosa_contract.wire.images import EncodedImage, decode_image, encode_image
from rosa_server.dashboard.pictures import KEPT_S, MAX_ROBOTS, Gallery, shown_pictures
from rosa_server.serving.watching.pictures import Pictures

RGB = np.full((8, 12, 3), (200, 30, 30), np.uint8)


def message(robot: str, image: EncodedImage) -> list[bytes]:
    return Pictures().shown(0.0, robot, {"front": image})[1]


@pytest.mark.parametrize("encoding", ["rgb8", "jpeg", "png"])
def test_every_encoding_is_shown_as_jpeg(encoding: str) -> None:
    gallery = Gallery()
    gallery.hear(message("a", encode_image(RGB, encoding)), 5.0)
    [shown] = shown_pictures(gallery.of("a"), 5.5)
    assert (shown["camera"], shown["width"], shown["height"], shown["age_s"]) == ("front", 12, 8, 0.5)
    data = base64.b64decode(shown["data"].removeprefix("data:image/jpeg;base64,"))
    seen = decode_image(EncodedImage("jpeg", 8, 12, data))
    assert abs(int(seen[4, 6, 0]) - 200) < 12 and int(seen[4, 6, 1]) < 60


def test_what_is_no_picture_is_left_out() -> None:
    gallery = Gallery()
    gallery.hear(message("a", EncodedImage("jpeg", 8, 12, b"<script>alert(1)</script>")), 5.0)
    assert shown_pictures(gallery.of("a"), 5.0) == []


def test_what_cannot_be_read_changes_nothing() -> None:
    gallery = Gallery()
    good = message("a", encode_image(RGB))
    gallery.hear(good, 5.0)
    for bad in ([good[0]], [good[0], b"\xff"], good[:2], [good[0], good[1][:-1], good[2]]):
        gallery.hear(bad, 6.0)
    assert [one.heard_s for one in gallery.of("a")] == [5.0]


def test_old_pictures_are_not_shown_and_old_robots_make_room() -> None:
    gallery = Gallery()
    for number in range(MAX_ROBOTS + 1):
        gallery.hear(message(f"r{number}", encode_image(RGB)), 5.0)
    assert gallery.of("r0") == [] and len(gallery.of("r1")) == 1
    assert shown_pictures(gallery.of("r1"), 5.1 + KEPT_S) == []
