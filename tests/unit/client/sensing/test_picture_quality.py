"""Pictures become smaller while a link carries them too slowly for their deadlines, and never for another reason."""

from __future__ import annotations

import random
from typing import Any

import cv2
import numpy as np
import pytest

from rosa_client.runtime.commands import Decision
from rosa_client.sensing.picture_quality import MAX_CALM_S, MIN_CALM_S, STEPS, PictureQuality
from rosa_contract.config.cameras import CameraSpec
from rosa_contract.wire.images import EncodedImage, decode_image, encode_image
from rosa_contract.wire.messages import OK, Response

BUDGET_MS = 500.0


def camera(**given: Any) -> CameraSpec:
    return CameraSpec(640, 480, **{"quality": 90, "min_quality": 30, **given})


class Drive:
    """One call after the other, each `every_s` after the last one's answer."""

    def __init__(self, spec: CameraSpec, every_s: float = 0.1) -> None:
        self.quality = PictureQuality({"front": spec})
        self.now_s, self._number, self._every_s = 100.0, 0, every_s

    def call(
        self, way_s: float, server_ms: float = 50.0, status: str = OK, cause: str = ""
    ) -> Decision | None:
        self._number += 1
        self.quality.sent(self.now_s, self._number, BUDGET_MS)
        self.now_s += way_s + server_ms / 1000
        answer = Response(
            self._number, status, cause, "", queue_ms=server_ms / 5, inference_ms=server_ms * 4 / 5
        )
        said = self.quality.answered(self.now_s, answer)
        self.now_s += self._every_s
        return said


def test_a_camera_without_min_quality_is_left_alone() -> None:
    drive = Drive(camera(min_quality=None))
    assert [drive.call(2.0) for _ in range(50)] == [None] * 50
    assert drive.quality.quality("front") is None


def test_two_slow_ways_in_a_row_lower_the_quality_and_one_does_not() -> None:
    drive = Drive(camera())
    for way_s in (0.6, 0.1, 0.6, 0.1):
        assert drive.call(way_s) is None
    assert drive.call(0.6) is None
    said = drive.call(0.7)
    assert said is not None and (said.action, said.cause) == ("lower_pictures", "slow_link")
    assert "700 of the 450 ms" in said.reason and "front 75" in said.reason
    assert drive.quality.quality("front") == 75


def test_it_never_leaves_what_the_file_allows() -> None:
    drive = Drive(camera())
    found = set()
    for _ in range(50):
        drive.call(3.0)
        found.add(drive.quality.quality("front"))
    assert drive.quality.step == STEPS
    assert found == {None, 75, 60, 45, 30}


def test_a_slow_server_does_not_make_pictures_worse() -> None:
    drive = Drive(camera())
    for server_ms in (400.0, 490.0, 600.0, 2000.0):
        for _ in range(10):
            assert drive.call(0.002, server_ms) is None


def test_a_call_without_an_answer_says_nothing() -> None:
    drive = Drive(camera())
    for number in range(1000, 1200):
        drive.quality.sent(drive.now_s, number, BUDGET_MS)
    assert drive.call(0.01) is None and drive.quality.step == 0


def test_an_answer_to_a_call_from_before_the_step_says_nothing_about_it() -> None:
    drive = Drive(camera())
    quality, now_s = drive.quality, drive.now_s
    for number in range(10, 20):  # all on their way together
        quality.sent(now_s, number, BUDGET_MS)
    said = [quality.answered(now_s + 1.0, Response(number, OK)) for number in range(10, 20)]
    assert sum(one is not None for one in said) == 1 and quality.step == 1


def test_a_request_that_was_refused_on_arrival_tells_of_its_way_too() -> None:
    drive = Drive(camera())
    said = [drive.call(0.6, 0.0, "expired", "budget_spent") for _ in range(2)]
    assert said[1] is not None and said[1].action == "lower_pictures"


def test_it_comes_back_when_the_link_does() -> None:
    drive = Drive(camera())
    while drive.quality.step < STEPS:
        drive.call(1.0)
    begun_s, raised = drive.now_s, []
    while drive.quality.step:
        said = drive.call(0.02)
        if said is not None:
            raised.append(said)
        assert drive.now_s - begun_s < 60
    assert [one.cause for one in raised] == ["link_recovered"] * STEPS
    assert drive.now_s - begun_s > STEPS * MIN_CALM_S
    assert drive.quality.quality("front") is None


def test_a_link_that_carries_just_one_quality_is_tried_less_and_less_often() -> None:
    """The way takes as long as its bytes: 60 and below are calm, 75 is too slow."""
    drive = Drive(camera())
    ways_s = {None: 1.0, 75: 0.6, 60: 0.1, 45: 0.08, 30: 0.05}
    tries_s = []
    while drive.now_s < 100.0 + 600.0:
        before = drive.quality.step
        drive.call(ways_s[drive.quality.quality("front")])
        if drive.quality.step < before:
            tries_s.append(drive.now_s)
    gaps_s = np.diff(tries_s)
    assert gaps_s.max() > 0.9 * MAX_CALM_S
    assert len(tries_s) < 600 / MAX_CALM_S + 6
    slow = 2 * len(tries_s)
    assert slow < 40, "calls that were slow because a better quality was tried"


def test_random_ways_keep_step_and_memory_within_their_bounds() -> None:
    rng = random.Random(1)
    drive = Drive(camera())
    for _ in range(5000):
        drive.call(rng.choice((0.0, 0.01, 0.2, 0.5, 3.0)), rng.choice((0.0, 50.0, 700.0)))
        drive.quality.sent(drive.now_s, rng.randrange(10**6, 10**7), rng.uniform(0, 1000))
        assert 0 <= drive.quality.step <= STEPS
        assert len(drive.quality._sent) <= 64


def picture(quality: int = 90) -> EncodedImage:
    small = np.random.default_rng(0).integers(0, 255, (30, 40, 3), dtype=np.uint8)
    return encode_image(cv2.resize(small, (640, 480), interpolation=cv2.INTER_CUBIC), "jpeg", quality)


def test_a_picture_shrinks_and_keeps_its_size_in_pixels() -> None:
    drive, seen = Drive(camera()), {"front": picture(), "wrist": picture()}
    assert drive.quality.fit(seen) is seen
    while drive.quality.step < STEPS:
        drive.call(1.0)
    found = drive.quality.fit(seen)
    assert len(found["front"].data) < 0.6 * len(seen["front"].data)
    assert decode_image(found["front"]).shape == (480, 640, 3)
    assert found["wrist"] is seen["wrist"], "this camera may not be lowered"


@pytest.mark.parametrize("data", [b"", b"\xff\xd8not a picture"])
def test_a_picture_that_cannot_be_read_leaves_as_it_came(data: bytes) -> None:
    drive = Drive(camera())
    while drive.quality.step < STEPS:
        drive.call(1.0)
    bad = EncodedImage("jpeg", 480, 640, data)
    assert drive.quality.fit({"front": bad})["front"] is bad


def test_a_picture_of_a_lower_quality_is_not_made_larger() -> None:
    drive, low = Drive(camera()), picture(20)
    while drive.quality.step < STEPS:
        drive.call(1.0)
    assert drive.quality.fit({"front": low})["front"] is low
