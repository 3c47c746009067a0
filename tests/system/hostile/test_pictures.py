"""Three robots with dear pictures do not starve a model that a fourth one uses, and no library fills the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage, encode_image
from rosa_sim.hostile.pictures import jpeg_bomb, noisy_jpeg, noisy_png, png_bomb
from tests.system.server_faults.test_worker_faults import wait_for
from tests.system.server_harness import FACTORY, PATIENCE_S, robot, serving

HEIGHT, WIDTH = 480, 640
CAMERAS = {"front": m.CameraInfo(height=HEIGHT, width=WIDTH, encoding="jpeg")}
OPTIONS = {"images": {"front": [HEIGHT, WIDTH]}, "state": {"joint_position": 7}}
ROUNDS = 12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoding", "make", "cause"),
    [
        ("png", lambda: png_bomb(HEIGHT, WIDTH, 33_000_000), "too_large"),
        ("jpeg", lambda: jpeg_bomb(HEIGHT, WIDTH, 3000), "too_large"),
        ("png", lambda: noisy_png(HEIGHT, WIDTH), "bad_image"),
        ("jpeg", lambda: noisy_jpeg(HEIGHT, WIDTH), ""),
    ],
    ids=["png that inflates", "jpeg of many scans", "png that libpng warns of", "jpeg that libjpeg warns of"],
)
def test_hostile_pictures_cost_their_own_robots_only(
    tmp_path: Path, encoding: str, make: Callable[[], bytes], cause: str
) -> None:
    hostile = EncodedImage(encoding, HEIGHT, WIDTH, make())
    good = encode_image(np.full((HEIGHT, WIDTH, 3), 90, np.uint8))
    factory = FACTORY.replace("max_message_mb: 0.2", "max_message_mb: 2")
    with (
        serving(tmp_path, options=OPTIONS, factory=factory) as server,
        robot(server, "honest") as honest,
        robot(server, "b1", source="127.0.0.2") as one,
        robot(server, "b2", source="127.0.0.3") as two,
        robot(server, "b3", source="127.0.0.4") as three,
    ):
        bombers = (one, two, three)
        for each in (honest, *bombers):
            each.join(cameras=CAMERAS)
        for number in range(ROUNDS):
            for each in bombers:
                each.request(number, images={"front": hostile})
            honest.request(number, images={"front": good})
            assert honest.answer().status == "ok"
            assert [each.answer().cause for each in bombers] == [cause] * len(bombers)
        if cause:
            end_s = time.monotonic() + PATIENCE_S
            while {line["robot"] for line in server.events("request_refused")} != {"b1", "b2", "b3"}:
                assert time.monotonic() < end_s, server.log()[-5000:]
                time.sleep(0.05)
        else:
            wait_for(server, "worker_output", 1)
        time.sleep(1.5)  # what libraries have said is logged once a second, and no more of it comes
        log = server.log()
        assert server.events("worker_lost") == []
        assert len(log) < 10_000
        assert "libpng" not in log
        if cause:
            refused = server.events("request_refused")
            assert {line["robot"] for line in refused} == {"b1", "b2", "b3"}
            assert {line["cause"] for line in refused} == {cause}
        else:
            assert "JPEG" in server.events("worker_output")[0]["text"]
